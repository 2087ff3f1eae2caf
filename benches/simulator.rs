//! How many requests does the simulator take per CPU-second? 512 in, 128 out, Poisson, one replica.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use inferasim::serve::scheduler::SchedulerConfig;
use inferasim::sim::distribution::{Gaps, Lengths};
use inferasim::sim::fleet::Unobserved;
use inferasim::sim::load::{Arrivals, LengthSource, LoadSpec};
use inferasim::sim::scenario::{EngineConfig, Scenario};
use inferasim::sim::simulate;
use inferasim::sim::step_time::AffineStep;

const REQUESTS: u64 = 10_000;

fn poisson(criterion: &mut Criterion) {
    let step =
        AffineStep { base_s: 0.008, per_decode_token_s: 5e-5, per_context_token_s: 2e-9, per_prefill_token_s: 2e-5 };
    let mut group = criterion.benchmark_group("simulate");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, rate, caching, one_by_one) in [
        ("6 per second", 6.0, false, false),
        ("6 per second, prefix cache", 6.0, true, false),
        ("6 per second, single steps", 6.0, false, true),
        ("12 per second", 12.0, false, false),
    ] {
        let config = SchedulerConfig { enable_prefix_caching: caching, ..SchedulerConfig::default() }.resolve(false);
        let load = LoadSpec {
            arrivals: Arrivals::Open { rate, gaps: Gaps::Exponential },
            lengths: LengthSource::Laws(Lengths::Fixed(512), Lengths::Fixed(128)),
            requests: REQUESTS,
            prefix: None,
            sessions: None,
            priorities: Vec::new(),
            seed: 1,
        };
        let scenario = Scenario { one_by_one, ..Scenario::new(EngineConfig::Vllm(config), load) };
        group.bench_function(name, |b| b.iter(|| simulate(&scenario, Box::new(step), &mut Unobserved)));
    }
    group.finish();
}

criterion_group!(benches, poisson);
criterion_main!(benches);
