//! A search cut into parts and joined again is the search of one process; jobs that spread it say what they must.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const SEARCH: [&str; 4] = ["--target", "mi355x", "--slo", "ttft_ms=500"];

fn tune(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inferasim-tune")).args(arguments).current_dir(folder).output().unwrap()
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = tune(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(folder: &Path, arguments: &[&str], parts: &[&str]) {
    let output = tune(folder, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{part} not in {text}"));
}

fn shard(folder: &Path, index: usize, of: usize) -> String {
    let part = format!("{index}/{of}");
    done(folder, &[&SEARCH[..], &["--shard", &part, "--out", "parts"]].concat()).trim().to_string()
}

/// The answer as printed, without the two clocks.
fn without_clocks(text: &str) -> String {
    let clock = |line: &&str| !line.contains("\"elapsed_s\"") && !line.contains("\"cpu_s\"");
    text.lines().filter(clock).collect::<Vec<_>>().join("\n")
}

#[test]
fn parts_join_to_the_answer_of_one_process_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let whole = done(at, &[&SEARCH[..], &["--json", "--no-report"]].concat());
    for of in [1, 3] {
        let mut files: Vec<String> = (0..of).map(|i| shard(at, i, of)).collect();
        files.reverse();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let joined = done(at, &[&["merge"], &files[..], &["--json", "--no-report"]].concat());
        assert_eq!(without_clocks(&joined), without_clocks(&whole), "{of} parts");
    }
}

#[test]
fn missing_and_foreign_parts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (first, last) = (shard(at, 0, 4), shard(at, 3, 4));
    refused(
        at,
        &["merge", &first, &last, "--json"],
        &["2 are missing: 1, 2", "--target mi355x --slo ttft_ms=500 --shard 1/4"],
    );
    refused(at, &["merge", &first, &shard(at, 0, 2)], &["one of 2 parts", "one of 4"]);
    let text = fs::read_to_string(at.join(&first)).unwrap();
    fs::write(at.join("other.json"), text.replace("ttft_ms=500", "ttft_ms=400")).unwrap();
    refused(at, &["merge", &first, "other.json"], &["other.json", "another search"]);
    fs::write(at.join("cut.json"), &text[..text.len() / 2]).unwrap();
    refused(at, &["merge", "cut.json"], &["cut.json"]);
    refused(at, &["merge", "none.json"], &["none.json"]);
    for bad in ["4/4", "0/0", "x", "1", "-1/4"] {
        refused(at, &[&SEARCH[..], &[&format!("--shard={bad}")]].concat(), &["--shard"]);
    }
    refused(at, &[&SEARCH[..], &["--shard", "0/2", "--backend", "random"]].concat(), &["exhaustive"]);
}

#[test]
fn a_job_file_for_every_engine() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let job = |on: &str, more: &[&str]| {
        let place = done(at, &[&["dispatch", "--on", on, "--shards", "4"], more, &["--"], &SEARCH[..]].concat());
        fs::read_to_string(at.join(place.trim())).unwrap()
    };
    let slurm = job("slurm", &[]);
    assert!(slurm.contains("#SBATCH --array=0-3"), "{slurm}");
    assert!(
        slurm.contains("inferasim-tune --target mi355x --slo ttft_ms=500 --shard $SLURM_ARRAY_TASK_ID/4"),
        "{slurm}"
    );
    let kubernetes: Value = serde_yaml::from_str(&job("kubernetes", &["--image", "registry/inferasim:1"])).unwrap();
    assert_eq!(
        (&kubernetes["spec"]["completionMode"], &kubernetes["spec"]["completions"]),
        (&"Indexed".into(), &4.into())
    );
    let container = &kubernetes["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry/inferasim:1");
    assert!(container["command"][2].as_str().unwrap().contains("--shard $JOB_COMPLETION_INDEX/4"));
    let github: Value = serde_yaml::from_str(&job("github", &[])).unwrap();
    assert_eq!(github["jobs"]["part"]["strategy"]["matrix"]["shard"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(github["jobs"]["merge"]["needs"], "part");
    assert!(
        job("ray", &[]).contains("COMMAND = [\"inferasim-tune\",\"--target\",\"mi355x\",\"--slo\",\"ttft_ms=500\"]")
    );
    refused(at, &["dispatch", "--on", "slurm", "--shards", "4", "--", "--targt", "mi355x"], &["--targt"]);
    refused(at, &["dispatch", "--on", "kubernetes", "--shards", "4", "--", "--target", "mi355x"], &["--image"]);
    refused(
        at,
        &["dispatch", "--on", "github", "--shards", "4", "--submit", "--", "--target", "mi355x"],
        &["--submit"],
    );
}

#[test]
fn auto_says_what_it_chose_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let auto = |more: &[&str]| -> Value {
        let text = done(folder.path(), &[&SEARCH[..], &["--json", "--no-report", "--backend", "auto"], more].concat());
        serde_json::from_str(&text).unwrap()
    };
    let small = auto(&[]);
    assert_eq!((&small["backend"], &small["stop"]), (&"exhaustive".into(), &"exhausted".into()));
    assert!(small["search_notes"][0].as_str().unwrap().contains("auto chose exhaustive: all 7680 points"));
    let short = auto(&["--budget", "100"]);
    assert_eq!(short["backend"], "ego");
    // It may see before the budget is spent that nothing better is to be expected.
    let (evaluations, stop) = (short["evaluations"].as_u64().unwrap(), short["stop"].as_str().unwrap());
    assert!(evaluations == 100 && stop == "budget" || evaluations < 100 && stop == "converged", "{evaluations} {stop}");
}
