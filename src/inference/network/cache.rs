//! Keys and values of past tokens.

use burn_tensor::backend::Backend;
use burn_tensor::{DType, Tensor};

struct Layer<B: Backend> {
    keys: Tensor<B, 4>,
    values: Tensor<B, 4>,
}

/// A cache of fixed capacity: per layer keys and values `[rows, heads, capacity, d]`, and how much each row holds.
pub struct KvCache<B: Backend> {
    layers: Vec<Layer<B>>,
    lengths: Vec<usize>,
}

impl<B: Backend> KvCache<B> {
    /// Empty; `shape` is rows, heads, capacity and head dimensions.
    pub fn new(layers: usize, shape: [usize; 4], dtype: DType, device: &B::Device) -> Self {
        let empty = || Tensor::zeros(shape, (device, dtype));
        let layers = (0..layers).map(|_| Layer { keys: empty(), values: empty() }).collect();
        Self { layers, lengths: vec![0; shape[0]] }
    }

    /// Tokens each row holds.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Writes new keys and values (`[rows, heads, tokens, d]`) behind those of a layer and returns what a query sees:
    /// everything up to the longest row's end.
    pub fn extend(&mut self, layer: usize, keys: Tensor<B, 4>, values: Tensor<B, 4>) -> (Tensor<B, 4>, Tensor<B, 4>) {
        let count = keys.dims()[2];
        let longest = self.lengths.iter().max().copied().unwrap_or(0);
        let layer = &mut self.layers[layer];
        write(&mut layer.keys, &self.lengths, &keys);
        write(&mut layer.values, &self.lengths, &values);
        let seen = |all: &Tensor<B, 4>| all.clone().slice_dim(2, 0..longest + count);
        (seen(&layer.keys), seen(&layer.values))
    }

    /// Counts tokens that every layer has written.
    pub fn advance(&mut self, count: usize) {
        self.lengths.iter_mut().for_each(|length| *length += count);
    }

    /// Appends the rows of another cache of equal capacity.
    pub fn join(&mut self, other: Self) {
        if self.lengths.is_empty() {
            *self = other;
            return;
        }
        for (own, new) in self.layers.iter_mut().zip(other.layers) {
            own.keys.inplace(|keys| Tensor::cat(vec![keys, new.keys], 0));
            own.values.inplace(|values| Tensor::cat(vec![values, new.values], 0));
        }
        self.lengths.extend(other.lengths);
    }

    /// Drops rows; `places` ascend.
    pub fn drop_rows(&mut self, places: &[usize]) {
        if places.is_empty() {
            return;
        }
        let kept: Vec<usize> = (0..self.lengths.len()).filter(|row| !places.contains(row)).collect();
        let pick = |all: Tensor<B, 4>| {
            let rows: Vec<_> = kept.iter().map(|row| all.clone().slice_dim(0, *row..row + 1)).collect();
            if rows.is_empty() { all } else { Tensor::cat(rows, 0) }
        };
        for layer in &mut self.layers {
            layer.keys.inplace(pick);
            layer.values.inplace(pick);
        }
        self.lengths = kept.iter().map(|row| self.lengths[*row]).collect();
    }
}

/// Writes behind the end of each row: in one go where all rows are equally long.
fn write<B: Backend>(all: &mut Tensor<B, 4>, lengths: &[usize], new: &Tensor<B, 4>) {
    let [rows, heads, count, d] = new.dims();
    let first = lengths.first().copied().unwrap_or(0);
    if lengths.iter().all(|length| *length == first) {
        all.inplace(|all| all.slice_assign([0..rows, 0..heads, first..first + count, 0..d], new.clone()));
        return;
    }
    for (row, at) in lengths.iter().enumerate() {
        let part = new.clone().slice_dim(0, row..row + 1);
        all.inplace(|all| all.slice_assign([row..row + 1, 0..heads, *at..at + count, 0..d], part));
    }
}
