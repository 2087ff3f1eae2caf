//! How long does a search of `spaces/million.yaml` (over 10^6 legal points) take on all cores? The aim is 10 s on two.

mod common;

use common::Setup;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use inferasim::search::Search;

fn million(c: &mut Criterion) {
    let setup = Setup::new("gpt-oss-120b", "vllm", "million");
    let search = Search {
        space: &setup.space,
        legality: &setup.legality,
        objective: &setup.objective,
        evaluator: &setup.projector,
    };
    let legal = search.run(&|_| {}).legal;
    assert!(legal >= 1_000_000, "{legal} legal points");
    let mut group = c.benchmark_group("space");
    group.sample_size(10).throughput(Throughput::Elements(legal));
    group.bench_function("million", |b| b.iter(|| search.run(&|_| {})));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = million
}
criterion_main!(benches);
