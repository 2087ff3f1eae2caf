//! Where do the figures of one deployment come from? Every op, every term, as plain lines that add up.

mod assembly;
mod prefill;
mod step;
#[cfg(test)]
mod tests;

pub use assembly::{Assembly, Term};
pub use prefill::{PrefillExplanation, PrefillLine};
pub use step::{Binds, OpLine, Part, StepExplanation};

use super::closed_loop::{Load, terms};
use super::disaggregated::PoolFigures;
use super::projector::{CompiledDeployment, InstanceLoad};
use crate::serve::Refusal;
use serde::Serialize;

/// The arithmetic behind one deployment's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// One decode step.
    pub step: StepExplanation,
    /// The prefill of one prompt.
    pub prefill: PrefillExplanation,
    /// TPOT and TTFT, term by term.
    pub assembly: Assembly,
    /// Both pools, where prompts are prefilled on one of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<PoolFigures>,
}

impl CompiledDeployment {
    /// The arithmetic behind [`CompiledDeployment::evaluate`].
    ///
    /// # Errors
    /// The weights and one request of the longest length do not fit.
    pub fn explain(&self, concurrency: u32, max_num_batched_tokens: u32) -> Result<Explanation, Refusal> {
        let plan = self.plan(concurrency, max_num_batched_tokens);
        if !plan.fits() {
            return Err(Refusal::DoesNotFit(Box::new(plan)));
        }
        let InstanceLoad { load, .. } = self.load(concurrency, &plan);
        if let Some(pools) = &self.pools {
            let constants = &self.step.constants;
            let figures = self.pooled_loop(pools, &load, max_num_batched_tokens, constants, self.corrections(&load));
            let running = Load { running: figures.pools.decode_batch, ..load };
            let decode = self.work(&running, max_num_batched_tokens).0;
            let alone = Load { running: 1.0, draft_tokens: 0.0, stages: 1.0, ..load };
            let (idle, prompt) = pools.prefill.work(&alone, max_num_batched_tokens);
            return Ok(Explanation {
                step: StepExplanation::of(&self.step, &running, &decode),
                prefill: PrefillExplanation::of(&pools.prefill.step, &alone, &idle, &prompt),
                assembly: Assembly::of_pools(&running, &figures, constants, self.corrections(&load).1),
                pools: Some(figures.pools),
            });
        }
        let (decode, prefill) = self.work(&load, max_num_batched_tokens);
        let terms = terms(&load, &decode, &prefill, &self.step.constants, self.corrections(&load));
        Ok(Explanation {
            step: StepExplanation::of(&self.step, &load, &decode),
            prefill: PrefillExplanation::of(&self.step, &load, &decode, &prefill),
            assembly: Assembly::of(&load, &terms, &self.step.constants),
            pools: None,
        })
    }
}
