//! One trial: a process that runs the workload once, and the document about it.

use super::environment::Resolved;
use super::recipe::Cell;
use crate::inference::{Config, WorkloadResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Version of the document [`Trial`] serialises to.
pub const SCHEMA: &str = "inferasim.workload_trial/1";

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// Every check passed.
    Ok,
    /// A check failed.
    WorkloadFailed,
    /// The workload refused its configuration or device.
    WorkloadSetupFailed,
    /// The process could not be started, crashed, ran too long, or answered nonsense.
    InfrastructureFailed,
}

impl ExitStatus {
    /// As JSON spells it.
    pub fn word(self) -> &'static str {
        match self {
            ExitStatus::Ok => "ok",
            ExitStatus::WorkloadFailed => "workload_failed",
            ExitStatus::WorkloadSetupFailed => "workload_setup_failed",
            ExitStatus::InfrastructureFailed => "infrastructure_failed",
        }
    }

    /// Neither passed nor failed: the workload gave no verdict.
    pub fn is_error(self) -> bool {
        matches!(self, ExitStatus::WorkloadSetupFailed | ExitStatus::InfrastructureFailed)
    }
}

/// A trial's document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`SCHEMA`].
    pub schema_version: String,
    /// `inference_CELL_tN`.
    pub trial_id: String,
    /// `inference`.
    pub workload: String,
    /// Where it ran.
    pub execution_env: Resolved,
    /// Mitigations of its cell.
    pub mitigations_applied: Vec<String>,
    /// Variables set for it.
    pub variables: BTreeMap<String, String>,
    /// The configuration.
    pub config: Config,
    /// The workload's own document; null where it gave none.
    pub result: Option<WorkloadResult>,
    /// Wall time of the process, start included, seconds.
    pub wall_clock_sec: f64,
    /// How it ended.
    pub exit_status: ExitStatus,
    /// What the process said, where it gave no result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// How trials are started.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// This program.
    pub program: PathBuf,
    /// Further flags of `workload run`.
    pub flags: Vec<String>,
    /// Longest time of a trial.
    pub timeout: Duration,
}

impl Launcher {
    /// The command of a cell's trials; the configuration arrives on standard input.
    pub fn command(&self, cell: &Cell) -> Vec<String> {
        let workload = ["workload", "run", "--recipe", "-", "--json"].map(String::from);
        let mut command = match &cell.environment.docker {
            None => vec![self.program.display().to_string()],
            Some(image) => {
                let mut docker: Vec<String> = ["docker", "run", "--rm", "-i"].map(String::from).into();
                for (key, value) in &cell.variables {
                    docker.extend(["-e".to_string(), format!("{key}={value}")]);
                }
                docker.extend([image.clone(), "inferasim".to_string()]);
                docker
            }
        };
        command.extend(workload);
        command.extend(self.flags.iter().cloned());
        command
    }

    /// Runs trial `number` of a cell.
    pub fn run(&self, cell: &Cell, number: usize) -> Trial {
        let started = Instant::now();
        let (exit_status, result, error) = self.outcome(cell);
        Trial {
            schema_version: SCHEMA.into(),
            trial_id: format!("inference_{}_t{number}", cell.name),
            workload: "inference".into(),
            execution_env: cell.environment.clone(),
            mitigations_applied: cell.mitigations.clone(),
            variables: cell.variables.clone(),
            config: cell.config.clone(),
            result,
            wall_clock_sec: started.elapsed().as_secs_f64(),
            exit_status,
            error,
        }
    }

    fn outcome(&self, cell: &Cell) -> (ExitStatus, Option<WorkloadResult>, String) {
        let broken = |text: String| (ExitStatus::InfrastructureFailed, None, text);
        let config = match super::document::text_of(&cell.config) {
            Ok(text) => text,
            Err(error) => return broken(error.to_string()),
        };
        let argv = self.command(cell);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if cell.environment.docker.is_none() {
            command.envs(&cell.variables);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return broken(format!("{} cannot be started: {error}", argv[0])),
        };
        let stdin = child.stdin.take();
        let feed = std::thread::spawn(move || stdin.map(|mut pipe| pipe.write_all(config.as_bytes())));
        let out = reader(child.stdout.take());
        let err = reader(child.stderr.take());
        let limit = Instant::now() + self.timeout;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < limit => std::thread::sleep(Duration::from_millis(20)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
            }
        };
        let Some(status) = status else {
            return broken(format!("ran longer than {} s and was ended", self.timeout.as_secs()));
        };
        let _ = feed.join();
        let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        judge(status.code(), &out, &err)
    }
}

fn reader<R: Read + Send + 'static>(pipe: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What an exit code and the output of `workload run --json` mean.
fn judge(code: Option<i32>, out: &str, err: &str) -> (ExitStatus, Option<WorkloadResult>, String) {
    if let Ok(result) = serde_json::from_str::<WorkloadResult>(out) {
        let status = if result.passed { ExitStatus::Ok } else { ExitStatus::WorkloadFailed };
        return (status, Some(result), String::new());
    }
    let said = err.trim();
    match code {
        Some(2) => (ExitStatus::WorkloadSetupFailed, None, said.to_string()),
        Some(code) => (ExitStatus::InfrastructureFailed, None, format!("exit code {code} without a result. {said}")),
        None => (ExitStatus::InfrastructureFailed, None, format!("ended by a signal. {said}")),
    }
}

/// Writes a trial below a cell's folder and returns the path.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write(trial: &Trial, folder: &Path, number: usize) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("trial_{number}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(trial)? + "\n")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_without_a_result_are_no_verdict() {
        let status = |code, out, err| judge(code, out, err).0;
        assert_eq!(status(Some(2), "", "error: no"), ExitStatus::WorkloadSetupFailed);
        assert_eq!(status(Some(101), "", "panicked"), ExitStatus::InfrastructureFailed);
        assert_eq!(status(None, "", ""), ExitStatus::InfrastructureFailed);
        assert_eq!(status(Some(0), "{}", ""), ExitStatus::InfrastructureFailed);
        assert!(ExitStatus::InfrastructureFailed.is_error() && !ExitStatus::WorkloadFailed.is_error());
    }
}
