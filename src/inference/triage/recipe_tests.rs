//! Recipes that resolve, those that are refused, and what a matrix says of their trials.

use super::environment::MITIGATIONS;
use super::matrix::Matrix;
use super::recipe::Recipe;
use super::trial::{ExitStatus, SCHEMA, Trial};
use crate::catalog::Document;
use crate::inference::result::{Failure, Metrics, WorkloadResult};
use crate::inference::{Clock, Mode};

const TWO: &str = "schema_version: 1
ticket: T-1
workload: inference
trials: 2
steps: 3
workload_config:
  request: { batch_size: 2, prompt_len: 8 }
mitigations:
  slow: { SLOW: '1' }
cells:
  - { name: baseline-local, mitigations: [none], environment: local }
  - name: other
    mitigations: [slow, one_thread]
    environment: local
    extra_env: { MORE: '2' }
    trials: 1
    steps: 5
    workload_config: { request: { prompt_len: 16 } }
";

fn read(text: &str) -> crate::Result<Recipe> {
    Recipe::from_document(&Document { origin: "recipe.yaml".into(), text: text.into() })
}

#[test]
fn cells_take_what_they_do_not_say_from_the_recipe() {
    let recipe = read(TWO).unwrap();
    let (base, other) = (&recipe.cells[0], &recipe.cells[1]);
    assert_eq!((base.trials, base.config.steps, base.config.request.prompt_len), (2, 3, 8));
    assert_eq!((other.trials, other.config.steps, other.config.request.prompt_len), (1, 5, 16));
    // A cell replaces single keys, not whole sections.
    assert_eq!(other.config.request.batch_size, 2);
    let variables: Vec<String> = other.variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(variables, ["MORE=2", "RAYON_NUM_THREADS=1", "SLOW=1"]);
    assert_eq!(recipe.baseline, 0);
}

#[test]
fn the_examples_resolve() {
    let path = format!("{}/examples/recipes/triage.yaml", env!("CARGO_MANIFEST_DIR"));
    read(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (name, mode) in [("offline", Mode::OfflineBatch), ("continuous", Mode::ContinuousBatch)] {
        let path = format!("{}/examples/recipes/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let document = super::document::open(&path).unwrap();
        let config = super::document::config_of(&document).unwrap();
        assert_eq!(config.mode, mode);
        if name == "offline" {
            assert_eq!(config, crate::inference::Config::default());
        }
    }
    let document = Document { origin: "recipe.yaml".into(), text: TWO.into() };
    assert_eq!(super::document::config_of(&document).unwrap().steps, 3);
}

#[test]
fn each_defect_names_its_place() {
    let cases = [
        ("schema_version: 1", "schema_version: 2", "recipe.yaml: schema_version: is 2"),
        ("workload: inference", "workload: training", "no workload `training`"),
        (
            "[slow, one_thread]",
            "[slow, one_thred]",
            "cells[1].mitigations: no mitigation `one_thred`. Did you mean `one_thread`?",
        ),
        ("[slow, one_thread]", "[]", "cells[1].mitigations: is empty"),
        ("{ SLOW: '1' }", "{ RAYON_NUM_THREADS: '4' }", "another mitigation RAYON_NUM_THREADS=4"),
        ("name: other", "name: baseline-local", "cells[1].name: `baseline-local` appears twice"),
        ("name: other", "name: ../other", "cells[1].name: is `../other`"),
        ("    environment: local\n", "    environment: locale\n", "cells[1].environment: no environment `locale`"),
        ("trials: 1\n", "trials: 0\n", "cells[1].trials: is 0"),
        ("prompt_len: 16", "promt_len: 16", "cells[1].workload_config: request: unknown field `promt_len`"),
        ("prompt_len: 16", "prompt_len: 0", "`request.prompt_len` is 0"),
        ("request: { batch_size: 2, prompt_len: 8 }", "steps: 4", "workload_config: holds `steps`"),
        ("  slow: {", "  none: {", "`none` is built in"),
        ("trials: 2", "trails: 2", "Did you mean `trials`?"),
    ];
    for (from, to, expected) in cases {
        assert!(TWO.contains(from), "the case edits a text that exists: {from}");
        let error = read(&TWO.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn the_baseline_is_named_or_found() {
    assert_eq!(read(&TWO.replace("cells:", "confound: { baseline_cell: other }\ncells:")).unwrap().baseline, 1);
    let renamed = TWO.replace("baseline-local", "first");
    assert_eq!(read(&renamed).unwrap().baseline, 0);
    let none = renamed.replace("[none]", "[slow]");
    assert!(read(&none).unwrap_err().to_string().contains("no cell is a baseline"));
}

#[test]
fn mitigations_have_names_of_their_own() {
    let mut names: Vec<&str> = MITIGATIONS.iter().map(|m| m.0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), MITIGATIONS.len());
}

fn metrics(checksum: i64) -> Metrics {
    Metrics {
        mode: "offline_batch".into(),
        device: "cpu".into(),
        threads: Some(1),
        clock: Clock::Wall,
        dtype: "float32".into(),
        computed_in: "float32".into(),
        model_kind: "mlp".into(),
        parameter_count: 1,
        batch_size: 1,
        prompt_len: 1,
        generate_tokens: 1,
        kv_cache: true,
        prefill_latency_ms: None,
        prefill: None,
        decode_latency_ms: None,
        decode: None,
        tokens_per_sec: None,
        output_tokens_per_sec: None,
        decoded_tokens: 0,
        step_time_p50: None,
        step_time_p99: None,
        max_active_requests: None,
        requests_completed: None,
        ttft: None,
        request_latency: None,
        logits_checksum: Some(checksum),
    }
}

fn trial(recipe: &Recipe, cell: usize, checksum: i64, step_ms: f64, problem: Option<&str>) -> (Trial, String) {
    let failures: Vec<Failure> = problem
        .map(|p| Failure { step: Some(0), problems: vec![p.into()], detail: String::new() })
        .into_iter()
        .collect();
    let result = WorkloadResult {
        schema: crate::inference::result::SCHEMA.into(),
        passed: failures.is_empty(),
        failure_count: failures.len(),
        first_failure_iteration: None,
        failure_details: failures,
        total_iterations: 2,
        step_times_ms: vec![step_ms, step_ms],
        elapsed_sec: 1.0,
        setup_sec: 1.0,
        main_work_started: true,
        executed_iterations: 2,
        configured_iterations: 2,
        metrics: metrics(checksum),
    };
    let cell = &recipe.cells[cell];
    let exit_status = if result.passed { ExitStatus::Ok } else { ExitStatus::WorkloadFailed };
    let trial = Trial {
        schema_version: SCHEMA.into(),
        trial_id: "t".into(),
        workload: "inference".into(),
        execution_env: cell.environment.clone(),
        mitigations_applied: cell.mitigations.clone(),
        variables: cell.variables.clone(),
        config: cell.config.clone(),
        result: Some(result),
        wall_clock_sec: 2.0,
        exit_status,
        error: String::new(),
    };
    (trial, "trial_0.json".into())
}

#[test]
fn the_matrix_compares_with_the_baseline() {
    let recipe = read(TWO).unwrap();
    let trials = vec![
        vec![trial(&recipe, 0, 5, 10.0, None), trial(&recipe, 0, 5, 10.0, Some("nan_logits"))],
        vec![trial(&recipe, 1, 6, 12.0, None)],
    ];
    let matrix = Matrix::of(&recipe, &trials);
    assert!(!matrix.passed());
    let (base, other) = (&matrix.rows[0], &matrix.rows[1]);
    assert_eq!((base.passed, base.failed, base.failure_rate), (1, 1, Some(0.5)));
    assert_eq!(base.problems["nan_logits"], 1);
    assert_eq!((base.confound.as_str(), other.confound.as_str()), ("(baseline)", "speed (+20 %)"));
    // Another prompt length: the logits cannot be compared.
    assert_eq!(other.same_logits_as_baseline, None);
    let text = matrix.markdown();
    assert!(
        text.contains("| baseline-local | none | local | 50 % | nan_logits × 1 | 0 | 10.00 | one checksum |")
            || text.contains("| baseline-local | none | local | 50 % | nan_logits × 1 | 0 | 10.00 | as baseline |"),
        "{text}"
    );
}

#[test]
fn equal_runs_with_unequal_checksums_fail() {
    let recipe = read(TWO).unwrap();
    let trials = vec![
        vec![trial(&recipe, 0, 5, 10.0, None), trial(&recipe, 0, 6, 10.0, None)],
        vec![trial(&recipe, 1, 5, 9.0, None)],
    ];
    let row = &Matrix::of(&recipe, &trials).rows[0];
    assert_eq!((row.passed, row.failed, row.problems["checksum_differs"]), (1, 1, 1));
}

#[test]
fn a_trial_without_a_verdict_counts_apart() {
    let recipe = read(TWO).unwrap();
    let (mut broken, path) = trial(&recipe, 1, 5, 10.0, None);
    broken.result = None;
    broken.exit_status = ExitStatus::InfrastructureFailed;
    let trials = vec![vec![trial(&recipe, 0, 5, 10.0, None)], vec![(broken, path)]];
    let matrix = Matrix::of(&recipe, &trials);
    let row = &matrix.rows[1];
    assert_eq!((row.errors, row.failure_rate, row.confound.as_str()), (1, None, "error"));
    assert!(!matrix.passed());
}
