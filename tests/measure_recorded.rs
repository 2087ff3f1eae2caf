//! Against recorded traffic: raw streams of real engines, and AIPerf's own results for the same packets.

mod common;

use common::data as reference;
use inferasim::measure::assemble::{Asked, Assembler, CountBy, Ended};
use inferasim::measure::http::Head;
use inferasim::measure::load::Load;
use inferasim::measure::record::{Population, RequestRecord};
use inferasim::measure::saturation::ClientLoad;
use inferasim::measure::scrape::{Peaks, Scrape, delta};
use inferasim::measure::shape::Shape;
use inferasim::measure::sse::Event;
use inferasim::measure::summary::{Point, summarise};
use serde_json::Value;
use std::path::Path;

fn stream_head() -> Head {
    Head { status: 200, content_type: "text/event-stream".into(), retry_after_s: None }
}

fn asked(osl: u32) -> Asked {
    Asked { point: "p".into(), index: 0, request_id: "r".into(), prompt_tokens: None, osl }
}

fn ended(start_ns: u64, end_ns: u64) -> Ended {
    Ended {
        scheduled_ns: start_ns,
        start_ns,
        end_ns,
        connect_ms: None,
        turned_away: None,
        fault: None,
        cancelled: false,
    }
}

/// A recorded stream, one byte a read.
fn replay(file: &str, osl: u32) -> Option<RequestRecord> {
    let bytes = std::fs::read(reference(file)?).unwrap();
    let mut assembler = Assembler::default();
    assembler.head(1, stream_head());
    for (i, byte) in bytes.iter().enumerate() {
        assembler.bytes(2 + i as u64, &[*byte]);
    }
    Some(assembler.finish(&asked(osl), &ended(0, u64::MAX / 2), CountBy::Server, None, 0))
}

#[test]
fn recorded_streams_hold_what_the_engines_counted() {
    // Content chunks as `grep -c` counts non-empty deltas in the files; token counts from their usage (one token of
    // the last stream has no text).
    for (file, chunks, kinds, osl, isl) in [
        ("endpoint/vllm_stream.sse", 8, 'a', 8, 11),
        ("endpoint/vllm_reasoning_spec_stream.sse", 6, 'r', 12, 11),
        ("endpoint/node_smollm2_stream.sse", 28, 'a', 29, 94),
    ] {
        let Some(r) = replay(file, osl as u32) else { return };
        assert_eq!(r.population, Population::Ok, "{file}: {:?}", r.failure);
        assert_eq!((r.osl, r.isl), (Some(osl), Some(isl)), "{file}");
        assert_eq!(r.chunks, chunks, "{file}");
        assert!(r.chunk_kinds.chars().all(|k| k == kinds), "{file}");
        assert_eq!(r.ttfo_ms.is_some(), kinds == 'a', "{file}");
        assert!(r.done && r.final_usages == 1, "{file}");
    }
    let spec = replay("endpoint/vllm_reasoning_spec_stream.sse", 12).unwrap();
    assert_eq!(spec.chunk_tokens, Some(vec![1, 2, 3, 6, 9, 12]));
}

/// AIPerf's raw export through our reader: (records, the metrics AIPerf computed per record, its summary).
fn aiperf(run: &str, osl: u32) -> Option<(Vec<RequestRecord>, Vec<Value>, Value)> {
    let folder = reference(&format!("endpoint/aiperf/{run}"))?;
    let lines = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let ns = |v: &Value| v.as_u64().unwrap();
    let mut records = vec![];
    for raw in lines("profile_export_raw.jsonl") {
        let (meta, start) = (&raw["metadata"], ns(&raw["start_perf_ns"]));
        let mut assembler = Assembler::default();
        assembler.head(start, stream_head());
        for response in raw["responses"].as_array().unwrap() {
            for packet in response["packets"].as_array().unwrap() {
                let data = packet["value"].as_str().unwrap().as_bytes().to_vec();
                assembler.event(&Event { at_ns: ns(&response["perf_ns"]), data, kind: None });
            }
        }
        let wall = ns(&meta["request_start_ns"]) - start;
        let end = start + ns(&meta["request_end_ns"]) - ns(&meta["request_start_ns"]);
        let mut when = ended(start, end);
        when.scheduled_ns = start - (ns(&meta["request_start_ns"]) - ns(&meta["credit_issued_ns"]));
        records.push(assembler.finish(&asked(osl), &when, CountBy::Server, None, wall));
    }
    let summary = std::fs::read_to_string(Path::new(&folder).join("profile_export_aiperf.json")).unwrap();
    Some((records, lines("profile_export.jsonl"), serde_json::from_str(&summary).unwrap()))
}

/// Equal to 1e-9 and a nanosecond; what AIPerf takes from wall-clock stamps, to a microsecond.
fn close(ours: f64, theirs: f64, what: &str) {
    let wall = ["effective_latency", "credit_to_start_latency", "benchmark_duration"].iter().any(|w| what.contains(w));
    let absolute = if wall { 1e-3 } else { 1e-6 };
    assert!(
        (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0) + absolute,
        "{what}: {ours} is not AIPerf's {theirs}"
    );
}

fn point(records: &[RequestRecord], clients: usize) -> Point {
    let client = ClientLoad {
        wake_late_ms: None,
        cpu_s: 0.0,
        cores_busy: 0.0,
        cores: 1,
        max_in_flight: clients,
        clock_step_ms: 0.0,
        saturated: false,
    };
    let shape = Shape::free(200.0, 30.0, 0.0, 0.0, 1.0).unwrap();
    let load = Load::Closed { concurrency: clients, ramp_s: 0.0 };
    summarise("p", &shape, &load, records, 0, &Default::default(), client)
}

#[test]
fn every_record_and_the_summary_agree_with_aiperf() {
    // Runs whose counts are the server's; the third has usage on every chunk and several tokens in one.
    for (run, osl, clients) in [("vllm_200x30_c4", 30, 4), ("vllm_reasoning_spec_60x40_c1", 40, 1)] {
        let Some((records, theirs, summary)) = aiperf(run, osl) else { return };
        assert_eq!(records.len(), theirs.len());
        for (r, t) in records.iter().zip(&theirs) {
            let m = &t["metrics"];
            for (ours, name) in [
                (r.ttft_ms, "time_to_first_token"),
                (r.ttfo_ms, "time_to_first_output_token"),
                (r.second_token_ms, "time_to_second_token"),
                (r.latency_ms, "request_latency"),
                (r.decode_ms, "decode_duration"),
                (r.tpot_ms, "inter_token_latency"),
                (r.tok_s_per_user, "output_token_throughput_per_user"),
                (r.e2e_tok_s, "e2e_output_token_throughput"),
                (r.prefill_tok_s, "prefill_throughput_per_user"),
                (r.osl.map(|n| n as f64), "output_sequence_length"),
                (r.isl.map(|n| n as f64), "input_sequence_length"),
            ] {
                match m[name]["value"].as_f64() {
                    Some(t) => close(ours.unwrap_or(f64::NAN), t, name),
                    None => assert_eq!(ours, None, "{name}"),
                }
            }
            let gaps: Vec<f64> = r.chunk_gaps_ms().collect();
            let recorded = m["inter_chunk_latency"]["value"].as_array().unwrap();
            assert_eq!(gaps.len(), recorded.len());
            gaps.iter().zip(recorded).for_each(|(g, t)| close(*g, t.as_f64().unwrap(), "inter_chunk_latency"));
        }
        let point = point(&records, clients);
        let document = inferasim::measure::aiperf::document(&point, &records, Value::Null, "", 0);
        // AIPerf divides its throughputs by the wall time of its phase, its own start-up included, and states the
        // duration of the requests beside them; ours divide by that duration.
        let of = |d: &Value, name: &str| d[name]["avg"].as_f64().unwrap();
        let phase_s = of(&summary, "request_count") / of(&summary, "request_throughput");
        close(of(&document, "benchmark_duration"), of(&summary, "benchmark_duration"), "benchmark_duration");
        let mut compared = 0;
        for (name, entry) in document.as_object().unwrap() {
            let Some(theirs) = summary.get(name).filter(|t| t.get("unit").is_some()) else { continue };
            assert_eq!(entry["unit"], theirs["unit"], "{name}");
            for (statistic, value) in entry.as_object().unwrap().iter().filter(|(k, _)| *k != "unit") {
                let factor = if name.ends_with("throughput") && statistic == "avg" && entry.get("count").is_none() {
                    phase_s / of(&summary, "benchmark_duration")
                } else {
                    1.0
                };
                let theirs = theirs[statistic].as_f64().unwrap() * factor;
                close(value.as_f64().unwrap(), theirs, &format!("{name}.{statistic}"));
                compared += 1;
            }
        }
        assert!(compared > 150, "{run}: only {compared} figures were compared");
    }
}

/// Drafts 3 to 43, draft and accepted tokens 7 to 119: length 1 + 112/40 = 3.8, rate 1.
#[test]
fn recorded_counters_give_the_acceptance_length() {
    let (Some(pre), Some(post)) =
        (reference("endpoint/spec_metrics-pre-c1.prom"), reference("endpoint/spec_metrics-post-c1.prom"))
    else {
        return;
    };
    let read = |p: &Path| Scrape::parse(&std::fs::read_to_string(p).unwrap());
    let d = delta(&read(&pre), &read(&post), Peaks::default());
    let s = d.speculation.unwrap();
    assert_eq!((s.drafts, s.draft_tokens, s.accepted_tokens), (40.0, 112.0, 112.0));
    assert!((s.acceptance_length - 3.8).abs() < 1e-12);
    assert_eq!(s.accept_rate, Some(1.0));
    assert!(s.rate_per_position.iter().all(|r| (0.0..=1.0).contains(r)));
    assert!((s.rate_per_position.iter().sum::<f64>() - 2.8).abs() < 1e-12);
    assert!(!d.counters_reset && d.prefix_cache_hit_rate.is_some());
}
