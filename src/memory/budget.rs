//! What does the engine keep for itself, and what does its memory fraction leave for the KV cache?

use crate::target::engine::{EngineSettings, FractionOf};

/// Communication buffers, the runtime and workspaces of one rank, in bytes; grows with the ranks that talk.
pub fn reserve(engine: &EngineSettings, ranks: u32) -> f64 {
    let doublings = f64::from(ranks.max(1)).log2();
    (engine.reserve_gib + engine.reserve_per_doubling_gib * doublings) * crate::units::GIB
}

/// The budget and the KV cache that the fraction leaves, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Split {
    /// What the engine may use by its own meaning of the fraction.
    pub budget: f64,
    /// Left for the KV cache; negative where the rest does not fit.
    pub kv: f64,
}

/// Applies an engine's meaning of its memory fraction. All figures are bytes of one rank; `held` is the weights,
/// the reserve and separate states together.
pub fn split(
    fraction_of: FractionOf,
    fraction: f64,
    graphs_count: bool,
    total: f64,
    held: f64,
    activation: f64,
    graphs: f64,
) -> Split {
    match fraction_of {
        FractionOf::Total => {
            let budget = total * fraction;
            let counted = if graphs_count { graphs } else { 0.0 };
            Split { budget, kv: budget - held - activation - counted }
        }
        FractionOf::TotalForWeightsAndKv => {
            let budget = total * fraction;
            // The rest of the card must take a step's activation and the graphs.
            let room = total - activation - graphs;
            Split { budget, kv: budget.min(room) - held }
        }
        FractionOf::FreeAfterWeights => {
            let free = total - held - activation;
            let kv = if free > 0.0 { free * fraction } else { free };
            Split { budget: held + activation + kv.max(0.0), kv }
        }
    }
}
