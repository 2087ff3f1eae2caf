//! Serving metrics of a deployment in closed form, and the engine's scheduler as a state machine.

pub mod closed_loop;
pub mod disaggregated;
pub mod evaluation;
pub mod explain;
pub mod metrics;
pub mod projector;
pub mod scheduler;

pub use disaggregated::{PoolFigures, PooledLoop, Pools};
pub use evaluation::{Bound, Breakdown, Evaluation, Refusal};
pub use explain::Explanation;
pub use metrics::ServingMetrics;
pub use projector::{CompiledDeployment, Projector};
