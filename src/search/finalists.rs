//! Which points are worth measuring? A few that differ, and those whose measurement says most about which is best.
//!
//! Scores are natural logarithms, larger better; a contender's prediction is off by a normal error whose standard
//! deviation is its band. Errors of similar contenders are alike: their correlation is exp(−d²/2ℓ²) in the distance d of
//! their features (a Gaussian process with a squared-exponential kernel; Rasmussen and Williams 2006, 2.2 and 4.2).

use linfa::DatasetBase;
use linfa::traits::{Fit, Predict};
use linfa_clustering::KMeans;
use nalgebra::{DMatrix, DVector};
use ndarray::Array2;
use rand_xoshiro::Xoshiro256Plus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::cmp::Ordering;

/// Distance of features over which errors stop to be alike, ℓ: two doublings of a width or a load.
const ALIKE: f64 = 2.0;
/// Spread of repeated measurements of one deployment, in ln.
const REPEAT: f64 = 0.007;
/// Share of the list that goes to diversity.
const DIVERSE: f64 = 2.0 / 3.0;
/// Contenders whose ranking is played through.
const PLAYED: usize = 48;
/// Times it is played through.
const DRAWS: usize = 2048;
/// Measured values are told apart in this many equally frequent classes.
const CLASSES: usize = 8;

/// A point that may be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// ln of the figure, turned so that larger is better.
    pub score: f64,
    /// Standard deviation of its error.
    pub band: f64,
    /// Where it lies among deployments; distances count.
    pub features: Vec<f64>,
    /// It is on the front or within the band of the best; others only fill a list that would be short.
    pub eligible: bool,
}

/// Why a point is on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It has the highest score.
    Best,
    /// The best of its kind.
    Diverse,
    /// Its measurement says most about which point is best.
    Informative,
    /// The next best, where the list would be short.
    Next,
}

/// A point on the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Its place among the contenders.
    pub at: usize,
    /// Why.
    pub role: Role,
    /// Probability that it is the best of the list.
    pub win_probability: f64,
    /// What measuring it is expected to say about which contender is best, given those picked before it, bits.
    pub bits: f64,
}

/// Chooses at most `n` contenders, the best first. The same contenders and seed give the same list.
pub fn choose(contenders: &[Contender], n: usize, seed: u64) -> Vec<Pick> {
    let order = ranked(contenders, |_| true);
    let Some(&best) = order.first() else { return Vec::new() };
    let eligible = ranked(contenders, |c| c.eligible);
    let mut picked = vec![(best, Role::Best)];
    let wanted = ((n as f64 * DIVERSE).ceil() as usize).min(n);
    for at in kinds(contenders, &eligible, wanted, seed) {
        if picked.len() < wanted && picked.iter().all(|p| p.0 != at) {
            picked.push((at, Role::Diverse));
        }
    }
    let mut play = Play::new(contenders, &eligible, &picked, seed);
    let mut bits: Vec<f64> = Vec::new();
    for (at, _) in &picked {
        bits.push(play.measure(*at));
    }
    while picked.len() < n {
        let Some((at, gained)) = play.most_informative(&picked) else { break };
        play.measure(at);
        picked.push((at, Role::Informative));
        bits.push(gained);
    }
    for &at in &order {
        if picked.len() < n && picked.iter().all(|p| p.0 != at) {
            picked.push((at, Role::Next));
            bits.push(0.0);
        }
    }
    picked.truncate(n);
    let chosen: Vec<usize> = picked.iter().map(|p| p.0).collect();
    let wins = Play::of(contenders, &chosen, seed).win_shares();
    picked
        .into_iter()
        .enumerate()
        .map(|(i, (at, role))| Pick { at, role, win_probability: wins[i], bits: bits[i] })
        .collect()
}

/// Places of contenders, the highest score first.
fn ranked(contenders: &[Contender], test: impl Fn(&Contender) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders.len()).filter(|at| test(&contenders[*at])).collect();
    order.sort_by(|a, b| contenders[*b].score.total_cmp(&contenders[*a].score).then(a.cmp(b)));
    order
}

/// The best of each of `k` clusters, best first (k-means; Lloyd 1982, seeded by k-means++, Arthur and Vassilvitskii 2007).
fn kinds(contenders: &[Contender], eligible: &[usize], k: usize, seed: u64) -> Vec<usize> {
    let Some(first) = eligible.first() else { return Vec::new() };
    let width = contenders[*first].features.len();
    let mut distinct: Vec<&[f64]> = Vec::new();
    for at in eligible {
        if !distinct.contains(&contenders[*at].features.as_slice()) {
            distinct.push(&contenders[*at].features);
        }
    }
    if k <= 1 || width == 0 || distinct.len() <= k {
        // Fewer kinds than places: each contender stands for itself.
        return eligible.to_vec();
    }
    let flat: Vec<f64> = eligible.iter().flat_map(|at| contenders[*at].features.iter().copied()).collect();
    let Ok(features) = Array2::from_shape_vec((eligible.len(), width), flat) else { return eligible.to_vec() };
    let dataset = DatasetBase::from(features);
    let random = Xoshiro256Plus::seed_from_u64(seed);
    let fitted = KMeans::params_with_rng(k, random).n_runs(10).max_n_iterations(200).tolerance(1e-6).fit(&dataset);
    let Ok(fitted) = fitted else { return eligible.to_vec() };
    let clusters = fitted.predict(&dataset);
    let mut seen = Vec::new();
    let mut best = Vec::new();
    for (at, cluster) in eligible.iter().zip(clusters.iter()) {
        if !seen.contains(cluster) {
            seen.push(*cluster);
            best.push(*at);
        }
    }
    best
}

/// The ranking, played through with errors drawn from what is still unknown.
struct Play {
    /// Contenders that take part.
    members: Vec<usize>,
    scores: DVector<f64>,
    /// Covariance of the errors, given what is taken as measured.
    covariance: DMatrix<f64>,
    seed: u64,
}

impl Play {
    /// The picked ones and the best of the others.
    fn new(contenders: &[Contender], eligible: &[usize], picked: &[(usize, Role)], seed: u64) -> Self {
        let mut members: Vec<usize> = picked.iter().map(|p| p.0).collect();
        let others: Vec<usize> = eligible.iter().copied().filter(|at| !members.contains(at)).collect();
        let room = PLAYED.saturating_sub(members.len());
        members.extend(others.into_iter().take(room));
        Self::of(contenders, &members, seed)
    }

    fn of(contenders: &[Contender], members: &[usize], seed: u64) -> Self {
        let scores = DVector::from_iterator(members.len(), members.iter().map(|at| contenders[*at].score));
        let covariance = DMatrix::from_fn(members.len(), members.len(), |i, j| {
            let (a, b) = (&contenders[members[i]], &contenders[members[j]]);
            let squares: f64 = a.features.iter().zip(&b.features).map(|(x, y)| (x - y).powi(2)).sum();
            a.band * b.band * (-squares / (2.0 * ALIKE * ALIKE)).exp()
        });
        Self { members: members.to_vec(), scores, covariance, seed }
    }

    /// True scores as they may be, one column a draw.
    fn draws(&self) -> DMatrix<f64> {
        let n = self.members.len();
        let mut covariance = self.covariance.clone();
        // Near copies make it singular: a whisker on the diagonal, as usual.
        let largest = covariance.diagonal().max().max(1e-12);
        (0..n).for_each(|i| covariance[(i, i)] += 1e-6 * largest);
        let factor = covariance.cholesky().map_or_else(|| DMatrix::zeros(n, n), |c| c.unpack());
        let mut random = Xoshiro256Plus::seed_from_u64(self.seed ^ 0x5eed);
        let normal = DMatrix::from_fn(n, DRAWS, |_, _| normal(&mut random));
        let mut drawn = factor * normal;
        for mut column in drawn.column_iter_mut() {
            column += &self.scores;
        }
        drawn
    }

    fn win_shares(&self) -> Vec<f64> {
        let mut wins = vec![0.0; self.members.len()];
        for winner in winners(&self.draws()) {
            wins[winner] += 1.0 / DRAWS as f64;
        }
        wins
    }

    /// Takes a contender as measured; what that is expected to say about the winner, bits.
    fn measure(&mut self, at: usize) -> f64 {
        let Some(place) = self.members.iter().position(|m| *m == at) else { return 0.0 };
        let drawn = self.draws();
        let bits = information(&drawn, &winners(&drawn), place);
        let column: DVector<f64> = self.covariance.column(place).into_owned();
        let variance = self.covariance[(place, place)] + REPEAT * REPEAT;
        self.covariance -= &column * column.transpose() / variance;
        bits
    }

    /// The contender not picked yet whose measurement says most, where any says anything.
    fn most_informative(&self, picked: &[(usize, Role)]) -> Option<(usize, f64)> {
        let drawn = self.draws();
        let winners = winners(&drawn);
        let open = (0..self.members.len()).filter(|i| picked.iter().all(|p| p.0 != self.members[*i]));
        let told = open.map(|i| (self.members[i], information(&drawn, &winners, i)));
        // Between equals the one with the higher score, which comes first.
        told.filter(|t| t.1 > 0.0).min_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal))
    }
}

/// Who wins each draw; the earlier member of equals.
fn winners(drawn: &DMatrix<f64>) -> Vec<usize> {
    drawn.column_iter().map(|c| (0..c.len()).fold(0, |best, i| if c[i] > c[best] { i } else { best })).collect()
}

/// Mutual information between a member's value, in equally frequent classes, and who wins, bits.
fn information(drawn: &DMatrix<f64>, winners: &[usize], member: usize) -> f64 {
    let n = drawn.nrows();
    let mut order: Vec<usize> = (0..drawn.ncols()).collect();
    order.sort_by(|a, b| drawn[(member, *a)].total_cmp(&drawn[(member, *b)]));
    let mut counts = vec![0u32; n];
    winners.iter().for_each(|w| counts[*w] += 1);
    let before = entropy(&counts);
    let size = order.len().div_ceil(CLASSES);
    let after: f64 = order
        .chunks(size)
        .map(|class| {
            let mut counts = vec![0u32; n];
            class.iter().for_each(|draw| counts[winners[*draw]] += 1);
            entropy(&counts) * class.len() as f64 / order.len() as f64
        })
        .sum();
    // Few draws feign information: (K − 1)(classes − 1) / (2 N ln 2) bits (Miller 1955).
    let kinds = counts.iter().filter(|c| **c > 0).count() as f64;
    let feigned = (kinds - 1.0) * (CLASSES as f64 - 1.0) / (2.0 * order.len() as f64 * std::f64::consts::LN_2);
    (before - after - feigned).max(0.0)
}

fn entropy(counts: &[u32]) -> f64 {
    let total: f64 = counts.iter().map(|c| f64::from(*c)).sum();
    let share = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|c| **c > 0).map(|c| -share(c) * share(c).log2()).sum()
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut Xoshiro256Plus) -> f64 {
    let mut unit = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (u, v) = (unit(), unit());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(score: f64, band: f64, features: &[f64]) -> Contender {
        Contender { score, band, features: features.to_vec(), eligible: true }
    }

    #[test]
    fn clusters_are_each_represented_by_their_best() {
        // Three heaps far apart, ten points each; the best of each is its first.
        let mut contenders = Vec::new();
        for (heap, middle) in [(0, 0.0), (1, 50.0), (2, 100.0)] {
            for i in 0..10 {
                let score = 1.0 - 0.1 * f64::from(heap) - 0.01 * f64::from(i);
                contenders.push(contender(score, 0.001, &[middle + 0.1 * f64::from(i), -middle]));
            }
        }
        let picks = choose(&contenders, 4, 1);
        let roles: Vec<_> = picks.iter().take(3).map(|p| (p.at, p.role)).collect();
        assert_eq!(roles, [(0, Role::Best), (10, Role::Diverse), (20, Role::Diverse)]);
    }

    #[test]
    fn two_equal_rivals_are_a_coin_toss_and_the_measurement_is_worth_what_theory_says() {
        let rivals = [contender(0.0, 0.1, &[0.0]), contender(0.0, 0.1, &[100.0])];
        let picks = choose(&rivals, 2, 7);
        for pick in &picks {
            assert!((pick.win_probability - 0.5).abs() < 0.05, "{pick:?}");
        }
        // One bit is open. Knowing one of two independent equal normals leaves h(U) of it on average, U uniform:
        // 1 - 1/(2 ln 2) = 0.2787 bits told; eight classes lose a little.
        assert!((picks[0].bits - 0.2787).abs() < 0.05, "{}", picks[0].bits);
    }

    #[test]
    fn what_cannot_win_or_is_known_says_nothing() {
        let field = [contender(0.0, 0.02, &[0.0]), contender(-1.0, 0.02, &[50.0])];
        let picks = choose(&field, 2, 3);
        assert_eq!((picks[0].win_probability, picks[0].bits), (1.0, 0.0));
        // A copy of the winner with the same error: measuring the one is measuring the other.
        let field = [contender(0.0, 0.1, &[0.0]), contender(-0.01, 0.1, &[0.0]), contender(-0.01, 0.1, &[50.0])];
        let mut play = Play::of(&field, &[0, 1, 2], 3);
        play.measure(0);
        let (at, _) = play.most_informative(&[(0, Role::Best)]).unwrap();
        assert_eq!(at, 2);
    }

    #[test]
    fn short_and_empty_fields_are_no_trouble() {
        assert_eq!(choose(&[], 5, 1), []);
        let one = choose(&[contender(1.0, 0.1, &[0.0])], 5, 1);
        assert_eq!(one.iter().map(|p| (p.at, p.win_probability)).collect::<Vec<_>>(), [(0, 1.0)]);
        let mut field = vec![contender(1.0, 0.01, &[0.0]), contender(0.2, 0.01, &[9.0])];
        field[1].eligible = false;
        let picks = choose(&field, 5, 1);
        assert_eq!((picks.len(), picks[1].role), (2, Role::Next));
    }

    #[test]
    fn the_same_field_gives_the_same_list() {
        let field: Vec<_> = (0..40)
            .map(|i| contender(-f64::from(i % 7) * 0.01, 0.05, &[f64::from(i), f64::from(i * i % 11)]))
            .collect();
        assert_eq!(choose(&field, 9, 5), choose(&field, 9, 5));
        assert_eq!(choose(&field, 9, 5).len(), 9);
    }
}
