//! Each expected line was written by hand from the engine's documentation.

use super::*;
use crate::model::KvFormat;
use insta::assert_snapshot;

fn deployment() -> Deployment {
    Deployment {
        tp: 8,
        ep: 8,
        attention_dp: 8,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: 256,
        weight_dtype: "fp8".to_string(),
        kv_dtype: KvFormat::Fp8,
        max_num_batched_tokens: 8192,
        max_num_seqs: 64,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    }
}

fn of(engine: &str, deployment: &Deployment, workload: &Workload) -> Launch {
    let request = LaunchRequest {
        engine,
        deployment,
        checkpoint: "deepseek-ai/DeepSeek-R1-0528",
        max_model_len: 2248,
        workload,
        gpus_per_node: 8,
    };
    launch(&request).expect("a known engine")
}

#[test]
fn vllm_splits_the_stage_into_dp_groups() {
    let launch = of("vllm", &deployment(), &Workload::constant(1024, 1024));
    assert_snapshot!(launch.shell(), @"vllm serve deepseek-ai/DeepSeek-R1-0528 --tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel --max-model-len 2248 --max-num-seqs 64 --max-num-batched-tokens 8192 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --no-enable-prefix-caching");
    assert_snapshot!(launch.benchmark_shell(), @"vllm bench serve --model deepseek-ai/DeepSeek-R1-0528 --dataset-name random --random-input-len 1024 --random-output-len 1024 --random-range-ratio 0 --num-prompts 2560 --max-concurrency 256 --request-rate inf --ignore-eos --percentile-metrics ttft,tpot,itl,e2el");
    assert!(launch.notes.is_empty());
}

#[test]
fn sglang_states_limits_over_all_groups() {
    let launch = of("sglang", &deployment(), &Workload::constant(1024, 1024));
    assert_snapshot!(launch.shell(), @"python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1-0528 --tp-size 8 --dp-size 8 --enable-dp-attention --ep-size 8 --context-length 2248 --max-running-requests 512 --chunked-prefill-size 65536 --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.9 --disable-radix-cache --port 8000");
}

#[test]
fn trtllm_writes_its_options_file_first() {
    let launch = of("trtllm", &deployment(), &Workload::constant(1024, 1024));
    assert_snapshot!(launch.shell(), @r"printf '%s\n' 'enable_attention_dp: true' 'enable_chunked_prefill: true' kv_cache_config: '  dtype: fp8' '  enable_block_reuse: false' '  free_gpu_memory_fraction: 0.9' > trtllm-options.yaml && trtllm-serve deepseek-ai/DeepSeek-R1-0528 --backend pytorch --tp_size 8 --ep_size 8 --max_seq_len 2248 --max_batch_size 64 --max_num_tokens 8192 --port 8000 --extra_llm_api_options trtllm-options.yaml");
}

#[test]
fn atom_names_what_it_cannot_do() {
    let odd = Deployment { attention_dp: 2, ep: 4, pp: 2, replicas: 2, ..deployment() };
    let launch = of("atom", &odd, &Workload::constant(1024, 1024));
    assert_snapshot!(launch.shell(), @"python -m atom.entrypoints.openai_server --model deepseek-ai/DeepSeek-R1-0528 --tensor-parallel-size 8 --enable-dp-attention --enable-expert-parallel --max-model-len 2248 --max-num-seqs 64 --max-num-batched-tokens 8192 --kv_cache_dtype fp8 --gpu-memory-utilization 0.9 --server-port 8000");
    assert_eq!(launch.notes.len(), 5, "{:?}", launch.notes);
}

#[test]
fn the_benchmark_sends_the_workloads_lengths() {
    // 0.8 of 1024 to 1024 is 921.6 ± 102.4, i.e. 922 ± 11.11 %.
    let ranged = Workload { range_ratio: 0.8, ..Workload::constant(1024, 1024) };
    let vllm = of("vllm", &deployment(), &ranged).benchmark_shell();
    assert!(vllm.contains("--random-input-len 922 --random-output-len 922 --random-range-ratio 0.1111 "), "{vllm}");
    let sglang = of("sglang", &deployment(), &ranged).benchmark_shell();
    assert!(sglang.contains("--random-input-len 1024 --random-output-len 1024 --random-range-ratio 0.8 "), "{sglang}");
    // Half of each prompt is a shared prefix.
    let shared = Workload { prefix_hit_rate: 0.5, ..Workload::constant(1000, 100) };
    let vllm = of("vllm", &deployment(), &shared).benchmark_shell();
    assert!(vllm.contains("--random-input-len 500 ") && vllm.contains("--random-prefix-len 500"), "{vllm}");
}

#[test]
fn a_hostile_checkpoint_name_stays_one_word() {
    let d = deployment();
    let workload = Workload::constant(8, 8);
    let request = LaunchRequest {
        engine: "vllm",
        deployment: &d,
        checkpoint: "x; touch /tmp/owned '$(id)'",
        max_model_len: 16,
        workload: &workload,
        gpus_per_node: 8,
    };
    let line = launch(&request).expect("a known engine").shell();
    let script = format!("set -- {line}; printf '%s' \"$3\"");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x; touch /tmp/owned '$(id)'");
}

#[test]
fn an_unknown_engine_is_named_with_its_neighbour() {
    let d = deployment();
    let workload = Workload::constant(8, 8);
    let request = LaunchRequest {
        engine: "vlm",
        deployment: &d,
        checkpoint: "m",
        max_model_len: 16,
        workload: &workload,
        gpus_per_node: 8,
    };
    let error = launch(&request).expect_err("no such engine");
    assert_snapshot!(error.to_string(), @"launch command for engine `vlm`: not known. Did you mean `vllm`? Known: vllm, sglang, trtllm, atom");
}

#[test]
fn words_are_quoted_only_where_a_shell_would_split_them() {
    assert_eq!(shell("openai/gpt-oss-120b"), "openai/gpt-oss-120b");
    assert_eq!(shell("a; rm -rf $HOME"), "'a; rm -rf $HOME'");
    assert_eq!(shell("it's"), "'it'\\''s'");
    assert_eq!(shell(""), "''");
}

#[test]
fn every_built_in_engine_can_be_launched() {
    let workload = Workload::constant(1024, 1024);
    for engine in crate::catalog::names(crate::catalog::Kind::Engine) {
        let launch = of(engine, &deployment(), &workload);
        let expected = match engine {
            "atom" => "atom.entrypoints.openai_server",
            "trtllm" => "trtllm-serve",
            name if name.contains("sglang") => "sglang.launch_server",
            _ => "vllm serve",
        };
        assert!(launch.shell().contains(expected), "{engine}: {}", launch.shell());
    }
}
