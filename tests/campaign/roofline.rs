//! A measured sweep under the roof of its target.

use crate::aid::*;
use crate::stream_server::{StreamServer, steady};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_sweep_is_placed_and_answers_its_three_questions() {
    let server = StreamServer::start(|_| steady(Duration::from_millis(30), Duration::from_millis(5), 8, 100));
    let folder = tempfile::tempdir().unwrap();
    let mut whole = entry(1, "");
    for (key, value) in
        [("max_num_batched_tokens", json!(8192)), ("max_num_seqs", json!(256)), ("memory_fraction", json!(0.9))]
    {
        whole[key] = value;
    }
    let file = write_shortlist(folder.path(), &[whole]);
    let (out, page) = (folder.path().join("out"), folder.path().join("page"));
    let words = format!(
        "measure --shortlist {} --url {} --out {} --concurrency 1,4 --requests 12 {QUICK}",
        file.display(),
        server.url(),
        out.display()
    );
    inferasim(&words).assert().code(0);
    let words = format!("roofline {} --target mi355x --out {}", out.display(), page.display());
    let found: Value =
        serde_json::from_slice(&inferasim(&words).arg("--json").assert().code(0).get_output().stdout).unwrap();
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{found:#}");
    for p in points {
        let of = |key: &str| p[key].as_f64().unwrap();
        // gpt-oss-120b passes 5.13 billion parameters a token (model card: 5.1B active).
        assert!((of("decode_tflops") / (2.0 * 5.13e9 * of("tok_s_per_gpu") / 1e12) - 1.0).abs() < 0.03, "{p}");
        assert!((of("hbm_share") - of("hbm_tb_s") / 8.0).abs() < 1e-9);
        assert!((of("decode_intensity") * of("hbm_tb_s") / of("decode_tflops") - 1.0).abs() < 1e-9);
    }
    // One client: 100 tokens in a TTFT of 30 ms are about 3,300 tokens/s.
    let prefill = points[0]["prefill"]["tflops"].as_f64().unwrap();
    assert!((10.0..36.0).contains(&prefill), "{prefill}: 2 x 5.13e9 x 3,300 / 1e12 = 34, less on a busy machine");
    assert_eq!(points[1]["prefill"], Value::Null, "four clients queue, and answers are not short");
    // A step of one sequence reads less than one of four, of which each has its own experts.
    assert!(points[1]["decode_intensity"].as_f64() > points[0]["decode_intensity"].as_f64());
    assert!(found["answers"][0].as_str().unwrap().contains("at 4 clients"), "{found:#}");
    for name in ["roofline.html", "roofline.svg", "roofline.png", "bandwidth.svg", "bandwidth.png", "roofline.json"] {
        assert!(std::fs::metadata(page.join(name)).unwrap().len() > 1000, "{name}");
    }
    let text = String::from_utf8(inferasim(&words).assert().code(0).get_output().stdout.clone()).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}
