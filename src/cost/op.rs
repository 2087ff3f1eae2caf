//! What one op of a step takes: a floor, a variable part, and the two arms of its roofline. Times in µs.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

/// Time of an op, µs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OpTime {
    /// Launch and ramp: paid whatever the size.
    pub floor: f64,
    /// Grows with the work.
    pub variable: f64,
    /// Bytes over peak bandwidth: nothing can be faster.
    pub memory_roof: f64,
    /// Flops over dense peak: nothing can be faster.
    pub compute_roof: f64,
}

impl OpTime {
    /// Floor and variable part together.
    pub fn total(&self) -> f64 {
        self.floor + self.variable
    }

    /// Raises the variable part so that the op never undercuts its own roofline.
    pub(super) fn above_roof(mut self) -> Self {
        self.variable = self.variable.max(self.memory_roof.max(self.compute_roof) - self.floor);
        self
    }
}

/// The two arms of an op at the rates its kernels reach, µs; its variable part is the two joined plus what is beside
/// them, raised to the roofline where that is longer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Arms {
    /// Bytes over the achieved bandwidth (of HBM, or of the links of a collective).
    pub memory: f64,
    /// Flops over the achieved rate.
    pub compute: f64,
    /// Paid on top of both: work per expert and token, index and state traffic.
    pub beside: f64,
    /// Exponent that joins the arms.
    pub overlap: f64,
}

impl Arms {
    /// Both arms joined, with what is beside them.
    pub fn joined(&self) -> f64 {
        join(self.memory, self.compute, self.overlap) + self.beside
    }

    /// The arms of `count` equal ops.
    pub(super) fn of(self, count: f64) -> Self {
        Self { memory: self.memory * count, compute: self.compute * count, beside: self.beside * count, ..self }
    }
}

impl Add for OpTime {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            floor: self.floor + o.floor,
            variable: self.variable + o.variable,
            memory_roof: self.memory_roof + o.memory_roof,
            compute_roof: self.compute_roof + o.compute_roof,
        }
    }
}

impl AddAssign for OpTime {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl Mul<f64> for OpTime {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        Self {
            floor: self.floor * k,
            variable: self.variable * k,
            memory_roof: self.memory_roof * k,
            compute_roof: self.compute_roof * k,
        }
    }
}

impl Sum for OpTime {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// `(a^p + b^p)^(1/p)`: joins two arms of a roofline; p = 1 adds them, a large p takes the larger.
pub(super) fn join(a: f64, b: f64, p: f64) -> f64 {
    if p < 1.0005 {
        a + b
    } else if p > 6.0 {
        a.max(b)
    } else {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        if low <= 0.0 { high } else { high * (1.0 + (low / high).powf(p)).powf(1.0 / p) }
    }
}

/// Silicon figures an op needs, in µs units.
#[derive(Debug, Clone, Copy)]
pub struct Silicon {
    /// HBM bandwidth, bytes/µs.
    pub bandwidth: f64,
    /// Dense bf16 peak, flop/µs.
    pub bf16: f64,
    /// Dense fp8 peak, flop/µs.
    pub fp8: f64,
    /// Dense fp4 peak, flop/µs; the fp8 peak where there are no fp4 units.
    pub fp4: f64,
    /// Compute units.
    pub units: f64,
}

impl Silicon {
    /// From a GPU's figures.
    pub fn of(gpu: &crate::target::Gpu) -> Self {
        let fp8 = gpu.fp8_tflops.value * 1e6;
        Self {
            bandwidth: gpu.hbm_tb_s.value * 1e6,
            bf16: gpu.bf16_tflops.value * 1e6,
            fp8,
            fp4: gpu.fp4_tflops.as_ref().map_or(fp8, |f| f.value * 1e6),
            units: f64::from(gpu.compute_units.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_follows_the_p_norm() {
        assert_eq!(join(3.0, 4.0, 1.0), 7.0);
        assert!((join(3.0, 4.0, 2.0) - 5.0).abs() < 1e-12);
        assert_eq!(join(3.0, 4.0, 8.0), 4.0);
        assert_eq!(join(0.0, 4.0, 2.0), 4.0);
    }

    #[test]
    fn an_op_never_undercuts_its_roofline() {
        let op = OpTime { floor: 1.0, variable: 2.0, memory_roof: 10.0, compute_roof: 4.0 }.above_roof();
        assert_eq!(op.total(), 10.0);
    }
}
