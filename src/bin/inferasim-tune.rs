//! Search a space of deployments and recommend one.

use inferasim::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::start();
    cli::finish(cli::tune::main())
}
