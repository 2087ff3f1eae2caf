//! One transformer block, and the small kernels it is made of.

use super::attention::{self, Attention, Mask};
use super::cache::KvCache;
use super::experts::Experts;
use super::weights::Weights;
use crate::inference::config::ModelShape;
use burn_tensor::backend::Backend;
use burn_tensor::{FloatDType, Tensor, activation};

/// LayerNorm with weight and bias, in f32, ε = 1e-5.
pub struct Norm<B: Backend> {
    weight: Tensor<B, 2>,
    bias: Tensor<B, 2>,
}

impl<B: Backend> Norm<B> {
    /// Weight 1, bias 0.
    pub fn new(weights: &Weights<B>, hidden: usize) -> Self {
        Self { weight: weights.constant(hidden, 1.0), bias: weights.constant(hidden, 0.0) }
    }

    /// Normalises each row of `[tokens, hidden]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let dtype: FloatDType = x.dtype().into();
        let x = x.cast(FloatDType::F32);
        let centred = x.clone() - x.mean_dim(1);
        let variance = centred.clone().square().mean_dim(1);
        let normal = centred / (variance + 1e-5).sqrt();
        normal.cast(dtype) * self.weight.clone() + self.bias.clone()
    }
}

/// Gated MLP: `down(silu(gate(x)) · up(x))`, no biases.
pub struct GatedMlp<B: Backend> {
    /// `[hidden, 2 · inner]`: gate and up side by side.
    gate_up: Tensor<B, 2>,
    /// `[inner, hidden]`.
    down: Tensor<B, 2>,
}

impl<B: Backend> GatedMlp<B> {
    /// Seeded weights.
    pub fn new(weights: &mut Weights<B>, hidden: usize, inner: usize) -> Self {
        Self { gate_up: weights.weight([hidden, 2 * inner]), down: weights.weight([inner, hidden]) }
    }

    /// Of `[tokens, hidden]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        gated(x.matmul(self.gate_up.clone())).matmul(self.down.clone())
    }
}

/// `silu(gate) · up` of `[tokens, 2 · inner]`.
pub fn gated<B: Backend>(gate_up: Tensor<B, 2>) -> Tensor<B, 2> {
    let inner = gate_up.dims()[1] / 2;
    let gate = gate_up.clone().slice_dim(1, 0..inner);
    activation::silu(gate) * gate_up.slice_dim(1, inner..2 * inner)
}

enum FeedForward<B: Backend> {
    Dense(GatedMlp<B>),
    Experts(Experts<B>),
}

/// A pre-norm block.
pub struct Block<B: Backend> {
    attention_norm: Norm<B>,
    attention: Attention<B>,
    ffn_norm: Norm<B>,
    ffn: FeedForward<B>,
}

impl<B: Backend> Block<B> {
    /// Seeded weights.
    pub fn new(weights: &mut Weights<B>, shape: &ModelShape) -> Self {
        let (hidden, inner) = (shape.hidden_size, shape.ffn_size);
        let attention = Attention::new(weights, hidden, shape.num_heads);
        let ffn = if shape.num_experts > 1 {
            FeedForward::Experts(Experts::new(weights, hidden, inner, shape.num_experts))
        } else {
            FeedForward::Dense(GatedMlp::new(weights, hidden, inner))
        };
        Self { attention_norm: Norm::new(weights, hidden), attention, ffn_norm: Norm::new(weights, hidden), ffn }
    }

    /// Of `[rows · tokens, hidden]`; `shape` is rows and tokens.
    pub fn forward(
        &self,
        x: Tensor<B, 2>,
        shape: [usize; 2],
        mask: &Mask<B>,
        cache: Option<(&mut KvCache<B>, usize)>,
    ) -> Tensor<B, 2> {
        let qkv = self.attention.project(self.attention_norm.forward(x.clone()));
        let mixed = attention::mix(qkv, shape, self.attention.heads, mask, cache);
        let x = x + self.attention.output(mixed);
        let y = self.ffn_norm.forward(x.clone());
        x + match &self.ffn {
            FeedForward::Dense(mlp) => mlp.forward(y),
            FeedForward::Experts(experts) => experts.forward(y),
        }
    }
}
