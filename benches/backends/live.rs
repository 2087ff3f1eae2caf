//! A disaggregated space of 10^8 points: too many to keep, so each is evaluated when it is asked for. The optimum is that
//! of an exhaustive search, layout by layout.

use super::common::{Setup, cpu_seconds};
use super::recorded::spelt;
use super::{Flags, Truth};
use inferasim::search::{Domain, Problem, SpaceProblem};
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const SPACE: &str = "name: disaggregated
about: prefill and decode pools over one to four nodes, drafts, engine limits, fine loads
knobs:
  nodes: [1, 2, 3, 4]
  weight_dtype: [fp8]
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

/// Runs the backends. `--truth FILE` keeps what the exhaustive search found for the next call.
pub fn compare(flags: &Flags) {
    let setup = setup();
    let search = setup.search();
    let known = flags.word("--truth").and_then(|file| std::fs::read(file).ok());
    let truth = known.map_or_else(
        || {
            let truth = exhaustive(&setup);
            let text = serde_json::to_vec(&truth).expect("figures are finite");
            flags.word("--truth").iter().for_each(|file| std::fs::write(file, &text).expect("the file can be written"));
            truth
        },
        |text| serde_json::from_slice(&text).expect("what an earlier call wrote"),
    );
    println!("disagg: best {:.1}, {} points on the front", truth.best, truth.front.len());
    super::compare("disagg", &SpaceProblem::new(&search), &truth, flags, flags.number("--live-budget", 20_000));
}

/// Looks at every point, and says how far it is.
fn exhaustive(setup: &Setup) -> Truth {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let (done, told) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |points: u64| {
        let done = done.fetch_add(points, Ordering::Relaxed) + points;
        let tens = started.elapsed().as_secs() / 10;
        if told.fetch_max(tens, Ordering::Relaxed) < tens {
            eprintln!("{done} of {} points after {tens}0 s", setup.space.len());
        }
    };
    let outcome = setup.search().run(&progress);
    let best = outcome.layouts.first().expect("a feasible point");
    println!(
        "disagg: {} points, {} allowed, {} feasible in {:.0} s, {:.0} CPU-s; best {:.1}: {}",
        outcome.points,
        outcome.legal,
        outcome.feasible,
        started.elapsed().as_secs_f64(),
        cpu_seconds() - cpu,
        best.score,
        setup.space.deployment(best.index)
    );
    let front = outcome.front.iter().map(|f| [f.evaluation.metrics.tok_s_per_user, f.evaluation.metrics.tok_s_per_gpu]);
    Truth { best: best.score, front: front.collect() }
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
