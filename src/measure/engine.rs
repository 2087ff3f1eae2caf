//! Is the engine of a finalist up? Starts it by its launch command, waits until it answers, stops it with all it started.

use super::endpoint::Endpoint;
use super::finalist::Finalist;
use super::http::{Connector, fetch};
use crate::{Error, Result};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The command that starts an entry's own launch line.
pub const OWN_LAUNCH: &str = "eval \"$LAUNCH\"";

/// An engine that this program started; dropped, it is stopped.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    log: PathBuf,
    stopped: bool,
}

/// How long an engine may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(20);

impl Engine {
    /// Runs `command` in a shell with `LAUNCH` (the entry's launch line) and `ENTRY` (the entry as JSON) in its
    /// environment; its words go to `log`. On Unix its processes form a group of their own.
    ///
    /// # Errors
    /// An entry without a launch line where the command needs one; no shell; a log that cannot be written.
    pub fn start(command: &str, finalist: &Finalist, log: &Path) -> Result<Self> {
        let tried = || format!("starting the engine of {}", finalist.name);
        if finalist.launch.is_empty() && command == OWN_LAUNCH {
            let repair = "Start the engine yourself and name it by --url, or give --launch=COMMAND";
            return Err(Error::input(tried(), "the entry has no launch command", repair));
        }
        let failed =
            |e: std::io::Error| Error::input(tried(), e.to_string(), "Is there a shell, and room for the log?");
        let out = File::create(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let entry = Value::Object(finalist.fields.clone()).to_string();
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("LAUNCH", &finalist.launch).env("ENTRY", entry);
        shell.stdin(Stdio::null()).stdout(out).stderr(err);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = shell.spawn().map_err(failed)?;
        Ok(Self { child, log: log.to_path_buf(), stopped: false })
    }

    /// The group of its processes.
    pub fn process_group(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the engine answers.
    ///
    /// # Errors
    /// It ended, or did not answer in time; with the last line of its log.
    pub async fn ready(&mut self, health: &Endpoint, limit: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let found = format!("the engine ended with {}: {}", words(status), self.last_words());
                return Err(self.error(health, found, "Run its command by hand"));
            }
            if answers(health).await {
                return Ok(());
            }
            if began.elapsed() > limit {
                let found = format!("no answer within {} s: {}", limit.as_secs_f64(), self.last_words());
                return Err(self.error(health, found, "Raise --start-timeout, or check --url and --health"));
            }
            tokio::time::sleep(Duration::from_millis(500).min(limit)).await;
        }
    }

    fn error(&self, health: &Endpoint, found: String, repair: &str) -> Error {
        Error::input(format!("{health}"), found, format!("{repair}; its log is {}", self.log.display()))
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it wrote nothing");
        last.chars().filter(|c| !c.is_control()).take(200).collect()
    }

    /// Ends all its processes.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        signal_group(self.process_group(), false);
        let began = Instant::now();
        while began.elapsed() < GRACE
            && (matches!(self.child.try_wait(), Ok(None)) || group_lives(self.process_group()))
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        signal_group(self.process_group(), true);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

fn words(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("code {code}"))
}

#[cfg(unix)]
fn signal_group(group: u32, kill: bool) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(pid) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, if kill { Signal::KILL } else { Signal::TERM });
    }
}

#[cfg(not(unix))]
fn signal_group(_: u32, _: bool) {}

#[cfg(unix)]
fn group_lives(group: u32) -> bool {
    use rustix::process::{Pid, test_kill_process_group};
    i32::try_from(group).ok().and_then(Pid::from_raw).is_some_and(|pid| test_kill_process_group(pid).is_ok())
}

#[cfg(not(unix))]
fn group_lives(_: u32) -> bool {
    false
}

async fn get(from: &Endpoint) -> Option<(u16, Vec<u8>)> {
    let connector = Connector::new(from, Instant::now(), Duration::from_secs(3)).ok()?;
    fetch(&connector, from, None, Duration::from_secs(5)).await.ok()
}

/// The health page says 200; a server without one lists its models.
pub async fn answers(health: &Endpoint) -> bool {
    match get(health).await {
        Some((200, _)) => true,
        Some((404 | 405, _)) => matches!(get(&health.sibling("/v1/models")).await, Some((200, _))),
        _ => false,
    }
}

/// What the engine says of its version: `/version` (vLLM, TensorRT-LLM), else `/get_server_info` (SGLang).
pub async fn reported_version(endpoint: &Endpoint) -> Option<String> {
    for path in ["/version", "/get_server_info"] {
        if let Some((200, body)) = get(&endpoint.sibling(path)).await
            && let Some(version) = serde_json::from_slice::<Value>(&body).ok()?["version"].as_str()
        {
            return Some(version.chars().filter(|c| c.is_ascii_graphic()).take(60).collect());
        }
    }
    None
}
