//! ATOM (ROCm): `python -m atom.entrypoints.openai_server` and `python -m atom.benchmarks.benchmark_serving`.

use super::{Launch, LaunchRequest, RangeRatio, Words, prefix_note, random_load};

pub(super) fn launch(request: &LaunchRequest<'_>) -> Launch {
    let d = request.deployment;
    let mut command = Words::new(&["python", "-m", "atom.entrypoints.openai_server", "--model", request.checkpoint]);
    command
        .option("--tensor-parallel-size", d.tp)
        .word_if(d.attention_dp > 1, "--enable-dp-attention")
        .word_if(d.ep > 1, "--enable-expert-parallel")
        .option("--max-model-len", request.max_model_len)
        .option("--max-num-seqs", d.max_num_seqs)
        .option("--max-num-batched-tokens", d.max_num_batched_tokens)
        .option("--kv_cache_dtype", d.kv_dtype)
        .option("--gpu-memory-utilization", d.memory_fraction)
        .word_if(request.workload.prefix_hit_rate > 0.0, "--enable_prefix_caching")
        .option("--server-port", 8000);
    if let Some(speculation) = &d.speculation {
        command.option("--method", "mtp").option("--num-speculative-tokens", speculation.draft_tokens);
    }
    let mut benchmark = Words::new(&["python", "-m", "atom.benchmarks.benchmark_serving", "--backend", "vllm"]);
    benchmark.option("--base-url", "http://localhost:8000").option("--model", request.checkpoint);
    random_load(&mut benchmark, request, RangeRatio::FromRatio);
    benchmark.word("--ignore-eos").option("--percentile-metrics", "ttft,tpot,itl,e2el");
    let mut notes: Vec<String> = prefix_note(request, "benchmark_serving's random data set").into_iter().collect();
    if d.attention_dp > 1 && d.attention_dp != d.tp {
        notes.push(format!(
            "ATOM's DP attention uses every rank; {} groups over {} ranks cannot be asked for.",
            d.attention_dp, d.tp
        ));
    }
    if d.ep > 1 && d.ep != d.tp {
        notes.push(format!("ATOM spreads experts over all {} ranks; EP {} cannot be asked for.", d.tp, d.ep));
    }
    if d.pp > 1 {
        notes.push("ATOM's documented command line has no pipeline-parallel flag.".to_string());
    }
    Launch { command: command.0, prefill_command: None, options_file: None, benchmark: benchmark.0, notes }
}
