//! How a run, and what would be sent, are shown.

use crate::error::exit;
use crate::measure::options::Options;
use crate::measure::run_document::Summary;
use crate::measure::stats::Distribution;
use crate::measure::summary::Point;
use crate::{Error, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::path::Path;

fn json_text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::input("--json", e.to_string(), ""))
}

/// The plan: every point, and one body with its prompt left out.
pub fn dry_run(options: &Options, as_json: bool) -> Result<u8> {
    let points: Vec<_> = options
        .points()
        .into_iter()
        .map(|(name, prompts, load, requests)| {
            let osl = prompts.shape().osl.tokens;
            json!({"name": name, "shape": prompts.shape(), "load": load, "requests": requests,
                "most_output_tokens": osl * requests as f64})
        })
        .collect();
    let shape = options.prompts[0].shape();
    let text = format!("<{:.0} tokens of o200k_base>", shape.isl.tokens);
    let body = options.body(&text, shape.osl.tokens as u32, options.enforce_length);
    let plan = json!({
        "dry_run": true,
        "url": options.endpoint.to_string(),
        "needs_yes": !options.endpoint.is_loopback(),
        "authorization": options.key.as_ref().map(|(variable, _)| format!("Bearer <{variable}>")),
        "metrics": options.metrics.as_ref().map(|m| m.to_string()),
        "prewarm_requests": if options.prewarm { options.prompts.len() } else { 0 },
        "burn_in_requests": options.burn_in,
        "settle_s": options.settle.as_secs_f64(),
        "seed": options.seed,
        "points": points,
        "body": body,
    });
    if as_json {
        println!("{}", json_text(&plan)?);
        return Ok(exit::ANSWER);
    }
    println!("POST {}   (nothing is sent)", options.endpoint);
    match &options.key {
        Some((variable, _)) => println!("Authorization: Bearer <{variable}>"),
        None => println!("no Authorization header"),
    }
    println!("{}", json_text(&body)?);
    println!(
        "first: {} pre-warm and {} burn-in requests, discarded; pauses of {} s",
        plan["prewarm_requests"], options.burn_in, plan["settle_s"]
    );
    for (name, _, _, requests) in options.points() {
        println!("point {name}: {requests} requests");
    }
    if !options.endpoint.is_loopback() {
        println!("this server is not on this machine: sending needs --yes");
    }
    Ok(exit::ANSWER)
}

fn figure(d: Option<&Distribution>, pick: fn(&Distribution) -> f64) -> String {
    d.map_or("-".into(), |d| format!("{:.1}", pick(d)))
}

fn row(point: &Point) -> Vec<String> {
    let m = &point.metrics;
    let r = &point.requests;
    vec![
        point.name.clone(),
        r.ok.to_string(),
        (r.failed + r.incomplete).to_string(),
        figure(m.ttft_ms.as_ref(), |d| d.mean),
        figure(m.ttft_ms.as_ref(), |d| d.p99),
        figure(m.ttfo_ms.as_ref(), |d| d.mean),
        m.tpot_ms.as_ref().map_or("-".into(), |d| format!("{:.2}", d.mean)),
        m.tpot_ms.as_ref().map_or("-".into(), |d| format!("{:.2}", d.p99)),
        figure(m.latency_ms.as_ref(), |d| d.mean),
        figure(m.tok_s_per_user.as_ref(), |d| d.mean),
        format!("{:.1}", point.system.output_tok_s),
    ]
}

/// The table of points and what must be known beside it; or the whole summary as JSON.
pub fn summary(summary: &Summary, as_json: bool, out: Option<&Path>) -> Result<()> {
    if as_json {
        println!("{}", json_text(summary)?);
        return Ok(());
    }
    println!("{} at {} (measured; {} answer length)", summary.model, summary.url, summary.output_length);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["point", "ok", "bad", "TTFT", "p99", "TTFO", "TPOT", "p99", "latency", "tok/s/user", "tok/s"]);
    for point in &summary.points {
        table.add_row(row(point));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_padding((0, 1));
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    println!("times in ms, means unless marked; TPOT = (latency - TTFT) / (OSL - 1); tok/s is output, all users");
    for point in &summary.points {
        if let Some(steady) = &point.steady {
            let tpot = steady.tpot_ms.as_ref().map_or("-".into(), |d| format!("{:.2}", d.mean));
            let ttft = figure(steady.ttft_ms.as_ref(), |d| d.mean);
            println!(
                "{}: steady state {:.1}-{:.1} s: TTFT {ttft}, TPOT {tpot}, {:.1} tok/s, {:.1} in flight",
                point.name, steady.from_s, steady.to_s, steady.output_tok_s, steady.concurrency
            );
        }
        if let Some(goodput) = &point.goodput {
            let (rate, share) = (goodput.requests_s, 100.0 * goodput.share);
            println!("{}: goodput {rate:.2} requests/s, {share:.1} % of all sent", point.name);
        }
        for warning in &point.warnings {
            println!("{}: warning: {warning}", point.name);
        }
    }
    if let Some(out) = out {
        println!("written to {}", out.display());
    }
    Ok(())
}
