//! Do the closed forms of the ops reproduce public kernel times? Scored on whole tables, every tuned time counted once
//! per row count band, with the medians the tables were published with as bars.

#[allow(dead_code)]
mod common;

use inferasim::cost::collective::AllReduce;
use inferasim::cost::gemm::Gemm;
use inferasim::cost::moe::{ExpertShards, MoeOp};
use inferasim::cost::{OpTables, Silicon};
use inferasim::model::{Moe, WeightFormat};
use inferasim::target::{EngineFamily, Target};
use std::collections::BTreeMap;
use std::path::Path;

struct Row(BTreeMap<String, String>);

impl Row {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }
}

fn rows(path: &Path) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(path).expect("a CSV file");
    let headers = reader.headers().expect("a header").clone();
    let named = |r: csv::StringRecord| Row(headers.iter().map(String::from).zip(r.iter().map(String::from)).collect());
    reader.records().map(|r| named(r.expect("a record"))).collect()
}

/// Median over bands of the median absolute relative error in each, %: no band's number of rows decides.
struct Errors(BTreeMap<u32, Vec<f64>>);

impl Errors {
    fn add(&mut self, band: f64, predicted: f64, measured: f64) {
        self.0.entry(band.log2().round() as u32).or_default().push((predicted / measured - 1.0).abs());
    }
    fn median(values: &mut [f64]) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
    fn balanced_median_pct(&self) -> f64 {
        let mut medians: Vec<f64> =
            self.0.values().filter(|v| v.len() >= 3).map(|v| Self::median(&mut v.clone())).collect();
        100.0 * Self::median(&mut medians)
    }
}

/// Prints a line and checks its bar.
fn check(name: &str, errors: &Errors, bar_pct: f64) {
    let (n, median) = (errors.count(), errors.balanced_median_pct());
    println!("{name:<36} {n:6} times   median {median:5.1} %   bar {bar_pct:4.1} %");
    assert!(n > 20, "{name}: only {n} times");
    assert!(median <= bar_pct, "{name}: median error {median:.1} % over {n} times, bar {bar_pct} %");
}

/// File, target, activation format, implementation words, our format, bar in %.
type GemmCase = (&'static str, &'static str, &'static str, &'static [&'static str], WeightFormat, f64);

#[test]
fn dense_products_on_amd() {
    let Some(folder) = common::data("kernels") else { return };
    let tables = OpTables::built_in().unwrap();
    // Implementation words, table format, and the upper end of the published held-out medians for it.
    let cases: [GemmCase; 5] = [
        (
            "gfx950_gemm.csv",
            "mi355x",
            "bfloat16",
            &["flydsl", "asm", "torch", "triton", "opus", "skinny"],
            WeightFormat::Bf16,
            14.0,
        ),
        ("gfx950_gemm.csv", "mi355x", "mxfp4", &["blockscale"], WeightFormat::Mxfp4, 14.0),
        ("gfx950_gemm.csv", "mi355x", "fp8", &["blockscale"], WeightFormat::Fp8Block, 14.0),
        ("gfx950_gemm.csv", "mi355x", "fp8", &["bpreshuffle", "rowwise"], WeightFormat::Fp8, 14.0),
        ("gfx942_gemm.csv", "mi300x", "fp8", &["blockscale"], WeightFormat::Fp8Block, 14.0),
    ];
    for (file, target, dtype, words, format, bar) in cases {
        let gpu = Target::load(target).unwrap().gpu;
        let silicon = Silicon::of(&gpu);
        let mut errors = Errors(BTreeMap::new());
        for row in rows(&folder.join(file)) {
            let implementation = row.text("impl");
            if row.text("dtype_a") != dtype || !words.iter().any(|w| implementation.contains(w)) {
                continue;
            }
            let (m, n, k) = (row.number("M"), row.number("N"), row.number("K"));
            let gemm = Gemm::compile(tables, &gpu, &silicon, "product", 1.0, (n, k), format);
            errors.add(m, gemm.time(m).total(), row.number("time_us"));
        }
        check(&format!("GEMM {target} {dtype} {}", words[0]), &errors, bar);
    }
}

#[test]
fn fused_experts_on_amd() {
    let Some(folder) = common::data("kernels") else { return };
    let tables = OpTables::built_in().unwrap();
    let cases: [(&str, &str, &str, &str, &str, WeightFormat, bool); 4] = [
        ("gfx950", "mi355x", "float4_e2m1fn_x2", "float4_e2m1fn_x2", "q_type=per_1x32", WeightFormat::Mxfp4, false),
        ("gfx950", "mi355x", "float8_e4m3fn", "float4_e2m1fn_x2", "q_type=per_1x32", WeightFormat::Mxfp4, true),
        ("gfx950", "mi355x", "float8_e4m3fn", "float8_e4m3fn", "q_type=per_1x128", WeightFormat::Fp8Block, false),
        ("gfx942", "mi300x", "float8_e4m3fnuz", "float8_e4m3fnuz", "q_type=per_1x128", WeightFormat::Fp8Block, false),
    ];
    for (silicon_name, target, activation, weight, quantisation, format, bias) in cases {
        let gpu = Target::load(target).unwrap().gpu;
        let silicon = Silicon::of(&gpu);
        let mut errors = Errors(BTreeMap::new());
        for row in rows(&folder.join("amd_other.csv")) {
            let same = row.text("op") == "fused_moe"
                && row.text("hardware").contains(silicon_name)
                && row.text("dtype_a") == activation
                && row.text("dtype_w") == weight
                && row.text("params").starts_with(quantisation);
            if !same {
                continue;
            }
            let (experts, top_k) = (row.number("experts") as u32, row.number("topk") as u32);
            // One expert more than a multiple of eight: a shared expert fused into the table, used by every token.
            let shared = experts % 8 == 1;
            let (tokens, inter, hidden) = (row.number("M"), row.number("N"), row.number("K"));
            let routed = Moe {
                experts: experts - u32::from(shared),
                top_k: top_k - u32::from(shared),
                inter: inter as u32,
                shared_inter: 0,
                gated: true,
                bias,
                latent: None,
                shared_gate: false,
            };
            let shards = ExpertShards { groups: 1.0, ranks_per_group: 1.0, imbalance: 1.0 };
            let op = |moe: &Moe| {
                MoeOp::compile(tables, &gpu, &silicon, EngineFamily::Vllm, moe, hidden, format, shards, 1.0)
            };
            let mut time = op(&routed).time(tokens).total();
            if shared {
                let one = op(&Moe { experts: 1, top_k: 1, ..routed.clone() }).time(tokens);
                time += one.variable;
            }
            errors.add(tokens, time, row.number("time_us"));
        }
        check(&format!("experts {target} {weight}, {activation}"), &errors, 20.0);
    }
}

#[test]
fn all_reduce_on_nvidia() {
    let Some(folder) = common::data("kernels") else { return };
    let tables = OpTables::built_in().unwrap();
    let cases = [
        ("b200", "vLLM_custom_graph", EngineFamily::Vllm, 13.0),
        ("h100", "vLLM_custom_graph", EngineFamily::Vllm, 13.0),
        ("h200", "vLLM_custom_graph", EngineFamily::Vllm, 13.0),
        ("h200", "TRTLLM", EngineFamily::Trtllm, 15.0),
        // Two releases in one table, the newer up to half slower.
        ("h200", "SGLang_CustomAllReduce_graph", EngineFamily::Sglang, 22.0),
    ];
    for (name, kernel, engine, bar) in cases {
        let target = Target::load(name).unwrap();
        let mut errors = Errors(BTreeMap::new());
        for row in rows(&folder.join(format!("custom_allreduce_{name}_sxm.csv"))) {
            let (ranks, bytes) = (row.number("num_gpus") as u32, 2.0 * row.number("message_size"));
            if row.text("kernel_source") != kernel || ranks < 2 || ranks > target.node.gpus {
                continue;
            }
            let width = 4096.0;
            let op = AllReduce::compile(tables, &target.gpu, &target.node, engine, 1.0, ranks, width, 1.0).unwrap();
            errors.add(bytes, op.time(bytes / 2.0 / width).total(), 1e3 * row.number("latency_ms"));
        }
        check(&format!("all-reduce {name} {kernel}"), &errors, bar);
    }
}
