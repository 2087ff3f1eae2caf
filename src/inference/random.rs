//! Weights and prompts from a seed: the same on every device and in every run.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Separate streams of one seed, so that more warm-up or another model never shifts the measured prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Values of the weight tensor with this number.
    Weights(u64),
    /// Prompts of this measured batch, or of this request.
    Prompt(u64),
    /// Prompts of this warm-up batch, or of this warm-up request.
    WarmUp(u64),
    /// Operands of the probe.
    Probe(u64),
}

impl Stream {
    fn number(self) -> (u64, u64) {
        match self {
            Stream::Weights(at) => (1, at),
            Stream::Prompt(at) => (2, at),
            Stream::WarmUp(at) => (3, at),
            Stream::Probe(at) => (4, at),
        }
    }

    /// Its generator under a seed.
    fn generator(self, seed: u64) -> Pcg64 {
        let (kind, at) = self.number();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&at.to_le_bytes());
        // The generator forces the lowest bit of this half to 1.
        bytes[16..24].copy_from_slice(&(kind << 8).to_le_bytes());
        let mut generator = Pcg64::from_seed(bytes);
        // The state starts out nearly empty; the first draws spread the seed over it.
        for _ in 0..8 {
            generator.next_u64();
        }
        generator
    }
}

/// `count` values, uniform on [−bound, bound).
pub fn uniform(seed: u64, stream: Stream, count: usize, bound: f32) -> Vec<f32> {
    let mut generator = stream.generator(seed);
    let scale = 2.0 * bound / 16_777_216.0;
    (0..count).map(|_| (generator.next_u32() >> 8) as f32 * scale - bound).collect()
}

/// `count` tokens, uniform on the vocabulary.
pub fn tokens(seed: u64, stream: Stream, count: usize, vocabulary: usize) -> Vec<i32> {
    let mut generator = stream.generator(seed);
    (0..count).map(|_| generator.random_range(0..vocabulary) as i32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_separate() {
        let of = |seed, stream| tokens(seed, stream, 64, 32000);
        assert_eq!(of(1, Stream::Prompt(0)), of(1, Stream::Prompt(0)));
        assert_ne!(of(1, Stream::Prompt(0)), of(2, Stream::Prompt(0)));
        assert_ne!(of(1, Stream::Prompt(0)), of(1, Stream::Prompt(1)));
        assert_ne!(of(1, Stream::Prompt(0)), of(1, Stream::WarmUp(0)));
        assert!(of(1, Stream::Prompt(0)).iter().all(|t| (0..32000).contains(t)));
    }

    #[test]
    fn weights_fill_their_range_evenly() {
        // Mean 0 and variance b²/3 of a uniform variable on [−b, b).
        let values = uniform(7, Stream::Weights(3), 100_000, 0.5);
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / 1e5;
        let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.005, "{mean}");
        assert!((variance - 0.25 / 3.0).abs() < 0.001, "{variance}");
        assert!(values.iter().all(|v| (-0.5..0.5).contains(v)));
    }
}
