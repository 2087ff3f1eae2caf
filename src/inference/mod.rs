//! How does this machine's own device run an eval-only inference workload, and does it compute the same every time?
//!
//! A small transformer (or MLP) with seeded weights runs here: batches one after the other, or requests that join and
//! leave a running batch. Latencies, numeric checks and a checksum of the logits come back as one [`WorkloadResult`];
//! a triage runs the workload over cells of environments and mitigations. The probe times the device's copies, matrix
//! products, attention and small kernels, and writes them as a target that the projector reads.
//!
//! What needs the ML framework (`device`, `network`, `session`, `measure`) is compiled with the feature
//! `workload` only; configuration, checks, schedule, result schema, triage and the fit of the probe are always there.

pub mod checks;
pub mod clock;
pub mod config;
pub mod latency;
pub mod preset;
pub mod random;
pub mod result;
pub mod samples;
pub mod schedule;
pub mod target_file;
pub mod triage;

#[cfg(feature = "workload")]
pub mod device;
#[cfg(feature = "workload")]
pub mod network;
#[cfg(feature = "workload")]
pub mod probe;
#[cfg(feature = "workload")]
pub mod session;

#[cfg(test)]
mod config_tests;

pub use clock::Clock;
pub use config::{Config, Device, Dtype, Mode, ModelKind};
pub use result::{Metrics, WorkloadResult};
