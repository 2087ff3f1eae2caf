//! A hand-made run for the tests of this folder: plausible figures from simple curves, hostile names included.

use super::record::*;
use crate::config::Deployment;
use crate::memory::MemoryPlan;
use crate::model::KvFormat;
use crate::serve::{Bound, Breakdown, Evaluation, ServingMetrics};
use crate::source::Origin;
use crate::units::Bytes;
use crate::workload::Workload;

/// Markup, a shell command and an attribute's end in one name.
pub const HOSTILE: &str = "evil<script>alert('1')</script>\"; rm -rf $HOME &";

/// A point of a textbook curve: speed falls and throughput saturates as concurrency grows.
pub fn candidate(rank: u64, tp: u32, ep: u32, replicas: u32, concurrency: u32) -> Candidate {
    let gpus = tp * replicas;
    let per_instance = f64::from(concurrency) / f64::from(replicas);
    let parts = [0.9, 1.6 + 0.02 * per_instance, 0.011 * per_instance].map(|ms| ms * (8.0 / f64::from(tp)).sqrt());
    let breakdown = Breakdown {
        gemm_ms: parts[0],
        moe_ms: parts[1],
        attention_ms: parts[2],
        collectives_ms: 0.25 * f64::from(tp).log2(),
        small_kernels_ms: 0.7,
        host_ms: 0.9,
        prefill_ms: 0.012 * per_instance,
    };
    let tpot_ms: f64 = breakdown.parts().iter().map(|p| p.1).sum();
    let output_tok_s = f64::from(concurrency) * 1000.0 / tpot_ms;
    let tok_s_per_gpu = 2.0 * output_tok_s / f64::from(gpus);
    let usd_per_m_total = Some(2.5 / 3600.0 / tok_s_per_gpu * 1e6);
    let metrics = ServingMetrics {
        ttft_ms: 40.0 + 1.5 * per_instance,
        ttft_p50_ms: 38.0 + per_instance,
        tpot_ms,
        e2e_ms: 40.0 + 1023.0 * tpot_ms,
        output_tok_s,
        total_tok_s: 2.0 * output_tok_s,
        tok_s_per_gpu,
        tok_s_per_user: 1000.0 / tpot_ms,
        running: f64::from(concurrency),
        usd_per_m_output: usd_per_m_total.map(|u| 2.0 * u),
        usd_per_m_total,
    };
    let deployment = Deployment {
        tp,
        ep,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas,
        concurrency,
        weight_dtype: "mxfp4".to_string(),
        kv_dtype: KvFormat::Fp8,
        max_num_batched_tokens: 8192,
        max_num_seqs: 1024,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    };
    let bound = if concurrency > 256 { Bound::Prefill } else { Bound::WeightReads };
    let evaluation = Evaluation { metrics, bound, breakdown };
    Candidate { rank, objective: tok_s_per_gpu, gpus, deployment, evaluation, memory: memory(tp) }
}

/// A candidate with bands of a tenth.
fn finalist(candidate: &Candidate) -> Finalist {
    let m = candidate.metrics();
    let range =
        |key: &str, value: f64| FigureRange { key: key.to_string(), value, low: value / 1.1, high: value * 1.1 };
    Finalist {
        candidate: candidate.clone(),
        role: if candidate.rank == 1 { "best" } else { "diverse" }.to_string(),
        reason: "The best of its kind.".to_string(),
        on_front: candidate.rank < 3,
        win_probability: 0.2,
        information_bits: 0.25,
        ranges: vec![
            range("ttft_ms", m.ttft_ms),
            range("tpot_ms", m.tpot_ms),
            range("tok_s_per_gpu", m.tok_s_per_gpu),
            range("usd_per_m_output", m.usd_per_m_output.unwrap_or(1.0)),
        ],
        band_coverage: 0.8,
        band_origin: "public runs of this engine, GPU and model".to_string(),
    }
}

fn memory(tp: u32) -> MemoryPlan {
    let weights = 66.0 / f64::from(tp);
    MemoryPlan {
        total: Bytes::gib(288.0),
        budget: Bytes::gib(259.2),
        weights: Bytes::gib(weights),
        activation: Bytes::gib(2.0),
        engine_reserve: Bytes::gib(1.5),
        graphs: Bytes::gib(1.0),
        state: Bytes(0.0),
        kv_available: Bytes::gib(254.7 - weights),
        kv_bytes_per_token: Bytes(36_864.0 / f64::from(tp)),
        kv_bytes_per_request: Bytes::gib(0.08),
        kv_tokens: 7_000_000.0,
        max_concurrency: 3200.0,
        resident_requests: 4100.0,
    }
}

/// A whole run with a price, SLOs, rejections and a front of 20 points.
pub fn record() -> RunRecord {
    let layouts = [(1, 1, 8), (2, 2, 4), (2, 1, 4), (4, 4, 2), (4, 1, 2), (8, 8, 1), (8, 1, 1)];
    let loads = [4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
    let all: Vec<Candidate> = layouts
        .iter()
        .flat_map(|(tp, ep, replicas)| loads.iter().map(|c| candidate(0, *tp, *ep, *replicas, *c)))
        .filter(|c| c.deployment.concurrency >= c.deployment.replicas)
        .collect();
    let keeps = |c: &Candidate| c.metrics().ttft_ms <= 500.0 && c.metrics().tpot_ms <= 20.0;
    let mut top: Vec<Candidate> = all.iter().filter(|c| keeps(c)).cloned().collect();
    top.sort_by(|a, b| b.objective.total_cmp(&a.objective));
    top.iter_mut().zip(1..).for_each(|(c, rank)| c.rank = rank);
    let front = front(&top);
    RunRecord {
        schema: SCHEMA,
        version: "0.1.0".to_string(),
        started: "2026-03-01T12:30:00Z".to_string(),
        arguments: ["inferasim-tune", "--target", "targets/mi355x.yaml", "--slo", "ttft_ms=500"]
            .map(str::to_string)
            .to_vec(),
        target: target(),
        model: ModelSummary {
            name: "gpt-oss-120b".to_string(),
            parameters: 116.83e9,
            active_parameters: 5.13e9,
            checkpoints: vec![CheckpointName { dtype: "mxfp4".to_string(), id: "openai/gpt-oss-120b".to_string() }],
            source: "openai/gpt-oss-120b config.json".to_string(),
        },
        engine: EngineSummary {
            name: "vllm".to_string(),
            version: "0.11.0".to_string(),
            origin: "built-in targets/engines/vllm.yaml".to_string(),
        },
        workload: Workload::constant(1024, 1024),
        objective: ObjectiveSummary {
            document: document("throughput", "metric: tok_s_per_gpu\n"),
            metric: "tok_s_per_gpu".to_string(),
            label: "tok/s/GPU".to_string(),
            maximise: true,
            slos: [("ttft_ms", 500.0), ("tpot_ms", 20.0)]
                .map(|(key, limit)| SloLimit { key: key.to_string(), limit, at_most: true })
                .to_vec(),
        },
        space: document("moe", "tp: [1, 2, 4, 8]\n"),
        max_model_len: 2048,
        counts: Counts {
            points: 12_345,
            unseen: 0,
            legal: 9_876,
            feasible: top.len() as u64,
            listed: top.len() as u64,
        },
        verification: None,
        search: SearchSummary {
            backend: "exhaustive".into(),
            seed: None,
            budget: None,
            evaluations: 9_876,
            stop: "exhausted".into(),
            notes: vec![],
        },
        illegal: vec![group("ep does not divide tp", 2_469, "tp 4, ep 8: 8 does not divide 4. Use ep 1, 2 or 4")],
        rejected: vec![
            group(
                "ttft_ms above its limit",
                5_000,
                "TP8, c2048: ttft_ms 3112 is above 500 by 522 %. Use concurrency 256",
            ),
            group("does not fit", 12, "TP1 bf16: weights 217.6 GiB leave -3.1 GiB for KV. Use tp 2"),
        ],
        shortlist: top.iter().take(5).map(finalist).collect(),
        best: top.first().cloned(),
        cost_front: front.clone(),
        front,
        sample: all.iter().map(|c| SamplePoint::new(c.metrics(), keeps(c))).collect(),
        top,
        closest: None,
        obstacle: None,
        sensitivity: None,
        why: vec!["It serves 12 % more tokens per GPU than the best point of the next layout.".to_string()],
        binds: vec![
            "Weight reads take 41 % of TPOT: a larger batch spreads them, but TTFT stands at its limit.".to_string(),
        ],
        calibration: vec![
            statement(
                CalibrationLevel::Calibrated,
                "TPOT: fitted on 84 public runs of vLLM on MI355X, median error 7 %.",
            ),
            statement(CalibrationLevel::Neighbour, "TTFT: rests on SGLang's runs on MI355X; none of vLLM is public."),
        ],
        warnings: vec!["Two nodes were not searched: the target states one.".to_string()],
        definitions: vec![Definition {
            term: "tpot_ms".to_string(),
            text: "mean over requests of (E2E - TTFT) / (output tokens - 1), ms".to_string(),
        }],
        elapsed_s: 0.125,
        cpu_s: 0.21,
    }
}

/// The same run with hostile names wherever a stranger's text can stand.
pub fn hostile() -> RunRecord {
    let mut record = record();
    record.model.name = HOSTILE.to_string();
    record.model.checkpoints.clear();
    record.target.gpu = HOSTILE.to_string();
    record.space.text = HOSTILE.to_string();
    record.arguments.push(HOSTILE.to_string());
    record.warnings.push(HOSTILE.to_string());
    record.rejected[0].example = HOSTILE.to_string();
    record
}

/// The same run without a feasible point.
pub fn infeasible() -> RunRecord {
    let mut record = record();
    record.closest = record
        .best
        .take()
        .map(|candidate| Closest { candidate, blocked_by: "ttft_ms 640 is above 500 by 28 %".to_string() });
    (record.top, record.front, record.cost_front) = Default::default();
    record.counts.feasible = 0;
    record.sample.iter_mut().for_each(|p| p.feasible = false);
    record
}

fn front(points: &[Candidate]) -> Vec<Candidate> {
    let dominated = |a: &Candidate| {
        let (x, y) = (a.metrics().tok_s_per_user, a.metrics().tok_s_per_gpu);
        points.iter().any(|b| {
            let (bx, by) = (b.metrics().tok_s_per_user, b.metrics().tok_s_per_gpu);
            bx >= x && by >= y && (bx > x || by > y)
        })
    };
    let mut front: Vec<Candidate> = points.iter().filter(|c| !dominated(c)).cloned().collect();
    front.sort_by(|a, b| a.metrics().tok_s_per_user.total_cmp(&b.metrics().tok_s_per_user));
    front.dedup_by(|a, b| a.metrics().tok_s_per_user == b.metrics().tok_s_per_user);
    front
}

fn target() -> TargetSummary {
    TargetSummary {
        document: document("mi355x", "name: mi355x\n"),
        gpu: "MI355X".to_string(),
        gpus_per_node: 8,
        nodes: 1,
        usd_per_gpu_hour: Some(2.5),
        figures: vec![Figure {
            name: "HBM bandwidth".to_string(),
            value: "8 TB/s".to_string(),
            origin: Origin::Vendor,
            source: "AMD Instinct MI355X data sheet, 2025-06".to_string(),
        }],
    }
}

fn document(name: &str, text: &str) -> NamedDocument {
    NamedDocument { name: name.to_string(), origin: format!("built-in {name}.yaml"), text: text.to_string() }
}

fn group(reason: &str, count: u64, example: &str) -> Group {
    Group { reason: reason.to_string(), count, example: example.to_string() }
}

fn statement(level: CalibrationLevel, text: &str) -> CalibrationStatement {
    CalibrationStatement { level, text: text.to_string() }
}
