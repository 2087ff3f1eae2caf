//! Top-1 mixture of experts: every token passes through the one expert its router scores highest.

use super::block::GatedMlp;
use super::weights::Weights;
use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};

/// A router and its experts; the router's score only chooses.
pub struct Experts<B: Backend> {
    router: Tensor<B, 2>,
    experts: Vec<GatedMlp<B>>,
}

impl<B: Backend> Experts<B> {
    /// Seeded weights.
    pub fn new(weights: &mut Weights<B>, hidden: usize, inner: usize, count: usize) -> Self {
        let router = weights.weight([hidden, count]);
        Self { router, experts: (0..count).map(|_| GatedMlp::new(weights, hidden, inner)).collect() }
    }

    /// Of `[tokens, hidden]`: each expert computes its own tokens only.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let device = x.device();
        let scores = x.clone().matmul(self.router.clone());
        let chosen: Vec<i64> = scores.argmax(1).into_data().iter::<i64>().collect();
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        order.sort_by_key(|token| chosen[*token]);
        let indices = |of: Vec<i32>| {
            let count = of.len();
            Tensor::<B, 1, Int>::from_data(TensorData::new(of, [count]), &device)
        };
        let mut outputs = Vec::new();
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let expert = chosen[*first];
            let count = rest.iter().take_while(|token| chosen[**token] == expert).count();
            let tokens = rest[..count].iter().map(|t| *t as i32).collect();
            outputs.push(self.experts[expert as usize].forward(x.clone().select(0, indices(tokens))));
            rest = &rest[count..];
        }
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, token)| place[*token] = at as i32);
        Tensor::cat(outputs, 0).select(0, indices(place))
    }
}
