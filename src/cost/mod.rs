//! How long one engine step takes: ops, kernel tables, serving constants. No loop over time, no queueing.

pub mod attention;
pub mod calibration;
pub mod collective;
pub mod gemm;
pub mod lower;
mod mixers;
pub mod moe;
pub mod op;
pub mod residual;
pub mod sparse;
pub mod step;
pub mod tables;

pub use attention::AttentionPart;
pub use calibration::{Calibration, Constants, Regime};
pub use lower::{Ops, lower};
pub use op::{Arms, OpTime, Silicon};
pub use step::{DecodeWork, PrefillTime, PrefillWork, StepCost, StepTime};
pub use tables::OpTables;
