//! A space whose limit is a percentile that only a simulation knows. Runs are short and every point has a seed of its
//! own, so its figures are off by chance, the same each time it is looked at.

use super::common::Setup;
use super::recorded::Recorded;
use inferasim::search::{Domain, Observation, SpaceProblem};
use inferasim::sim::closed_run::closed_run;
use rayon::prelude::*;

/// 99 requests in 100 begin within the first, ms, and go on at the pace of the second, ms a token.
const LIMITS: [(&str, f64); 2] = [("ttft_p99_ms", 1500.0), ("tpot_p99_ms", 40.0)];

const SPACE: &str = "name: simulated
about: widths, formats, budgets and loads of one node
knobs:
  kv_dtype: [bf16, fp8]
  tp: { pow2: [1, 8] }
  ep: [1, 4]
  max_num_seqs: [128, 512]
  max_num_batched_tokens: [2048, 4096, 8192, 16384]
  concurrency: [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
";

/// Simulates every point: throughput per GPU under [`LIMITS`].
pub fn record() -> Recorded {
    let mut setup = Setup::of_text("gpt-oss-120b", "vllm", SPACE);
    setup.aim("ttft_ms=1e9");
    // Short runs: three waves of prompts.
    setup.projector.workload.prompts_per_client = 3;
    let search = setup.search();
    let problem = SpaceProblem::new(&search);
    let look = |point: u64| {
        if !problem.allows(point) {
            return None;
        }
        let deployment = setup.space.deployment(point);
        let run = closed_run(&setup.projector, &deployment, point).expect("a scenario an engine starts with");
        let Ok(run) = run else {
            let rejection = Some("does not fit".to_string());
            return Some(Observation { point, score: None, front: None, limits: vec![], rejection, legal: true });
        };
        let limits: Vec<f64> =
            vec![run.report.ttft_ms.p99 / LIMITS[0].1 - 1.0, run.report.tpot_ms.p99 / LIMITS[1].1 - 1.0];
        let missed = LIMITS.iter().zip(&limits).find(|(_, excess)| **excess > 0.0);
        Some(Observation {
            point,
            score: Some(run.metrics.tok_s_per_gpu),
            front: Some([run.metrics.tok_s_per_user, run.metrics.tok_s_per_gpu]),
            rejection: missed.map(|((name, _), _)| (*name).to_string()),
            limits,
            legal: true,
        })
    };
    let points = (0..problem.len()).into_par_iter().map(look).collect();
    Recorded { name: "simulated", dimensions: problem.dimensions().to_vec(), limits: LIMITS.len(), points }
}
