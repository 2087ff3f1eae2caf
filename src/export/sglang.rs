//! SGLang: `python -m sglang.launch_server` and `python -m sglang.bench_serving`.

use super::{Launch, LaunchRequest, RangeRatio, Words, prefix_note, random_load};
use crate::model::KvFormat;

pub(super) fn launch(request: &LaunchRequest<'_>) -> Launch {
    let d = request.deployment;
    let groups = d.attention_dp.max(1);
    let mut command = Words::new(&["python", "-m", "sglang.launch_server", "--model-path", request.checkpoint]);
    command
        .option("--tp-size", d.tp)
        .option_if(groups > 1, "--dp-size", groups)
        .word_if(groups > 1, "--enable-dp-attention")
        .option_if(d.ep > 1, "--ep-size", d.ep)
        .option_if(d.pp > 1, "--pp-size", d.pp)
        .option("--context-length", request.max_model_len)
        // SGLang divides both limits by the number of DP-attention groups; the deployment states them per group.
        .option("--max-running-requests", u64::from(d.max_num_seqs) * u64::from(groups))
        .option("--chunked-prefill-size", u64::from(d.max_num_batched_tokens) * u64::from(groups))
        .option("--kv-cache-dtype", if d.kv_dtype == KvFormat::Fp8 { "fp8_e4m3" } else { "auto" })
        .option("--mem-fraction-static", d.memory_fraction)
        .word_if(request.workload.prefix_hit_rate == 0.0, "--disable-radix-cache")
        .option("--port", 8000);
    if let Some(speculation) = &d.speculation {
        command
            .option("--speculative-algorithm", "EAGLE")
            .option("--speculative-num-steps", speculation.draft_tokens)
            .option("--speculative-eagle-topk", 1)
            .option("--speculative-num-draft-tokens", speculation.draft_tokens + 1);
    }
    let mut benchmark = Words::new(&["python", "-m", "sglang.bench_serving", "--backend", "sglang"]);
    benchmark.option("--base-url", "http://localhost:8000").option("--model", request.checkpoint);
    // This client ignores end-of-sequence tokens unless told otherwise.
    random_load(&mut benchmark, request, RangeRatio::FromRatio);
    let notes = prefix_note(request, "sglang.bench_serving's random data set").into_iter().collect();
    Launch { command: command.0, prefill_command: None, options_file: None, benchmark: benchmark.0, notes }
}
