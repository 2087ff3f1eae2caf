//! The emitted workflow, rehearsed: every `run` step by bash as a runner would, on loopback, with the launch commands as
//! they are and a program named like the engine that serves in its place.

use crate::aid::*;
use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

struct Runner {
    root: PathBuf,
    path: String,
    url: String,
}

impl Runner {
    /// Runs a job's steps in a folder of their own; `uses` steps copy what the actions would move.
    fn job(&self, name: &str, job: &Value, matrix: &Value) -> bool {
        let cwd = self.root.join(name);
        std::fs::create_dir_all(&cwd).unwrap();
        let fill = |text: &str| {
            text.replace("${{ toJSON(matrix) }}", &matrix.to_string())
                .replace("${{ matrix.launch }}", matrix["launch"].as_str().unwrap_or_default())
                .replace("${{ matrix.rank }}", &matrix["rank"].to_string())
                .replace("${{ inputs.issue }}", "")
                .replace("${{ github.token }}", "")
        };
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        for (key, value) in job["env"].as_object().unwrap() {
            env.insert(key.clone(), fill(value.as_str().unwrap()));
        }
        env.insert("PATH".into(), self.path.clone());
        env.insert("URL".into(), self.url.clone());
        env.insert("PORT".into(), self.url.rsplit(':').next().unwrap().into());
        env.insert("GITHUB_STEP_SUMMARY".into(), self.root.join("summary.md").display().to_string());
        let mut ok = true;
        for step in job["steps"].as_array().unwrap() {
            let wanted = match step["if"].as_str() {
                None => ok,
                Some("always()") => true,
                Some("inputs.issue != ''") => false,
                Some(other) => panic!("unknown condition {other}"),
            };
            if !wanted {
                continue;
            }
            if let Some(script) = step["run"].as_str() {
                // `shell: bash` of a runner.
                let run = std::process::Command::new("bash")
                    .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
                    .env_clear()
                    .envs(&env)
                    .current_dir(&cwd)
                    .output()
                    .unwrap();
                if !run.status.success() {
                    eprintln!("{name}: {}: {}", step["name"], String::from_utf8_lossy(&run.stderr));
                    ok = false;
                }
            } else if step["uses"].as_str().unwrap().starts_with("actions/upload-artifact@") {
                let to = self.root.join("artifacts").join(fill(step["with"]["name"].as_str().unwrap()));
                for path in step["with"]["path"].as_str().unwrap().lines() {
                    copy(&cwd.join(path), &to.join(if path == "result" { "" } else { path }));
                }
            } else {
                copy(&self.root.join("artifacts"), &cwd.join(step["with"]["path"].as_str().unwrap()));
            }
        }
        ok
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    } else if from.is_dir() {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}

fn found(program: &str) -> bool {
    std::env::var("PATH").is_ok_and(|p| std::env::split_paths(&p).any(|dir| dir.join(program).exists()))
}

#[test]
fn the_emitted_workflow_runs_step_by_step() {
    if let Some(missing) = ["bash", "curl", "setsid"].iter().find(|p| !found(p)) {
        println!("SKIPPED: no {missing} on the PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ci/measure.yml");
    let answer = Command::new(env!("CARGO_BIN_EXE_inferasim-tune"))
        .args(
            "--target mi355x --space quick --isl 64 --osl 8 --concurrency 2 --top 2 --no-report --json --emit github"
                .split(' '),
        )
        .arg("--emit-to")
        .arg(&file)
        .assert()
        .code(0)
        .get_output()
        .stdout
        .clone();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["emitted"], file.display().to_string());
    let workflow: Value = serde_yaml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let (measure, compare) = (&workflow["jobs"]["measure"], &workflow["jobs"]["compare"]);
    let entries = measure["strategy"]["matrix"]["include"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert!(entries[0]["launch"].as_str().unwrap().starts_with("vllm serve "));

    // The engine's name on the PATH, in front of everything else.
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let shim = format!("#!/bin/sh\necho \"vllm $*\"\nexec {} \"$PORT\" 20 3 8\n", server_program().display());
    std::fs::write(bin.join("vllm"), shim).unwrap();
    std::process::Command::new("chmod").arg("+x").arg(bin.join("vllm")).status().unwrap();
    let ours = assert_cmd::cargo::cargo_bin("inferasim");
    let path = format!("{}:{}:{}", bin.display(), ours.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let url = format!("http://127.0.0.1:{}", free_port());
    let runner = Runner { root: folder.path().to_path_buf(), path, url: url.clone() };
    for entry in entries {
        assert!(runner.job(&format!("measure-{}", entry["rank"]), measure, entry));
        let port = url.rsplit(':').next().unwrap().parse().unwrap();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "the engine was stopped");
    }
    assert!(runner.job("compare", compare, &Value::Null));
    let summary = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.contains("## Measured finalists"), "{summary}");
    for entry in entries {
        assert!(summary.contains(entry["name"].as_str().unwrap()), "{summary}");
    }
    assert!(!summary.contains("not measured"), "{summary}");
    // The launch line of the second starts one of its two instances.
    assert_eq!((&entries[1]["replicas"], &entries[1]["concurrency"]), (&Value::from(2), &Value::from(2)));
    assert!(summary.contains("one of 2 equal instances"), "{summary}");
    let anchors = std::fs::read_dir(folder.path().join("artifacts/anchors/anchors")).unwrap().count();
    assert_eq!(anchors, 2);

    // An engine that does not start: the job fails with its words, the verdict says what is missing.
    std::fs::write(bin.join("vllm"), "#!/bin/sh\necho no kernel image >&2\nexit 1\n").unwrap();
    std::fs::remove_dir_all(folder.path().join("artifacts/result-1")).unwrap();
    std::fs::remove_dir_all(folder.path().join("measure-1")).unwrap();
    assert!(!runner.job("measure-1", measure, &entries[0]));
    std::fs::remove_dir_all(folder.path().join("compare")).unwrap();
    assert!(runner.job("compare", compare, &Value::Null));
    let summary = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.contains("1 not measured"), "{summary}");
}
