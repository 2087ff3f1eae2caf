//! `inferasim-tune dispatch`: spreads a search over a cluster, as a job file for an engine that exists.

use super::arguments::Arguments as SearchArguments;
use crate::error::exit;
use crate::export::cluster::Parts;
use crate::{Error, Result};
use clap::{Parser, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Spread a search over a cluster: write the job file, and with --submit hand it to Slurm or Ray.
///
/// The flags of the search follow after `--`.
#[derive(Debug, Parser)]
#[command(name = "inferasim-tune dispatch", version)]
pub struct Arguments {
    /// The engine
    #[arg(long, value_enum)]
    on: Engine,
    /// Parts the space is cut into
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    shards: u64,
    /// Folder of the parts and of the job file, seen by all machines
    #[arg(long, default_value = "shards")]
    out: PathBuf,
    /// The program on those machines
    #[arg(long, default_value = "inferasim-tune")]
    program: String,
    /// Container image of the pods
    #[arg(long, required_if_eq("on", "kubernetes"))]
    image: Option<String>,
    /// Volume claim that the pods share
    #[arg(long, default_value = "inferasim-shards")]
    claim: String,
    /// Submit it: `sbatch` (the parts, and a job that joins them), or `ray job submit`
    #[arg(long)]
    submit: bool,
    /// Flags of the search
    #[arg(last = true, required = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// An array job
    Slurm,
    /// An indexed Job
    Kubernetes,
    /// A driver program
    Ray,
    /// A workflow with a matrix
    Github,
}

/// Writes the job file; submits it where asked to.
pub fn run(arguments: &Arguments) -> Result<u8> {
    check(&arguments.flags)?;
    let submits = matches!(arguments.on, Engine::Slurm | Engine::Ray);
    if arguments.submit && !submits {
        let repair = "Leave --submit out and hand the file over yourself";
        return Err(Error::input("--submit", "only Slurm and Ray take a job from here", repair));
    }
    let parts = Parts {
        program: arguments.program.clone(),
        flags: arguments.flags.clone(),
        count: arguments.shards,
        folder: arguments.out.display().to_string(),
    };
    let (name, text) = match arguments.on {
        Engine::Slurm => ("job.slurm", parts.slurm()),
        Engine::Kubernetes => {
            ("job.yaml", parts.kubernetes(arguments.image.as_deref().unwrap_or_default(), &arguments.claim))
        }
        Engine::Ray => ("job.py", parts.ray()),
        Engine::Github => ("workflow.yml", parts.github()),
    };
    let place = arguments.out.join(name);
    let unwritable = |e: std::io::Error| {
        Error::input(place.display().to_string(), format!("cannot be written: {e}"), "Choose another folder with --out")
    };
    fs::create_dir_all(&arguments.out).map_err(unwritable)?;
    fs::write(&place, text).map_err(unwritable)?;
    println!("{}", place.display());
    if arguments.submit {
        submit(arguments.on, &place, &parts)?;
    }
    Ok(exit::ANSWER)
}

/// The flags must be those of a search that can be cut into parts.
fn check(flags: &[String]) -> Result<()> {
    let words = std::iter::once("inferasim-tune").chain(flags.iter().map(String::as_str));
    let parsed = SearchArguments::try_parse_from(words.chain(["--shard", "0/1"])).map_err(|e| {
        let text = e.to_string();
        let found = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
        Error::input(format!("dispatch -- {}", flags.join(" ")), found, "Give the flags of a search after `--`")
    })?;
    if parsed.out != Path::new("reports") {
        return Err(Error::input(
            "dispatch -- --out",
            "the parts have a folder of their own",
            "Give --out before `--`",
        ));
    }
    Ok(())
}

fn submit(on: Engine, place: &Path, parts: &Parts) -> Result<()> {
    if on == Engine::Ray {
        println!("{}", start("ray", &["job", "submit", "--", "python3", &place.display().to_string()])?);
        return Ok(());
    }
    let job = start("sbatch", &["--parsable", &place.display().to_string()])?;
    let after = format!("--dependency=afterok:{job}");
    let merge = start("sbatch", &["--parsable", &after, "--job-name=inferasim-merge", "--wrap", &parts.slurm_merge()])?;
    println!("job {job}, joined by job {merge}");
    Ok(())
}

/// Runs a program to its end; its standard output.
fn start(program: &str, arguments: &[&str]) -> Result<String> {
    let tried = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output().map_err(|e| {
        Error::input(
            tried(),
            e.to_string(),
            format!("Install {program}, or leave --submit out and submit the file yourself"),
        )
    })?;
    if !output.status.success() {
        let found = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("failed").to_string();
        return Err(Error::input(tried(), found, "Look at the cluster, then submit the file yourself"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
