//! What one step does: the rows of a batch, and what came of them.

use super::blocks::BlockId;
use super::request::Slot;

/// How a request came into the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// First admission.
    New,
    /// Admission after a preemption.
    Resumed,
    /// It was running already.
    Running,
}

/// One request's share of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The request's slot.
    pub request: Slot,
    /// The caller's name for it.
    pub tag: u64,
    /// Tokens processed, drafts included.
    pub tokens: u32,
    /// How it came into the step.
    pub kind: RowKind,
    /// Tokens whose KV existed before; for an admission, the prefix hit.
    pub computed_before: u32,
    /// Of an admission's `computed_before`, tokens found in the device's prefix cache.
    pub hit: u32,
    /// Of `computed_before`, tokens loaded from another engine or tier.
    pub loaded: u32,
    /// Of `loaded`, tokens copied from the host tier.
    pub from_host: u32,
    /// Draft tokens among `tokens`.
    pub drafts: u32,
    /// A decode step of a running request; everything else is prefill or recomputation.
    pub decode: bool,
    /// The step reaches the end of the known tokens, so that a token is sampled.
    pub samples: bool,
}

/// A scheduled step. Reused: scheduling clears it.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Rows in the scheduler's order.
    pub rows: Vec<Row>,
    /// Requests preempted while scheduling, in order.
    pub preempted: Vec<u64>,
    /// Where `record_blocks` is set: per row and KV group, the blocks an engine is told.
    pub blocks: Vec<Vec<BlockId>>,
    /// Fill `blocks`.
    pub record_blocks: bool,
}

impl Plan {
    /// A plan that also lists blocks.
    pub fn recording() -> Self {
        Self { record_blocks: true, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.preempted.clear();
        self.blocks.clear();
    }

    /// Tokens of the step.
    pub fn tokens(&self) -> u64 {
        self.rows.iter().map(|r| u64::from(r.tokens)).sum()
    }
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// Its answer or the model's length limit was reached.
    Length,
    /// It sampled the stop token.
    Stop,
}

/// What a returned step changed. Reused: updating clears it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Tokens appended per request, in batch order.
    pub emitted: Vec<(u64, u32)>,
    /// Requests that ended, in order.
    pub finished: Vec<(u64, FinishReason)>,
}
