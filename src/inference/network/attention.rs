//! Multi-head attention over new tokens and, where there is a cache, the tokens before them.

use super::cache::KvCache;
use super::weights::Weights;
use burn_tensor::backend::Backend;
use burn_tensor::{Bool, FloatDType, Tensor, TensorData, activation};

/// Projections of an attention layer; no biases.
pub struct Attention<B: Backend> {
    qkv: Tensor<B, 2>,
    out: Tensor<B, 2>,
    /// Heads.
    pub heads: usize,
}

impl<B: Backend> Attention<B> {
    /// Seeded weights.
    pub fn new(weights: &mut Weights<B>, hidden: usize, heads: usize) -> Self {
        Self { qkv: weights.weight([hidden, 3 * hidden]), out: weights.weight([hidden, hidden]), heads }
    }

    /// Queries, keys and values side by side, `[tokens, 3 · hidden]`.
    pub fn project(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        x.matmul(self.qkv.clone())
    }

    /// The output projection.
    pub fn output(&self, mixed: Tensor<B, 2>) -> Tensor<B, 2> {
        mixed.matmul(self.out.clone())
    }
}

/// Which keys a query must not see; `None` where it may see all.
pub struct Mask<B: Backend> {
    hidden_keys: Option<Tensor<B, 4, Bool>>,
}

impl<B: Backend> Mask<B> {
    /// Of `count` new tokens in each of `rows` sequences behind what the cache holds.
    pub fn of(rows: usize, count: usize, causal: bool, cache: Option<&KvCache<B>>, device: &B::Device) -> Self {
        let lengths = cache.map_or(vec![0; rows], |c| c.lengths().to_vec());
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let ragged = lengths.iter().any(|l| *l != longest);
        if !causal || (count == 1 && !ragged) {
            return Self { hidden_keys: None };
        }
        let keys = longest + count;
        let groups: &[usize] = if ragged { &lengths } else { &lengths[..1] };
        let hides = |length: usize, query: usize, key: usize| key > length + query;
        let values: Vec<bool> = groups
            .iter()
            .flat_map(|length| (0..count).flat_map(move |query| (0..keys).map(move |key| hides(*length, query, key))))
            .collect();
        let data = TensorData::new(values, [groups.len(), 1, count, keys]);
        Self { hidden_keys: Some(Tensor::from_data(data, device)) }
    }
}

/// Splits `[rows · tokens, 3 · hidden]` into heads, attends, and joins the heads to `[rows · tokens, hidden]`.
pub fn mix<B: Backend>(
    qkv: Tensor<B, 2>,
    [rows, count]: [usize; 2],
    heads: usize,
    mask: &Mask<B>,
    cache: Option<(&mut KvCache<B>, usize)>,
) -> Tensor<B, 2> {
    let hidden = qkv.dims()[1] / 3;
    let part = |at: usize| {
        let columns = qkv.clone().slice_dim(1, at * hidden..(at + 1) * hidden);
        columns.reshape([rows, count, heads, hidden / heads]).swap_dims(1, 2)
    };
    let (query, key, value) = (part(0), part(1), part(2));
    let (key, value) = match cache {
        Some((cache, layer)) => cache.extend(layer, key, value),
        None => (key, value),
    };
    let mixed = attend(query, key, value, mask);
    mixed.swap_dims(1, 2).reshape([rows * count, hidden])
}

/// `softmax(q kᵀ / √d) v` of `[rows, heads, tokens, d]`; the softmax in f32.
pub fn attend<B: Backend>(query: Tensor<B, 4>, key: Tensor<B, 4>, value: Tensor<B, 4>, mask: &Mask<B>) -> Tensor<B, 4> {
    let dtype: FloatDType = query.dtype().into();
    let scale = (query.dims()[3] as f64).powf(-0.5);
    let scores = query.matmul(key.transpose()).cast(FloatDType::F32) * scale;
    let scores = match &mask.hidden_keys {
        Some(hidden) => {
            let shape = scores.dims();
            scores.mask_fill(hidden.clone().expand(shape), f32::NEG_INFINITY)
        }
        None => scores,
    };
    activation::softmax(scores, 3).cast(dtype).matmul(value)
}
