//! A flag with a mistake ends in one error that names the flag, the value and the repair.

use crate::command::{inferasim, tune};

#[test]
fn unknown_names_list_the_known_ones() {
    tune("--target mi35x --no-report").refused_with(&["mi35x", "`mi355x`"]);
    tune("--target mi355x --model gpt-oss-120 --no-report").refused_with(&["gpt-oss-120", "`gpt-oss-120b`"]);
    tune("--target mi355x --engine vlm --no-report").refused_with(&["vlm", "`vllm`"]);
    tune("--target mi355x --space milion --no-report").refused_with(&["milion", "`million`"]);
    tune("--target mi355x --objective chatt --no-report").refused_with(&["chatt", "`chat`"]);
    tune("--target mi355x --calibration publik --no-report").refused_with(&["publik", "`public`"]);
    inferasim("memory --target mi355x --model gpt-oss-120b --kv-dtype fp9").refused_with(&["fp9"]);
}

#[test]
fn limits_that_make_no_sense() {
    tune("--target mi355x --slo ttft=500 --no-report").refused_with(&["ttft", "`ttft_ms`"]);
    tune("--target mi355x --slo ttft_ms --no-report").refused_with(&["ttft_ms"]);
    for bad in ["-1", "nan", "inf", "0", "five", "1e300", ""] {
        tune(&format!("--target mi355x --slo ttft_ms={bad} --no-report")).refused_with(&["ttft_ms"]);
    }
    tune("--target mi355x --slo usd_per_m_total=nan --no-report").refused_with(&["usd_per_m_total"]);
}

#[test]
fn loads_that_make_no_sense() {
    tune("--target mi355x --isl 0 --no-report").refused_with(&["--isl"]);
    tune("--target mi355x --osl 0 --no-report").refused_with(&["--osl"]);
    tune("--target mi355x --isl=-5 --no-report").refused_with(&["--isl", "-5"]);
    tune("--target mi355x --isl 4294967295 --osl 4294967295 --no-report").refused_with(&["--isl"]);
    tune("--target mi355x --isl 100000 --osl 100000 --no-report").refused_with(&["200000", "131072"]);
    tune("--target mi355x --concurrency 0 --no-report").refused_with(&["--concurrency", "0"]);
    tune("--target mi355x --range-ratio nan --no-report").refused_with(&["--range-ratio"]);
    tune("--target mi355x --range-ratio 2 --no-report").refused_with(&["--range-ratio"]);
    tune("--target mi355x --prefix-hit-rate=-0.1 --no-report").refused_with(&["--prefix-hit-rate"]);
    tune("--target mi355x --prefix-hit-rate 1.5 --no-report").refused_with(&["--prefix-hit-rate"]);
    tune("--target mi355x --nodes 0 --no-report").refused_with(&["--nodes"]);
    tune("--target mi355x --gpus 0 --no-report").refused_with(&["--gpus"]);
}

#[test]
fn layouts_no_engine_starts_are_refused_by_name() {
    inferasim("memory --target mi355x --model llama-3.3-70b --tp 6").refused_with(&[
        "6",
        "divide",
        "64",
        "llama-3.3-70b",
    ]);
    inferasim("memory --target mi355x --model llama-3.3-70b --tp 0").refused_with(&["tp"]);
    inferasim("memory --target mi355x --model llama-3.3-70b --tp 8 --memory-fraction nan").refused_with(&["memory"]);
    inferasim("memory --target mi355x --model llama-3.3-70b --tp 8 --memory-fraction 7").refused_with(&["memory"]);
    inferasim("memory --target mi355x --model llama-3.3-70b --tp 8 --max-model-len 0").refused_with(&["max-model-len"]);
    inferasim("memory --target mi355x --model llama-3.3-70b --weight-dtype fp9").refused_with(&["fp9", "bf16"]);
}
