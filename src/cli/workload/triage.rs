//! `inferasim workload triage`: the workload over cells of environments and mitigations.

use super::{Timing, print_json};
use crate::error::exit;
use crate::inference::triage::trial::Launcher;
use crate::inference::triage::{Recipe, document, run as triage};
use crate::report::terminal::table::{WIDTH, wrap};
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Run the workload over cells of environments and mitigations
///
/// Exit codes: 0 every trial passed, 1 one failed or gave no verdict, 2 an error in input.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Recipe, YAML; - reads standard input
    #[arg(long, value_name = "FILE")]
    recipe: String,
    /// Print the cells and what they would run; start and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Folder of the results
    #[arg(long, default_value = "triage_results", value_name = "DIR")]
    out: PathBuf,
    /// Longest time of one trial, s
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    timing: Timing,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Reads the recipe, runs it and prints the matrix.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let recipe = Recipe::from_document(&document::open(&arguments.recipe)?)?;
    let program = std::env::current_exe()
        .map_err(|e| Error::input("workload triage", format!("this program cannot be found: {e}"), ""))?;
    let mut flags = vec!["--clock".to_string(), arguments.timing.clock.word().to_string()];
    if let Some(threads) = arguments.timing.threads {
        flags.extend(["--threads".to_string(), threads.to_string()]);
    }
    let launcher = Launcher { program, flags, timeout: Duration::from_secs(arguments.timeout) };
    if arguments.dry_run {
        return dry_run(&recipe, &launcher, arguments.json);
    }
    #[cfg(not(feature = "workload"))]
    if recipe.cells.iter().any(|cell| cell.environment.docker.is_none()) {
        return Err(super::not_built("triage"));
    }
    let done = triage::run(&recipe, &launcher, &arguments.out, |trial| {
        eprintln!("{}: {} after {:.1} s", trial.trial_id, trial.exit_status.word(), trial.wall_clock_sec);
    })?;
    if arguments.json {
        print_json(&done.matrix)?;
    } else {
        print!("{}", done.matrix.markdown());
        println!("\nResults in {}", done.folder.display());
    }
    Ok(if done.matrix.passed() { exit::ANSWER } else { exit::DIFFERS })
}

fn dry_run(recipe: &Recipe, launcher: &Launcher, json: bool) -> Result<u8> {
    if json {
        let cell = |c: &crate::inference::triage::Cell| {
            serde_json::json!({
                "name": c.name, "mitigations": c.mitigations, "environment": c.environment, "variables": c.variables,
                "trials": c.trials, "config": c.config, "command": launcher.command(c),
            })
        };
        let cells: Vec<_> = recipe.cells.iter().map(cell).collect();
        let baseline = &recipe.cells[recipe.baseline].name;
        let document = serde_json::json!({
            "ticket": recipe.ticket, "baseline": baseline, "threshold": recipe.threshold, "cells": cells,
        });
        print_json(&document)?;
        return Ok(exit::ANSWER);
    }
    println!("Dry run: inference, ticket {}", recipe.ticket.as_deref().unwrap_or("-"));
    println!("Cells ({}):", recipe.cells.len());
    for cell in &recipe.cells {
        let (c, r, m) = (&cell.config, &cell.config.request, &cell.config.model);
        let lines = [
            format!(
                "- {}: mitigations {}, environment {}, {} trials of {} steps",
                cell.name,
                cell.mitigations.join(" + "),
                cell.environment.name,
                cell.trials,
                c.steps
            ),
            format!(
                "{} on {:?}, {}, batch {}, prompt {}, {} tokens; {} h{} l{} heads {} ffn {} vocabulary {} experts {}",
                c.mode.word(),
                c.device,
                c.dtype.word(),
                r.batch_size,
                r.prompt_len,
                r.generate_tokens,
                m.kind.word(),
                m.hidden_size,
                m.num_layers,
                m.num_heads,
                m.ffn_size,
                m.vocab_size,
                m.num_experts
            )
            .to_lowercase(),
            format!("variables: {}", pairs(&cell.variables)),
        ];
        for (at, line) in lines.iter().enumerate() {
            let indent = if at == 0 { "  " } else { "      " };
            wrap(line, WIDTH - indent.len()).iter().for_each(|part| println!("{indent}{part}"));
        }
    }
    println!("Baseline: {}", recipe.cells[recipe.baseline].name);
    println!("Confound threshold: {}", recipe.threshold);
    Ok(exit::ANSWER)
}

fn pairs(variables: &std::collections::BTreeMap<String, String>) -> String {
    if variables.is_empty() {
        return "none".into();
    }
    variables.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
