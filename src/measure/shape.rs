//! How long are the prompts and the answers, in o200k_base tokens?

use super::random::Random;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The shapes of the public Artificial Analysis methodology: (name, prompt tokens, answer tokens).
pub const NAMED: [(&str, u32, u32); 3] =
    [("aa-1k", 1_000, 1_000), ("aa-10k", 10_000, 1_500), ("aa-100k", 100_000, 2_000)];

/// Longest prompt or answer accepted, in tokens; longer than any served context, short enough to hold in memory.
const LONGEST: f64 = 4_000_000.0;

/// One length: constant, normal, or uniform on [range_ratio · mean, mean].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// Mean of the normal, or the longest of the uniform, in tokens.
    pub tokens: f64,
    /// Standard deviation of the normal, in tokens; 0 is constant.
    pub stddev: f64,
    /// Lengths are uniform on [ratio · tokens, tokens]; 1 is constant.
    pub range_ratio: f64,
}

impl Length {
    fn draw(&self, random: &mut Random) -> u32 {
        let drawn = if self.range_ratio < 1.0 {
            let low = (self.range_ratio * self.tokens).ceil();
            low + (random.unit() * (self.tokens - low + 1.0)).ceil() - 1.0
        } else if self.stddev > 0.0 {
            self.tokens + self.stddev * random.normal()
        } else {
            self.tokens
        };
        drawn.round().clamp(1.0, LONGEST) as u32
    }
}

/// What each request of a point asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// `aa-1k`, or `200x20` for a free shape, or the name of a dataset.
    pub name: String,
    /// Prompt length in o200k_base tokens.
    pub isl: Length,
    /// Answer length in tokens of the served model.
    pub osl: Length,
}

impl Shape {
    /// One of [`NAMED`].
    pub fn named(name: &str) -> Result<Self> {
        let known: Vec<&str> = NAMED.iter().map(|n| n.0).collect();
        let Some((_, isl, osl)) = NAMED.iter().find(|n| n.0 == name) else {
            return Err(Error::input(
                format!("--shape {name}"),
                "no such shape",
                format!("Known: {}; or --isl and --osl", known.join(", ")),
            ));
        };
        Ok(Self { name: name.into(), ..Self::free(f64::from(*isl), f64::from(*osl), 0.0, 0.0, 1.0)? })
    }

    /// A free shape. A range ratio below 1 and a standard deviation exclude each other.
    pub fn free(isl: f64, osl: f64, isl_stddev: f64, osl_stddev: f64, range_ratio: f64) -> Result<Self> {
        for (flag, value) in [("--isl", isl), ("--osl", osl)] {
            if !(1.0..=LONGEST).contains(&value) {
                return Err(Error::input(
                    format!("{flag} {value}"),
                    "not a usable number of tokens",
                    format!("Give 1 to {LONGEST}"),
                ));
            }
        }
        for (flag, value, mean) in [("--isl-stddev", isl_stddev, isl), ("--osl-stddev", osl_stddev, osl)] {
            if !(0.0..=mean).contains(&value) {
                return Err(Error::input(
                    format!("{flag} {value}"),
                    format!("not between 0 and the mean {mean}"),
                    "A wider normal would be cut at one token and its mean would not hold",
                ));
            }
        }
        if !(range_ratio > 0.0 && range_ratio <= 1.0) {
            return Err(Error::input(
                format!("--range-ratio {range_ratio}"),
                "not in (0, 1]",
                "1 is a constant length",
            ));
        }
        if range_ratio < 1.0 && (isl_stddev > 0.0 || osl_stddev > 0.0) {
            return Err(Error::input("--range-ratio", "given together with a standard deviation", "Use one of them"));
        }
        Ok(Self {
            name: format!("{isl:.0}x{osl:.0}"),
            isl: Length { tokens: isl, stddev: isl_stddev, range_ratio },
            osl: Length { tokens: osl, stddev: osl_stddev, range_ratio },
        })
    }

    /// `count` pairs of (prompt tokens, answer tokens).
    pub fn draw(&self, count: usize, seed: u64) -> Vec<(u32, u32)> {
        let (mut i, mut o) = (Random::new(seed, 11), Random::new(seed, 12));
        (0..count).map(|_| (self.isl.draw(&mut i), self.osl.draw(&mut o))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_shapes_hold_the_published_lengths() {
        let lengths = |name| {
            let s = Shape::named(name).unwrap();
            (s.isl.tokens, s.osl.tokens)
        };
        assert_eq!(lengths("aa-1k"), (1000.0, 1000.0));
        assert_eq!(lengths("aa-10k"), (10_000.0, 1_500.0));
        assert_eq!(lengths("aa-100k"), (100_000.0, 2_000.0));
        assert!(Shape::named("aa-2k").unwrap_err().to_string().contains("aa-10k"));
    }

    /// Uniform on 80..=100 has mean 90 and reaches both ends.
    #[test]
    fn range_ratio_is_uniform_and_inclusive() {
        let lengths = Shape::free(100.0, 10.0, 0.0, 0.0, 0.8).unwrap().draw(20_000, 3);
        let isl: Vec<f64> = lengths.iter().map(|l| f64::from(l.0)).collect();
        assert_eq!(isl.iter().copied().fold(f64::MAX, f64::min), 80.0);
        assert_eq!(isl.iter().copied().fold(0.0, f64::max), 100.0);
        assert!((isl.iter().sum::<f64>() / isl.len() as f64 - 90.0).abs() < 0.2);
    }

    #[test]
    fn unusable_lengths_are_named() {
        for (bad, flag) in [
            (Shape::free(f64::NAN, 1.0, 0.0, 0.0, 1.0), "--isl"),
            (Shape::free(1.0, 0.0, 0.0, 0.0, 1.0), "--osl"),
            (Shape::free(10.0, 10.0, 11.0, 0.0, 1.0), "--isl-stddev"),
            (Shape::free(10.0, 10.0, 0.0, 0.0, 0.0), "--range-ratio"),
        ] {
            assert!(bad.unwrap_err().tried.starts_with(flag));
        }
    }
}
