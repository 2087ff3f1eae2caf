//! A step cost of a few terms, and its fit to single requests by replaying them.

use crate::sim::step_time::{DecodeLine, StepBatch, StepTime};

/// Terms of the step cost.
pub const TERMS: usize = 6;

/// `step = base + sequence·B + context·ΣL + [prefill: step + token·P + pair·Σ pairs]`: pairs of a prompt token and the
/// tokens it attends to.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FittedStep {
    /// Any step, s.
    pub base_s: f64,
    /// Per decoding sequence, s.
    pub per_sequence_s: f64,
    /// Per token of context that decodes attend to, s.
    pub per_context_token_s: f64,
    /// A step with prefill, on top, s.
    pub prefill_step_s: f64,
    /// Per prefill token, s.
    pub per_prefill_token_s: f64,
    /// Per prefill token and token it attends to, s.
    pub per_prefill_pair_s: f64,
}

impl FittedStep {
    /// From the logarithms of the terms in the order of the fields.
    pub fn of_logs(logs: &[f64]) -> Self {
        let at = |i: usize| logs.get(i).map_or(0.0, |l| l.exp());
        Self {
            base_s: at(0),
            per_sequence_s: at(1),
            per_context_token_s: at(2),
            prefill_step_s: at(3),
            per_prefill_token_s: at(4),
            per_prefill_pair_s: at(5),
        }
    }
}

impl StepTime for FittedStep {
    fn seconds(&mut self, batch: &StepBatch) -> f64 {
        let decode = self.base_s
            + self.per_sequence_s * f64::from(batch.decode_sequences)
            + self.per_context_token_s * batch.decode_context as f64;
        if batch.prefill.is_empty() {
            return decode;
        }
        let pairs = batch.prefill.iter().map(|c| {
            let tokens = f64::from(c.tokens);
            tokens * (f64::from(c.context) + tokens / 2.0)
        });
        decode
            + self.prefill_step_s
            + self.per_prefill_token_s * batch.prefill_tokens as f64
            + self.per_prefill_pair_s * pairs.sum::<f64>()
    }

    fn decode_line(&mut self, sequences: u32, _: u64) -> Option<DecodeLine> {
        Some(DecodeLine {
            base_s: self.base_s + self.per_sequence_s * f64::from(sequences),
            per_context_token_s: self.per_context_token_s,
            up_to_context: u64::MAX,
        })
    }
}

/// Minimises a function by the downhill simplex of Nelder and Mead (argmin's), restarted from its own answer.
///
/// `start` and the first simplex's `reach` are per coordinate; `evaluations` bounds the calls.
pub fn minimise(cost: &(dyn Fn(&[f64]) -> f64 + Sync), start: &[f64], reach: f64, evaluations: u64) -> Vec<f64> {
    use argmin::core::{CostFunction, Executor, State};
    use argmin::solver::neldermead::NelderMead;
    struct Problem<'a>(&'a (dyn Fn(&[f64]) -> f64 + Sync));
    impl CostFunction for Problem<'_> {
        type Param = Vec<f64>;
        type Output = f64;
        fn cost(&self, at: &Vec<f64>) -> std::result::Result<f64, argmin::core::Error> {
            Ok((self.0)(at))
        }
    }
    let mut best = start.to_vec();
    for (round, share) in [(1.0, 0.5), (0.5, 0.3), (0.25, 0.2)] {
        let mut simplex = vec![best.clone()];
        for axis in 0..best.len() {
            let mut corner = best.clone();
            corner[axis] += reach * round;
            simplex.push(corner);
        }
        let iterations = (evaluations as f64 * share) as u64;
        let found = NelderMead::new(simplex)
            .with_sd_tolerance(1e-7)
            .map_err(|_| ())
            .and_then(|solver| {
                let executor = Executor::new(Problem(cost), solver).configure(|state| state.max_iters(iterations));
                executor.run().map_err(|_| ())
            })
            .ok()
            .and_then(|outcome| outcome.state().get_best_param().cloned());
        if let Some(found) = found.filter(|f| cost(f) <= cost(&best)) {
            best = found;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valley_of_rosenbrock_is_followed_to_its_end() {
        // Rosenbrock, Computer Journal 3 (1960) 175: minimum 0 at (1, 1), from (−1.2, 1).
        let cost = |x: &[f64]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let found = minimise(&cost, &[-1.2, 1.0], 0.5, 1000);
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn a_step_is_the_sum_of_its_terms() {
        let mut step =
            FittedStep::of_logs(&[8.0f64.ln(), 2.0f64.ln(), 0.5f64.ln(), 3.0f64.ln(), 0.25f64.ln(), 0.1f64.ln()]);
        let chunk = crate::sim::step_time::PrefillChunk { tokens: 4, context: 6, samples: true };
        let mut batch = StepBatch { decode_sequences: 3, decode_tokens: 3, decode_context: 10, ..Default::default() };
        assert!((step.seconds(&batch) - (8.0 + 6.0 + 5.0)).abs() < 1e-9);
        batch.prefill.push(chunk);
        batch.prefill_tokens = 4;
        // 4 tokens attend to 6 before them and, on average, 2 of their own.
        assert!((step.seconds(&batch) - (19.0 + 3.0 + 1.0 + 0.1 * 32.0)).abs() < 1e-9);
    }
}
