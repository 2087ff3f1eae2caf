//! `inferasim project`: how would one deployment behave?

mod answer;
mod arguments;
mod details;
pub(super) mod inputs;
mod remedy;

pub use arguments::Arguments;

use crate::error::exit;
use crate::report::terminal::{self, Style};
use crate::{Error, Result};

/// Projects one deployment; the exit code says whether it fits and keeps its limits.
///
/// # Errors
/// Bad input, and a deployment no engine starts: every rule it breaks.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let inputs = inputs::Inputs::load(arguments)?;
    let projection = answer::projection(&inputs, arguments.explain)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&projection)
            .map_err(|e| Error::input("--json", format!("the answer cannot be written: {e}"), ""))?;
        println!("{text}");
    } else {
        print!("{}", terminal::projection(&projection, Style::of_stdout()));
    }
    Ok(if projection.feasible { exit::ANSWER } else { exit::INFEASIBLE })
}
