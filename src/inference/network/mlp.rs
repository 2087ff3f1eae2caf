//! The smallest topology: linear layers with GELU, each token on its own.

use super::weights::Weights;
use crate::inference::config::ModelShape;
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, activation};

/// Linear layers and the bias of the head.
pub struct Mlp<B: Backend> {
    layers: Vec<(Tensor<B, 2>, Tensor<B, 2>)>,
    head_bias: Tensor<B, 2>,
}

impl<B: Backend> Mlp<B> {
    /// Seeded weights.
    pub fn new(weights: &mut Weights<B>, shape: &ModelShape) -> Self {
        let h = shape.hidden_size;
        let layers = (0..shape.num_layers).map(|_| (weights.weight([h, h]), weights.bias(h, h))).collect();
        Self { layers, head_bias: weights.bias(shape.vocab_size, h) }
    }

    /// Of `[tokens, hidden]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let layer = |x: Tensor<B, 2>, (weight, bias): &(Tensor<B, 2>, Tensor<B, 2>)| {
            activation::gelu(x.matmul(weight.clone()) + bias.clone())
        };
        self.layers.iter().fold(x, layer)
    }

    /// Bias of the head, `[1, vocabulary]`.
    pub fn head_bias(&self) -> Tensor<B, 2> {
        self.head_bias.clone()
    }
}
