//! The command line: one file per subcommand, each with its arguments and its `run`.
//!
//! A `run` returns the exit code of an answer; an error prints one line and carries its own.

pub mod anchor;
pub mod calibrate;
pub mod compare;
pub mod fidelity;
pub mod list;
pub mod measure;
pub mod memory;
pub mod project;
pub mod roofline;
pub mod show;
pub mod simulate;
pub mod tune;
pub mod workload;

use crate::Result;
use crate::error::exit;
use clap::{Parser, Subcommand};

/// How would an LLM serving deployment behave?
#[derive(Debug, Parser)]
#[command(name = "inferasim", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Anchor(anchor::Anchor),
    Calibrate(calibrate::CalibrateArgs),
    Compare(compare::Compare),
    Fidelity(fidelity::FidelityArgs),
    List(list::List),
    Measure(Box<measure::Measure>),
    Memory(memory::Memory),
    Project(project::Arguments),
    Roofline(roofline::RooflineArgs),
    Show(show::Show),
    Simulate(Box<simulate::Simulate>),
    Workload(workload::Workload),
}

/// Runs the parsed command.
pub fn run(cli: Cli) -> Result<u8> {
    match cli.command {
        Command::Anchor(args) => anchor::run(args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Fidelity(args) => fidelity::run(&args),
        Command::List(list) => list::run(list),
        Command::Measure(measure) => measure::run(*measure),
        Command::Memory(memory) => memory::run(memory),
        Command::Project(arguments) => project::run(&arguments),
        Command::Roofline(args) => roofline::run(&args),
        Command::Show(show) => show::run(show),
        Command::Simulate(args) => simulate::run(*args),
        Command::Workload(args) => workload::run(&args),
    }
}

/// Prepares the process: a reader that closes the pipe early (`| head`) ends it quietly, output that cannot be written
/// is an error.
pub fn start() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to stdout") {
            if message.contains("Broken pipe") {
                std::process::exit(exit::ANSWER.into());
            }
            eprintln!("error: {message}");
            std::process::exit(exit::INPUT.into());
        }
        default(panic);
    }));
}

/// Ends the process the way every command does: the exit code of the answer, or one line on standard error.
pub fn finish(outcome: Result<u8>) -> std::process::ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code().into()
        }
    }
}
