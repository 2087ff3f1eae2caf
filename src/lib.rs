//! InferaSim: how would an LLM serving deployment behave, and which one should I run?

pub mod anchor;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod cost;
pub mod error;
pub mod export;
pub mod inference;
pub mod measure;
pub mod memory;
pub mod model;
pub mod objective;
pub mod planner;
pub mod report;
pub mod retry_after;
pub mod search;
pub mod serve;
pub mod sim;
pub mod source;
pub mod space;
pub mod target;
pub mod units;
pub mod workload;
pub mod yaml;

pub use error::{Error, Result};
