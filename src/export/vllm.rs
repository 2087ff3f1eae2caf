//! vLLM: `vllm serve` and `vllm bench serve`.

use super::{Launch, LaunchRequest, RangeRatio, Words, random_load};
use crate::model::KvFormat;

pub(super) fn launch(request: &LaunchRequest<'_>) -> Launch {
    let d = request.deployment;
    let hits = request.workload.prefix_hit_rate;
    let mut command = Words::new(&["vllm", "serve", request.checkpoint]);
    command
        .option("--tensor-parallel-size", d.attention_tp())
        .option_if(d.attention_dp > 1, "--data-parallel-size", d.attention_dp)
        .option_if(d.context_parallel > 1, "--decode-context-parallel-size", d.context_parallel)
        .option_if(d.pp > 1, "--pipeline-parallel-size", d.pp)
        .word_if(d.ep > 1, "--enable-expert-parallel")
        .option("--max-model-len", request.max_model_len)
        .option("--max-num-seqs", d.max_num_seqs)
        .option("--max-num-batched-tokens", d.max_num_batched_tokens)
        .option("--kv-cache-dtype", if d.kv_dtype == KvFormat::Fp8 { "fp8" } else { "auto" })
        .option("--gpu-memory-utilization", d.memory_fraction)
        .word_if(hits == 0.0, "--no-enable-prefix-caching");
    if let Some(speculation) = &d.speculation {
        let config = format!(r#"{{"method":"mtp","num_speculative_tokens":{}}}"#, speculation.draft_tokens);
        command.option("--speculative-config", config);
    }
    let mut benchmark = Words::new(&["vllm", "bench", "serve", "--model", request.checkpoint]);
    random_load(&mut benchmark, request, RangeRatio::AroundMean);
    if hits > 0.0 {
        // The client adds the shared prefix to the random part.
        let prefix = (hits * request.workload.mean_isl()).round();
        let own = request.workload.mean_isl() - prefix;
        replace(&mut benchmark, "--random-input-len", own);
        benchmark.option("--random-prefix-len", prefix);
    }
    benchmark.word("--ignore-eos").option("--percentile-metrics", "ttft,tpot,itl,e2el");
    let mut notes = Vec::new();
    if d.ep > 1 && d.ep != d.tp {
        notes
            .push(format!("vLLM spreads experts over all {} ranks of a stage; EP {} cannot be asked for.", d.tp, d.ep));
    }
    Launch { command: command.0, prefill_command: None, options_file: None, benchmark: benchmark.0, notes }
}

fn replace(words: &mut Words, flag: &str, value: f64) {
    if let Some(at) = words.0.iter().position(|w| w == flag) {
        words.0[at + 1] = value.to_string();
    }
}
