//! One request as the scheduler sees it, and the slab that holds the live ones.

use super::blocks::BlockId;
use super::content::{Content, HashChain};
use super::queue::Rank;

/// Place of a live request in the slab; reused after it has finished.
pub type Slot = u32;

/// No row in the present step.
pub(super) const NO_ROW: u32 = u32::MAX;

/// A request on arrival.
#[derive(Debug, Clone, Default)]
pub struct NewRequest {
    /// The caller's name for it; it comes back with every event.
    pub tag: u64,
    /// Prompt tokens.
    pub prompt_len: u32,
    /// Answer tokens at which it ends.
    pub max_tokens: u32,
    /// Answer length at which a stop token is sampled, if that comes first.
    pub stop_at: Option<u32>,
    /// Lower is served first, under the priority policy.
    pub priority: i64,
    /// Seconds; orders equals under the priority policy.
    pub arrival: f64,
    /// Orders what arrived at once, under the priority policy.
    pub tie: u64,
    /// What the tokens are; only prefix caching looks at it.
    pub content: Content,
    /// Answer tokens that exist already (made by a prefill engine).
    pub outputs: u32,
    /// Leading tokens whose KV comes from another engine or tier and need not be computed.
    pub external: u32,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Gone,
    Waiting,
    Running,
    Preempted,
}

/// Block table of one KV group.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub blocks: Vec<BlockId>,
    /// Leading blocks whose hash was recorded (or that need none).
    pub hashed: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub tag: u64,
    pub prompt_len: u32,
    pub max_tokens: u32,
    pub stop_at: Option<u32>,
    pub rank: Rank,
    pub state: State,
    pub outputs: u32,
    /// Tokens whose KV exists or is being computed.
    pub computed: u32,
    /// Drafts to verify in the next step.
    pub drafts: u32,
    /// Output tokens scheduled but not yet known.
    pub placeholders: u32,
    /// Tokens scheduled whose step has not returned.
    pub inflight: u32,
    /// Of those, tokens scheduled before a preemption.
    pub stale: u32,
    pub preemptions: u32,
    pub samplings: u32,
    /// The last step did not reach the end of the known tokens.
    pub prefilling: bool,
    pub row: u32,
    pub external: u32,
    pub content: Content,
    pub chain: HashChain,
    pub tables: Vec<Table>,
}

impl Request {
    /// Tokens known: prompt and answer so far.
    #[inline]
    pub fn tokens(&self) -> u32 {
        self.prompt_len + self.outputs
    }

    /// Position of the stop token in the answer, once it was sampled.
    pub fn stop_position(&self) -> Option<u32> {
        self.stop_at.map(|at| at - 1).filter(|at| *at < self.outputs)
    }

    fn reset(&mut self, new: NewRequest, groups: usize) {
        let mut tables = std::mem::take(&mut self.tables);
        tables.resize_with(groups, Table::default);
        for table in &mut tables {
            table.blocks.clear();
            table.hashed = 0;
        }
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        *self = Request {
            tag: new.tag,
            prompt_len: new.prompt_len,
            max_tokens: new.max_tokens,
            stop_at: new.stop_at.filter(|at| *at > 0),
            rank: Rank { priority: new.priority, arrival: super::queue::order_of(new.arrival), tie: new.tie },
            state: State::Waiting,
            outputs: new.outputs,
            external: new.external,
            row: NO_ROW,
            content: new.content,
            chain,
            tables,
            ..Request::default()
        };
    }
}

/// Live requests in reused slots.
#[derive(Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Request>,
    vacant: Vec<Slot>,
}

impl Slab {
    pub fn insert(&mut self, new: NewRequest, groups: usize) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Request::default());
            self.slots.len() as Slot - 1
        });
        self.slots[slot as usize].reset(new, groups);
        slot
    }

    /// The request is over and none of its steps is in flight: the slot may be reused.
    pub fn vacate(&mut self, slot: Slot) {
        debug_assert!(self[slot].state == State::Gone && self[slot].inflight == 0);
        self[slot].content.prompt = Vec::new();
        self.vacant.push(slot);
    }
}

impl std::ops::Index<Slot> for Slab {
    type Output = Request;
    #[inline]
    fn index(&self, slot: Slot) -> &Request {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for Slab {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Request {
        &mut self.slots[slot as usize]
    }
}
