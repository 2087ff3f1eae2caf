//! Where nothing is feasible the answer is the closest point and what blocks it, and the exit code is 3.

use crate::command::tune;

#[test]
fn a_limit_nothing_meets_names_the_closest_point() {
    let run = tune("--target mi355x --space quick --slo tpot_ms=0.001 --no-report");
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    assert!(run.stdout.contains("tpot_ms over 0.001"), "{}", run.stdout);
    assert!(run.stdout.to_lowercase().contains("closest"), "{}", run.stdout);
    assert!(run.stdout.contains("over the budget of 0.001"), "{}", run.stdout);
}

#[test]
fn the_json_document_says_it_too() {
    let run = tune("--target mi355x --space quick --slo tpot_ms=0.001 --no-report --json");
    assert_eq!(run.code, 3);
    let answer = run.json();
    assert_eq!(answer["feasible"], 0);
    assert!(answer["best"].is_null());
    let out: u64 = answer["rejected"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(answer["points"].as_u64().unwrap(), out);
}

#[test]
fn a_model_larger_than_the_cluster_does_not_fit_by_so_much() {
    // 671 B parameters in 8 bits against one GPU of 80 GB.
    let run = tune("--target h100 --model deepseek-r1 --gpus 1 --no-report");
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    assert!(run.stdout.contains("deepseek-r1 on 1 × H100"), "{}", run.stdout);
    assert!(run.stdout.contains("memory"), "{}", run.stdout);
    assert!(run.stdout.contains("GiB"), "{}", run.stdout);
}

#[test]
fn a_space_without_a_legal_point_says_which_rule_it_breaks() {
    let folder =
        crate::command::folder_with("mine.yaml", "name: mine\nabout: a\nknobs:\n  tp: [6]\n  concurrency: [8]\n");
    let words = "--target mi355x --model llama-3.3-70b --space mine.yaml --no-report";
    let run = crate::command::tune_in(folder.path(), words);
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    assert!(run.stdout.contains("tp 6 does not divide 64 attention heads"), "{}", run.stdout);
}
