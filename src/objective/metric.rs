//! What can be maximised, minimised or limited: the figures of [`ServingMetrics`] by name.

use crate::catalog::nearest;
use crate::serve::ServingMetrics;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! metrics {
    ($($variant:ident, $key:literal, $label:literal, $maximise:literal, $read:expr, $doc:literal;)*) => {
        /// A figure of a deployment. Latencies and costs are better low, throughputs high.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $(#[doc = $doc] #[serde(rename = $key)] $variant,)*
        }

        impl Metric {
            /// All of them.
            pub const ALL: &'static [Metric] = &[$(Metric::$variant),*];

            /// Name in files and flags.
            pub fn key(self) -> &'static str {
                match self { $(Metric::$variant => $key),* }
            }

            /// What a reader calls it, with the unit.
            pub fn label(self) -> &'static str {
                match self { $(Metric::$variant => $label),* }
            }

            /// High values are good.
            pub fn maximise(self) -> bool {
                match self { $(Metric::$variant => $maximise),* }
            }

            /// Its meaning in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Metric::$variant => $doc),* }
            }

            /// Its value; absent for costs without a stated price.
            pub fn of(self, metrics: &ServingMetrics) -> Option<f64> {
                match self { $(Metric::$variant => { let read: fn(&ServingMetrics) -> Option<f64> = $read; read(metrics) }),* }
            }
        }
    };
}

metrics! {
    TtftMs, "ttft_ms", "TTFT ms", false, |m| Some(m.ttft_ms), "mean time to first token over all requests of the run, first wave included, ms";
    TtftP50Ms, "ttft_p50_ms", "TTFT p50 ms", false, |m| Some(m.ttft_p50_ms), "median time to first token, ms";
    TpotMs, "tpot_ms", "TPOT ms", false, |m| Some(m.tpot_ms), "mean time per output token after the first, (E2E - TTFT)/(tokens - 1), ms";
    E2eMs, "e2e_ms", "E2E ms", false, |m| Some(m.e2e_ms), "mean end-to-end latency of a request, ms";
    OutputTokS, "output_tok_s", "output tok/s", true, |m| Some(m.output_tok_s), "output tokens per second of the whole deployment";
    TotalTokS, "total_tok_s", "total tok/s", true, |m| Some(m.total_tok_s), "input and output tokens per second of the whole deployment";
    TokSPerGpu, "tok_s_per_gpu", "tok/s/GPU", true, |m| Some(m.tok_s_per_gpu), "input plus output tokens per second over all GPUs of the deployment";
    TokSPerUser, "tok_s_per_user", "tok/s/user", true, |m| Some(m.tok_s_per_user), "output tokens per second one user sees, 1000 / TPOT";
    UsdPerMOutput, "usd_per_m_output", "$/M output", false, |m| m.usd_per_m_output, "US dollars per million output tokens at the target's stated price";
    UsdPerMTotal, "usd_per_m_total", "$/M total", false, |m| m.usd_per_m_total, "US dollars per million tokens, input and output, at the target's stated price";
}

impl Metric {
    /// From its name.
    ///
    /// # Errors
    /// Names the nearest known one.
    pub fn parse(key: &str) -> Result<Self> {
        if let Some(metric) = Self::ALL.iter().find(|m| m.key() == key) {
            return Ok(*metric);
        }
        let known: Vec<&str> = Self::ALL.iter().map(|m| m.key()).collect();
        let repair = match nearest(key, &known) {
            Some(near) => format!("Did you mean `{near}`? Known: {}", known.join(", ")),
            None => format!("Known: {}", known.join(", ")),
        };
        Err(Error::input(format!("SLO `{key}`"), "no such figure", repair))
    }

    /// It is a cost, which needs a price.
    pub fn needs_price(self) -> bool {
        matches!(self, Metric::UsdPerMOutput | Metric::UsdPerMTotal)
    }

    /// A value with as many digits as it deserves.
    pub fn show(self, value: f64) -> String {
        match value.abs() {
            v if v >= 1000.0 => format!("{value:.0}"),
            v if v >= 10.0 => format!("{value:.1}"),
            v if v >= 1.0 => format!("{value:.2}"),
            _ => format!("{value:.3}"),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}
