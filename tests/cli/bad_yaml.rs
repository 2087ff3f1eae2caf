//! A YAML file with a mistake ends in one line that names file, line and repair.

use crate::command::{Run, folder_with, tune_in};

fn shipped(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn line_of(text: &str, key: &str) -> usize {
    1 + text.lines().position(|line| line.trim_start().starts_with(key)).unwrap()
}

fn with_target(text: &str) -> Run {
    tune_in(folder_with("mine.yaml", text).path(), "--target mine.yaml --no-report")
}

fn with_space(knobs: &str) -> Run {
    let text = format!("name: mine\nabout: one\nknobs:\n{knobs}");
    tune_in(folder_with("mine.yaml", &text).path(), "--target mi355x --space mine.yaml --no-report")
}

fn with_objective(text: &str) -> Run {
    tune_in(folder_with("mine.yaml", text).path(), "--target mi355x --objective mine.yaml --no-report")
}

#[test]
fn a_good_copy_of_a_shipped_target_is_accepted() {
    let run = with_target(&shipped("targets/mi355x.yaml"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn unknown_keys_name_the_line_and_the_nearest_key() {
    let target = shipped("targets/mi355x.yaml").replace("hbm_tb_s:", "hbm_tbs:");
    let line = line_of(&target, "hbm_tbs");
    with_target(&target).refused_with(&[&format!("mine.yaml:{line}"), "hbm_tbs", "`hbm_tb_s`"]);
    with_space("  tp: [1]\n  concurency: [1]\n").refused_with(&["mine.yaml:5", "concurency", "`concurrency`"]);
    with_objective("name: a\nabout: b\nmetrik: tpot_ms\n").refused_with(&["mine.yaml:3", "metrik", "`metric`"]);
}

#[test]
fn wrong_types_name_the_line() {
    let target = shipped("targets/mi355x.yaml").replace("gpus: 8", "gpus: eight");
    let line = line_of(&target, "gpus: eight");
    with_target(&target).refused_with(&[&format!("mine.yaml:{line}"), "eight"]);
    with_space("  tp: [1, two]\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
    with_space("  tp: [1.5]\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
}

#[test]
fn negative_nan_and_absurd_numbers_are_refused() {
    let shipped = shipped("targets/mi355x.yaml");
    for bad in ["-8.0", ".nan", ".inf", "0", "1e30"] {
        let target = shipped.replace("hbm_tb_s: { value: 8.0", &format!("hbm_tb_s: {{ value: {bad}"));
        let line = line_of(&target, "hbm_tb_s");
        with_target(&target).refused_with(&[&format!("mine.yaml:{line}"), "hbm_tb_s", "between"]);
    }
    let target = shipped.replace("gpus: 8", "gpus: 4000000000");
    with_target(&target).refused_with(&["mine.yaml", "gpus"]);
    with_space("  tp: [0]\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
    with_space("  tp: [-1]\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
    with_space("  tp: [1]\n  memory_fraction: [1.5]\n  concurrency: [1]\n")
        .refused_with(&["mine.yaml:5", "memory_fraction"]);
    with_objective("name: a\nabout: b\nmetric: tok_s_per_gpu\nslo:\n  ttft_ms: -5\n")
        .refused_with(&["mine.yaml:5", "ttft_ms"]);
    with_objective("name: a\nabout: b\nmetric: tok_s_per_gpu\nslo:\n  ttft_ms: .nan\n")
        .refused_with(&["mine.yaml:5", "ttft_ms"]);
}

#[test]
fn unknown_slos_and_metrics_name_the_nearest() {
    with_objective("name: a\nabout: b\nmetric: tok_s_per_gpus\n").refused_with(&[
        "mine.yaml:3",
        "tok_s_per_gpus",
        "`tok_s_per_gpu`",
    ]);
    with_objective("name: a\nabout: b\nmetric: tok_s_per_gpu\nslo:\n  ttft: 5\n").refused_with(&[
        "mine.yaml:5",
        "ttft",
        "`ttft_ms`",
    ]);
}

#[test]
fn empty_spaces_are_refused() {
    with_space("  tp: []\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
    with_space("  tp: { pow2: [8, 1] }\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
    with_space("  tp: { range: [9, 8], step: 1 }\n  concurrency: [1]\n").refused_with(&["mine.yaml:4", "tp"]);
}

#[test]
fn spaces_beyond_counting_are_refused() {
    let many = "{ range: [1, 1000], step: 1 }";
    let knobs = format!(
        "  tp: {many}\n  pp: {many}\n  ep: {many}\n  attention_dp: {many}\n  replicas: {many}\n  max_num_seqs: {many}\n  \
         concurrency: {many}\n"
    );
    with_space(&knobs).refused_with(&["points"]);
}

#[test]
fn truncated_and_foreign_files_are_refused() {
    let whole = shipped("targets/mi355x.yaml");
    for cut in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 40] {
        with_target(&whole[..cut]).refused_with(&["mine.yaml"]);
    }
    with_target("[1, 2, 3]\n").refused_with(&["mine.yaml"]);
    with_target("just words\n").refused_with(&["mine.yaml"]);
    with_target("a: b: c\n").refused_with(&["mine.yaml:1"]);
    with_target("name: [\n").refused_with(&["mine.yaml"]);
    with_target(&shipped("spaces/default.yaml")).refused_with(&["mine.yaml"]);
    with_target("a: &a [*a, *a]\n").refused_with(&["mine.yaml"]);
}
