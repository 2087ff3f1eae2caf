//! A search that is killed, interrupted or finished can be taken up again, and ends with the answer of one that ran
//! through.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SEARCH: [&str; 7] = ["--target", "mi355x", "--slo", "ttft_ms=500", "--json", "--seed", "4"];

fn tune(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferasim-tune"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn answer(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{errors}"))
}

/// The answer without clocks and folder names.
fn essence(mut answer: Value) -> Value {
    for clock in ["elapsed_s", "cpu_s", "report"] {
        answer[clock].take();
    }
    answer
}

fn search(folder: &Path, more: &[&str]) -> Value {
    let output = tune(folder, &[&SEARCH[..], more].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    answer(&output)
}

fn the_run(folder: &Path) -> PathBuf {
    let runs = fs::read_dir(folder.join("reports")).unwrap().map(|e| e.unwrap().path());
    let mut runs: Vec<PathBuf> = runs.filter(|p| p.join("journal.jsonl").exists()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

fn lines(run: &Path) -> usize {
    fs::read_to_string(run.join("journal.jsonl")).unwrap().lines().count()
}

/// Starts a search and waits until its journal has grown; returns the process and the run.
fn half_way(folder: &Path, more: &[&str], enough: usize) -> (std::process::Child, PathBuf) {
    let mut child = tune(folder, &[&SEARCH[..], more].concat()).spawn().unwrap();
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(60), "no journal after a minute");
        assert!(child.try_wait().unwrap().is_none(), "the search ended before it could be stopped");
        if folder.join("reports").exists()
            && fs::read_dir(folder.join("reports")).unwrap().any(|e| e.unwrap().path().join("journal.jsonl").exists())
        {
            let run = the_run(folder);
            if lines(&run) > enough {
                return (child, run);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn resumed(folder: &Path, run: &Path, more: &[&str]) -> Value {
    let output = tune(folder, &[&["--resume", run.to_str().unwrap(), "--json"], more].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    answer(&output)
}

#[test]
fn a_killed_search_resumes_to_the_same_answer() {
    for backend in ["random", "swarm", "anneal", "evolve"] {
        let flags = ["--backend", backend, "--budget", "900"];
        let whole = tempfile::tempdir().unwrap();
        let expected = search(whole.path(), &flags);
        let folder = tempfile::tempdir().unwrap();
        let (mut child, run) = half_way(folder.path(), &flags, 60);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let kept = lines(&run);
        assert!(kept < 900, "{backend}: killed too late");
        // What a crash in the middle of a write leaves.
        let mut torn = fs::read(run.join("journal.jsonl")).unwrap();
        torn.extend_from_slice(b"{\"point\":12,\"figures\":{\"Ok\":{\"metr");
        fs::write(run.join("journal.jsonl"), torn).unwrap();
        let found = resumed(folder.path(), &run, &[]);
        assert_eq!(essence(found.clone()), essence(expected), "{backend}");
        assert_eq!(
            fs::canonicalize(folder.path().join(found["report"].as_str().unwrap())).unwrap(),
            fs::canonicalize(&run).unwrap()
        );
        assert!(run.join("report.html").exists());
    }
}

#[test]
fn a_finished_search_takes_more_budget() {
    let flags = ["--backend", "random", "--budget", "150"];
    let whole = tempfile::tempdir().unwrap();
    let expected = search(whole.path(), &["--backend", "random", "--budget", "300"]);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(search(folder.path(), &flags)["evaluations"], 150);
    let run = the_run(folder.path());
    let mut found = resumed(folder.path(), &run, &["--budget", "300"]);
    assert_eq!((&found["evaluations"], &found["stop"]), (&Value::from(300), &Value::from("budget")));
    let mut expected = expected;
    for document in [&mut found, &mut expected] {
        document["budget"].take();
    }
    assert_eq!(essence(found), essence(expected));
    assert_eq!(lines(&run), 301, "the first line and one an evaluation");
}

#[cfg(unix)]
#[test]
fn ctrl_c_writes_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (child, run) = half_way(folder.path(), &["--backend", "random", "--budget", "100000"], 200);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.id() as i32).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = answer(&output);
    assert_eq!(found["stop"], "interrupted");
    assert!(found["evaluations"].as_u64().unwrap() >= 200);
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("--resume"), "{warnings}");
    assert!(run.join("report.html").exists() && run.join("run.json").exists());
}

#[test]
fn what_cannot_be_resumed_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = tune(folder.path(), arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part} not in {text}"));
    };
    refused(&["--resume", "no/such/run"], &["journal", "no/such/run"]);
    refused(&["--resume", "x", "--target", "mi355x"], &["--target", "--resume"]);
    let space = "name: mine\nabout: mine\nknobs:\n  tp: [1, 2, 4, 8]\n  concurrency: [1, 2, 4]\n";
    fs::write(folder.path().join("mine.yaml"), space).unwrap();
    search(folder.path(), &["--space", "mine.yaml", "--backend", "random", "--budget", "5"]);
    let run = the_run(folder.path());
    fs::write(folder.path().join("mine.yaml"), space.replace("[1, 2, 4]", "[1, 2, 8]")).unwrap();
    refused(&["--resume", run.to_str().unwrap()], &["has changed"]);
}
