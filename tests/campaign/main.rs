//! Campaigns as a user runs them: a shortlist measured on loopback, killed and resumed, compared, and rehearsed in CI.

#[path = "../common/stream_server.rs"]
mod stream_server;

mod aid;
mod compare;
mod resume;
mod roofline;
mod workflow;
