//! The models: seeded weights, a forward pass, a KV cache.
//!
//! A transformer block is pre-norm: LayerNorm, fused QKV, attention in f32 softmax, output projection, residual;
//! LayerNorm, `down(silu(gate) · up)` or the one expert a router picks, residual. The head is the embedding. There is no
//! positional encoding: a causal mask is all that orders the tokens.

pub mod attention;
pub mod block;
pub mod cache;
pub mod experts;
pub mod mlp;
pub mod weights;

pub use cache::KvCache;
pub use weights::Weights;

use super::config::{Config, Dtype, ModelKind};
use block::{Block, Norm};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Int, Tensor};
use mlp::Mlp;

/// What a forward pass yields.
pub struct Output<B: Backend> {
    /// Final hidden states, `[rows, tokens, hidden]`.
    pub hidden: Tensor<B, 3>,
    /// Logits of every position, `[rows, tokens, vocabulary]`.
    pub logits: Tensor<B, 3>,
}

/// A model on a device.
pub struct Network<B: Backend> {
    embedding: Tensor<B, 2>,
    /// `[hidden, vocabulary]`; a transformer's is its embedding.
    head: Tensor<B, 2>,
    body: Body<B>,
    heads: usize,
    dtype: DType,
}

enum Body<B: Backend> {
    Mlp(Mlp<B>),
    Transformer { blocks: Vec<Block<B>>, norm: Norm<B>, causal: bool },
}

impl<B: Backend> Network<B> {
    /// Builds the model of a configuration, its values held in the format `held`; the seed decides every weight.
    pub fn new(config: &Config, held: Dtype, device: &B::Device) -> Self {
        let shape = &config.model;
        let mut weights = Weights::new(config.seed, config.dtype, held, device.clone());
        let (vocabulary, hidden) = (shape.vocab_size, shape.hidden_size);
        let embedding = weights.matrix([vocabulary, hidden], hidden);
        let (body, head) = if shape.kind == ModelKind::Mlp {
            (Body::Mlp(Mlp::new(&mut weights, shape)), weights.weight([hidden, vocabulary]))
        } else {
            let blocks = (0..shape.num_layers).map(|_| Block::new(&mut weights, shape)).collect();
            let causal = shape.kind == ModelKind::DecoderTransformer;
            let norm = Norm::new(&weights, hidden);
            (Body::Transformer { blocks, norm, causal }, weights::turned(embedding.clone()))
        };
        Self { embedding, head, body, heads: shape.num_heads, dtype: weights.held() }
    }

    /// Replaces the embedding, for checks of what a broken weight does.
    pub fn with_embedding(self, embedding: Tensor<B, 2>) -> Self {
        Self { embedding, ..self }
    }

    /// The embedding, `[vocabulary, hidden]`.
    pub fn embedding(&self) -> Tensor<B, 2> {
        self.embedding.clone()
    }

    /// An empty cache for `rows` sequences of at most `capacity` tokens.
    pub fn cache(&self, rows: usize, capacity: usize) -> KvCache<B> {
        let hidden = self.embedding.dims()[1];
        let layers = match &self.body {
            Body::Mlp(_) => 0,
            Body::Transformer { blocks, .. } => blocks.len(),
        };
        let shape = [rows, self.heads, capacity, hidden / self.heads];
        KvCache::new(layers, shape, self.dtype, &self.embedding.device())
    }

    /// Runs `tokens` (`[rows, tokens]`). With a cache they follow what it holds and are added to it; without one they
    /// are the whole sequence.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>, cache: Option<&mut KvCache<B>>) -> Output<B> {
        let [rows, count] = tokens.dims();
        let hidden = self.embedding.dims()[1];
        let x = self.embedding.clone().select(0, tokens.reshape([rows * count]));
        let x = match &self.body {
            Body::Mlp(mlp) => mlp.forward(x),
            Body::Transformer { blocks, norm, causal } => {
                let mut x = x;
                let mut cache = cache;
                let mask = attention::Mask::of(rows, count, *causal, cache.as_deref(), &self.embedding.device());
                for (layer, block) in blocks.iter().enumerate() {
                    x = block.forward(x, [rows, count], &mask, cache.as_deref_mut().map(|c| (c, layer)));
                }
                if let Some(cache) = cache {
                    cache.advance(count);
                }
                norm.forward(x)
            }
        };
        let logits = match &self.body {
            Body::Mlp(mlp) => x.clone().matmul(self.head.clone()) + mlp.head_bias(),
            Body::Transformer { .. } => x.clone().matmul(self.head.clone()),
        };
        let vocabulary = self.head.dims()[1];
        Output { hidden: x.reshape([rows, count, hidden]), logits: logits.reshape([rows, count, vocabulary]) }
    }
}
