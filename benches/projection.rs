//! How many complete projections (serving metrics, memory plan, verdict) does one core make in a second?
//!
//! One element is one deployment at one load. Compiling a layout is part of the measured time, as in a search. The
//! aim is 200,000 a second for gpt-oss-120b and 100,000 for deepseek-r1. `from_scratch` compiles for a single point.

mod common;

use common::Setup;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

fn projection(c: &mut Criterion) {
    let mut group = c.benchmark_group("projection");
    for model in ["gpt-oss-120b", "deepseek-r1"] {
        let setup = Setup::new(model, "vllm", "default");
        let layouts = setup.layouts();
        let points: usize = layouts.iter().map(|(_, points)| points.len()).sum();
        group.throughput(Throughput::Elements(points as u64));
        group.bench_function(model, |b| {
            b.iter(|| {
                let mut kept = 0u32;
                for (deployment, points) in &layouts {
                    let compiled = setup.projector.compile(deployment).expect("compiled before");
                    for (concurrency, budget) in points {
                        let evaluation = compiled.evaluate(*concurrency, *budget).expect("fitted before");
                        kept += u32::from(setup.objective.judge(&black_box(evaluation).metrics).is_ok());
                    }
                }
                kept
            });
        });
    }
    group.finish();
}

fn from_scratch(c: &mut Criterion) {
    let mut group = c.benchmark_group("from_scratch");
    group.throughput(Throughput::Elements(1));
    for model in ["gpt-oss-120b", "deepseek-r1"] {
        let setup = Setup::new(model, "vllm", "default");
        let (deployment, _) = setup.layouts().pop().expect("a layout that fits");
        group.bench_function(model, |b| b.iter(|| setup.projector.evaluate(black_box(&deployment))));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = projection, from_scratch
}
criterion_main!(benches);
