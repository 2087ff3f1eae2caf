//! The anchor commands as a user types them, bad input included.

use assert_cmd::Command;
use std::path::Path;

fn inferasim(store: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("inferasim").unwrap();
    let output = command.args(arguments).env("INFERASIM_ANCHORS", store).env("NO_COLOR", "1").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const RUN: [&str; 18] = [
    "anchor",
    "add",
    "--id",
    "night",
    "--gpu",
    "mi355x",
    "--model",
    "gpt-oss-120b",
    "--engine",
    "vllm",
    "--tp",
    "1",
    "--concurrency",
    "64",
    "--isl",
    "1024",
    "--osl",
    "1024",
];

fn add(store: &Path, more: &[&str]) -> (i32, String, String) {
    inferasim(store, &[&RUN[..], more].concat())
}

#[test]
fn a_run_is_kept_listed_shown_and_returned_at_its_own_point() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let (code, out, warning) = add(&store, &["--tpot-ms", "12.25", "--ttft-ms", "90"]);
    assert_eq!(code, 0, "{warning}");
    assert!(out.contains("1 run kept") && warning.contains("TTFT is discarded"), "{out}{warning}");
    let (_, list, _) = inferasim(&store, &["anchor", "list"]);
    assert!(list.contains("night") && list.contains("12.25") && list.contains("discarded"), "{list}");
    assert!(list.lines().all(|l| l.chars().count() <= 100), "{list}");
    let (_, shown, _) = inferasim(&store, &["anchor", "show", "night"]);
    assert!(shown.contains("\"tpot_ms\": 12.25"), "{shown}");
    let place = store.display().to_string();
    let project = [
        "project",
        "--target",
        "mi355x",
        "--model",
        "gpt-oss-120b",
        "--engine",
        "vllm",
        "--tp",
        "1",
        "--concurrency",
        "64",
        "--isl",
        "1024",
        "--osl",
        "1024",
        "--range-ratio",
        "1",
        "--anchors",
        &place,
        "--json",
    ];
    let (code, json, error) = inferasim(&store, &project);
    assert_eq!(code, 0, "{error}");
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["tpot_ms"], 12.25);
    assert!(json.contains("measured at this very point"), "{json}");
}

#[test]
fn bad_input_is_one_line_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("none");
    let refuse = |arguments: &[&str], expected: &str| {
        let (code, out, error) = inferasim(&store, arguments);
        assert_eq!((code, error.trim_end().lines().count()), (2, 1), "{arguments:?}: {out}{error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert!(!store.exists(), "{arguments:?} left a store behind");
    };
    refuse(&[&RUN[..], &["--tpot-ms", "-1"]].concat(), "measured.tpot_ms is -1");
    refuse(&[&RUN[..], &["--tpot-ms", "nan"]].concat(), "measured.tpot_ms is NaN");
    refuse(&[&RUN[..], &["--tpot-ms", "9", "--ep", "3"]].concat(), "3 does not divide tp 1");
    refuse(&[&RUN[..], &["--tpot-ms", "9", "--date", "yesterday"]].concat(), "not a date");
    refuse(&["anchor", "list"], "no anchor store");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let facts = ["--gpu", "mi355x", "--engine", "vllm"];
    let import = |path: &str, expected: &str| refuse(&[&["anchor", "import", path], &facts[..]].concat(), expected);
    import(&file("broken.json", "{\"mean_tpot_ms\": 1,"), "not JSON");
    import(&file("other.json", "{\"qps\": 3}"), "no known benchmark program");
    import("/no/such/file.json", "cannot be read");
    let bare = file("bare.json", "{\"mean_tpot_ms\": 5}");
    import(&bare, "without a concurrency");
    refuse(&["anchor", "import", &bare, "--engine", "vllm"], "no --gpu");
}

#[test]
fn a_broken_file_in_the_store_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), &["--tpot-ms", "12.25"]);
    let path = folder.path().join("night.json");
    let good = std::fs::read_to_string(&path).unwrap();
    for (bad, expected) in [
        (good.replace("\"tpot_ms\": 12.25", "\"tpot_ms\": -12.25"), "measured.tpot_ms is -12.25"),
        (good.replace("\"tpot_ms\": 12.25", ""), "measured.tpot_ms is missing"),
        (good.replace("\"layout\"", "\"lay_out\""), "unknown field `lay_out`"),
        (good[..good.len() / 2].to_string(), "not an anchor"),
    ] {
        std::fs::write(&path, bad).unwrap();
        let (code, _, error) = inferasim(folder.path(), &["anchor", "list"]);
        assert_eq!(code, 2);
        assert!(error.contains("night.json") && error.contains(expected), "{error}");
    }
    std::fs::write(&path, good).unwrap();
    let (code, _, error) = add(folder.path(), &["--tpot-ms", "9"]);
    assert!(code == 2 && error.contains("is there already"), "{error}");
    assert_eq!(add(folder.path(), &["--tpot-ms", "9", "--replace"]).0, 0);
    let (code, _, error) = inferasim(folder.path(), &["anchor", "show", "nihgt"]);
    assert!(code == 2 && error.contains("Did you mean night"), "{error}");
}

/// A machine that is slower than the public ones by its own factor: constants fitted on its runs predict another of its
/// runs better than the public constants do.
#[test]
fn constants_are_fitted_on_kept_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let profile = folder.path().join("mine.yaml").display().to_string();
    let project = |concurrency: &str, more: &[&str]| {
        let words = ["project", "--target", "mi355x", "--model", "gpt-oss-120b", "--engine", "vllm", "--tp", "1"];
        let load = ["--isl", "1024", "--osl", "1024", "--range-ratio", "1", "--concurrency", concurrency, "--json"];
        let (code, json, error) = inferasim(&store, &[&words[..], &load[..], more].concat());
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["tpot_ms"].as_f64().unwrap()
    };
    const SLOWER: f64 = 1.3;
    let run = |concurrency: &str| {
        let tpot = (SLOWER * project(concurrency, &[])).to_string();
        let words: Vec<&str> = RUN.iter().map(|w| if *w == "64" { concurrency } else { w }).collect();
        let id = format!("c{concurrency}");
        let words: Vec<&str> = words.into_iter().map(|w| if w == "night" { &id } else { w }).collect();
        assert_eq!(inferasim(&store, &[&words[..], &["--tpot-ms", &tpot]].concat()).0, 0);
    };
    let kept = store.display().to_string();
    let calibrate = ["calibrate", "--measured", &kept, "--out", &profile];
    run("8");
    let (code, _, error) = inferasim(&store, &calibrate);
    assert!(code == 2 && error.contains("1 usable rows") && error.contains("at least four"), "{error}");
    for concurrency in ["16", "64", "256"] {
        run(concurrency);
    }
    let (code, out, error) = inferasim(&store, &calibrate);
    assert_eq!((code, out.lines().next()), (0, Some("4 rows")), "{error}");
    let (public, mine) = (project("32", &[]), project("32", &["--calibration", &profile]));
    let miss = |tpot: f64| (tpot / (SLOWER * public) - 1.0).abs();
    assert!(miss(mine) < 0.5 * miss(public), "public {public}, fitted {mine}, the machine {}", SLOWER * public);
}
