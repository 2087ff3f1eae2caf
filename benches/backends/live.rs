//! A disaggregated space of 10^8 points: too many to keep, so each is evaluated when it is asked for. The optimum is that
//! of an exhaustive search, layout by layout.

use super::common::Setup;
use super::recorded::spelt;
use super::{Flags, Truth};
use inferasim::search::{Domain, Problem, SpaceProblem};
use std::io::BufRead;

const SPACE: &str = "name: disaggregated
about: prefill and decode pools over one to four nodes, drafts, engine limits, fine loads
knobs:
  nodes: [1, 2, 3, 4]
  kv_dtype: [bf16, fp8]
  prefill: [together, 1xtp1, 2xtp1, 1xtp2, 2xtp2, 4xtp2, 1xtp4, 2xtp4, 3xtp4, 4xtp4, 1xtp8, 2xtp8, 3xtp8,
    1xtp4ep4, 2xtp4ep4, 1xtp8ep8, 2xtp8ep8, 3xtp8ep8, 1xtp8dp8, 2xtp8dp8, 3xtp8dp8, 1xtp8ep8dp8, 2xtp8ep8dp8,
    3xtp8ep8dp8, 1xtp4ep4dp4, 2xtp4ep4dp4]
  tp: { pow2: [1, 8] }
  ep: { pow2: [1, 8] }
  attention_dp: { pow2: [1, 8] }
  replicas: fill
  draft_tokens: [none, 1, 2, 3]
  max_num_seqs: [64, 128, 256, 512, 1024]
  max_num_batched_tokens: [2048, 4096, 8192, 16384, 24576, 32768]
  concurrency: [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 88, 96, 104, 112,
    120, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 832,
    896, 1024, 1152, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192]
";

fn setup() -> Setup {
    let mut setup = Setup::of_text("deepseek-r1", "sglang", SPACE);
    setup.aim("ttft_ms=2000,tpot_ms=30");
    setup
}

/// Runs the backends.
pub fn compare(flags: &Flags) {
    let setup = setup();
    let search = setup.search();
    let outcome = search.run(&|_| {});
    let best = outcome.layouts.first().expect("a feasible point");
    println!(
        "disagg: {} points, {} allowed, {} feasible; best {:.1}: {}",
        outcome.points,
        outcome.legal,
        outcome.feasible,
        best.score,
        setup.space.deployment(best.index)
    );
    let front = outcome.front.iter().map(|f| [f.evaluation.metrics.tok_s_per_user, f.evaluation.metrics.tok_s_per_gpu]);
    let truth = Truth { best: best.score, front: front.collect() };
    super::compare("disagg", &SpaceProblem::new(&search), &truth, flags, flags.number("--live-budget", 20_000));
}

/// Answers one question a line, coordinates separated by blanks, as JSON; the dimensions come first.
pub fn serve() {
    let setup = setup();
    let search = setup.search();
    let problem = SpaceProblem::new(&search);
    let sizes: Vec<usize> = problem.dimensions().iter().map(|d| d.values.len()).collect();
    let ordered: Vec<bool> = problem.dimensions().iter().map(|d| d.ordered).collect();
    println!("{{\"sizes\": {sizes:?}, \"ordered\": {ordered:?}}}");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let coordinates: Vec<usize> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let point = problem.point(&coordinates);
        let allowed = problem.allows(point);
        let answer = allowed.then(|| problem.observe(point, &problem.evaluate(point)));
        println!("{}", answer.map_or_else(|| "null".to_string(), |o| spelt(&o)));
    }
}
