//! Where does a fault come from? The workload over cells of environments and mitigations, several trials each.

pub mod document;
pub mod environment;
pub mod matrix;
pub mod recipe;
pub mod run;
pub mod trial;

#[cfg(test)]
mod recipe_tests;

pub use matrix::Matrix;
pub use recipe::{Cell, Recipe};
pub use trial::{ExitStatus, Trial};
