//! The commands as a user or a script meets them: printed output, JSON contracts, exit codes, bad input.

mod bad_files;
mod bad_flags;
mod bad_yaml;
mod command;
mod contracts;
mod infeasible;
mod printed;
mod readme;
mod yaml_mutation;
