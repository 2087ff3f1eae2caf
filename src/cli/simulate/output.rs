//! Prints reports, and writes records of requests and steps.

use super::deployment::Projected;
use crate::sim::fleet::Observer;
use crate::sim::replica::StepRecord;
use crate::sim::report::{Latency, Report};
use crate::sim::request_log::RequestRecord;
use crate::sim::scenario::Scenario;
use crate::sim::slo::SloSet;
use crate::sim::sweep::{Curve, MaxRate};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A record file being written.
struct Sink {
    name: String,
    out: BufWriter<File>,
    jsonl: bool,
    failed: Option<std::io::Error>,
}

impl Sink {
    fn open(path: &Path, columns: &[&str]) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path)
            .map_err(|e| Error::input(&name, format!("cannot be written: {e}"), "Give a file in an existing folder"))?;
        let jsonl = path.extension().is_some_and(|e| e == "jsonl");
        let mut sink = Self { name, out: BufWriter::new(file), jsonl, failed: None };
        if !jsonl {
            sink.line(&columns.join(","));
        }
        Ok(sink)
    }

    fn line(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{text}").err();
        }
    }

    fn row(&mut self, columns: &[&str], values: &[Value]) {
        let text = if self.jsonl {
            let object: serde_json::Map<String, Value> =
                columns.iter().map(|c| c.to_string()).zip(values.iter().cloned()).collect();
            Value::Object(object).to_string()
        } else {
            let field = |v: &Value| if v.is_null() { String::new() } else { v.to_string() };
            values.iter().map(field).collect::<Vec<_>>().join(",")
        };
        self.line(&text);
    }

    fn close(mut self) -> Result<()> {
        match self.failed.take().or(self.out.flush().err()) {
            Some(e) => Err(Error::input(self.name, format!("cannot be written: {e}"), "")),
            None => Ok(()),
        }
    }
}

const REQUEST_COLUMNS: [&str; 13] = [
    "request",
    "arrival_s",
    "queue_s",
    "ttft_s",
    "ttft_from_admission_s",
    "tpot_s",
    "e2e_s",
    "input_length",
    "output_length",
    "cached_tokens",
    "preemptions",
    "priority",
    "replica",
];

const STEP_COLUMNS: [&str; 10] = [
    "replica",
    "start_s",
    "end_s",
    "decode_sequences",
    "decode_context",
    "prefill_chunks",
    "prefill_tokens",
    "preempted",
    "waiting",
    "used_blocks",
];

/// Writes records while a run goes on.
pub struct Records {
    requests: Option<Sink>,
    steps: Option<Sink>,
}

impl Records {
    /// Creates the files asked for, before the run.
    pub fn open(requests: Option<&Path>, steps: Option<&Path>) -> Result<Self> {
        Ok(Self {
            requests: requests.map(|p| Sink::open(p, &REQUEST_COLUMNS)).transpose()?,
            steps: steps.map(|p| Sink::open(p, &STEP_COLUMNS)).transpose()?,
        })
    }

    /// Completes the files.
    pub fn close(self) -> Result<()> {
        self.requests.map_or(Ok(()), Sink::close)?;
        self.steps.map_or(Ok(()), Sink::close)
    }
}

impl Observer for Records {
    fn request(&mut self, r: &RequestRecord) {
        if let Some(sink) = &mut self.requests {
            let values = [
                json!(r.number),
                json!(r.arrival_s),
                json!(r.queue_s),
                json!(r.ttft_s),
                json!(r.ttft_from_admission_s),
                json!(r.tpot_s),
                json!(r.e2e_s),
                json!(r.prompt_len),
                json!(r.output_len),
                json!(r.hit_tokens),
                json!(r.preemptions),
                json!(r.priority),
                json!(r.replica),
            ];
            sink.row(&REQUEST_COLUMNS, &values);
        }
    }

    fn step(&mut self, s: &StepRecord) {
        if let Some(sink) = &mut self.steps {
            let values = [
                json!(s.replica),
                json!(s.start.seconds()),
                json!(s.end.seconds()),
                json!(s.decode_sequences),
                json!(s.decode_context),
                json!(s.prefill_chunks),
                json!(s.prefill_tokens),
                json!(s.preempted),
                json!(s.waiting),
                json!(s.used_blocks),
            ];
            sink.row(&STEP_COLUMNS, &values);
        }
    }
}

fn show(document: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Error::input("--json", format!("cannot be written: {e}"), ""))?;
    println!("{text}");
    Ok(())
}

/// The report as one JSON document.
pub fn print_json(report: &Report, slos: &SloSet, projected: Option<&Projected>) -> Result<()> {
    let mut document = json!(report);
    if !slos.is_empty() {
        document["slos"] = json!(slos.verdicts(report));
    }
    if let Some(projected) = projected {
        document["deployment"] = json!(projected.about);
        let compared = comparison(report, projected);
        if !compared.is_empty() {
            document["closed_form"] = json!(compared);
        }
    }
    show(&document)
}

/// A mean that the closed form gives too.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Compared {
    /// Its name.
    pub figure: &'static str,
    /// By the closed form.
    pub closed_form: f64,
    /// By the simulation.
    pub simulated: f64,
    /// Simulated over closed form, less 1, %.
    pub difference_pct: f64,
}

/// The means of a closed loop beside those of the closed form; empty for other loads.
fn comparison(report: &Report, projected: &Projected) -> Vec<Compared> {
    let Some(evaluation) = &projected.closed_form else { return Vec::new() };
    let m = &evaluation.metrics;
    let pairs = [
        ("ttft_ms", m.ttft_ms, report.ttft_ms.mean),
        ("tpot_ms", m.tpot_ms, report.tpot_ms.mean),
        ("e2e_ms", m.e2e_ms, report.e2e_ms.mean),
        ("output_tok_s", m.output_tok_s, report.output_tok_s),
    ];
    pairs
        .map(|(figure, closed_form, simulated)| {
            let difference_pct = 100.0 * (simulated / closed_form - 1.0);
            Compared { figure, closed_form, simulated, difference_pct }
        })
        .to_vec()
}

/// The comparison in one line.
pub fn print_comparison(report: &Report, projected: &Projected) {
    let parts: Vec<String> = comparison(report, projected)
        .iter()
        .map(|c| format!("{} {} ({:+.1} %)", c.figure, rate(c.closed_form), c.difference_pct))
        .collect();
    if !parts.is_empty() {
        println!("\nclosed form, and how far the simulation is off it:\n  {}", parts.join(", "));
    }
}

fn rate(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// The report for a reader, within 100 columns.
pub fn print(scenario: &Scenario, report: &Report, slos: &SloSet) {
    let fleet = if scenario.replicas == 1 { "one replica".into() } else { format!("{} replicas", scenario.replicas) };
    println!(
        "{fleet}: {} requests sent, {} answered, {} measured, in {:.1} s of simulated time",
        report.sent, report.finished, report.measured, report.duration_s
    );
    print_losses(report);
    let offered = report.offered_rate.map_or("closed loop".to_string(), |r| format!("offered {} requests/s", rate(r)));
    println!(
        "{offered}, answered {} requests/s\n{} output tokens/s, {} tokens/s in all; engines busy {:.1} %",
        rate(report.achieved_rate),
        rate(report.output_tok_s),
        rate(report.total_tok_s),
        100.0 * report.utilisation
    );
    if report.limit_reached {
        println!("STOPPED at the limit of steps: figures cover the requests answered until then");
    }
    if report.saturated {
        println!("SATURATED: the queue grew as long as requests came; latencies depend on how long the run lasted");
    }
    println!();
    println!("{:<24}{:>12}{:>12}{:>12}{:>12}", "ms", "mean", "p50", "p90", "p99");
    let line = |name: &str, l: &Latency| {
        println!("{name:<24}{:>12.2}{:>12.2}{:>12.2}{:>12.2}", l.mean, l.p50, l.p90, l.p99);
    };
    line("TTFT", &report.ttft_ms);
    line("TTFT from admission", &report.ttft_from_admission_ms);
    line("queue wait", &report.queue_ms);
    line("TPOT", &report.tpot_ms);
    line("ITL", &report.itl_ms);
    line("E2E", &report.e2e_ms);
    println!();
    print_engines(report);
    if let Some(good) = &report.goodput {
        println!();
        println!("goodput {} requests/s: {:.1} % keep every limit", rate(good.requests_s), 100.0 * good.share);
    }
    for verdict in slos.verdicts(report) {
        println!("{verdict}");
    }
    if !report.checks.hold() {
        println!("BROKEN LAW: {:?}", report.checks);
    }
}

fn print_losses(report: &Report) {
    let r = &report.refused;
    let reasons = [
        (r.too_long, "longer than the model allows"),
        (r.too_big_for_cache, "bigger than the KV cache"),
        (r.too_big_for_step, "bigger than a step, unsplit"),
        (r.queue_full, "refused by a full queue"),
        (r.dropped, "given up by an engine"),
        (r.unserved, "left unserved"),
        (report.restarts, "begun anew after a failure"),
    ];
    for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        println!("  {count} {reason}");
    }
}

fn print_engines(report: &Report) {
    println!(
        "{:<8}{:>8}{:>9}{:>11}{:>10}{:>8}{:>9}{:>10}{:>10}{:>12}",
        "replica", "busy %", "steps", "prefill %", "batch", "KV %", "peak %", "hits %", "preempt", "requests"
    );
    for e in report.engines.iter().take(16) {
        println!(
            "{:<8}{:>8.1}{:>9}{:>11.1}{:>10.1}{:>8.1}{:>9.1}{:>10.1}{:>10}{:>12}",
            e.replica,
            100.0 * e.utilisation,
            e.steps,
            100.0 * e.prefill_step_share,
            e.mean_sequences,
            100.0 * e.kv_occupancy,
            100.0 * e.kv_peak,
            100.0 * e.prefix_hit_rate,
            e.preemptions,
            e.finished
        );
    }
    if report.engines.len() > 16 {
        println!("and {} more (--json has all)", report.engines.len() - 16);
    }
}

/// Latency against load.
pub fn print_curve(curve: &Curve, slos: &SloSet, json: bool) -> Result<()> {
    if json {
        return show(&json!(curve));
    }
    println!(
        "{:>10}{:>11}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}  ",
        "rate /s", "answered", "busy %", "TTFT ms", "p99", "TPOT ms", "E2E ms", "p99"
    );
    for (at, point) in curve.points.iter().enumerate() {
        let r = &point.report;
        let mark = match (Some(at) == curve.knee, r.saturated, slos.kept(r) || slos.is_empty()) {
            (_, true, _) => "saturated",
            (_, _, false) => "misses SLO",
            (true, _, _) => "knee",
            _ => "",
        };
        println!(
            "{:>10}{:>11}{:>9.1}{:>11.1}{:>11.1}{:>11.2}{:>11.1}{:>11.1}  {mark}",
            rate(point.rate),
            rate(r.achieved_rate),
            100.0 * r.utilisation,
            r.ttft_ms.mean,
            r.ttft_ms.p99,
            r.tpot_ms.mean,
            r.e2e_ms.mean,
            r.e2e_ms.p99
        );
    }
    if let Some(knee) = curve.knee {
        println!("knee (most requests per second of latency) at {} requests/s", rate(curve.points[knee].rate));
    }
    Ok(())
}

/// The highest rate that keeps the limits.
pub fn print_max_rate(found: &MaxRate, slos: &SloSet, json: bool) -> Result<()> {
    if json {
        return show(&json!(found));
    }
    match (&found.rate, &found.report) {
        (Some(rate), Some(report)) => {
            println!(
                "highest rate: {rate:.3} requests/s ({} probes), {:.1} % busy",
                found.probes,
                100.0 * report.utilisation
            );
            slos.verdicts(report).iter().for_each(|v| println!("{v}"));
        }
        _ => {
            println!("no rate keeps the limits ({} probes)", found.probes);
            if let Some(report) = &found.report {
                println!("closest, at {:.3} requests/s:", found.lowest_tried);
                slos.verdicts(report).iter().for_each(|v| println!("{v}"));
            }
        }
    }
    Ok(())
}
