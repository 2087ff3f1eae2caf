//! What is printed adds up to what is answered.

use super::*;
use crate::config::{Deployment, Speculation};
use crate::cost::Calibration;
use crate::model::{KvFormat, Model};
use crate::serve::Projector;
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;

fn projector(target: &str, model: &str, engine: &str) -> Projector {
    let (target, model) = (Target::load(target).unwrap(), Model::load(model).unwrap());
    let (engine, calibration) = (EngineProfile::load(engine).unwrap(), Calibration::load("public").unwrap());
    let workload = Workload { range_ratio: 0.8, prefix_hit_rate: 0.25, ..Workload::constant(6000, 700) };
    Projector::new(&model, &target, &engine, None, &calibration, &workload).unwrap()
}

fn deployment(p: &Projector, tp: u32) -> Deployment {
    Deployment {
        tp,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: 48,
        weight_dtype: p.model.checkpoints[0].dtype.clone(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: 4096,
        max_num_seqs: 256,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    }
}

fn near(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3), "{what}: {a} against {b}");
}

fn adds_up(p: &Projector, d: &Deployment) {
    let compiled = p.compile(d).unwrap();
    let evaluation = compiled.evaluate(d.concurrency, d.max_num_batched_tokens).unwrap();
    let e = compiled.explain(d.concurrency, d.max_num_batched_tokens).unwrap();
    let s = &e.step;
    let ops: f64 = s.ops.iter().map(|op| op.step_us).sum();
    near(ops + s.small_us + s.host_us, s.total_us, "op lines and the step");
    let parts = evaluation.breakdown.parts();
    near(parts.iter().map(|(_, ms)| ms).sum(), evaluation.metrics.tpot_ms, "breakdown and TPOT");
    let attention: &[Part] = &[Part::Attention, Part::Index, Part::Reread];
    for (group, ms) in [(&[Part::Gemm][..], parts[0].1), (&[Part::Experts], parts[1].1), (attention, parts[2].1)] {
        let lines: f64 = s.ops.iter().filter(|op| group.contains(&op.part)).map(|op| op.step_us).sum();
        near(lines / s.total_us, ms / (parts[..6].iter().map(|(_, ms)| ms).sum::<f64>()), "op lines and their part");
    }
    let added: f64 = e.prefill.lines.iter().map(|l| l.added_us).sum();
    near(added / 1e3, e.prefill.added_ms, "prefill lines and the added work");
    let a = &e.assembly;
    let sum = |terms: &[Term]| terms.iter().map(|t| t.ms).sum::<f64>();
    near(sum(&a.tpot), evaluation.metrics.tpot_ms, "TPOT terms");
    near(sum(&a.first_wave), a.first_wave_ms, "first-wave terms");
    near(sum(&a.steady), a.steady_ms, "steady terms");
    let waves = (a.first_wave_ms + (a.waves - 1.0) * a.steady_ms) / a.waves;
    let ttft = waves * a.ttft_correction + a.held_back_ms;
    near(ttft, evaluation.metrics.ttft_ms, "TTFT");
}

#[test]
fn lines_add_up_for_every_kind_of_model_and_layout() {
    let p = projector("mi355x", "gpt-oss-120b", "vllm");
    let base = deployment(&p, 4);
    adds_up(&p, &base);
    adds_up(&p, &Deployment { ep: 4, attention_dp: 4, ..base.clone() });
    adds_up(&p, &Deployment { pp: 2, concurrency: 700, ..base.clone() });
    adds_up(&p, &Deployment { max_num_seqs: 8, ..base.clone() });
    let drafts = Speculation { draft_tokens: 3, tokens_per_step: 2.4 };
    adds_up(&p, &Deployment { speculation: Some(drafts), ..base });
    for (target, model, engine, tp) in [
        ("mi355x", "deepseek-r1", "sglang", 8),
        ("h100", "llama-3.1-8b", "vllm", 1),
        ("b200", "qwen3-next-80b-a3b", "trtllm", 4),
        ("h200", "deepseek-v3.2", "vllm", 8),
    ] {
        let p = projector(target, model, engine);
        adds_up(&p, &deployment(&p, tp));
    }
}

#[test]
fn arms_join_to_the_variable_part_or_the_roofline_holds() {
    for (target, model) in [("mi355x", "gpt-oss-120b"), ("h100", "llama-3.1-8b"), ("b200", "deepseek-v3")] {
        let p = projector(target, model, "vllm");
        let d = deployment(&p, 8);
        let step = p.compile(&d).unwrap().step;
        for tokens in [1.0, 17.0, 300.0, 5000.0] {
            let pairs = step.ops.gemms.iter().map(|g| (g.arms(tokens), g.time(tokens)));
            let pairs = pairs.chain(step.ops.moes.iter().map(|m| (m.arms(tokens), m.time(tokens))));
            let pairs =
                pairs.chain(step.ops.decode.iter().map(|a| (a.arms(tokens, 2000.0, 1.0), a.time(tokens, 2000.0, 1.0))));
            for (arms, time) in pairs {
                let roof = time.memory_roof.max(time.compute_roof) - time.floor;
                near(arms.joined().max(roof), time.variable, "arms and variable part");
            }
        }
    }
}

#[test]
fn a_dense_step_reads_every_weight_but_the_embedding_once() {
    // Llama-3.1-8B: 8.030 B parameters, 128256 x 4096 of them the input embedding; bf16; H100 SXM 3.35 TB/s.
    let p = projector("h100", "llama-3.1-8b", "vllm");
    let d = Deployment { concurrency: 1, weight_dtype: "bf16".into(), ..deployment(&p, 1) };
    let e = p.compile(&d).unwrap().explain(1, 4096).unwrap();
    let expected = 2.0 * (8.030e9 - 128_256.0 * 4096.0) / 3.35e12 * 1e6;
    let weights: f64 = e.step.ops.iter().filter(|o| o.part == Part::Gemm).map(|o| o.memory_roof_us).sum();
    assert!((weights / expected - 1.0).abs() < 0.005, "{weights} against {expected}");
    assert!(e.step.total_us > expected);
}
