//! TensorRT-LLM: `trtllm-serve` with an options file, and its `benchmark_serving`.

use super::{Launch, LaunchRequest, RangeRatio, Words, prefix_note, random_load};
use crate::model::KvFormat;

const OPTIONS: &str = "trtllm-options.yaml";

pub(super) fn launch(request: &LaunchRequest<'_>) -> Launch {
    let d = request.deployment;
    let mut command = Words::new(&["trtllm-serve", request.checkpoint, "--backend", "pytorch"]);
    command
        .option("--tp_size", d.tp)
        .option_if(d.ep > 1, "--ep_size", d.ep)
        .option_if(d.pp > 1, "--pp_size", d.pp)
        .option("--max_seq_len", request.max_model_len)
        .option("--max_batch_size", d.max_num_seqs)
        .option("--max_num_tokens", d.max_num_batched_tokens)
        .option("--port", 8000)
        .option("--extra_llm_api_options", OPTIONS);
    let mut benchmark = Words::new(&["python", "-m", "tensorrt_llm.serve.scripts.benchmark_serving"]);
    benchmark.option("--backend", "openai").option("--port", 8000).option("--model", request.checkpoint);
    random_load(&mut benchmark, request, RangeRatio::AroundMean);
    benchmark
        .word("--random-ids")
        .word("--tokenize-on-client")
        .word("--ignore-eos")
        .option("--percentile-metrics", "ttft,tpot,itl,e2el");
    let mut notes: Vec<String> = prefix_note(request, "benchmark_serving's random data set").into_iter().collect();
    if d.attention_dp > 1 && d.attention_dp != d.tp {
        notes.push(format!(
            "TensorRT-LLM's attention DP uses every rank of a stage; {} groups over {} ranks cannot be asked for.",
            d.attention_dp, d.tp
        ));
    }
    Launch {
        command: command.0,
        prefill_command: None,
        options_file: Some((OPTIONS.to_string(), options(request))),
        benchmark: benchmark.0,
        notes,
    }
}

fn options(request: &LaunchRequest<'_>) -> String {
    let d = request.deployment;
    let kv = if d.kv_dtype == KvFormat::Fp8 { "fp8" } else { "auto" };
    let mut text = format!(
        "enable_attention_dp: {}\nenable_chunked_prefill: true\nkv_cache_config:\n  dtype: {kv}\n  \
         enable_block_reuse: {}\n  free_gpu_memory_fraction: {}\n",
        d.attention_dp > 1,
        request.workload.prefix_hit_rate > 0.0,
        d.memory_fraction
    );
    if let Some(speculation) = &d.speculation {
        let draft = speculation.draft_tokens;
        text.push_str(&format!("speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: {draft}\n"));
    }
    text
}
