//! `--step-cost`: step times that need no cost model.

use super::StepTimeFactory;
use crate::sim::step_time::{AffineStep, ConstantStep, ExponentialStep};
use crate::{Error, Result};

/// Reads `constant:MS`, `exponential:MS` or `affine:BASE_MS,DECODE_US,CONTEXT_NS,PREFILL_US`.
pub fn parse(text: &str, seed: u64) -> Result<StepTimeFactory> {
    let bad = |found: String| {
        Error::input(
            format!("--step-cost {text}"),
            found,
            "Write constant:MS, exponential:MS or affine:BASE_MS,DECODE_US,CONTEXT_NS,PREFILL_US",
        )
    };
    let Some((law, numbers)) = text.split_once(':') else { return Err(bad("no `:`".into())) };
    let mut values = Vec::new();
    for word in numbers.split(',') {
        match word.parse::<f64>() {
            Ok(value) if (0.0..=1e9).contains(&value) => values.push(value),
            _ => return Err(bad(format!("`{word}` is not a number from 0 to 1e9"))),
        }
    }
    match (law, &values[..]) {
        ("constant" | "exponential", [ms]) if *ms <= 0.0 => Err(bad("a step of no time".into())),
        ("constant", [ms]) => {
            let seconds = ms * 1e-3;
            Ok(Box::new(move || Box::new(ConstantStep { seconds })))
        }
        ("exponential", [ms]) => {
            let mean = ms * 1e-3;
            Ok(Box::new(move || Box::new(ExponentialStep::new(mean, seed))))
        }
        ("affine", [base, rest @ ..]) if rest.len() <= 3 => {
            let term = |at: usize| rest.get(at).copied().unwrap_or(0.0);
            let step = AffineStep {
                base_s: base * 1e-3,
                per_decode_token_s: term(0) * 1e-6,
                per_context_token_s: term(1) * 1e-9,
                per_prefill_token_s: term(2) * 1e-6,
            };
            if values.iter().all(|v| *v == 0.0) {
                return Err(bad("steps of no time".into()));
            }
            Ok(Box::new(move || Box::new(step)))
        }
        _ => Err(bad("not a known law, or the wrong count of numbers".into())),
    }
}
