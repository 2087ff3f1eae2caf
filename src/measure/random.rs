//! A small seeded generator, so that a recorded seed gives the same prompts and arrivals on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, enough for prompts and arrivals.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for one purpose: `stream` keeps prompts, lengths and arrivals of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut r = Self(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        r.next_u64();
        r
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform on (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform on 0..n; n must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma with the given shape and mean 1 (Marsaglia and Tsang 2000; shapes below 1 are boosted).
    pub fn gamma_mean_one(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boosted = self.gamma_mean_one(shape + 1.0) * (shape + 1.0);
            return boosted * self.unit().powf(1.0 / shape) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v / shape;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of SplitMix64 from state 0, as listed with the reference implementation (prng.di.unimi.it).
    #[test]
    fn follows_the_reference_sequence() {
        let mut r = Random(0);
        assert_eq!(r.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(r.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }

    /// A gamma of shape k and mean 1 has variance 1/k.
    #[test]
    fn gamma_has_the_stated_mean_and_variance() {
        for shape in [0.5, 1.0, 4.0] {
            let mut r = Random::new(7, 1);
            let n = 200_000;
            let v: Vec<f64> = (0..n).map(|_| r.gamma_mean_one(shape)).collect();
            let mean = v.iter().sum::<f64>() / f64::from(n);
            let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() < 0.01, "shape {shape}: mean {mean}");
            assert!((var * shape - 1.0).abs() < 0.05, "shape {shape}: variance {var}");
        }
    }
}
