//! Runs a command in a folder of its own and keeps what it printed.

use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// What a command left behind.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The JSON document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e} in {}", self.stdout))
    }

    /// One line on standard error that contains every fragment, exit code 2, nothing on standard output.
    #[track_caller]
    pub fn refused_with(&self, fragments: &[&str]) {
        assert_eq!(self.code, 2, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "an error leaves standard output empty");
        for fragment in fragments {
            assert!(self.stderr.contains(fragment), "`{fragment}` is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        if self.stderr.starts_with("error: ") && !self.stderr.contains("--help") {
            assert_eq!(self.stderr.trim_end().lines().count(), 1, "more than one line: {}", self.stderr);
        }
    }
}

/// `inferasim-tune` with words split at spaces, in `folder`.
pub fn tune_in(folder: &Path, words: &str) -> Run {
    run("inferasim-tune", folder, words)
}

/// `inferasim-tune` in an empty folder.
pub fn tune(words: &str) -> Run {
    tune_in(TempDir::new().unwrap().path(), words)
}

/// `inferasim` in an empty folder.
pub fn inferasim(words: &str) -> Run {
    run("inferasim", TempDir::new().unwrap().path(), words)
}

/// `inferasim` in `folder`.
pub fn inferasim_in(folder: &Path, words: &str) -> Run {
    run("inferasim", folder, words)
}

fn run(binary: &str, folder: &Path, words: &str) -> Run {
    let mut command = assert_cmd::Command::cargo_bin(binary).unwrap();
    let command = command.current_dir(folder).env("NO_COLOR", "1").env_remove("COLUMNS").args(words.split_whitespace());
    let output = command.output().unwrap();
    Run {
        code: output.status.code().expect("ended by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder with one file.
pub fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    folder
}
