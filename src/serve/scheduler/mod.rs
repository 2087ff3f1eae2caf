//! Which request gets how many tokens in the next engine step, and which KV blocks hold them?
//!
//! Pure state machines without a clock: a caller adds requests, asks for a step, and reports that it is over.
//! [`VllmScheduler`] follows vLLM V1, checked step by step against traces of the real scheduler;
//! [`SglangScheduler`] follows SGLang as read, for lack of traces.

pub mod blocks;
pub mod config;
pub mod content;
mod decode_run;
mod host_tier;
mod kv;
pub mod plan;
mod queue;
mod radix;
mod request;
pub mod sglang;
mod sglang_config;
mod sglang_scheduler;
mod update;
pub mod vllm;
mod vllm_scheduler;

pub use config::{KvGroup, Policy, SchedulerConfig, VllmRules, vllm_server_defaults};
pub use content::{Content, Segment};
pub use decode_run::DecodeRun;
pub use plan::{FinishReason, Outcome, Plan, Row, RowKind};
pub use request::{NewRequest, Slot};
pub use sglang::SglangScheduler;
pub use sglang_config::SglangConfig;
pub use update::DraftCheck;
pub use vllm::{Load, VllmScheduler, Waste};

/// What a simulator needs of an engine's scheduler.
pub trait Scheduler: std::fmt::Debug + Send {
    /// A request arrives.
    fn add(&mut self, new: NewRequest) -> Slot;
    /// The client gives up on a request that has not finished.
    fn abort(&mut self, slot: Slot);
    /// Decides the next step.
    fn schedule(&mut self, plan: &mut Plan);
    /// Takes the result of the oldest step in flight.
    fn update(&mut self, plan: &Plan, accepted: &mut dyn FnMut(DraftCheck) -> u32, outcome: &mut Outcome);
    /// How many decode steps ahead are certain to be alike, if any.
    fn decode_run(&self) -> Option<DecodeRun>;
    /// Takes steps of that run.
    fn advance(&mut self, steps: u32);
    /// Requests and blocks held now.
    fn load(&self) -> Load;
    /// Nobody runs or waits.
    fn is_empty(&self) -> bool;
    /// Steps that may be in flight at once, 1 or 2.
    fn steps_in_flight(&self) -> u32;
    /// Requests that may run at once.
    fn sequence_limit(&self) -> u32;
    /// Computed tokens that did not last.
    fn waste(&self) -> Waste;
    /// The request that blocks an engine with nothing in flight, and the caller's name for it.
    fn blocked(&self) -> Option<(Slot, u64)>;
    /// A request of these lengths could be served alone; else what stands against it.
    fn admissible(&self, prompt_len: u32, max_tokens: u32) -> Result<(), Unservable>;
    /// Leading tokens of a prompt in the prefix cache; `keys` are its block hashes ([`content::HashChain`]).
    fn cached_prefix(&self, content: &Content, keys: &[u64]) -> u32;
    /// The blocks add up: free ones as counted, none held when nobody runs.
    fn blocks_balance(&self) -> bool;
    /// Cached blocks (or tokens) reused for something else.
    fn evictions(&self) -> u64;
}

/// Why a request can never be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unservable {
    /// Prompt and answer exceed the model's length.
    TooLong,
    /// Its KV exceeds the whole cache.
    TooBigForCache,
    /// The prompt exceeds the budget of a step and may not be split.
    TooBigForStep,
}
