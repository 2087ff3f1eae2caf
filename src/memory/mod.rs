//! What fits: the memory of one rank, line by line, and the KV capacity that is left.

pub mod plan;

pub use plan::MemoryPlan;
