//! What the physics leaves over for one model on one engine and GPU: a smooth correction learned from measured runs of
//! just that combination, kept only where leaving each run out in turn showed that it helps.
//!
//! The logarithm of measured over projected is taken for a Gaussian process over the logarithms of load and layout:
//! near runs say more than far ones, and far from all of them the combination's mean remains. Other weight widths, ways
//! of serving and software epochs of the combination say less than its own.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a run sits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualPoint {
    /// Requests in flight per instance.
    pub concurrency: f64,
    /// Ranks of an instance.
    pub ranks: f64,
    /// Ranks that experts are spread over.
    pub expert_ranks: f64,
    /// Nominal prompt length, tokens.
    pub isl: f64,
    /// Nominal answer length, tokens.
    pub osl: f64,
}

/// Axes of a correction.
pub const AXES: usize = 5;

/// Lengths over which a correction stays alike, as logarithms: layouts differ sooner than loads. Chosen with the spreads
/// below by leaving configurations of the public rows out.
const LENGTHS: [f64; AXES] = [4.0, 2.0, 2.0, 4.0, 4.0];

impl ResidualPoint {
    /// Its place on the axes, in units of their lengths.
    pub fn place(&self) -> [f64; AXES] {
        let values = [self.concurrency, self.ranks, self.expert_ranks, self.isl, self.osl];
        std::array::from_fn(|i| values[i].max(1.0).ln() / LENGTHS[i])
    }
}

/// How alike two places are: 1 at no distance, e⁻¹ one length apart.
pub fn alike(a: &[f64; AXES], b: &[f64; AXES]) -> f64 {
    (-a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>()).exp()
}

/// What a correction is taken for before any run: standard deviations of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spreads {
    /// Of the combination's mean.
    pub offset: f64,
    /// Around the mean, from place to place.
    pub local: f64,
    /// Of a run around the correction.
    pub noise: f64,
    /// A correction never leaves e^±limit.
    pub limit: f64,
}

/// Spreads of TPOT.
pub const TPOT: Spreads = Spreads { offset: 0.2, local: 0.3, noise: 0.05, limit: 1.5 };
/// Spreads of mean TTFT.
pub const TTFT: Spreads = Spreads { offset: 0.4, local: 0.4, noise: 0.2, limit: 1.0 };

impl Spreads {
    /// Covariance of two runs that are `alike` in place.
    pub fn covariance(&self, alike: f64) -> f64 {
        self.offset * self.offset + self.local * self.local * alike
    }
}

/// How a run was served, apart from its load and layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manner {
    /// Width of the expert (or dense) weights: `16`, `8`, `4`.
    pub bits: String,
    /// `plain`, `speculative` …
    pub variant: String,
    /// `current` or `2025`.
    pub epoch: String,
}

impl Manner {
    /// Share of what a run of this manner says of one of the other: each difference takes it to e⁻¹.
    pub fn share(&self, bits: &str, variant: &str, epoch: &str) -> f64 {
        let differences = [self.bits != bits, self.variant != variant, self.epoch != epoch];
        (-(differences.into_iter().filter(|d| *d).count() as f64)).exp()
    }
}

/// A measured place with its weights in the corrections. Written as one line: clients, ranks, expert ranks, prompt and
/// answer tokens, weight bits, variant, epoch, weight for TPOT, weight for TTFT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Node {
    /// Where.
    pub point: ResidualPoint,
    /// How.
    pub manner: Manner,
    /// Weights for TPOT and TTFT.
    pub weights: [f64; 2],
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, m) = (&self.point, &self.manner);
        write!(f, "{} {} {} {} {} ", p.concurrency, p.ranks, p.expert_ranks, p.isl, p.osl)?;
        write!(f, "{} {} {} {} {}", m.bits, m.variant, m.epoch, self.weights[0], self.weights[1])
    }
}

impl From<Node> for String {
    fn from(node: Node) -> Self {
        node.to_string()
    }
}

impl TryFrom<String> for Node {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

const BITS: &[&str] = &["16", "8", "4"];
const WAYS: &[&str] = &[
    "plain",
    "speculative",
    "attention-dp",
    "speculative+attention-dp",
    "disaggregated",
    "disaggregated+speculative",
    "disaggregated+attention-dp",
    "disaggregated+speculative+attention-dp",
];
const EPOCHS: &[&str] = &["current", "2025"];
/// Largest outlier over the variance of a run: 1.5 / 0.05².
const MOST_WEIGHT: f64 = 600.0;

impl FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<f64>().ok().filter(|v| v.is_finite());
        let wrong = || {
            format!(
                "`{text}` is no measured place: write clients, ranks, expert ranks, prompt and answer tokens, weight bits, \
                 variant, epoch, weight for TPOT and weight for TTFT"
            )
        };
        if words.len() != 10 {
            return Err(wrong());
        }
        let all: Option<Vec<f64>> = [0, 1, 2, 3, 4, 8, 9].into_iter().map(number).collect();
        let [concurrency, ranks, expert_ranks, isl, osl, tpot, ttft] =
            all.and_then(|v| <[f64; 7]>::try_from(v).ok()).ok_or_else(wrong)?;
        for (what, value) in [("clients", concurrency), ("prompt tokens", isl), ("answer tokens", osl)] {
            if value <= 0.0 {
                return Err(format!("`{text}`: {what} {value} are not above 0"));
            }
        }
        for (what, value) in [("ranks", ranks), ("expert ranks", expert_ranks)] {
            if value < 1.0 || value.fract() != 0.0 {
                return Err(format!("`{text}`: {what} {value} are no whole number of at least 1"));
            }
        }
        for (what, word, known) in
            [("weight bits", words[5], BITS), ("way", words[6], WAYS), ("epoch", words[7], EPOCHS)]
        {
            if !known.contains(&word) {
                return Err(format!("`{text}`: unknown {what} `{word}`; known: {}", known.join(", ")));
            }
        }
        if tpot.abs().max(ttft.abs()) > MOST_WEIGHT {
            return Err(format!("`{text}`: a weight beyond {MOST_WEIGHT} is none that a fit gives"));
        }
        Ok(Self {
            point: ResidualPoint { concurrency, ranks, expert_ranks, isl, osl },
            manner: Manner { bits: words[5].into(), variant: words[6].into(), epoch: words[7].into() },
            weights: [tpot, ttft],
        })
    }
}

/// What a correction did to the runs it was learned from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// Mean absolute error of the runs before, %.
    pub before_pct: f64,
    /// The same with each run predicted from the others, %.
    pub after_pct: f64,
    /// Runs.
    pub points: u32,
}

/// Corrections of one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// `GPU/engine/model`, of two pools `GPU/engine/model/disaggregated`, as [`super::Regime::combination`] spells it.
    pub key: String,
    /// What correcting TPOT gains; `None` where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<Gain>,
    /// What correcting mean TTFT gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Gain>,
    /// Measured places.
    pub nodes: Vec<Node>,
}

impl Residual {
    /// What cannot be: a key of other than three names (or four, of two pools), a place listed twice, no place, a gain
    /// that is none.
    pub fn fault(&self) -> Option<String> {
        let parts: Vec<&str> = self.key.split('/').collect();
        if !(parts.len() == 3 || parts.len() == 4 && parts[3] == "disaggregated") || parts.iter().any(|p| p.is_empty())
        {
            return Some(format!("correction `{}` does not name a GPU, an engine and a model", self.key));
        }
        if self.nodes.is_empty() {
            return Some(format!("correction `{}` has no place", self.key));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if self.nodes[..i].iter().any(|n| n.point == node.point && n.manner == node.manner) {
                return Some(format!("correction `{}` has the place `{node}` twice", self.key));
            }
        }
        let wrong = |g: &Gain| !(g.before_pct.is_finite() && g.after_pct >= 0.0 && g.after_pct <= g.before_pct);
        let gains = [&self.tpot, &self.ttft];
        gains
            .into_iter()
            .flatten()
            .any(wrong)
            .then(|| format!("correction `{}` does not lower the error it states", self.key))
    }

    /// The corrections of one manner of serving at every load of a layout and lengths; the load of `at` does not matter.
    pub fn along(&self, bits: &str, variant: &str, epoch: &str, at: &ResidualPoint) -> Corrections {
        let here = at.place();
        let mut out = Corrections::default();
        let mut knots: Vec<(f64, [f64; 2])> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let share = node.manner.share(bits, variant, epoch);
            let place = node.point.place();
            let weights = node.weights.map(|w| w * share);
            for ((offset, spreads), weight) in out.offset.iter_mut().zip([TPOT, TTFT]).zip(weights) {
                *offset += spreads.offset * spreads.offset * weight;
            }
            // The distance is a sum over axes, so its part on the load's axis stands apart.
            let beside = alike(&place, &[place[0], here[1], here[2], here[3], here[4]]);
            knots.push((place[0], weights.map(|w| w * beside)));
        }
        knots.sort_by(|a, b| a.0.total_cmp(&b.0));
        // e^(−|x − c|) is e^(−x) e^c above the knot and e^x e^(−c) below it: sums of both answer for any load.
        let mut below = [0.0; 2];
        let mut above = [0.0; 2];
        out.below.push(below);
        for (at, weights) in &knots {
            below = std::array::from_fn(|i| below[i] + weights[i] * at.exp());
            out.below.push(below);
        }
        out.above.push(above);
        for (at, weights) in knots.iter().rev() {
            above = std::array::from_fn(|i| above[i] + weights[i] * (-at).exp());
            out.above.push(above);
        }
        out.above.reverse();
        out.knots = knots.into_iter().map(|(at, _)| at).collect();
        out
    }
}

/// Corrections of one combination, manner of serving, layout and lengths, over the load.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Corrections {
    offset: [f64; 2],
    /// Loads of the measured places on their axis, ascending.
    knots: Vec<f64>,
    /// Σ weight · e^knot over the first n knots.
    below: Vec<[f64; 2]>,
    /// Σ weight · e^−knot over all but the first n knots.
    above: Vec<[f64; 2]>,
}

impl Corrections {
    /// Factors on TPOT and TTFT with so many requests in flight per instance.
    pub fn factors(&self, concurrency: f64) -> (f64, f64) {
        let x = concurrency.max(1.0).ln() / LENGTHS[0];
        let at = self.knots.partition_point(|knot| *knot <= x);
        let (rising, falling) = (x.exp(), (-x).exp());
        let local = |i: usize| {
            let sum = |sums: &[[f64; 2]]| sums.get(at).map_or(0.0, |s| s[i]);
            falling * sum(&self.below) + rising * sum(&self.above)
        };
        let factor = |spreads: &Spreads, i: usize| {
            let log = self.offset[i] + spreads.local * spreads.local * local(i);
            log.clamp(-spreads.limit, spreads.limit).exp()
        };
        (factor(&TPOT, 0), factor(&TTFT, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(concurrency: f64) -> ResidualPoint {
        ResidualPoint { concurrency, ranks: 4.0, expert_ranks: 1.0, isl: 1024.0, osl: 1024.0 }
    }

    fn node(weight: f64) -> Node {
        let manner = Manner { bits: "8".into(), variant: "plain".into(), epoch: "current".into() };
        Node { point: at(16.0), manner, weights: [weight, 0.0] }
    }

    fn factors(residual: &Residual, bits: &str, point: &ResidualPoint) -> (f64, f64) {
        residual.along(bits, "plain", "current", point).factors(point.concurrency)
    }

    #[test]
    fn one_run_corrects_its_own_place_most_and_far_ones_by_the_mean() {
        // One run 20 % slow: weight = 0.2 / (offset² + local² + noise²), as the one-dimensional solution has it.
        let weight = 0.2 / (0.04 + 0.09 + 0.0025);
        let residual = Residual { key: "k".into(), tpot: None, ttft: None, nodes: vec![node(weight)] };
        let log = |point: &ResidualPoint| factors(&residual, "8", point).0.ln();
        assert!((log(&at(16.0)) - 0.2 * 0.13 / 0.1325).abs() < 1e-12);
        // One length away on the load's or the prompt's axis the local part is e⁻¹ of itself.
        let away = weight * (0.04 + 0.09 * (-1f64).exp());
        assert!((log(&at(16.0 * 4f64.exp())) - away).abs() < 1e-12);
        assert!((log(&ResidualPoint { isl: 1024.0 * (-4f64).exp(), ..at(16.0) }) - away).abs() < 1e-12);
        assert_eq!(factors(&residual, "8", &at(16.0)).1, 1.0);
        // Another weight width hears e⁻¹ of it.
        let other = factors(&residual, "4", &at(16.0)).0.ln();
        assert!((other - log(&at(16.0)) * (-1f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn sums_over_knots_are_the_sum_over_runs() {
        let mut nodes = Vec::new();
        for (i, weight) in [3.0, -1.0, 2.0, 0.5].into_iter().enumerate() {
            let point = ResidualPoint { isl: 512.0 * (i + 1) as f64, ..at(f64::from(8u32 << i)) };
            nodes.push(Node { point, weights: [weight, 0.3 * weight], ..node(0.0) });
        }
        let residual = Residual { key: "k".into(), tpot: None, ttft: None, nodes };
        for concurrency in [1.0, 8.0, 13.0, 32.0, 500.0] {
            let place = at(concurrency).place();
            let log = |spreads: &Spreads, i: usize| -> f64 {
                let sum = |n: &Node| n.weights[i] * spreads.covariance(alike(&n.point.place(), &place));
                residual.nodes.iter().map(sum).sum::<f64>().clamp(-spreads.limit, spreads.limit)
            };
            let (tpot, ttft) = factors(&residual, "8", &at(concurrency));
            assert!((tpot.ln() - log(&TPOT, 0)).abs() < 1e-12 && (ttft.ln() - log(&TTFT, 1)).abs() < 1e-12);
        }
    }

    #[test]
    fn a_correction_stays_within_its_limit() {
        let residual = Residual { key: "k".into(), tpot: None, ttft: None, nodes: vec![node(500.0)] };
        let factor = factors(&residual, "8", &at(16.0)).0;
        assert!((factor.ln() - TPOT.limit).abs() < 1e-12);
    }

    #[test]
    fn what_no_fit_writes_is_found() {
        let sound = Residual { key: "g/e/m".into(), tpot: None, ttft: None, nodes: vec![node(1.0)] };
        assert_eq!(sound.fault(), None);
        let fault = |change: fn(&mut Residual)| {
            let mut residual = sound.clone();
            change(&mut residual);
            residual.fault().unwrap_or_default()
        };
        assert!(fault(|r| r.key = "g/e".into()).contains("does not name"));
        assert!(fault(|r| r.nodes.push(r.nodes[0].clone())).contains("twice"));
        assert!(fault(|r| r.nodes.clear()).contains("no place"));
        assert!(fault(|r| r.tpot = Some(Gain { before_pct: 1.0, after_pct: 2.0, points: 4 })).contains("lower"));
    }

    #[test]
    fn a_node_is_one_line() {
        let node = node(12.5);
        let text = node.to_string();
        assert_eq!(text, "16 4 1 1024 1024 8 plain current 12.5 0");
        assert_eq!(text.parse::<Node>().unwrap(), node);
        assert!("16 4 1".parse::<Node>().unwrap_err().contains("expert ranks"));
        for wrong in [
            "16 4 1 1024 1024 8 plain current NaN 0",
            "0 4 1 1024 1024 8 plain current 1 0",
            "16 4.5 1 1024 1024 8 plain current 1 0",
            "16 4 1 1024 1024 7 plain current 1 0",
            "16 4 1 1024 1024 8 plane current 1 0",
            "16 4 1 1024 1024 8 plain 1999 1 0",
            "16 4 1 1024 1024 8 plain current 1e30 0",
        ] {
            assert!(wrong.parse::<Node>().is_err(), "{wrong}");
        }
    }
}
