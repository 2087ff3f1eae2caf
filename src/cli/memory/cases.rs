//! `inferasim memory --cases FILE`: reads the rows, scores them, prints the table.

use crate::error::exit;
use crate::memory::cases::{COLUMNS, CONCURRENCY_BAR, Case, Pair, Scored, TOKENS_BAR, WEIGHTS_BAR, score};
use crate::{Error, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Scores the file and prints a table or JSON.
pub fn run(file: &Path, json: bool) -> Result<u8> {
    let cases = read(file)?;
    let scored: Vec<Scored> = cases.iter().map(score).collect();
    let summary = Summary::new(&scored);
    if json {
        let document = serde_json::json!({ "cases": scored, "summary": summary });
        println!("{document:#}");
    } else {
        print_table(&scored, &summary);
    }
    Ok(exit::ANSWER)
}

/// Reads a cases file: the header must have every column of [`COLUMNS`].
pub fn read(file: &Path) -> Result<Vec<Case>> {
    let name = file.display().to_string();
    let mut reader = csv::ReaderBuilder::new()
        .flexible(false)
        .from_path(file)
        .map_err(|e| Error::input(&name, format!("cannot be read: {e}"), ""))?;
    let headers = reader.headers().map_err(|e| explain(&name, &e))?.clone();
    let at: HashMap<String, usize> = headers.iter().enumerate().map(|(i, h)| (h.trim().to_string(), i)).collect();
    if let Some(missing) = COLUMNS.iter().find(|c| !at.contains_key(**c)) {
        return Err(Error::input(
            format!("{name}:1"),
            format!("column `{missing}` is missing"),
            "Needed: ".to_string() + &COLUMNS.join(", "),
        ));
    }
    let mut cases = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| explain(&name, &e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = Row { record: &record, at: &at, place: format!("{name}:{line}") };
        cases.push(row.case()?);
    }
    Ok(cases)
}

fn explain(name: &str, error: &csv::Error) -> Error {
    let place = error.position().map_or(name.to_string(), |p| format!("{name}:{}", p.line()));
    Error::input(place, error.to_string(), "Give a UTF-8 CSV with one header line and equally long rows")
}

struct Row<'a> {
    record: &'a csv::StringRecord,
    at: &'a HashMap<String, usize>,
    place: String,
}

impl Row<'_> {
    fn text(&self, column: &str) -> String {
        self.at.get(column).and_then(|i| self.record.get(*i)).unwrap_or_default().trim().to_string()
    }

    fn number(&self, column: &str) -> Result<Option<f64>> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() && n.abs() < 1e15 => Ok(Some(n)),
            _ => Err(Error::input(
                &self.place,
                format!("`{column}` is `{text}`"),
                "Write a number or leave the cell empty",
            )),
        }
    }

    fn yes(&self, column: &str) -> bool {
        let text = self.text(column).to_lowercase();
        matches!(text.as_str(), "yes" | "true") || text.parse::<u32>().is_ok_and(|n| n > 1)
    }

    fn case(&self) -> Result<Case> {
        let version = self.text("version");
        Ok(Case {
            id: self.text("case_id"),
            date: self.text("date"),
            engine: self.text("engine"),
            version: (!version.is_empty()).then_some(version),
            model: self.text("model"),
            weight_quant: self.text("weight_quant"),
            gpu: self.text("gpu"),
            gpus: self.number("gpus")?,
            tp: self.number("tp")?,
            pp: self.number("pp")?,
            dp: self.number("dp")?,
            ep: self.yes("ep"),
            kv_dtype: self.text("kv_dtype"),
            max_model_len: self.number("max_model_len")?,
            mem_util: self.number("mem_util")?,
            max_num_batched_tokens: self.number("max_num_batched_tokens")?,
            max_num_seqs: self.number("max_num_seqs")?,
            total_gib: self.number("total_gib")?,
            weights_gib: self.number("weights_gib")?,
            kv_avail_gib: self.number("kv_avail_gib")?,
            blocks: self.number("blocks")?,
            kv_tokens: self.number("kv_tokens")?,
            max_concurrency: self.number("max_concurrency_x")?,
            est_max_model_len: self.number("est_max_model_len")?,
            score_kv: self.yes("score_kv"),
            score_weights: self.yes("score_weights"),
        })
    }
}

/// Rows inside and outside the bars.
#[derive(Debug, Default, Serialize)]
struct Summary {
    rows: usize,
    predicted: usize,
    refused: usize,
    marked_refused: usize,
    kv_tokens: Count,
    max_concurrency: Count,
    weights: Count,
}

/// Marked rows with the figure logged, and those of them inside the bar.
#[derive(Debug, Default, Serialize)]
struct Count {
    marked: usize,
    within: usize,
    bar: f64,
    outside: Vec<String>,
}

impl Count {
    fn add(&mut self, id: &str, pair: Option<&Pair>) {
        if let Some(within) = pair.and_then(|p| p.within) {
            self.marked += 1;
            if within { self.within += 1 } else { self.outside.push(id.to_string()) }
        }
    }
}

impl Summary {
    fn new(scored: &[Scored]) -> Self {
        let mut sum = Self { rows: scored.len(), ..Self::default() };
        sum.kv_tokens.bar = TOKENS_BAR;
        sum.max_concurrency.bar = CONCURRENCY_BAR;
        sum.weights.bar = WEIGHTS_BAR;
        for row in scored {
            if row.reason.is_some() {
                sum.refused += 1;
                sum.marked_refused += usize::from(row.score_kv || row.score_weights);
                continue;
            }
            sum.predicted += 1;
            if row.score_kv {
                sum.kv_tokens.add(&row.case_id, row.kv_tokens.as_ref());
                sum.max_concurrency.add(&row.case_id, row.max_concurrency.as_ref());
            }
            if row.score_weights {
                sum.weights.add(&row.case_id, row.weights_gib.as_ref());
            }
        }
        sum
    }
}

fn print_table(scored: &[Scored], summary: &Summary) {
    println!(
        "{:<8} {:<26} {:>8} {:>6} {:>11} {:>7} {:>9} {:>7}  counts",
        "case", "model", "weights", "err %", "KV tokens", "err %", "requests", "err %"
    );
    for row in scored {
        let model: String = row.model.chars().take(26).collect();
        if let Some(reason) = &row.reason {
            let reason: String = reason.chars().take(63).collect();
            println!("{:<8} {model:<26} {reason}", row.case_id);
            continue;
        }
        let (weights, weights_error) = cells(row.weights_gib.as_ref(), 2);
        let (tokens, tokens_error) = cells(row.kv_tokens.as_ref(), 0);
        let (requests, requests_error) = cells(row.max_concurrency.as_ref(), 2);
        let counts = match (row.score_kv, row.score_weights) {
            (true, true) => "kv w",
            (true, false) => "kv",
            (false, true) => "w",
            (false, false) => "",
        };
        println!(
            "{:<8} {model:<26} {weights:>8} {weights_error:>6} {tokens:>11} {tokens_error:>7} {requests:>9} {requests_error:>7}  {counts}",
            row.case_id
        );
    }
    println!();
    println!(
        "{} rows: {} predicted, {} refused with a reason ({} of them marked).",
        summary.rows, summary.predicted, summary.refused, summary.marked_refused
    );
    for (what, count) in [
        ("weights per rank", &summary.weights),
        ("KV tokens", &summary.kv_tokens),
        ("maximum concurrency", &summary.max_concurrency),
    ] {
        let outside =
            if count.outside.is_empty() { String::new() } else { format!("; outside: {}", count.outside.join(", ")) };
        println!(
            "{what}: {} of {} marked rows within {} % or the rounding of the print{outside}",
            count.within,
            count.marked,
            count.bar * 100.0
        );
    }
}

fn cells(pair: Option<&Pair>, digits: usize) -> (String, String) {
    let Some(pair) = pair else { return (String::new(), String::new()) };
    let error = pair.error.map_or(String::new(), |e| format!("{:+.2}", e * 100.0));
    (format!("{:.digits$}", pair.predicted), error)
}
