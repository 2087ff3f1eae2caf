//! How does a real OpenAI-compatible endpoint behave under this load?
//!
//! The folder in the order of the run:
//!
//! - [`shape`], [`prompt`], [`dataset`]: what is asked: token budgets, unique prompts, a dataset shared by endpoints
//! - [`load`]: when it is asked: closed loop, open loop from an intended schedule, a trace
//! - [`endpoint`], [`http`]: where it is asked, and the socket whose reads are stamped before anything is parsed
//! - [`sse`], [`chunk`], [`assemble`]: from stamped bytes to one record per request, off the sending thread
//! - [`record`], [`stats`], [`summary`], [`window`]: the metrics and their formulas
//! - [`scrape`], [`saturation`], [`warnings`]: what the server and the client say about the same interval
//! - [`point`]: one load level
//! - [`options`], [`campaign`], [`diagnose`]: the sequence of points with pre-warm, burn-in and pauses; when to give up
//! - [`finalist`], [`engine`], [`journal`], [`finalists`]: a shortlist's deployments one after the other
//! - [`run_document`], [`output`], [`aiperf`]: the files
//!
//! Nothing here knows the projector. A later step reads the summary (schema
//! [`summary::SUMMARY_SCHEMA`]) back as measured anchors: every point names its shape, load, endpoint and origin.

pub mod aiperf;
pub mod assemble;
pub mod campaign;
pub mod chunk;
pub mod dataset;
pub mod diagnose;
pub mod endpoint;
pub mod engine;
pub mod finalist;
pub mod finalists;
pub mod http;
pub mod journal;
pub mod load;
pub mod options;
pub mod output;
pub mod point;
pub mod prompt;
pub mod random;
pub mod record;
pub mod run_document;
pub mod saturation;
pub mod scrape;
pub mod shape;
pub mod sse;
pub mod stats;
pub mod summary;
pub mod warnings;
pub mod window;
