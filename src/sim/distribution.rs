//! How long are prompts and answers, and how far apart do requests arrive? Distributions with their spelling.

use crate::{Error, Result};
use rand::RngExt;
use rand_distr::{Distribution, Exp1, Gamma, LogNormal};
use rand_pcg::Pcg64Mcg;

/// A distribution of token counts, each at least 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Always this many.
    Fixed(u32),
    /// Uniform on both ends included.
    Uniform(u32, u32),
    /// Log-normal of this mean, with the standard deviation of the logarithm.
    LogNormal {
        /// Mean of the lengths.
        mean: f64,
        /// Standard deviation of their logarithm.
        sigma: f64,
    },
    /// Geometric on 1, 2, … of this mean: the discrete exponential.
    Geometric(f64),
    /// Given lengths with their weights, running sums of which end at 1.
    Choice(Vec<(u32, f64)>),
}

/// Longest length anybody may ask for.
pub const LONGEST: u32 = 1 << 24;

impl Lengths {
    /// Reads `512`, `uniform:LOW:HIGH`, `ratio:NOMINAL:RATIO`, `lognormal:MEAN:SIGMA`, `geometric:MEAN` or
    /// `choice:LEN=WEIGHT,…`.
    pub fn parse(flag: &str, text: &str) -> Result<Self> {
        let bad = |found: String| {
            Error::input(
                format!("{flag} {text}"),
                found,
                "Write 512, uniform:LOW:HIGH, ratio:NOMINAL:RATIO, lognormal:MEAN:SIGMA, geometric:MEAN or \
                 choice:LEN=WEIGHT,...",
            )
        };
        let length = |word: &str| match word.parse::<u32>() {
            Ok(n) if (1..=LONGEST).contains(&n) => Ok(n),
            Ok(n) => Err(bad(format!("a length of {n} tokens, outside 1 to {LONGEST}"))),
            Err(_) => Err(bad(format!("`{word}` is not a length in tokens"))),
        };
        let number = |word: &str, low: f64, high: f64| match word.parse::<f64>() {
            Ok(x) if x >= low && x <= high => Ok(x),
            _ => Err(bad(format!("`{word}` is not a number from {low} to {high}"))),
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [one] => Ok(Self::Fixed(length(one)?)),
            ["uniform", low, high] => {
                let (low, high) = (length(low)?, length(high)?);
                if low > high { Err(bad("low is above high".into())) } else { Ok(Self::Uniform(low, high)) }
            }
            ["ratio", nominal, ratio] => Ok(Self::ratio(length(nominal)?, number(ratio, 0.0, 1.0)?)),
            ["lognormal", mean, sigma] => {
                Ok(Self::LogNormal { mean: number(mean, 1.0, f64::from(LONGEST))?, sigma: number(sigma, 0.0, 10.0)? })
            }
            ["geometric", mean] => Ok(Self::Geometric(number(mean, 1.0, f64::from(LONGEST))?)),
            ["choice", list] => {
                let mut choices = Vec::new();
                for pair in list.split(',') {
                    let (len, weight) = pair.split_once('=').unwrap_or((pair, "1"));
                    choices.push((length(len)?, number(weight, 0.0, 1e9)?));
                }
                let total: f64 = choices.iter().map(|c| c.1).sum();
                if total <= 0.0 {
                    return Err(bad("all weights are 0".into()));
                }
                let mut sum = 0.0;
                for choice in &mut choices {
                    sum += choice.1 / total;
                    choice.1 = sum;
                }
                Ok(Self::Choice(choices))
            }
            _ => Err(bad("not a known distribution".into())),
        }
    }

    /// Mean length, tokens.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(n) => f64::from(*n),
            Self::Uniform(low, high) => f64::midpoint(f64::from(*low), f64::from(*high)),
            Self::LogNormal { mean, .. } | Self::Geometric(mean) => *mean,
            Self::Choice(choices) => {
                let before = std::iter::once(0.0).chain(choices.iter().map(|c| c.1));
                choices.iter().zip(before).map(|(c, before)| f64::from(c.0) * (c.1 - before)).sum()
            }
        }
    }

    /// Nominal length, and the ratio of the shortest to it where lengths are uniform; else the mean and 1.
    pub fn nominal(&self) -> (u32, f64) {
        match self {
            Self::Uniform(low, high) => (*high, f64::from(*low) / f64::from(*high)),
            law => (law.mean().round() as u32, 1.0),
        }
    }

    /// Uniform on [ratio · nominal, nominal], as the engines' benchmark clients draw.
    pub fn ratio(nominal: u32, ratio: f64) -> Self {
        Self::Uniform(((f64::from(nominal) * ratio).round() as u32).clamp(1, nominal), nominal)
    }

    /// One length.
    pub fn sample(&self, random: &mut Pcg64Mcg) -> u32 {
        match self {
            Self::Fixed(n) => *n,
            Self::Uniform(low, high) => random.random_range(*low..=*high),
            Self::LogNormal { mean, sigma } => match LogNormal::new(mean.ln() - sigma * sigma / 2.0, *sigma) {
                Ok(law) => clamp(law.sample(random).round()),
                Err(_) => clamp(mean.round()),
            },
            Self::Geometric(mean) if *mean > 1.0 => {
                let unit: f64 = Exp1.sample(random);
                clamp((unit / -(1.0 - 1.0 / mean).ln()).ceil())
            }
            Self::Geometric(_) => 1,
            Self::Choice(choices) => {
                let at: f64 = random.random();
                choices.iter().find(|c| at < c.1).or(choices.last()).map_or(1, |c| c.0)
            }
        }
    }
}

fn clamp(value: f64) -> u32 {
    value.clamp(1.0, f64::from(LONGEST)) as u32
}

/// The law of the gaps between arrivals, or of a client's think time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gaps {
    /// Always the mean.
    Constant,
    /// Exponential: a Poisson process.
    Exponential,
    /// Gamma with this shape and the given mean: below 1 burstier than Poisson, above 1 smoother.
    Gamma(f64),
}

impl Gaps {
    /// One gap of the given mean, in seconds.
    pub fn sample(self, mean_s: f64, random: &mut Pcg64Mcg) -> f64 {
        let unit = match self {
            Self::Constant => 1.0,
            Self::Exponential => Exp1.sample(random),
            Self::Gamma(shape) => match Gamma::new(shape, 1.0 / shape) {
                Ok(law) => law.sample(random),
                Err(_) => 1.0,
            },
        };
        unit * mean_s
    }
}

/// Ranks 0 … n−1 with probability proportional to 1/(rank+1)^s.
#[derive(Debug, Clone)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// `n` ranks with exponent `s`; 0 is uniform.
    pub fn new(n: u32, s: f64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=n)
            .map(|rank| {
                sum += f64::from(rank).powf(-s);
                sum
            })
            .collect();
        Self { cumulative }
    }

    /// One rank.
    pub fn sample(&self, random: &mut Pcg64Mcg) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let at = random.random::<f64>() * total;
        self.cumulative.partition_point(|c| *c <= at).min(self.cumulative.len().saturating_sub(1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn mean(text: &str) -> f64 {
        let law = Lengths::parse("--isl", text).unwrap();
        assert!((law.mean() / sampled(&law) - 1.0).abs() < 0.01, "{text}");
        sampled(&law)
    }

    fn sampled(law: &Lengths) -> f64 {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        (0..200_000).map(|_| f64::from(law.sample(&mut random))).sum::<f64>() / 200_000.0
    }

    #[test]
    fn means_are_the_ones_asked_for() {
        assert_eq!(mean("512"), 512.0);
        assert!((mean("uniform:10:20") - 15.0).abs() < 0.05);
        assert!((mean("ratio:1000:0.8") - 900.0).abs() < 1.0);
        assert!((mean("lognormal:300:0.7") / 300.0 - 1.0).abs() < 0.01);
        assert!((mean("geometric:50") / 50.0 - 1.0).abs() < 0.01);
        assert!((mean("choice:1=0.5,3=0.5") - 2.0).abs() < 0.01);
    }

    #[test]
    fn gaps_have_their_mean_and_spread() {
        // Squared coefficient of variation: 1 for exponential, 1/shape for gamma.
        for (law, cv2) in [(Gaps::Constant, 0.0), (Gaps::Exponential, 1.0), (Gaps::Gamma(0.5), 2.0)] {
            let mut random = Pcg64Mcg::seed_from_u64(5);
            let draws: Vec<f64> = (0..200_000).map(|_| law.sample(2.0, &mut random)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((mean - 2.0).abs() < 0.03, "{law:?} {mean}");
            assert!((variance / mean / mean - cv2).abs() < 0.05, "{law:?} {variance}");
        }
    }

    #[test]
    fn zipf_prefers_the_first_ranks() {
        let law = Zipf::new(4, 1.0); // weights 12 : 6 : 4 : 3 of 25
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut count = [0; 4];
        (0..100_000).for_each(|_| count[law.sample(&mut random) as usize] += 1);
        for (got, wanted) in count.iter().zip([48_000, 24_000, 16_000, 12_000]) {
            assert!((*got as f64 / f64::from(wanted) - 1.0).abs() < 0.05);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["0", "-3", "abc", "uniform:9:3", "lognormal:0:1", "choice:5=0", "ratio:10:1.5", "99999999999"] {
            assert!(Lengths::parse("--isl", text).is_err(), "{text}");
        }
    }
}
