//! Projections of single deployments: invariants over random legal ones, and the command as a user runs it.

mod command;
mod disaggregated;
mod invariants;
mod options;
