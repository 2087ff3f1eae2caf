//! `inferasim measure` against a scripted loopback endpoint: what it counts, what it refuses, what it never calls whole.

#[path = "common/stream_server.rs"]
mod stream_server;

use assert_cmd::Command;
use serde_json::{Value, json};
use std::time::Duration;
use stream_server::{Asked, STREAM, Step, StreamServer, delta, ending, event, refusal, steady};

struct Outcome {
    code: i32,
    summary: Value,
    records: Vec<Value>,
    stderr: String,
    stdout: String,
    folder: tempfile::TempDir,
}

impl Outcome {
    fn point(&self) -> &Value {
        &self.summary["points"][0]
    }
    fn warned(&self, text: &str) -> bool {
        self.point()["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains(text))
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn measure_env(url: &str, args: &str, variables: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut command = Command::cargo_bin("inferasim").unwrap();
    command.args(["measure", "--url", url, "--model", "m", "--json", "--settle", "0", "--metrics", "off", "--out"]);
    command.arg(&out).args(args.split_whitespace()).timeout(Duration::from_secs(60));
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let lines = |text: String| text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let mut records = vec![];
    for entry in std::fs::read_dir(&out).into_iter().flatten().flatten() {
        if let Ok(text) = std::fs::read_to_string(entry.path().join("requests.jsonl")) {
            records = lines(text);
        }
    }
    let stdout = String::from_utf8(output.stdout).unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        summary: serde_json::from_str(&stdout).unwrap_or(Value::Null),
        records,
        stderr: String::from_utf8(output.stderr).unwrap(),
        stdout,
        folder,
    }
}

/// One request without pre-warm or burn-in, unless `args` ask otherwise.
fn measure(server: &StreamServer, args: &str) -> Outcome {
    let fixed = "--isl 20 --osl 4 --requests 1 --no-prewarm --burn-in 0";
    let args = if args.contains("--isl") || args.contains("--shape") { args.into() } else { format!("{fixed} {args}") };
    measure_env(&server.url(), &args, &[])
}

fn failure(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static, args: &str) -> (String, String, Outcome) {
    let outcome = measure(&StreamServer::start(script), args);
    let r = &outcome.records[0];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
    (text(&r["population"]), text(&r["failure"]["kind"]), outcome)
}

fn answer(text: &str) -> Step {
    delta(json!({"content": text}))
}

#[test]
fn known_emission_times_come_back() {
    let server = StreamServer::start(|_| steady(ms(100), ms(30), 5, 33));
    let o =
        measure(&server, "--isl 20 --osl 5 --requests 6 --concurrency 2 --no-prewarm --burn-in 0 --slo ttft_ms=5000");
    assert_eq!(o.code, 0, "{}", o.stderr);
    let m = &o.point()["metrics"];
    let mean = |name: &str| m[name]["mean"].as_f64().unwrap();
    // The server waits 100 ms and 4 gaps of 30 ms; a shared machine may add, never take away.
    assert!((100.0..160.0).contains(&mean("ttft_ms")), "ttft {}", mean("ttft_ms"));
    assert!((28.0..40.0).contains(&mean("tpot_ms")), "tpot {}", mean("tpot_ms"));
    assert!((219.0..300.0).contains(&mean("latency_ms")), "latency {}", mean("latency_ms"));
    assert_eq!(m["osl"]["sum"], 30.0);
    assert_eq!(m["isl"]["mean"], 33.0, "the server's count");
    assert_eq!(m["itl_ms"]["count"], 24);
    assert_eq!(o.records[0]["tokens"]["client_prompt"], 20);
    assert_eq!(o.records[0]["tokens"]["prompt_diff_pct"], 65.0);
    assert_eq!(o.point()["goodput"]["share"], 1.0);
    assert_eq!(o.summary["schema"], "inferasim.measure/1");
    assert_eq!(o.records[0]["schema"], "inferasim.measure.request/1");
    let aiperf = std::fs::read_to_string(o.folder.path().join("out/20x5-c2/profile_export_aiperf.json")).unwrap();
    let aiperf: Value = serde_json::from_str(&aiperf).unwrap();
    assert_eq!(aiperf["time_to_first_token"]["avg"], m["ttft_ms"]["mean"]);
    assert_eq!(aiperf["inter_token_latency"]["unit"], "ms");
}

#[test]
fn prompts_are_fresh_and_the_body_says_what_the_shape_says() {
    let server = StreamServer::start(|_| steady(ms(0), ms(0), 4, 20));
    let o = measure(&server, "--isl 20 --osl 4 --requests 3 --concurrency 3 --burn-in 2");
    assert_eq!(o.code, 0, "{}", o.stderr);
    let log = server.log();
    assert_eq!(log.len(), 6, "one pre-warm, two burn-in, three measured");
    let mut prompts: Vec<_> = log.iter().map(|s| s.asked.body["messages"][0]["content"].to_string()).collect();
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), 6);
    let body = &log[5].asked.body;
    for (key, value) in [
        ("max_tokens", json!(4)),
        ("min_tokens", json!(4)),
        ("ignore_eos", json!(true)),
        ("temperature", json!(0)),
        ("top_p", json!(1)),
        ("stream_options", json!({"include_usage": true})),
    ] {
        assert_eq!(body[key], value);
    }
    assert_eq!(o.summary["timeline"].as_array().unwrap().len(), 4);
    assert_eq!(o.records.len(), 3);
}

#[test]
fn role_empty_usage_and_comment_lines_are_no_tokens() {
    let server = StreamServer::start(|_| {
        let mut steps = vec![
            STREAM,
            delta(json!({"role": "assistant", "content": ""})),
            Step::Send(b": ping\n\n".to_vec()),
            Step::At(ms(60)),
            answer("a"),
            delta(json!({"content": ""})),
            Step::At(ms(90)),
            answer("b"),
            Step::At(ms(200)),
        ];
        steps.extend(ending(5, 2));
        steps
    });
    let o = measure(&server, "");
    let r = &o.records[0];
    assert_eq!((r["chunks"].as_u64(), r["osl"].as_u64()), (Some(2), Some(2)));
    assert!(r["ttft_ms"].as_f64().unwrap() >= 59.0, "the role chunk is no first token");
    assert!(r["latency_ms"].as_f64().unwrap() < 190.0, "latency ends at the last content chunk, not at [DONE]");
}

#[test]
fn several_tokens_in_a_chunk_use_the_servers_count() {
    // 1 + 3 + 3 tokens in three chunks 40 ms apart: TPOT = 80 / 6 ms, the gap between chunks is 40 ms.
    let server = StreamServer::start(|_| {
        let mut steps = vec![STREAM];
        for (i, (text, total)) in [("a", 1), (" b c d", 4), (" e f g", 7)].iter().enumerate() {
            steps.push(Step::At(ms(50 + 40 * i as u64)));
            steps.push(event(&json!({"choices": [{"delta": {"content": text}}],
                "usage": {"prompt_tokens": 9, "completion_tokens": total}})));
        }
        steps.extend(ending(9, 7));
        steps
    });
    let o = measure(&server, "--isl 20 --osl 7 --requests 1 --no-prewarm --burn-in 0 --usage-per-chunk");
    let r = &o.records[0];
    assert_eq!(r["chunk_tokens"], json!([1, 4, 7]));
    assert!((r["tpot_ms"].as_f64().unwrap() - 80.0 / 6.0).abs() < 4.0);
    assert!((o.point()["metrics"]["itl_ms"]["mean"].as_f64().unwrap() - 40.0).abs() < 12.0);
    assert!(o.warned("tokens per chunk"));
    assert_eq!(server.log()[0].asked.body["stream_options"]["continuous_usage_stats"], true);
}

#[test]
fn reasoning_counts_for_ttft_and_not_for_ttfo() {
    let server = StreamServer::start(|_| {
        let mut steps = vec![
            STREAM,
            Step::At(ms(40)),
            delta(json!({"reasoning_content": "hm"})),
            Step::At(ms(80)),
            delta(json!({"reasoning": " so"})),
            Step::At(ms(160)),
            answer("yes"),
        ];
        steps.extend(ending(5, 3));
        steps
    });
    let o = measure(&server, "");
    let r = &o.records[0];
    assert_eq!(r["chunk_kinds"], "rra");
    assert!(r["ttft_ms"].as_f64().unwrap() < 80.0 && r["ttfo_ms"].as_f64().unwrap() >= 159.0);
    assert_eq!(o.point()["reasoning"]["parser"], "separate");
    assert_eq!(o.point()["reasoning"]["ttfo_coverage"], 1.0);
}

#[test]
fn reasoning_without_an_answer_has_no_ttfo() {
    let server = StreamServer::start(|_| {
        let mut steps = vec![STREAM, delta(json!({"reasoning": "hm"})), delta(json!({"reasoning": "hm"}))];
        steps.extend(ending(5, 2));
        steps
    });
    let o = measure(&server, "");
    assert_eq!(o.records[0]["population"], "ok");
    assert_eq!(o.records[0]["ttfo_ms"], Value::Null);
    assert_eq!(o.point()["metrics"]["ttfo_ms"], Value::Null);
    assert_eq!(o.point()["reasoning"]["ttfo_coverage"], 0.0);
}

#[test]
fn a_missing_reasoning_parser_is_noticed() {
    let server = StreamServer::start(|asked| {
        let inline = asked.body["model"] == "inline";
        let mut steps = vec![
            STREAM,
            answer(if inline { "<think>" } else { "a" }),
            answer("hm"),
            answer("</think>"),
            Step::At(ms(60)),
            answer("yes"),
        ];
        if !inline {
            steps.remove(3);
        }
        steps.extend(ending(5, 4));
        steps
    });
    let o = measure(&server, "--reasons true");
    assert!(o.warned("parser is probably not configured"), "{}", o.summary);
    let fixed = "--isl 20 --osl 4 --requests 1 --no-prewarm --burn-in 0";
    let folder = tempfile::tempdir().unwrap();
    let output = Command::cargo_bin("inferasim")
        .unwrap()
        .args(["measure", "--url", &server.url(), "--model", "inline", "--json", "--out"])
        .arg(folder.path().join("o"))
        .args(fixed.split(' '))
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let point = &summary["points"][0];
    assert_eq!(point["reasoning"]["parser"], "inline");
    assert!(point["reasoning"]["ttfo_after_think_ms"]["mean"].as_f64().unwrap() >= 59.0);
}

#[test]
fn an_error_inside_a_stream_with_status_200_is_a_failure() {
    let script = |_: &Asked| {
        vec![
            STREAM,
            answer("a"),
            event(&json!({"error": {"message": "CUDA out of memory"}})),
            Step::Send(b"data: [DONE]\n\n".to_vec()),
            Step::End,
        ]
    };
    let (population, kind, o) = failure(script, "");
    assert_eq!((population.as_str(), kind.as_str()), ("failed", "in_band_error"));
    assert_eq!(o.code, 2, "nothing was answered");
    assert!(o.stderr.contains("CUDA out of memory"), "{}", o.stderr);
}

#[test]
fn a_stream_cut_short_is_incomplete() {
    let (population, kind, _) = failure(|_| vec![STREAM, answer("a"), answer("b"), Step::End], "");
    assert_eq!((population.as_str(), kind.as_str()), ("incomplete", "truncated"));
    let half = || Step::Send(b"data: {\"choices\": [{\"delta\": {\"conte".to_vec());
    let (population, kind, _) = failure(move |_| vec![STREAM, answer("a"), half(), Step::Close], "");
    assert_eq!(population, "incomplete");
    assert!(kind == "broken" || kind == "truncated", "{kind}");
    let (population, kind, _) = failure(|_| vec![STREAM, answer("a"), Step::At(ms(50)), Step::Reset], "");
    assert_eq!((population.as_str(), kind.as_str()), ("incomplete", "broken"));
}

#[test]
fn a_stream_without_a_token_is_a_failure() {
    let (population, kind, _) = failure(
        |_| {
            let mut steps = vec![STREAM, delta(json!({"role": "assistant", "content": ""}))];
            steps.extend(ending(5, 0));
            steps
        },
        "",
    );
    assert_eq!((population.as_str(), kind.as_str()), ("failed", "no_tokens"));
}

#[test]
fn malformed_streams_are_failures_that_say_why() {
    let bad = |bytes: &'static [u8]| move |_: &Asked| vec![STREAM, answer("a"), Step::Send(bytes.to_vec()), Step::End];
    let (_, kind, o) = failure(bad(b"data: {not json\n\n"), "");
    assert_eq!(kind, "malformed_stream");
    assert!(o.stderr.contains("not a chunk"));
    let (_, kind, o) = failure(bad(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n"), "");
    assert_eq!(kind, "malformed_stream");
    assert!(o.stderr.contains("UTF-8"), "{}", o.stderr);
    let (_, kind, _) = failure(
        |_| {
            vec![
                Step::Head(200, "application/json", ""),
                Step::Send(b"{\"choices\":[{\"message\":{\"content\":\"all at once\"}}]}".to_vec()),
                Step::End,
            ]
        },
        "",
    );
    assert_eq!(kind, "not_a_stream");
}

#[test]
fn silence_ends_a_request() {
    let slow = |_: &Asked| vec![STREAM, answer("a"), Step::At(Duration::from_secs(30)), answer("b")];
    let (population, kind, _) = failure(slow, "--idle-timeout 0.3");
    assert_eq!((population.as_str(), kind.as_str()), ("incomplete", "timeout"));
    let dribble = |_: &Asked| {
        let mut steps = vec![STREAM];
        for i in 0..100 {
            steps.extend([Step::At(ms(100 * i)), Step::Send(b": ping\n".to_vec())]);
        }
        steps
    };
    let (population, kind, _) = failure(dribble, "--idle-timeout 1 --timeout 0.6");
    assert_eq!((population.as_str(), kind.as_str()), ("failed", "timeout"));
    let (population, _, _) = failure(
        |_| vec![STREAM, answer("a"), Step::Send(b"data: [DONE]\n\n".to_vec()), Step::At(Duration::from_secs(30))],
        "",
    );
    assert_eq!(population, "ok", "a server that holds the connection after [DONE] has answered");
}

#[test]
fn failures_stay_out_of_latencies_and_push_the_tail() {
    let server = StreamServer::start(|asked| match asked.index % 2 {
        0 => steady(ms(20), ms(5), 4, 20),
        _ => refusal(503, "overloaded", "retry-after: 7\r\n"),
    });
    let o = measure(&server, "--isl 20 --osl 4 --requests 10 --no-prewarm --burn-in 0");
    assert_eq!(o.code, 0);
    let p = o.point();
    assert_eq!((p["requests"]["ok"].as_u64(), p["requests"]["failed"].as_u64()), (Some(5), Some(5)));
    assert_eq!(p["requests"]["by_failure"]["http_status"], 5);
    assert_eq!(p["metrics"]["ttft_ms"]["count"], 5);
    assert_eq!(p["with_failures"]["ttft_ms"]["p99"], Value::Null);
    assert!(p["with_failures"]["ttft_ms"]["p50"].is_number());
    assert_eq!(o.records[1]["retry_after_s"], 7.0);
    assert!(o.warned("5 of 10 requests failed"));
}

#[test]
fn a_request_that_is_turned_away_is_sent_again_and_its_wait_is_told() {
    // Of two tries the first is refused: one asks for 0.3 s (429), the other for nothing, which is 50 ms (503).
    let server = StreamServer::start(|asked| match asked.index {
        0 => refusal(429, "slow down", "retry-after: 0.3\r\n"),
        2 => refusal(503, "busy", ""),
        _ => steady(ms(20), ms(5), 4, 20),
    });
    let o = measure(&server, "--isl 20 --osl 4 --requests 3 --no-prewarm --burn-in 0 --retries 1");
    assert_eq!(o.code, 0, "{}", o.stderr);
    let p = o.point();
    assert_eq!(server.log().len(), 5, "three requests, two of them twice");
    assert_eq!((p["requests"]["ok"].as_u64(), p["requests"]["failed"].as_u64()), (Some(3), Some(0)));
    assert_eq!((p["requests"]["sent_again"].as_u64(), p["requests"]["turned_away"].as_u64()), (Some(2), Some(2)));
    let waits: Vec<Option<f64>> = o.records.iter().map(|r| r["turned_away_ms"].as_f64()).collect();
    assert!((299.0..500.0).contains(&waits[0].unwrap()), "Retry-After: {waits:?}");
    assert!((49.0..250.0).contains(&waits[1].unwrap()), "no Retry-After: {waits:?}");
    assert_eq!(waits[2], None);
    let ttft = |i: usize| o.records[i]["ttft_ms"].as_f64().unwrap();
    assert!(ttft(0) >= 319.0, "TTFT counts from the first try: {}", ttft(0));
    let mean = |name: &str| p["metrics"][name]["mean"].as_f64().unwrap();
    let waited = (waits[0].unwrap() + waits[1].unwrap()) / 3.0;
    assert!((mean("ttft_ms") - mean("ttft_admitted_ms") - waited).abs() < 1e-6);
    assert!(o.warned("2 of 3 requests were turned away with 429 or 503 and sent again, 2 times in all"));
}

#[test]
fn tries_are_counted_and_a_wait_longer_than_the_limit_is_not_begun() {
    let all = "--isl 20 --osl 4 --requests 2 --no-prewarm --burn-in 0";
    let script = |asked: &Asked| match asked.index {
        0..=2 => refusal(503, "busy", "retry-after: 0\r\n"),
        _ => steady(ms(0), ms(0), 4, 20),
    };
    let o = measure(&StreamServer::start(script), &format!("{all} --retries 2"));
    let failed = &o.records[0];
    assert_eq!((failed["population"].as_str(), failed["turned_away"].as_u64()), (Some("failed"), Some(2)));
    assert!(failed["failure"]["message"].as_str().unwrap().contains("HTTP 503: busy"), "{failed}");
    assert_eq!(o.records[1]["population"], "ok");
    let patient = |asked: &Asked| match asked.index {
        0 => refusal(429, "tomorrow", "retry-after: 86400\r\n"),
        _ => steady(ms(0), ms(0), 4, 20),
    };
    let o = measure(&StreamServer::start(patient), &format!("{all} --retries 9 --timeout 5"));
    assert_eq!((o.records[0]["population"].as_str(), o.records[0]["turned_away"].as_u64()), (Some("failed"), Some(0)));
}

#[test]
fn an_endpoint_that_would_refuse_everything_is_found_out_before_the_load() {
    let all = "--isl 20 --osl 4 --requests 5";
    let o = measure_env("http://127.0.0.1:9", all, &[]);
    assert_eq!(o.code, 2);
    assert!(o.stderr.contains("refused") && o.stderr.contains("Is the server up"), "{}", o.stderr);
    let server = StreamServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => vec![
            Step::Head(200, "application/json", ""),
            Step::Send(br#"{"data":[{"id":"llama"},{"id":"qwen"}]}"#.to_vec()),
            Step::End,
        ],
        _ => refusal(404, "The model `m` does not exist.", ""),
    });
    let o = measure(&server, all);
    assert!(o.code == 2 && o.stderr.contains("not exist. Models served there: llama, qwen"), "{}", o.stderr);
    assert_eq!(server.log().len(), 2, "one request and the list of models");
    // A server of plain HTTP takes a TLS greeting for a bad request and says so in plain text.
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in plain.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 2048]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let o = measure_env(&url, all, &[]);
    assert!(o.code == 2 && o.stderr.contains("write http://"), "{}", o.stderr);
    let o = measure(&StreamServer::start(|_| refusal(401, "no key", "")), all);
    assert!(o.code == 2 && o.stderr.contains("--api-key-env"), "{}", o.stderr);
    assert!(!o.folder.path().join("out/summary.json").exists());
}

#[test]
fn refused_length_controls_make_the_length_a_cap() {
    let server = StreamServer::start(|asked| match asked.body.get("min_tokens") {
        Some(_) => refusal(400, "Unrecognized request argument: min_tokens", ""),
        None => steady(ms(0), ms(0), 3, 20),
    });
    let o = measure(&server, "--isl 20 --osl 4 --requests 2 --burn-in 0");
    assert_eq!(o.code, 0, "{}", o.stderr);
    assert_eq!(o.summary["output_length"], "cap");
    assert!(o.warned("is a cap") && o.warned("not as long as asked for"));
}

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let server = StreamServer::start(|asked| match asked.index {
        0 => steady(ms(0), ms(0), 4, 20),
        // A server that repeats what it refuses.
        _ => refusal(500, asked.header("authorization").unwrap_or("none"), ""),
    });
    let args = "--isl 20 --osl 4 --requests 2 --no-prewarm --burn-in 0 --api-key-env TEST_KEY";
    let o = measure_env(&server.url(), args, &[("TEST_KEY", "sk-very-secret")]);
    assert_eq!(server.log()[0].asked.header("authorization"), Some("Bearer sk-very-secret"));
    assert_eq!(o.records[1]["failure"]["message"], "HTTP 500: Bearer <redacted>");
    let mut everything = o.stdout.clone() + &o.stderr;
    for entry in walk(o.folder.path()) {
        everything += &std::fs::read_to_string(entry).unwrap();
    }
    assert!(everything.contains("TEST_KEY") && !everything.contains("very-secret"));
    let o = measure_env(&server.url(), "--isl 20 --osl 4 --api-key-env NO_SUCH_VARIABLE", &[]);
    assert!(o.code == 2 && o.stderr.contains("NO_SUCH_VARIABLE"));
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = vec![];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() { files.extend(walk(&entry.path())) } else { files.push(entry.path()) }
    }
    files
}

#[test]
fn a_buffering_proxy_is_noticed() {
    let server = StreamServer::start(|_| {
        let mut all = vec![];
        for step in steady(ms(0), ms(0), 12, 20) {
            if let Step::Send(bytes) = step {
                all.extend(bytes);
            }
        }
        vec![STREAM, Step::At(ms(100)), Step::Send(all), Step::End]
    });
    let o = measure(&server, "--isl 20 --osl 12 --requests 2 --no-prewarm --burn-in 0");
    assert!(o.warned("buffers the stream"), "{}", o.summary["points"][0]["warnings"]);
}

#[test]
fn an_open_loop_reports_latency_from_the_intended_start() {
    // One request at a time in the client, 100 ms each, arriving every 20 ms: the fifth starts 320 ms late.
    let server = StreamServer::start(|_| steady(ms(100), ms(0), 1, 20));
    let o = measure(
        &server,
        "--isl 20 --osl 1 --requests 5 --rate 50 --arrival constant --max-in-flight 1 \
        --no-prewarm --burn-in 0",
    );
    let last = &o.records[4];
    let (latency, scheduled) =
        (last["latency_ms"].as_f64().unwrap(), last["latency_from_schedule_ms"].as_f64().unwrap());
    assert!(latency < 200.0 && scheduled > 400.0, "{latency} {scheduled}");
    assert!(o.warned("queued in the client"));
}

#[test]
fn a_dataset_is_the_same_for_every_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("d.jsonl");
    let path = file.display().to_string();
    Command::cargo_bin("inferasim")
        .unwrap()
        .args(["measure", "--isl", "30", "--osl", "3", "--requests", "4", "--write-dataset", &path])
        .assert()
        .success();
    let bodies = || {
        let server = StreamServer::start(|_| steady(ms(0), ms(0), 3, 30));
        let o = measure_env(&server.url(), &format!("--dataset {path} --no-prewarm --burn-in 0"), &[]);
        assert_eq!(o.code, 0, "{}", o.stderr);
        server.log().iter().map(|s| s.asked.body.to_string()).collect::<Vec<_>>()
    };
    let (a, b) = (bodies(), bodies());
    assert_eq!(a.len(), 4);
    assert_eq!(a, b);
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = StreamServer::start(|_| vec![Step::Close]);
    let o = measure(&server, "--shape aa-1k,aa-10k --concurrency 1,4 --requests 16 --dry-run");
    assert_eq!((o.code, server.log().len()), (0, 0));
    assert_eq!(o.summary["points"].as_array().unwrap().len(), 4);
    assert_eq!(o.summary["body"]["min_tokens"], 1000);
    assert!(!o.folder.path().join("out").exists());
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    for (url, args, words) in [
        ("http://10.1.2.3:8000", "--isl 20 --osl 4", "--yes"),
        ("10.1.2.3", "--isl 20 --osl 4", "http://"),
        ("http://127.0.0.1:1", "--shape aa-5k", "aa-10k"),
        ("http://127.0.0.1:1", "", "--shape"),
        ("http://127.0.0.1:1", "--isl 20 --osl 4 --slo tftt_ms=3", "Did you mean ttft_ms"),
        ("http://127.0.0.1:1", "--isl 20 --osl 4 --concurrency 0", "--concurrency"),
        ("http://127.0.0.1:1", "--isl 20 --osl 4 --rate NaN", "--rate"),
        ("http://127.0.0.1:1", "--isl NaN --osl 4", "--isl"),
        ("http://127.0.0.1:1", "--dataset /no/such/file", "No such file"),
        ("http://127.0.0.1:1", "--isl 20 --osl 4 --extra stream=false", "own"),
    ] {
        let o = measure_env(url, args, &[]);
        assert_eq!(o.code, 2, "{url} {args}: {}", o.stderr);
        assert!(o.stderr.contains(words), "{args}: {}", o.stderr);
        assert!(!o.stderr.contains("panicked"));
    }
}

#[test]
fn a_full_disk_ends_the_run_and_leaves_whole_lines() {
    let server = StreamServer::start(|_| steady(ms(1), ms(1), 4, 20));
    let folder = tempfile::tempdir().unwrap();
    // A limit on the size of a file stands for the disk; its signal is ignored, so that the write itself fails.
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_inferasim")])
        .args(["measure", "--url", &server.url(), "--model", "m", "--isl", "20", "--osl", "4", "--requests", "50"])
        .args(["--settle", "0", "--metrics", "off", "--out", "out"])
        .current_dir(folder.path())
        .timeout(Duration::from_secs(60))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(2), "{words}");
    assert!(words.contains("requests.jsonl") && words.contains("The run was stopped"), "{words}");
    let text = std::fs::read_to_string(folder.path().join("out/20x4-c1/requests.jsonl")).unwrap();
    assert!(text.ends_with('\n') && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
    assert!(!folder.path().join("out/summary.json").exists(), "a run that was cut off has no summary");
}

#[test]
fn an_earlier_result_is_kept() {
    let server = StreamServer::start(|_| steady(ms(0), ms(0), 4, 20));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let run = |more: &[&str]| {
        let mut command = Command::cargo_bin("inferasim").unwrap();
        command.args([
            "measure",
            "--url",
            &server.url(),
            "--model",
            "m",
            "--isl",
            "20",
            "--osl",
            "4",
            "--requests",
            "1",
        ]);
        command.args(["--no-prewarm", "--burn-in", "0", "--settle", "0", "--out", &out]).args(more).output().unwrap()
    };
    let first = run(&[]);
    assert!(first.status.success());
    let table = String::from_utf8(first.stdout).unwrap();
    assert!(table.lines().all(|l| l.chars().count() <= 100 || l.contains("warning")), "{table}");
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--overwrite"));
    assert!(run(&["--overwrite"]).status.success());
}

/// Ctrl-C: what was measured is kept and called incomplete.
#[test]
#[cfg(unix)]
fn an_interrupted_run_keeps_what_it_measured() {
    let server = StreamServer::start(|asked| steady(ms(if asked.index < 2 { 0 } else { 20_000 }), ms(0), 4, 20));
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("inferasim"))
        .args(["measure", "--url", &server.url(), "--model", "m", "--isl", "20", "--osl", "4", "--requests", "9"])
        .args(["--no-prewarm", "--burn-in", "0", "--settle", "0", "--metrics", "off", "--out"])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let records = folder.path().join("20x4-c1/requests.jsonl");
    for _ in 0..200 {
        if std::fs::read_to_string(&records).is_ok_and(|t| t.lines().count() == 2) {
            break;
        }
        std::thread::sleep(ms(50));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let summary = std::fs::read_to_string(folder.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["complete"], false);
    assert_eq!(summary["points"][0]["requests"]["ok"], 2);
    assert_eq!(summary["points"][0]["requests"]["by_failure"]["cancelled"], 1);
    assert_eq!(summary["points"][0]["requests"]["not_sent"], 6);
}
