//! Fit for load: the client's stamps against the server's own, request by request, on one machine.
//!
//! First token 200 ms after the request, one every 20 ms, 50 tokens. The machine's own delays are in both stamps, so
//! what is compared is the client alone. `cargo test --release --test measure_accuracy -- --ignored --nocapture`
//! prints the table for 50, 500 and 2,000 streams.

#[path = "common/stream_server.rs"]
mod stream_server;

use assert_cmd::Command;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use stream_server::{StreamServer, steady};

#[derive(Debug)]
struct Gap {
    ttft_mean_ms: f64,
    ttft_p99_ms: f64,
    tpot_mean_ms: f64,
    throughput_pct: f64,
    failed: u64,
}

fn run(streams: usize, requests: usize, ramp_s: f64) -> Gap {
    const TOKENS: usize = 50;
    let server = StreamServer::start(|_| steady(Duration::from_millis(200), Duration::from_millis(20), TOKENS, 100));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = Command::cargo_bin("inferasim")
        .unwrap()
        .args(["measure", "--url", &server.url(), "--model", "m", "--isl", "100", "--osl", "50", "--json"])
        .args(["--concurrency", &streams.to_string(), "--requests", &requests.to_string()])
        .args(["--ramp", &ramp_s.to_string(), "--settle", "0", "--metrics", "off", "--burn-in", "0", "--out"])
        .arg(&out)
        .timeout(Duration::from_secs(240))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let point = &summary["points"][0];
    let text = std::fs::read_to_string(out.join(format!("100x50-c{streams}/requests.jsonl"))).unwrap();
    let log: HashMap<String, _> =
        server.log().into_iter().map(|s| (s.asked.header("x-request-id").unwrap_or_default().to_string(), s)).collect();
    let (mut ttft, mut tpot, mut server_ttft, mut tokens) = (vec![], vec![], vec![], 0);
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    for line in text.lines() {
        let r: Value = serde_json::from_str(line).unwrap();
        if r["population"] != "ok" {
            continue;
        }
        let served = &log[r["request_id"].as_str().unwrap()];
        let writes = &served.writes_unix_ns[..TOKENS];
        let start = r["start_unix_ns"].as_u64().unwrap();
        let theirs = |ns: u64| (ns as f64 - start as f64) / 1e6;
        ttft.push(r["ttft_ms"].as_f64().unwrap() - theirs(writes[0]));
        server_ttft.push((writes[0] - served.received_unix_ns) as f64 / 1e6);
        let server_tpot = (writes[TOKENS - 1] - writes[0]) as f64 / 1e6 / (TOKENS - 1) as f64;
        tpot.push(r["tpot_ms"].as_f64().unwrap() - server_tpot);
        tokens += TOKENS;
        first_ns = first_ns.min(served.received_unix_ns);
        last_ns = last_ns.max(*served.writes_unix_ns.last().unwrap());
    }
    ttft.sort_by(f64::total_cmp);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let server_tok_s = tokens as f64 / ((last_ns - first_ns) as f64 / 1e9);
    let ours = point["system"]["output_tok_s"].as_f64().unwrap();
    let gap = Gap {
        ttft_mean_ms: mean(&ttft),
        ttft_p99_ms: ttft[(ttft.len() * 99).div_ceil(100) - 1],
        tpot_mean_ms: mean(&tpot),
        throughput_pct: 100.0 * (ours / server_tok_s - 1.0),
        failed: requests as u64 - point["requests"]["ok"].as_u64().unwrap(),
    };
    println!(
        "{streams:>5} streams, {requests} requests: client TTFT {:.1} mean {:.1} p99, after the server's write {:.2} mean \
         {:.2} p99; the server's own first write {:.1} after the request; TPOT {:.3} ({:+.4}); throughput {:+.3} %; \
         {} failed; client {:.2} cores, woken {:.1} ms late at p99",
        point["metrics"]["ttft_ms"]["mean"].as_f64().unwrap(),
        point["metrics"]["ttft_ms"]["p99"].as_f64().unwrap(),
        gap.ttft_mean_ms,
        gap.ttft_p99_ms,
        mean(&server_ttft),
        point["metrics"]["tpot_ms"]["mean"].as_f64().unwrap(),
        gap.tpot_mean_ms,
        gap.throughput_pct,
        gap.failed,
        point["client"]["cores_busy"].as_f64().unwrap(),
        point["client"]["wake_late_ms"]["p99"].as_f64().unwrap_or(f64::NAN),
    );
    gap
}

/// A few streams, with room for a busy machine: a stamp is never before the write, and not long after it.
#[test]
fn stamps_follow_the_servers_writes() {
    let gap = run(8, 16, 0.0);
    assert_eq!(gap.failed, 0);
    assert!(gap.ttft_mean_ms > 0.0 && gap.ttft_mean_ms < 50.0, "{gap:?}");
    assert!(gap.tpot_mean_ms.abs() < 1.0, "{gap:?}");
}

#[test]
#[ignore = "needs two idle cores for half a minute"]
fn five_hundred_streams_within_the_bounds() {
    run(50, 500, 0.0);
    let gap = run(500, 2500, 0.0);
    assert_eq!(gap.failed, 0);
    assert!(gap.ttft_mean_ms < 2.0 && gap.ttft_p99_ms < 10.0, "{gap:?}");
    assert!(gap.tpot_mean_ms.abs() < 0.1 && gap.throughput_pct.abs() < 0.5, "{gap:?}");
}

#[test]
#[ignore = "needs two idle cores for half a minute"]
fn two_thousand_streams_without_an_error() {
    assert_eq!(run(2000, 6000, 4.0).failed, 0);
}
