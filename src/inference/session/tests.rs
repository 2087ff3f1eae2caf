//! Does the cache change nothing, does batching change nothing, are broken values found?

use super::observe::Observer;
use super::{continuous, offline, run};
use crate::inference::config::{Checks, Config, Dtype, Mode, ModelKind, ModelShape, Request};
use crate::inference::device::Place;
use crate::inference::network::attention::{Mask, attend};
use crate::inference::network::block::Norm;
use crate::inference::network::{Network, Weights};
use crate::inference::random::{self, Stream};
use crate::inference::{Clock, schedule};
use burn_flex::Flex;
use burn_tensor::{Int, Tensor, TensorData};

fn place() -> Place<Flex> {
    Place { device: Default::default(), name: "cpu".into(), threads: Some(1), clock: Clock::Wall }
}

fn small(kind: ModelKind, experts: usize) -> Config {
    Config {
        dtype: Dtype::Float32,
        steps: 2,
        request: Request { batch_size: 3, prompt_len: 6, generate_tokens: 5 },
        model: ModelShape {
            kind,
            hidden_size: 32,
            num_layers: 2,
            num_heads: 4,
            ffn_size: 48,
            vocab_size: 97,
            num_experts: experts,
        },
        ..Config::default()
    }
}

fn tokens(values: &[i32], rows: usize) -> Tensor<Flex, 2, Int> {
    let shape = [rows, values.len() / rows];
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Default::default())
}

fn largest_difference<const D: usize>(a: Tensor<Flex, D>, b: Tensor<Flex, D>) -> f32 {
    (a - b).abs().into_data().iter::<f32>().fold(0.0, f32::max)
}

#[test]
fn attention_by_hand() {
    // One head of one dimension: scores (0, ln 3) weigh the values 1 and 5 as 1/4 and 3/4.
    let tensor = |values: [f32; 2]| {
        Tensor::<Flex, 4>::from_data(TensorData::new(values.to_vec(), [1, 1, 2, 1]), &Default::default())
    };
    let attended = |causal: bool| -> Vec<f32> {
        let mask = Mask::of(1, 2, causal, None, &Default::default());
        let out = attend(tensor([1.0, 1.0]), tensor([0.0, 3.0f32.ln()]), tensor([1.0, 5.0]), &mask);
        out.into_data().iter::<f32>().collect()
    };
    for (found, expected) in attended(true).iter().zip([1.0, 4.0]) {
        assert!((found - expected).abs() < 1e-6);
    }
    for (found, expected) in attended(false).iter().zip([4.0, 4.0]) {
        assert!((found - expected).abs() < 1e-6);
    }
}

#[test]
fn a_norm_by_hand() {
    // Mean 2, variance 1.
    let norm = Norm::<Flex>::new(&Weights::new(1, Dtype::Float32, Dtype::Float32, Default::default()), 2);
    let x = Tensor::from_data([[1.0f32, 3.0]], &Default::default());
    let y: Vec<f32> = norm.forward(x).into_data().iter::<f32>().collect();
    let expected = 1.0 / (1.0f32 + 1e-5).sqrt();
    assert!((y[0] + expected).abs() < 1e-6 && (y[1] - expected).abs() < 1e-6, "{y:?}");
}

#[test]
fn a_cached_decode_equals_computing_the_whole_sequence_again() {
    for (kind, experts) in [(ModelKind::DecoderTransformer, 1), (ModelKind::DecoderTransformer, 3)] {
        let config = small(kind, experts);
        let network = Network::<Flex>::new(&config, config.dtype, &Default::default());
        let values = random::tokens(5, Stream::Prompt(0), 2 * 9, 97);
        let whole = network.forward(tokens(&values, 2), None).logits;
        let mut cache = network.cache(2, 9);
        let part = |from: usize, to: usize| {
            let rows: Vec<i32> = values.chunks(9).flat_map(|row| row[from..to].to_vec()).collect();
            tokens(&rows, 2)
        };
        let mut pieces = vec![network.forward(part(0, 4), Some(&mut cache)).logits];
        for at in 4..9 {
            pieces.push(network.forward(part(at, at + 1), Some(&mut cache)).logits);
        }
        let difference = largest_difference(whole, Tensor::cat(pieces, 1));
        assert!(difference < 1e-5, "{experts} experts: {difference}");
    }
}

#[test]
fn the_cache_changes_no_generated_token() {
    for kind in [ModelKind::DecoderTransformer, ModelKind::Mlp] {
        let with = small(kind, 1);
        let mut without = with.clone();
        without.serving.kv_cache = false;
        let generated = |config: &Config| {
            let network = Network::<Flex>::new(config, config.dtype, &Default::default());
            let mut observer = Observer::new(&config.checks);
            offline::batch(config, &network, &place(), Stream::Prompt(0), &mut observer).unwrap().sequences
        };
        assert_eq!(generated(&with), generated(&without));
        assert_eq!(generated(&with)[0].len(), 11);
    }
}

#[test]
fn a_continuous_batch_generates_what_each_request_generates_alone() {
    for kv_cache in [true, false] {
        let mut config = small(ModelKind::DecoderTransformer, 1);
        config.mode = Mode::ContinuousBatch;
        config.serving.kv_cache = kv_cache;
        config.request = Request { batch_size: 5, prompt_len: 6, generate_tokens: 4 };
        let network = Network::<Flex>::new(&config, config.dtype, &Default::default());
        // Requests of different ages share a batch where a slot comes free at another time: three slots for five
        // requests, after one tick in which a single request was admitted.
        let served = |capacity: usize| {
            let mut config = config.clone();
            config.serving.continuous_batch.max_active_requests = capacity;
            let mut observer = Observer::new(&config.checks);
            let ticks =
                continuous::ticks(&config, &network, &place(), Stream::Prompt, (5, 100), &mut observer).unwrap();
            assert_eq!(ticks.tick_ms.len(), schedule::ticks_needed(5, 4, capacity));
            let mut completed = ticks.completed;
            completed.sort();
            completed
        };
        let alone = served(1);
        assert_eq!(alone.len(), 5);
        assert_eq!(served(3), alone);
        assert_eq!(served(8), alone);
    }
}

#[test]
fn rows_of_different_length_decode_as_if_alone() {
    let config = small(ModelKind::DecoderTransformer, 1);
    let network = Network::<Flex>::new(&config, config.dtype, &Default::default());
    let (long, short) = (random::tokens(5, Stream::Prompt(1), 7, 97), random::tokens(5, Stream::Prompt(2), 3, 97));
    let mut cache = network.cache(0, 0);
    for prompt in [&long, &short] {
        let mut own = network.cache(1, 12);
        network.forward(tokens(prompt, 1), Some(&mut own));
        cache.join(own);
    }
    assert_eq!(cache.lengths(), [7, 3]);
    let together = network.forward(tokens(&[11, 12], 2), Some(&mut cache)).logits;
    let alone = |prompt: &[i32], next: i32| {
        let sequence = [prompt, &[next]].concat();
        network.forward(tokens(&sequence, 1), None).logits.slice_dim(1, prompt.len()..prompt.len() + 1)
    };
    let apart = Tensor::cat(vec![alone(&long, 11), alone(&short, 12)], 0);
    assert!(largest_difference(together, apart) < 1e-5);
    // The second step builds on what the first wrote behind each row's own end.
    let second = network.forward(tokens(&[13, 14], 2), Some(&mut cache)).logits;
    let apart = Tensor::cat(vec![alone(&[&long[..], &[11]].concat(), 13), alone(&[&short[..], &[12]].concat(), 14)], 0);
    assert!(largest_difference(second, apart) < 1e-5);
    cache.drop_rows(&[0]);
    assert_eq!(cache.lengths(), [5]);
}

#[test]
fn an_encoder_sees_both_ways_and_a_decoder_only_back() {
    let first_logits = |kind: ModelKind, last: i32| {
        let network = Network::<Flex>::new(&small(kind, 1), Dtype::Float32, &Default::default());
        network.forward(tokens(&[1, 2, 3, last], 1), None).logits.slice_dim(1, 0..1)
    };
    let moved = |kind| largest_difference(first_logits(kind, 4), first_logits(kind, 50));
    assert_eq!(moved(ModelKind::DecoderTransformer), 0.0);
    assert!(moved(ModelKind::EncoderTransformer) > 1e-4);
}

#[test]
fn an_encoder_has_no_decode_latency() {
    let config = small(ModelKind::EncoderTransformer, 1);
    let result = run(&config, &Network::<Flex>::new(&config, config.dtype, &Default::default()), &place()).unwrap();
    assert!(result.passed && result.metrics.prefill_latency_ms.is_some());
    assert_eq!((result.metrics.decode_latency_ms, result.metrics.output_tokens_per_sec), (None, None));
    let rate = result.metrics.tokens_per_sec.unwrap();
    let expected = 1e3 * (3 * 6) as f64 / result.metrics.prefill_latency_ms.unwrap();
    assert!((rate / expected - 1.0).abs() < 1e-9);
}

#[test]
fn the_same_seed_gives_the_same_checksum_in_every_format() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
        let checksum = |seed: u64, warmup_steps: usize| {
            let config = Config { seed, warmup_steps, dtype, ..small(ModelKind::DecoderTransformer, 2) };
            let result =
                run(&config, &Network::<Flex>::new(&config, config.dtype, &Default::default()), &place()).unwrap();
            assert!(result.passed, "{dtype:?} {:?}", result.failure_details);
            result.metrics.logits_checksum.unwrap()
        };
        assert_eq!(checksum(1, 1), checksum(1, 1));
        assert_eq!(checksum(1, 0), checksum(1, 2), "warm-up moves nothing that is measured");
        assert_ne!(checksum(1, 1), checksum(2, 1));
    }
}

#[test]
fn broken_weights_are_found() {
    let problems = |value: f32, checks: Checks| {
        let config = Config { checks, ..small(ModelKind::DecoderTransformer, 1) };
        let network = Network::<Flex>::new(&config, config.dtype, &Default::default());
        let broken = network.embedding().mul_scalar(0.0).add_scalar(value);
        let result = run(&config, &network.with_embedding(broken), &place()).unwrap();
        assert_eq!(result.passed, result.failure_details.is_empty());
        result.failure_details.first().map(|f| f.problems.clone()).unwrap_or_default()
    };
    assert_eq!(problems(f32::NAN, Checks::default()), ["nan_logits", "non_finite_output"]);
    let off = Checks { fail_on_nan_logits: false, fail_on_nonfinite_output: false, compare_logits_checksum: false };
    assert!(problems(f32::NAN, off.clone()).is_empty());
    assert_eq!(problems(f32::NAN, Checks { fail_on_nonfinite_output: true, ..off }), ["non_finite_output"]);
}

#[test]
fn too_few_ticks_are_a_failure_with_its_reason() {
    let mut config = small(ModelKind::Mlp, 1);
    config.mode = Mode::ContinuousBatch;
    config.request = Request { batch_size: 4, prompt_len: 3, generate_tokens: 8 };
    config.serving.continuous_batch.max_active_requests = 2;
    let outcome = |steps: usize| {
        let config = Config { steps, ..config.clone() };
        run(&config, &Network::<Flex>::new(&config, config.dtype, &Default::default()), &place()).unwrap()
    };
    let short = outcome(5);
    assert!(!short.passed);
    assert_eq!(short.failure_details[0].problems, ["incomplete_requests"]);
    assert!(short.failure_details[0].detail.contains("14 steps serve them all"), "{}", short.failure_details[0].detail);
    let enough = outcome(20);
    assert!(enough.passed);
    assert_eq!((enough.executed_iterations, enough.metrics.requests_completed), (14, Some(4)));
    // 4 requests of 8 tokens, of which prefill yields one each.
    assert_eq!(enough.metrics.decoded_tokens, 28);
    assert_eq!(enough.metrics.prefill.map(|_| ()), Some(()));
}
