//! What may vary, and which combinations are legal.

pub mod deployment;

pub use deployment::{Deployment, Speculation};
