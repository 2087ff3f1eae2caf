//! What is wanted of a deployment: the figure to rank by and the limits to keep.

pub mod metric;
pub mod pareto;
pub mod slo;

pub use metric::Metric;
pub use slo::{Miss, Slo};

use crate::catalog::{self, Document, Kind};
use crate::serve::ServingMetrics;
use crate::{Error, Result, yaml};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A figure to rank by and limits to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Name on the command line.
    pub name: String,
    /// One line about the use.
    pub about: String,
    /// The figure to rank by; whether high or low is good follows from it.
    pub metric: Metric,
    /// Limits, in the order of the file.
    pub slos: Vec<Slo>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ObjectiveFile {
    name: String,
    about: String,
    metric: Metric,
    #[serde(default)]
    slo: Limits,
}

#[derive(Debug, Default, Serialize)]
struct Limits(Vec<(Metric, f64)>);

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct LimitsVisitor;
        impl<'de> Visitor<'de> for LimitsVisitor {
            type Value = Limits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("limits such as `{ ttft_ms: 500 }`")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Limits, A::Error> {
                let mut limits: Vec<(Metric, f64)> = Vec::new();
                while let Some((metric, limit)) = map.next_entry::<Metric, f64>()? {
                    if limits.iter().any(|(m, _)| *m == metric) {
                        return Err(de::Error::custom(format!("duplicate limit `{metric}`")));
                    }
                    limits.push((metric, limit));
                }
                Ok(Limits(limits))
            }
        }
        deserializer.deserialize_map(LimitsVisitor)
    }
}

impl Objective {
    /// Loads a file where `name_or_path` is one, else the built-in objective of that name.
    ///
    /// # Errors
    /// Unreadable files, unknown keys and figures, limits that are negative, zero, not finite or absurd.
    pub fn load(name_or_path: &str) -> Result<(Self, Document)> {
        let document = catalog::open(Kind::Objective, name_or_path)?;
        Ok((Self::from_document(&document)?, document))
    }

    /// Parses and validates a document.
    pub fn from_document(document: &Document) -> Result<Self> {
        let file: ObjectiveFile = yaml::parse(document)?;
        let slos: Vec<Slo> = file.slo.0.into_iter().map(|(metric, limit)| Slo { metric, limit }).collect();
        for slo in &slos {
            yaml::in_range(document, &format!("slo.{}", slo.metric), slo.limit, slo::LIMITS, "a limit")?;
        }
        Ok(Self { name: file.name, about: file.about, metric: file.metric, slos })
    }

    /// Takes limits from the command line; one for the same figure replaces that of the file.
    pub fn override_slos(&mut self, slos: impl IntoIterator<Item = Slo>) {
        for slo in slos {
            match self.slos.iter_mut().find(|s| s.metric == slo.metric) {
                Some(known) => known.limit = slo.limit,
                None => self.slos.push(slo),
            }
        }
    }

    /// Takes the limits of `--slo`; `priced` says whether `target` states a price.
    ///
    /// # Errors
    /// A figure limited twice, and a limit on a cost without a price.
    pub fn take_flags(&mut self, slos: Vec<Slo>, target: &str, priced: bool) -> Result<()> {
        for (at, slo) in slos.iter().enumerate() {
            let flag = || format!("--slo {}={}", slo.metric, yaml::number(slo.limit));
            if let Some(first) = slos[..at].iter().find(|s| s.metric == slo.metric) {
                return Err(Error::input(
                    flag(),
                    format!("`{}` is already limited to {}", slo.metric, yaml::number(first.limit)),
                    "Give each limit once",
                ));
            }
            if !priced && slo.metric.needs_price() {
                return Err(no_price(flag(), slo.metric, target));
            }
        }
        self.override_slos(slos);
        Ok(())
    }

    /// Refuses figures that need a price where the target states none.
    pub fn require_price(&self, target: &str) -> Result<()> {
        let mut figures = std::iter::once(self.metric).chain(self.slos.iter().map(|s| s.metric));
        match figures.find(|m| m.needs_price()) {
            None => Ok(()),
            Some(metric) => Err(no_price(format!("objective `{}`", self.name), metric, target)),
        }
    }

    /// The score of a deployment (high is good), or the limit it misses most.
    ///
    /// Between limits missed equally far, the first of the file.
    pub fn judge(&self, metrics: &ServingMetrics) -> std::result::Result<f64, Miss> {
        let mut worst: Option<Miss> = None;
        for (at, slo) in self.slos.iter().enumerate() {
            if let Some((value, overshoot)) = slo.overshoot(metrics)
                && worst.is_none_or(|w| overshoot > w.overshoot)
            {
                worst = Some(Miss { slo: at, value, overshoot });
            }
        }
        match worst {
            Some(miss) => Err(miss),
            None => Ok(self.score(metrics)),
        }
    }

    /// The ranking figure, turned so that high is good; the worst possible where it is not known.
    pub fn score(&self, metrics: &ServingMetrics) -> f64 {
        let value = self.metric.of(metrics).filter(|v| !v.is_nan());
        match value {
            Some(v) if self.metric.maximise() => v,
            Some(v) => -v,
            None => f64::NEG_INFINITY,
        }
    }

    /// `maximise tok_s_per_gpu under ttft_ms <= 500`.
    pub fn sentence(&self) -> String {
        let verb = if self.metric.maximise() { "maximise" } else { "minimise" };
        let limits: Vec<String> = self.slos.iter().map(Slo::to_string).collect();
        match limits.as_slice() {
            [] => format!("{verb} {}", self.metric),
            _ => format!("{verb} {} under {}", self.metric, limits.join(", ")),
        }
    }
}

fn no_price(tried: String, metric: Metric, target: &str) -> Error {
    Error::input(
        tried,
        format!("`{metric}` needs a price, and target `{target}` states none"),
        "Add `price: { usd_per_gpu_hour: … }` to a copy of the target file",
    )
}

#[cfg(test)]
mod tests;
