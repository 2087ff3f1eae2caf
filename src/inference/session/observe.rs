//! What is looked at after every forward pass: the chosen tokens, broken values, the bits of the logits.

use crate::inference::checks;
use crate::inference::config::Checks;
use crate::inference::network::Output;
use burn_tensor::backend::Backend;
use burn_tensor::{Bool, Int, Tensor, TensorData};
use std::collections::BTreeSet;

/// Findings of one step, and the last logits of the run.
pub struct Observer<B: Backend> {
    checks: Checks,
    problems: BTreeSet<String>,
    last_logits: Option<Tensor<B, 3>>,
}

impl<B: Backend> Observer<B> {
    /// Looks for what the checks ask for.
    pub fn new(checks: &Checks) -> Self {
        Self { checks: checks.clone(), problems: BTreeSet::new(), last_logits: None }
    }

    /// Looks at a forward pass.
    pub fn look(&mut self, output: &Output<B>) {
        let (mut nan, mut infinite, mut nonfinite) = (false, false, false);
        if self.checks.fail_on_nan_logits {
            nan = any(output.logits.clone().is_nan());
            infinite = any(output.logits.clone().is_inf());
        }
        if self.checks.fail_on_nonfinite_output {
            nonfinite = any(output.hidden.clone().is_finite().bool_not());
        }
        self.problems.extend(checks::problems(nan, infinite, nonfinite));
        if self.checks.compare_logits_checksum {
            self.last_logits = Some(output.logits.clone());
        }
    }

    /// The step's findings; the next step starts without.
    pub fn take_problems(&mut self) -> Vec<String> {
        // The order a reader expects: logits before the output.
        let found = std::mem::take(&mut self.problems);
        let known = checks::problems(true, true, true);
        known.into_iter().filter(|name| found.contains(name)).collect()
    }

    /// Checksum of the last logits looked at; `None` where the check is off.
    pub fn checksum(&self) -> Option<i64> {
        let data = self.last_logits.clone()?.into_data();
        let width = data.dtype.size();
        Some(checks::checksum(data.as_bytes(), width))
    }
}

fn any<B: Backend, const D: usize>(which: Tensor<B, D, Bool>) -> bool {
    which.any().into_data().iter::<bool>().any(|is| is)
}

/// The likeliest token of each row at the given position.
pub fn greedy<B: Backend>(logits: &Tensor<B, 3>, positions: &[usize]) -> Vec<i32> {
    let count = logits.dims()[1];
    let last =
        |row: usize, position: usize| logits.clone().slice_dim(0, row..row + 1).slice_dim(1, position..position + 1);
    let picked = if count == 1 {
        logits.clone()
    } else {
        Tensor::cat(positions.iter().enumerate().map(|(row, at)| last(row, *at)).collect(), 0)
    };
    picked.argmax(2).into_data().iter::<i64>().map(|token| token as i32).collect()
}

/// Tokens as a tensor, one row per sequence; shorter rows are filled with token 0 at their end.
pub fn rows<B: Backend>(sequences: &[&[i32]], device: &B::Device) -> Tensor<B, 2, Int> {
    let longest = sequences.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut values = Vec::with_capacity(longest * sequences.len());
    for sequence in sequences {
        values.extend_from_slice(sequence);
        values.resize(values.len() + longest - sequence.len(), 0);
    }
    Tensor::from_data(TensorData::new(values, [sequences.len(), longest]), device)
}
