//! Every backend on problems with known optima: close to the optimum within a budget that random needs many times over.

use super::argmin_solvers::Argmin;
use super::ego::Ego;
use super::evolve::Evolve;
use super::random::Random;
use super::textbook::*;

const UNIT3: [(f64, f64); 3] = [(0.0, 1.0); 3];

/// The middle of five seeds.
fn median(run: impl Fn(u64) -> f64) -> f64 {
    let mut values: Vec<f64> = (1..=5).map(run).collect();
    values.sort_by(f64::total_cmp);
    values[2]
}

#[test]
fn annealing_and_the_swarm_find_branins_minimum() {
    let grid = Grid::new(&BRANIN, 256, branin);
    assert!(median(|s| grid.minimise(Argmin::anneal(s), 1500).0) < 0.397887 + 0.05);
    assert!(median(|s| grid.minimise(Argmin::swarm(s), 1500).0) < 0.397887 + 0.01);
}

#[test]
fn the_swarm_finds_its_way_between_rastrigins_minima() {
    // 101 cells: the origin is on the grid; random needs half of a million points on average.
    let grid = Grid::new(&[(-5.0, 5.0); 3], 101, rastrigin);
    assert!(median(|s| grid.minimise(Argmin::swarm(s), 4000).0) < 1.01);
}

#[test]
fn ego_finds_hartmanns_minimum_in_sixty_evaluations() {
    let grid = Grid::new(&UNIT3, 64, hartmann3);
    let found = grid.minimise(Ego::new(1), 60).0;
    assert!(found < -3.80, "{found} against -3.86278");
}

#[test]
fn limits_are_kept_and_reached() {
    let grid = Grid::new(&[(0.0, 3.0), (0.0, 4.0)], 301, g24).with_limit(g24_limit);
    let near = |found: f64, place: Vec<f64>| {
        assert!(found < -5.50801 + 0.08 && g24_limit(&place) <= 0.0, "{found} at {place:?} against -5.50801");
    };
    let (found, place, _) = grid.minimise(Argmin::swarm(2), 2000);
    near(found, place);
    let (found, place, _) = grid.minimise(Ego::new(2), 60);
    near(found, place);
}

#[test]
fn points_that_are_not_allowed_are_never_asked_for() {
    let grid = Grid::new(&BRANIN, 64, branin).with_holes();
    grid.minimise(Argmin::swarm(1), 200);
    grid.minimise(Argmin::anneal(1), 200);
    grid.minimise(Evolve::new(1), 200);
    grid.minimise(Random::new(1), 200);
    grid.minimise(Ego::new(1), 40);
}

#[test]
fn evolution_spreads_along_schaffers_front() {
    let grid = Grid::new(&[(-10.0, 10.0)], 4001, |x| -schaffer(x)[0]).with_front(schaffer);
    let (_, _, searched) = grid.minimise(Evolve::new(1), 600);
    let on_front = searched.history.observations().iter().filter(|o| (0.0..=2.0).contains(&grid.place(o.point)[0]));
    let mut roots: Vec<f64> = on_front.map(|o| (-o.front.unwrap()[0]).sqrt()).collect();
    roots.sort_by(f64::total_cmp);
    let gap = roots.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
    assert!(roots[0] < 0.1 && roots[roots.len() - 1] > 1.9 && gap < 0.2, "{} points, gap {gap}", roots.len());
}

#[test]
fn equal_seeds_give_equal_searches() {
    let grid = Grid::new(&BRANIN, 64, branin).with_limit(|x| x[0] - 4.0);
    let asked = |searched: super::Searched<f64>| searched.history.observations().iter().map(|o| o.point).collect();
    let swarm: Vec<Vec<u64>> = (0..2).map(|_| asked(grid.minimise(Argmin::swarm(7), 150).2)).collect();
    assert_eq!(swarm[0], swarm[1]);
    let anneal: Vec<Vec<u64>> = (0..2).map(|_| asked(grid.minimise(Argmin::anneal(7), 150).2)).collect();
    assert_eq!(anneal[0], anneal[1]);
    let evolve: Vec<Vec<u64>> = (0..2).map(|_| asked(grid.minimise(Evolve::new(7), 150).2)).collect();
    assert_eq!(evolve[0], evolve[1]);
    let ego: Vec<Vec<u64>> = (0..2).map(|_| asked(grid.minimise(Ego::new(7), 40).2)).collect();
    assert_eq!(ego[0], ego[1]);
}
