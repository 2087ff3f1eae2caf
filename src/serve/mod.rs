//! Serving metrics of a deployment in closed form.

pub mod metrics;

pub use metrics::ServingMetrics;
