//! How would one deployment behave? gpt-oss-120b on eight MI355X under vLLM, tensor-parallel 8, 64 requests in flight.
//!
//! `cargo run --example project_one`

use inferasim::Result;
use inferasim::config::{Deployment, Legality};
use inferasim::cost::Calibration;
use inferasim::model::{KvFormat, Model};
use inferasim::serve::{Projector, Refusal};
use inferasim::target::{EngineProfile, Target};

fn main() -> Result<()> {
    let target = Target::load("mi355x")?;
    let model = Model::load("gpt-oss-120b")?;
    let engine = EngineProfile::load("vllm")?;
    let calibration = Calibration::load("public")?;
    let projector = Projector::new(&model, &target, &engine, None, &calibration, &target.defaults.workload)?;

    let deployment = Deployment {
        tp: 8,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: 64,
        weight_dtype: "mxfp4".into(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
        max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
        memory_fraction: projector.settings.memory_fraction,
        speculation: None,
        prefill: None,
    };
    Legality::new(&model, &target).require(&deployment, target.gpus())?;

    match projector.evaluate(&deployment) {
        Ok(answer) => {
            let m = answer.metrics;
            println!("{deployment}");
            println!("TTFT {:.0} ms, TPOT {:.2} ms, {:.0} output tok/s", m.ttft_ms, m.tpot_ms, m.output_tok_s);
            println!("bound by {}; a token's time goes to", answer.bound);
            for (part, ms) in answer.breakdown.parts() {
                println!("  {part:<22}{ms:7.3} ms");
            }
        }
        Err(Refusal::DoesNotFit(plan)) => println!("does not fit: {:.1} GiB left for KV", plan.kv_available.as_gib()),
        Err(Refusal::NoModel(reason)) => println!("no figures: {reason}"),
    }
    Ok(())
}
