//! What may vary, and which combinations are legal.

pub mod deployment;
pub mod legality;
pub mod violation;

pub use deployment::{Deployment, PrefillPool, Speculation, acceptance, emitted};
pub use legality::Legality;
pub use violation::Violation;
