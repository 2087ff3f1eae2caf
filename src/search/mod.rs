//! Which deployments of a space are best? Search sees the model of serving only through [`Evaluator`].

mod acquisition;
pub mod advice;
pub mod argmin_solvers;
pub mod backend;
mod candidates;
pub mod cube;
pub mod driver;
pub mod ego;
pub mod evolve;
pub mod exhaustive;
pub mod explain;
pub mod finalists;
pub mod journal;
mod kernel;
pub mod merit;
pub mod problem;
pub mod random;
pub mod sequential;
pub mod shard;
mod surrogate;
pub mod tally;

pub use advice::Advice;
pub use backend::{Ask, Backend, Dimension, Domain, History, Observation, Stop};
pub use driver::{Limits, NoWitness, Problem, Searched, Witness, drive};
pub use exhaustive::{Search, Verdict};
pub use problem::{Figures, SpaceProblem};
pub use tally::{Found, Group, Outcome, Reason, Rejected, Sample, Why};

use crate::config::Deployment;
use crate::serve::{Evaluation, Refusal};

/// What a search needs to know of a deployment.
///
/// What does not depend on the load is worked out once per layout in [`Evaluator::compile`].
pub trait Evaluator: Sync {
    /// A deployment ready to be evaluated under many loads.
    type Compiled;

    /// Works out everything that does not depend on the load.
    ///
    /// # Errors
    /// Why the deployment cannot run under any load.
    fn compile(&self, deployment: &Deployment) -> Result<Self::Compiled, Refusal>;

    /// The figures under one load.
    ///
    /// # Errors
    /// Why the deployment cannot run under this load.
    fn evaluate(
        &self,
        compiled: &Self::Compiled,
        concurrency: u32,
        max_num_batched_tokens: u32,
    ) -> Result<Evaluation, Refusal>;
}

#[cfg(test)]
mod backend_tests;
#[cfg(test)]
mod textbook;
