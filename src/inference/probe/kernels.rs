//! The timed pieces of work, from the functions that the models run.

use super::{COPIED, Job, Operands, ROWS, What};
use crate::inference::config::Dtype;
use crate::inference::device::dtype_of;
use crate::inference::network::attention::{Mask, mix};
use crate::inference::network::block::{Norm, gated};
use crate::inference::network::cache::KvCache;
use crate::inference::network::experts::Experts;
use crate::inference::network::weights::{Weights, copied, turned};
use crate::inference::samples::{AttentionSample, ExpertSample};
use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};

/// Equal operands that take turns.
struct Turns<T> {
    all: Vec<T>,
    at: usize,
}

impl<T> Turns<T> {
    fn of(all: Vec<T>) -> Self {
        Self { all, at: 0 }
    }

    fn next(&mut self) -> &mut T {
        self.at = (self.at + 1) % self.all.len();
        &mut self.all[self.at]
    }
}

/// Flops one timing of a product should have at least, so that the clock's grain is small against it.
const FLOPS_OF_A_TIMING: f64 = 2e7;

impl<B: Backend> Operands<'_, B> {
    pub(super) fn copy(&self) -> Job<B> {
        // In 32 bits on every device: a processor widens 16-bit values first, which would time that.
        let wide = Operands { held: Dtype::Float32, ..*self };
        let (a, b) = (wide.tensor([COPIED]), wide.tensor([COPIED]));
        Job::new(What::Copy, 1, move || drop(a.clone() + b.clone()))
    }

    pub(super) fn gemm(&self, n: usize, k: usize) -> Vec<Job<B>> {
        let first = self.tensor([n, k]);
        let weights: Vec<Tensor<B, 2>> = (0..self.copies(n * k)).map(|_| turned(copied(first.clone()))).collect();
        let job = |rows: &usize| {
            let (x, mut weights) = (self.tensor([*rows, k]), Turns::of(weights.clone()));
            let repeats = (FLOPS_OF_A_TIMING / (2 * rows * n * k) as f64).ceil().clamp(1.0, 16.0) as usize;
            let what = What::Gemm { rows: *rows, n, k };
            Job::new(what, repeats, move || drop(x.clone().matmul(weights.next().clone())))
        };
        ROWS.iter().map(job).collect()
    }

    pub(super) fn decode(&self, (rows, context, heads, d): (usize, usize, usize, usize)) -> Job<B> {
        let device = &self.place.device;
        let past = self.tensor([rows, heads, context, d]);
        let filled = || {
            let mut cache = KvCache::new(1, [rows, heads, context + 1, d], dtype_of(self.held), device);
            cache.extend(0, past.clone(), past.clone());
            cache.advance(context);
            cache
        };
        let caches: Vec<_> = (0..self.copies(2 * rows * heads * context * d)).map(|_| filled()).collect();
        let mask = Mask::of(rows, 1, true, caches.first(), device);
        let mut caches = Turns::of(caches);
        let qkv = self.tensor([rows, 3 * heads * d]);
        let sample = AttentionSample { rows, count: 1, context, heads, d, us: 0.0 };
        Job::new(What::Decode(sample), 4, move || {
            drop(mix(qkv.clone(), [rows, 1], heads, &mask, Some((caches.next(), 0))));
        })
    }

    pub(super) fn prefill(&self, (rows, count, heads, d): (usize, usize, usize, usize)) -> Job<B> {
        let device = &self.place.device;
        let mut cache = KvCache::new(1, [rows, heads, count, d], dtype_of(self.held), device);
        let mask = Mask::of(rows, count, true, Some(&cache), device);
        let qkv = self.tensor([rows * count, 3 * heads * d]);
        let sample = AttentionSample { rows, count, context: 0, heads, d, us: 0.0 };
        Job::new(What::Prefill(sample), 1, move || {
            drop(mix(qkv.clone(), [rows, count], heads, &mask, Some((&mut cache, 0))));
        })
    }

    pub(super) fn experts(&self, (tokens, experts, hidden, inter): (usize, usize, usize, usize)) -> Job<B> {
        let mut weights = Weights::new(1, self.held, self.held, self.place.device.clone());
        let layers = self.copies(3 * experts * hidden * inter);
        let mut layers = Turns::of((0..layers).map(|_| Experts::new(&mut weights, hidden, inter, experts)).collect());
        let x = self.tensor([tokens, hidden]);
        let sample = ExpertSample { tokens, experts, hidden, inter, us: 0.0 };
        Job::new(What::Experts(sample), 2, move || drop(layers.next().forward(x.clone())))
    }

    /// Small kernels of the attention part, of the MLP, and of the step around the layers.
    pub(super) fn small(&self, (tokens, hidden): (usize, usize)) -> Vec<Job<B>> {
        let repeats = (1024 / tokens).clamp(2, 32);
        let norm = || Norm::new(&Weights::new(1, self.held, self.held, self.place.device.clone()), hidden);
        let x = self.tensor([tokens, hidden]);
        let attention = {
            let (norm, x) = (norm(), x.clone());
            move || {
                let y = norm.forward(x.clone());
                drop(x.clone() + y);
            }
        };
        let mlp = {
            let (norm, x, wide) = (norm(), x.clone(), self.tensor([tokens, 8 * hidden]));
            move || {
                let y = norm.forward(x.clone());
                drop(gated(wide.clone()));
                drop(x.clone() + y);
            }
        };
        let step = {
            let (norm, embedding) = (norm(), self.tensor([4096, hidden]));
            let indices: Vec<i32> = (0..tokens).map(|token| (token * 37 % 4096) as i32).collect();
            let indices = Tensor::<B, 1, Int>::from_data(TensorData::new(indices, [tokens]), &self.place.device);
            move || drop(norm.forward(embedding.clone().select(0, indices.clone())))
        };
        vec![
            Job::new(What::AttentionPart { tokens, hidden }, repeats, attention),
            Job::new(What::FfnPart { tokens, hidden }, repeats, mlp),
            Job::new(What::StepPart { tokens, hidden }, repeats, step),
        ]
    }
}
