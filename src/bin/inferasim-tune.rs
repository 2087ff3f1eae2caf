//! Search a space of deployments and recommend one.

use clap::Parser;
use inferasim::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::start();
    cli::finish(cli::tune::run(cli::tune::Arguments::parse()))
}
