//! Which deployment of a small space should I run? Every point of a space written here, under two limits.
//!
//! `cargo run --example search_a_space`

use inferasim::Result;
use inferasim::catalog::Document;
use inferasim::config::Legality;
use inferasim::cost::Calibration;
use inferasim::model::Model;
use inferasim::objective::{Objective, Slo};
use inferasim::search::Search;
use inferasim::serve::Projector;
use inferasim::space::{Context, EngineLimits, Space, SpaceFile};
use inferasim::target::{EngineProfile, Target};

const SPACE: &str = "
name: mine
about: widths and loads of one node
knobs:
  tp: { pow2: [1, 8] }
  kv_dtype: [bf16, fp8]
  concurrency: [16, 64, 256, 1024]
";

fn main() -> Result<()> {
    let target = Target::load("h200")?;
    let model = Model::load("llama-3.3-70b")?;
    let engine = EngineProfile::load("vllm")?;
    let calibration = Calibration::load("public")?;
    let projector = Projector::new(&model, &target, &engine, None, &calibration, &target.defaults.workload)?;

    let file = SpaceFile::from_document(&Document { origin: "mine".into(), text: SPACE.into() })?;
    let limits = EngineLimits {
        max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
        max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
        memory_fraction: projector.settings.memory_fraction,
        accepted_tokens: projector.accepted_tokens(),
    };
    let context = Context { model: &model, gpus_per_node: target.node.gpus, gpus: target.gpus(), engine: limits };
    let space = Space::new(&file, &context)?;
    let (mut objective, _) = Objective::load("default")?;
    objective.override_slos(Slo::parse_list("ttft_ms=2000,tpot_ms=40")?);

    let legality = Legality::new(&model, &target);
    let search = Search { space: &space, legality: &legality, objective: &objective, evaluator: &projector };
    let outcome = search.run(&|_| {});
    println!(
        "{}: {} points, {} legal, {} feasible",
        objective.sentence(),
        space.len(),
        outcome.legal,
        outcome.feasible
    );
    for found in outcome.layouts.iter().take(5) {
        let m = &found.evaluation.metrics;
        println!(
            "{:>7.0} tok/s/GPU  TTFT {:>5.0} ms  TPOT {:>5.1} ms  {}, {} weights",
            m.tok_s_per_gpu,
            m.ttft_ms,
            m.tpot_ms,
            space.deployment(found.index),
            space.deployment(found.index).weight_dtype,
        );
    }
    for group in &outcome.groups {
        println!("{:>7} out: {}", group.count, search.explain(group));
    }
    Ok(())
}
