//! One thing at a time: project, check memory, show, list.

use clap::Parser;
use inferasim::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::start();
    cli::finish(cli::run(cli::Cli::parse()))
}
