//! Recorded requests to replay: Mooncake JSONL, the Azure CSV, plain CSV or JSONL; and files of lengths.
//!
//! Times are made relative to the first row. A row with an unreadable field, a negative time, a time before its
//! predecessor's, or a length of 0 is an error that names the line.

use super::distribution::LONGEST;
use crate::{Error, Result};
use serde::Deserialize;
use std::path::Path;

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceRow {
    /// Seconds since the first row.
    pub at_s: f64,
    /// Prompt tokens.
    pub prompt_len: u32,
    /// Answer tokens.
    pub output_len: u32,
    /// Where its prefix ids lie in [`Trace::prefix_ids`].
    pub ids: (u32, u32),
}

/// A recorded load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// In order of time.
    pub rows: Vec<TraceRow>,
    /// Identities of prompt pieces, all rows one after the other.
    pub prefix_ids: Vec<u64>,
    /// Tokens in one such piece.
    pub tokens_per_id: u32,
}

/// Tokens behind one hash id of a Mooncake trace.
const MOONCAKE_BLOCK: u32 = 512;

#[derive(Deserialize)]
struct JsonRow {
    /// Milliseconds (Mooncake).
    timestamp: Option<f64>,
    /// Seconds.
    arrival_s: Option<f64>,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

impl Trace {
    /// Reads a trace; the form follows from its content.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::input(&name, format!("cannot be read: {e}"), "Give the path of a trace"))?;
        let json = text.trim_start().starts_with('{');
        let trace = if json { Self::from_jsonl(&name, &text) } else { Self::from_csv(&name, &text) }?;
        if trace.rows.is_empty() {
            return Err(Error::input(name, "holds no request", "Give at least one row"));
        }
        Ok(trace)
    }

    fn from_jsonl(name: &str, text: &str) -> Result<Self> {
        let mut reader = Reader::new(name, MOONCAKE_BLOCK);
        for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let at = number as u64 + 1;
            let row: JsonRow =
                serde_json::from_str(line).map_err(|e| reader.error(at, format!("not a request: {e}")))?;
            let seconds = match (row.arrival_s, row.timestamp) {
                (Some(seconds), _) => seconds,
                (None, Some(ms)) => ms / 1e3,
                (None, None) => return Err(reader.error(at, "neither `timestamp` (ms) nor `arrival_s`".into())),
            };
            reader.push(at, seconds, row.input_length, row.output_length, &row.hash_ids)?;
        }
        Ok(reader.trace)
    }

    fn from_csv(name: &str, text: &str) -> Result<Self> {
        let mut reader = Reader::new(name, MOONCAKE_BLOCK);
        let mut csv = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let headers = csv.headers().map_err(|e| reader.error(1, e.to_string()))?.clone();
        let column = |names: &[&str]| headers.iter().position(|h| names.iter().any(|n| h.eq_ignore_ascii_case(n)));
        let (Some(time), Some(input), Some(output)) = (
            column(&["arrival_s", "TIMESTAMP"]),
            column(&["input_length", "ContextTokens", "prompt_len"]),
            column(&["output_length", "GeneratedTokens", "output_len"]),
        ) else {
            let found = format!("columns {}", headers.iter().collect::<Vec<_>>().join(", "));
            return Err(Error::input(
                format!("{name}:1"),
                found,
                "A request trace has arrival_s (or TIMESTAMP), input_length and output_length",
            ));
        };
        for record in csv.records() {
            let record = record.map_err(|e| Error::input(name, e.to_string(), ""))?;
            let at = record.position().map_or(0, csv::Position::line);
            let field = |index: usize| record.get(index).unwrap_or("");
            let seconds =
                seconds_of(field(time)).ok_or_else(|| reader.error(at, format!("`{}` is not a time", field(time))))?;
            let length = |index: usize| {
                let text = field(index);
                text.parse::<u64>().map_err(|_| reader.error(at, format!("`{text}` is not a length in tokens")))
            };
            let (input, output) = (length(input)?, length(output)?);
            reader.push(at, seconds, input, output, &[])?;
        }
        Ok(reader.trace)
    }
}

/// Checks rows as they come.
struct Reader<'a> {
    name: &'a str,
    trace: Trace,
    first_s: Option<f64>,
    last_s: f64,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, tokens_per_id: u32) -> Self {
        Self { name, trace: Trace { tokens_per_id, ..Trace::default() }, first_s: None, last_s: f64::NEG_INFINITY }
    }

    fn error(&self, line: u64, found: String) -> Error {
        Error::input(format!("{}:{line}", self.name), found, "")
    }

    fn push(&mut self, line: u64, seconds: f64, input: u64, output: u64, ids: &[u64]) -> Result<()> {
        let dated = self.first_s.is_some_and(|f| f > 1e9) || seconds > 1e9;
        if !seconds.is_finite() || seconds < 0.0 || !dated && seconds > 1e8 {
            return Err(self.error(line, format!("a time of {seconds} s")));
        }
        if seconds < self.last_s {
            return Err(
                self.error(line, format!("its time lies {:.3} s before its predecessor's", self.last_s - seconds))
            );
        }
        for (what, length) in [("prompt", input), ("answer", output)] {
            if length == 0 || length > u64::from(LONGEST) {
                return Err(self.error(line, format!("a {what} of {length} tokens")));
            }
        }
        if !ids.is_empty() && ids.len() as u64 != input.div_ceil(u64::from(self.trace.tokens_per_id)) {
            let found = format!("{} hash ids for a prompt of {input} tokens at 512 tokens each", ids.len());
            return Err(self.error(line, found));
        }
        let first = *self.first_s.get_or_insert(seconds);
        self.last_s = seconds;
        let start = self.trace.prefix_ids.len() as u32;
        self.trace.prefix_ids.extend_from_slice(ids);
        self.trace.rows.push(TraceRow {
            at_s: seconds - first,
            prompt_len: input as u32,
            output_len: output as u32,
            ids: (start, self.trace.prefix_ids.len() as u32),
        });
        Ok(())
    }
}

/// Seconds, as a number or as `YYYY-MM-DD hh:mm:ss.fraction`.
fn seconds_of(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = time.trim_end_matches('Z').splitn(3, ':').map(|p| p.parse::<f64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the proleptic Gregorian calendar since 1970-01-01, with the year starting in March.
    let shifted = if month > 2 { year } else { year - 1 };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        shifted * 365 + shifted.div_euclid(4) - shifted.div_euclid(100) + shifted.div_euclid(400) + in_year - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

/// Reads pairs of prompt and answer length from a CSV with `input_length` and, if it has them, `output_length`.
pub fn read_lengths(path: &Path) -> Result<Vec<(u32, Option<u32>)>> {
    let name = path.display().to_string();
    let mut csv = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|e| Error::input(&name, format!("cannot be read: {e}"), "Give the path of a CSV file"))?;
    let headers = csv.headers().map_err(|e| Error::input(&name, e.to_string(), ""))?.clone();
    let column = |name: &str| headers.iter().position(|h| h == name);
    let Some(input) = column("input_length") else {
        return Err(Error::input(
            format!("{name}:1"),
            "no column `input_length`",
            "Name the columns in the first line",
        ));
    };
    let output = column("output_length");
    let mut rows = Vec::new();
    for record in csv.records() {
        let record = record.map_err(|e| Error::input(&name, e.to_string(), ""))?;
        let line = record.position().map_or(0, csv::Position::line);
        let length = |index: usize| match record.get(index).unwrap_or("").parse::<u32>() {
            Ok(n) if (1..=LONGEST).contains(&n) => Ok(n),
            _ => {
                let found = format!("`{}` is not a length from 1 to {LONGEST}", record.get(index).unwrap_or(""));
                Err(Error::input(format!("{name}:{line}"), found, ""))
            }
        };
        rows.push((length(input)?, output.map(length).transpose()?));
    }
    if rows.is_empty() {
        return Err(Error::input(name, "holds no lengths", "Give at least one row"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        // 2023-11-16 18:17:03.98 UTC is 1,700,158,623.98 (GNU date).
        assert!((seconds_of("2023-11-16 18:17:03.9800000").unwrap() - 1_700_158_623.98).abs() < 1e-3);
        assert_eq!(seconds_of("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(seconds_of("yesterday"), None);
    }

    #[test]
    fn bad_rows_name_their_line() {
        for (text, word) in [
            ("arrival_s,input_length,output_length\n0,10,1\n-1,10,1\n", "t:3"),
            ("arrival_s,input_length,output_length\n5,10,1\n4,10,1\n", "before"),
            ("arrival_s,input_length,output_length\n0,0,1\n", "prompt of 0"),
            ("arrival_s,input_length\n0,10\n", "output_length"),
        ] {
            let error = Trace::from_csv("t", text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        for text in ["{\"timestamp\":1}", "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,\"hash_ids\":[1]}"]
        {
            assert!(Trace::from_jsonl("t", text).is_err());
        }
    }
}
