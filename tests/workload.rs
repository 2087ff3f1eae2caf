//! `inferasim workload` as a user runs it. Without the feature it says how to get it; with it the runs are small.

use assert_cmd::Command;
use serde_json::Value;

fn inferasim(arguments: &[&str]) -> (i32, String, String) {
    let run = Command::cargo_bin("inferasim").unwrap().env("NO_COLOR", "1").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (run.status.code().unwrap(), text(&run.stdout), text(&run.stderr))
}

fn example(name: &str) -> String {
    format!("{}/examples/recipes/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_dry_run_prints_the_cells_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (code, text, _) =
        inferasim(&["workload", "triage", "--recipe", &example("triage"), "--dry-run", "--out", out.to_str().unwrap()]);
    assert_eq!(code, 0);
    for part in ["EXAMPLE-INFERENCE-SMOKE", "baseline-local", "RAYON_NUM_THREADS=1", "Baseline: baseline-local", "1.15"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!out.exists());
    let (code, json, _) = inferasim(&["workload", "triage", "--recipe", &example("triage"), "--dry-run", "--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, document["cells"].as_array().unwrap().len()), (0, 2));
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.yaml");
    std::fs::write(&path, "mode: offline_batch\nrequest:\n  promt_len: 4\n").unwrap();
    for arguments in [
        vec!["workload", "run", "--recipe", path.to_str().unwrap()],
        vec!["workload", "run", "--recipe", "/nowhere.yaml"],
        vec!["workload", "triage", "--recipe", path.to_str().unwrap()],
        vec!["workload", "compare", "--target", "mi355x"],
        vec!["workload", "run", "--steps", "0"],
    ] {
        let (code, out, err) = inferasim(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?} {err}");
    }
    let (_, _, err) = inferasim(&["workload", "run", "--recipe", path.to_str().unwrap()]);
    assert!(err.contains("bad.yaml:3") && err.contains("Did you mean `prompt_len`?"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn the_decoder_is_a_model_the_projector_shows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.yaml");
    let (code, text, _) = inferasim(&["workload", "model"]);
    std::fs::write(&path, text).unwrap();
    assert_eq!(code, 0);
    let (code, json, err) = inferasim(&["show", "model", path.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{err}");
    let document: Value = serde_json::from_str(&json).unwrap();
    // 33,170,432 parameters, the biases of its norms (9 × 512) apart.
    let counted = document["parameters"].as_f64().unwrap();
    assert!((counted - 33_170_432.0).abs() <= 2.0 * 9.0 * 512.0, "{counted}");
}

#[cfg(not(feature = "workload"))]
#[test]
fn without_the_feature_it_says_how_to_get_it() {
    for command in [vec!["run"], vec!["probe"], vec!["triage", "--recipe", &example("triage")]] {
        let (code, out, err) = inferasim(&[vec!["workload"], command].concat());
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("--features workload"), "{err}");
    }
}

#[cfg(feature = "workload")]
mod built {
    use super::*;

    #[test]
    fn a_run_repeats_its_checksum_and_can_be_held_to_it() {
        let run = |extra: &[&str]| {
            let recipe = example("continuous");
            let (code, json, err) = inferasim(&[&["workload", "run", "--recipe", &recipe, "--json"], extra].concat());
            (code, serde_json::from_str::<Value>(&json).unwrap_or_else(|_| panic!("{json} {err}")))
        };
        let (code, first) = run(&[]);
        assert_eq!((code, &first["passed"]), (0, &Value::Bool(true)), "{first}");
        for key in ["failure_count", "failure_details", "step_times_ms", "total_iterations", "elapsed_sec"] {
            assert!(first.get(key).is_some(), "{key}");
        }
        for key in ["mode", "device", "dtype", "model_kind", "parameter_count", "prefill_latency_ms", "step_time_p99"] {
            assert!(!first["metrics"][key].is_null(), "{key}");
        }
        assert_eq!(first["metrics"]["requests_completed"], 6);
        let checksum = first["metrics"]["logits_checksum"].as_i64().unwrap();
        let (code, again) = run(&["--expect-checksum", &checksum.to_string()]);
        assert_eq!((code, again["metrics"]["logits_checksum"].as_i64()), (0, Some(checksum)));
        let (code, other) = run(&["--expect-checksum", "1"]);
        assert_eq!((code, &other["failure_details"][0]["problems"][0]), (1, &Value::from("checksum_differs")));
        let (code, short) = run(&["--steps", "3"]);
        assert_eq!((code, &short["failure_details"][0]["problems"][0]), (1, &Value::from("incomplete_requests")));
    }

    #[test]
    fn a_comparison_probes_in_turn_with_its_runs() {
        let words = ["workload", "compare", "--shapes", "2x16x3", "--rounds", "1", "--within", "1e6", "--json"];
        let (code, json, err) = inferasim(&words);
        let found: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json} {err}"));
        assert_eq!((code, found["rows"].as_array().map(Vec::len)), (0, Some(2)), "{found}");
        assert!(found["target"].is_null() && found["probed"].as_str().unwrap().contains("workload probe"), "{found}");
        assert!(found["rows"].as_array().unwrap().iter().all(|r| r["projected_ms"].as_f64().unwrap() > 0.0), "{found}");
        let (code, _, err) = inferasim(&["workload", "compare", "--target", "mi355x", "--threads", "2"]);
        assert!(code == 2 && err.contains("--threads"), "{err}");
    }

    #[test]
    fn a_triage_leaves_trials_and_a_matrix() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let (code, text, err) = inferasim(&["workload", "triage", "--recipe", &example("triage"), "--out", out]);
        assert_eq!(code, 0, "{text} {err}");
        let run = folder.path().join("EXAMPLE-INFERENCE-SMOKE/run-001");
        let matrix: Value = serde_json::from_str(&std::fs::read_to_string(run.join("matrix.json")).unwrap()).unwrap();
        assert_eq!(matrix["rows"][1]["passed"], 2);
        assert_eq!(matrix["rows"][1]["logits_checksums"].as_array().unwrap().len(), 1);
        let trial = std::fs::read_to_string(run.join("cells/one-thread/trial_1.json")).unwrap();
        let trial: Value = serde_json::from_str(&trial).unwrap();
        assert_eq!((&trial["exit_status"], &trial["result"]["metrics"]["threads"]), (&"ok".into(), &1.into()));
        assert!(std::fs::read_to_string(run.join("matrix.md")).unwrap().contains("| one-thread |"));
        // What was run can be run again.
        let again = run.join("recipe.resolved.yaml");
        assert_eq!(inferasim(&["workload", "triage", "--recipe", again.to_str().unwrap(), "--dry-run"]).0, 0);
    }

    #[test]
    fn a_device_this_build_lacks_is_refused() {
        if cfg!(feature = "rocm") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocm.yaml");
        std::fs::write(&path, "device: rocm\n").unwrap();
        let (code, _, err) = inferasim(&["workload", "run", "--recipe", path.to_str().unwrap()]);
        assert_eq!(code, 2);
        assert!(err.contains("--features rocm"), "{err}");
        let (code, _, err) = inferasim(&["workload", "run", "--clock", "cpu", "--threads", "2"]);
        assert_eq!(code, 2);
        assert!(err.contains("no latency"), "{err}");
    }

    #[test]
    fn a_probe_writes_a_target_that_the_projector_reads() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let probe = ["workload", "probe", "--out", out, "--rounds", "1", "--clock", "cpu", "--device", "cpu"];
        let (code, text, err) = inferasim(&probe);
        assert_eq!(code, 0, "{text} {err}");
        let target = format!("{out}/target.yaml");
        let load = ["--concurrency", "1", "--isl", "64", "--osl", "8", "--json"];
        let (code, json, err) = inferasim(&[&["project", "--target", &target][..], &load].concat());
        assert_eq!(code, 0, "{json} {err}");
        let projection: Value = serde_json::from_str(&json).unwrap();
        // A decoder of 33 M parameters on a processor: slower than a GPU, faster than a second a token.
        let tpot = projection["tpot_ms"].as_f64().unwrap();
        assert!((0.5..1000.0).contains(&tpot), "{tpot}");
        // A processor computes in 32 bits, and the projector is told so.
        let shown: Value = serde_json::from_str(&inferasim(&["show", "target", &target, "--json"]).1).unwrap();
        assert_eq!((&shown["kernels"]["dtype"], &shown["kernels"]["format"]), (&"bfloat16".into(), &"f32".into()));
        let shape = ["--shapes", "2x16x4", "--rounds", "1", "--within", "1000", "--json"];
        let (code, json, err) = inferasim(&[&["workload", "compare", "--target", &target][..], &shape].concat());
        assert_eq!(code, 0, "{json} {err}");
        let compared: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&compared["computed_in"], compared["rows"].as_array().unwrap().len()), (&"float32".into(), 2));
    }
}
