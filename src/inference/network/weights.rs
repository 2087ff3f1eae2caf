//! Seeded weights, tensor by tensor.

use crate::inference::config::Dtype;
use crate::inference::device::dtype_of;
use crate::inference::random::{self, Stream};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, FloatDType, Tensor, TensorData};

/// Makes the tensors of a model in a fixed order; each has a random stream of its own.
pub struct Weights<B: Backend> {
    seed: u64,
    /// Format the values are rounded to.
    rounded: DType,
    /// Format they are held and computed in.
    held: DType,
    device: B::Device,
    made: u64,
}

impl<B: Backend> Weights<B> {
    /// Weights of a seed, rounded to a number format and held in another or the same.
    pub fn new(seed: u64, rounded: Dtype, held: Dtype, device: B::Device) -> Self {
        Self { seed, rounded: dtype_of(rounded), held: dtype_of(held), device, made: 0 }
    }

    /// The number format they are held in.
    pub fn held(&self) -> DType {
        self.held
    }

    fn tensor(&self, values: Vec<f32>, shape: [usize; 2]) -> Tensor<B, 2> {
        let rounded: Tensor<B, 2> = Tensor::from_data(TensorData::new(values, shape), (&self.device, self.rounded));
        rounded.cast(FloatDType::from(self.held))
    }

    fn values(&mut self, count: usize, fan_in: usize) -> Vec<f32> {
        self.made += 1;
        random::uniform(self.seed, Stream::Weights(self.made), count, 1.0 / (fan_in as f32).sqrt())
    }

    /// A weight `[inputs, outputs]` of a product, uniform on ±1/√inputs; see [`turned`] for how it lies in memory.
    pub fn weight(&mut self, [inputs, outputs]: [usize; 2]) -> Tensor<B, 2> {
        let values = self.values(inputs * outputs, inputs);
        turned(self.tensor(values, [outputs, inputs]))
    }

    /// A matrix, uniform on ±1/√fan_in.
    pub fn matrix(&mut self, [rows, columns]: [usize; 2], fan_in: usize) -> Tensor<B, 2> {
        let values = self.values(rows * columns, fan_in);
        self.tensor(values, [rows, columns])
    }

    /// A row of biases, uniform on ±1/√fan_in.
    pub fn bias(&mut self, columns: usize, fan_in: usize) -> Tensor<B, 2> {
        self.matrix([1, columns], fan_in)
    }

    /// A row of one value.
    pub fn constant(&self, columns: usize, value: f32) -> Tensor<B, 2> {
        self.tensor(vec![value; columns], [1, columns])
    }
}

/// `[inputs, outputs]` of a weight that lies in memory output by output.
///
/// The inputs of one output are then side by side: a product of few rows, which is all a decode step has, reads memory in
/// long runs instead of a few values of every row.
pub fn turned<B: Backend>(by_output: Tensor<B, 2>) -> Tensor<B, 2> {
    by_output.transpose()
}

/// A copy with memory of its own.
pub fn copied<B: Backend>(tensor: Tensor<B, 2>) -> Tensor<B, 2> {
    let (device, dtype) = (tensor.device(), tensor.dtype());
    Tensor::from_data(tensor.into_data(), (&device, dtype))
}
