//! Which request gets how many tokens in the next engine step, and which KV blocks hold them?
//!
//! Pure state machines without a clock: a caller adds requests, asks for a step, and reports that it is over.
//! [`VllmScheduler`] follows vLLM V1, checked step by step against traces of the real scheduler.

pub mod blocks;
pub mod config;
pub mod content;
mod kv;
pub mod plan;
mod queue;
mod request;
mod update;
pub mod vllm;

pub use config::{KvGroup, Policy, SchedulerConfig, VllmRules, vllm_server_defaults};
pub use content::{Content, Segment};
pub use plan::{FinishReason, Outcome, Plan, Row, RowKind};
pub use request::{NewRequest, Slot};
pub use update::DraftCheck;
pub use vllm::{Load, VllmScheduler};
