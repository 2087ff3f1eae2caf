//! Which points would a language model try next? A model behind an OpenAI-compatible endpoint as one more way to search.
//!
//! [`Session`] leads the rounds: it tells the model the task ([`prompt`]) and what came of earlier points, answers its
//! tool calls ([`tools`]), reads its reply ([`reply`], [`lenient`]) and hands on the points that are new. [`client`] talks
//! to the endpoint, [`transcript`] keeps what was said and can answer in the endpoint's place. Whatever the model says,
//! figures come from the projector alone.

pub mod assembly;
pub mod backend;
pub mod budget;
pub mod channel;
pub mod client;
pub mod history;
pub mod lenient;
pub mod prompt;
pub mod reply;
pub mod seeds;
pub mod sender;
pub mod session;
pub mod tools;
pub mod transcript;

pub use budget::{Budget, Limits, Spent};
pub use channel::{Channel, Completion, Fault, FaultKind};
pub use client::{Endpoint, Live};
pub use prompt::Briefing;
pub use session::{End, Parts, Session};
pub use transcript::{Replay, Transcript};
