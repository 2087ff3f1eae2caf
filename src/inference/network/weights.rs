//! Seeded weights, tensor by tensor.

use crate::inference::random::{self, Stream};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Tensor, TensorData};

/// Makes the tensors of a model in a fixed order; each has a random stream of its own.
pub struct Weights<B: Backend> {
    seed: u64,
    dtype: DType,
    device: B::Device,
    made: u64,
}

impl<B: Backend> Weights<B> {
    /// Weights of a seed in a number format.
    pub fn new(seed: u64, dtype: DType, device: B::Device) -> Self {
        Self { seed, dtype, device, made: 0 }
    }

    /// The number format.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn values(&mut self, count: usize, fan_in: usize) -> Vec<f32> {
        self.made += 1;
        random::uniform(self.seed, Stream::Weights(self.made), count, 1.0 / (fan_in as f32).sqrt())
    }

    /// A matrix, uniform on ±1/√fan_in.
    pub fn matrix(&mut self, [rows, columns]: [usize; 2], fan_in: usize) -> Tensor<B, 2> {
        let values = self.values(rows * columns, fan_in);
        Tensor::from_data(TensorData::new(values, [rows, columns]), (&self.device, self.dtype))
    }

    /// A row of biases, uniform on ±1/√fan_in.
    pub fn bias(&mut self, columns: usize, fan_in: usize) -> Tensor<B, 2> {
        self.matrix([1, columns], fan_in)
    }

    /// A row of one value.
    pub fn constant(&self, columns: usize, value: f32) -> Tensor<B, 2> {
        Tensor::from_data(TensorData::new(vec![value; columns], [1, columns]), (&self.device, self.dtype))
    }
}

/// The same values laid out row by row.
pub fn copied<B: Backend>(tensor: Tensor<B, 2>) -> Tensor<B, 2> {
    let (device, dtype) = (tensor.device(), tensor.dtype());
    Tensor::from_data(tensor.into_data(), (&device, dtype))
}
