//! Files that cannot be read, are cut off or hold something else; report folders that cannot be written.

use crate::command::{folder_with, inferasim_in, tune_in};
use std::path::Path;
use tempfile::TempDir;

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn files_that_are_not_there_or_not_text() {
    let folder = folder_with("binary.yaml", "");
    std::fs::write(folder.path().join("binary.yaml"), [0xff, 0xfe, 0x00, 0x01]).unwrap();
    let tune = |words: &str| tune_in(folder.path(), words);
    tune("--target ./absent.yaml --no-report").refused_with(&["./absent.yaml", "no such file"]);
    tune("--target binary.yaml --no-report").refused_with(&["binary.yaml", "not UTF-8"]);
    tune("--target mi355x --space binary.yaml --no-report").refused_with(&["binary.yaml"]);
    tune("--target mi355x --model ./absent/config.json --no-report").refused_with(&["absent"]);
    tune("--target mi355x --model . --no-report").refused_with(&["config.json"]);
    tune("--target . --no-report").refused_with(&["is a folder"]);
}

#[test]
fn config_files_of_something_else() {
    let refuse = |text: &str, fragments: &[&str]| {
        let folder = folder_with("config.json", text);
        tune_in(folder.path(), "--target mi355x --model config.json --no-report").refused_with(fragments);
        inferasim_in(folder.path(), "show model config.json --json").refused_with(fragments);
    };
    refuse(r#"{"architectures":["BertForMaskedLM"],"hidden_size":768}"#, &["config.json", "BertForMaskedLM"]);
    refuse(r#"{"name":"left-pad","version":"1.0.0"}"#, &["config.json", "architectures"]);
    refuse(r#"{"architectures":["LlamaForCausalLM"],"hidden_size":40"#, &["config.json", "cut off"]);
    refuse("", &["config.json"]);
    refuse("name: yaml\n", &["config.json", "JSON"]);
}

#[test]
fn a_report_folder_that_cannot_be_written_stops_before_the_search() {
    // A file in the place of the folder: no permission bits, so this holds for root as well.
    let folder = folder_with("reports", "in the way");
    tune_in(folder.path(), "--target mi355x --space quick").refused_with(&["reports"]);
    tune_in(folder.path(), "--target mi355x --space quick --out reports/deeper").refused_with(&["reports/deeper"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("reports")).unwrap(), "in the way");
    assert_eq!(entries(folder.path()), 1, "nothing half-written");
}

#[test]
fn bad_input_leaves_no_report_behind() {
    let folder = TempDir::new().unwrap();
    tune_in(folder.path(), "--target mi355x --slo ttft_ms=-1").refused_with(&["ttft_ms"]);
    tune_in(folder.path(), "--target mi355x --model nothing").refused_with(&["nothing"]);
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn start_up_logs_that_are_not() {
    let refuse = |text: &str, fragments: &[&str]| {
        let folder = folder_with("logs.csv", text);
        inferasim_in(folder.path(), "memory --cases logs.csv --json").refused_with(fragments);
    };
    refuse("", &["logs.csv", "case_id"]);
    refuse("a,b,c\n1,2,3\n", &["logs.csv:1", "case_id"]);
    let folder = TempDir::new().unwrap();
    inferasim_in(folder.path(), "memory --cases absent.csv").refused_with(&["absent.csv"]);
}
