//! Printed output as snapshots (`tests/cli/snapshots/`). Times and the version are masked.

use crate::command::{Run, inferasim, tune};

fn printed(run: &Run) -> String {
    assert_eq!(run.stderr, "");
    let widest = run.stdout.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= 100, "{widest} columns");
    assert!(!run.stdout.contains('\u{1b}'), "escape codes in piped output");
    assert!(run.stdout.lines().all(|line| line == line.trim_end()), "blanks at the end of a line");
    run.stdout.lines().map(masked).collect::<Vec<_>>().join("\n")
}

/// `…, in 0.38 s` without the time.
fn masked(line: &str) -> String {
    match line.rsplit_once(", in ") {
        Some((head, tail)) if tail.ends_with(" s") => format!("{head}, in # s"),
        _ => line.to_string(),
    }
}

#[test]
fn a_small_search() {
    let run = tune("--target mi355x --slo ttft_ms=500 --space quick --no-report");
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(printed(&run));
}

#[test]
fn a_search_without_an_answer() {
    let run = tune("--target mi355x --slo tpot_ms=1 --space quick --no-report");
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(printed(&run));
}

#[test]
fn the_memory_of_a_deployment() {
    let run = inferasim("memory --target mi355x --model gpt-oss-120b --tp 8");
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(printed(&run));
}

#[test]
fn a_model() {
    let run = inferasim("show model gpt-oss-120b");
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(printed(&run));
}

#[test]
fn one_projection() {
    let run = inferasim("project --target mi355x --model gpt-oss-120b --engine vllm --tp 8 --concurrency 64");
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(printed(&run));
}

#[test]
fn the_built_in_targets() {
    let run = inferasim("list targets");
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(printed(&run));
}
