//! What does choosing cost? CPU-seconds of `ego`'s batch after 200 observations, and of the search's loop for one point.

use super::common::{Setup, cpu_seconds};
use super::recorded;
use super::search;
use inferasim::search::ego::Ego;
use inferasim::search::random::Random;
use inferasim::search::{Backend, Dimension, Domain, History, Observation, Problem};

/// Observations before the batch that is timed.
const OBSERVED: u64 = 200;
/// Points of the loop that is timed.
const DRIVEN: u64 = 200_000;

/// Points that cost nothing to look at: what is left is the loop.
struct Nothing(Vec<Dimension>);

impl Domain for Nothing {
    fn dimensions(&self) -> &[Dimension] {
        &self.0
    }
    fn limits(&self) -> usize {
        1
    }
    fn allows(&self, _point: u64) -> bool {
        true
    }
    fn explain(&self, _point: u64) -> Option<String> {
        None
    }
}

impl Problem for Nothing {
    type Figures = ();
    fn evaluate(&self, _point: u64) {}
    fn observe(&self, point: u64, _figures: &()) -> Observation {
        Observation { point, score: Some(point as f64), front: None, limits: vec![0.0], rejection: None, legal: true }
    }
    fn refuse(&self, point: u64) -> Observation {
        self.observe(point, &())
    }
}

/// Prints it.
pub fn report() {
    for (name, model, space, slos) in [
        ("dense", "llama-3.3-70b", "dense", "ttft_ms=1000,tpot_ms=40"),
        ("moe", "deepseek-r1", "moe", "ttft_ms=2000,tpot_ms=50"),
    ] {
        let space = recorded::closed(name, model, space, slos);
        let mut history = History::default();
        search(&space, &mut Random::new(1), OBSERVED).into_iter().for_each(|o| history.push(o));
        let mut ego = Ego::new(1);
        let spent = [(); 2].map(|()| {
            let before = cpu_seconds();
            ego.ask(&space, &history, 8).expect("an answer");
            cpu_seconds() - before
        });
        println!(
            "{name}: ego's batch of 8 after {OBSERVED} observations {:.2} CPU-s, the next {:.2} CPU-s",
            spent[0], spent[1]
        );
    }
    let dimension = |_| Dimension { name: "x".into(), values: vec![String::new(); 10], ordered: true, parts: vec![] };
    let nothing = Nothing((0..8).map(dimension).collect());
    let before = cpu_seconds();
    search(&nothing, &mut inferasim::search::sequential::Sequential::default(), DRIVEN);
    println!("loop: {:.2} µs a point", 1e6 * (cpu_seconds() - before) / DRIVEN as f64);
    exhaustive();
}

/// The exhaustive search of the million-point space against its projections alone.
fn exhaustive() {
    let mut setup = Setup::new("gpt-oss-120b", "vllm", "million");
    setup.aim("ttft_ms=500");
    let search = setup.search();
    let before = cpu_seconds();
    let outcome = search.run(&|_| {});
    let whole = cpu_seconds() - before;
    let block = setup.space.compiled_len();
    let (budgets, loads) = setup.space.loads();
    let before = cpu_seconds();
    let mut legal = 0u64;
    for start in (0..setup.space.len()).step_by(block as usize) {
        let mut deployment = setup.space.deployment(start);
        if !setup.legality.layout_violations(&deployment, setup.space.gpus(start)).is_empty() {
            continue;
        }
        let compiled = setup.projector.compile(&deployment);
        for &budget in budgets {
            deployment.max_num_batched_tokens = budget;
            for &load in loads {
                deployment.concurrency = load;
                if setup.legality.load_violations(&deployment).is_some() {
                    continue;
                }
                legal += 1;
                if let Ok(compiled) = &compiled {
                    let _ = std::hint::black_box(compiled.evaluate(load, budget));
                }
            }
        }
    }
    let alone = cpu_seconds() - before;
    assert_eq!(legal, outcome.legal);
    println!(
        "exhaustive: {legal} legal points, {:.2} µs each, {:.2} µs of them in the projector, {:.2} µs over it",
        1e6 * whole / legal as f64,
        1e6 * alone / legal as f64,
        1e6 * (whole - alone) / legal as f64
    );
}
