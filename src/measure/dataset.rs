//! Which prompts does a point send? Fresh synthetic ones, or a JSONL file that is the same for every endpoint.
//!
//! The file is Mooncake's `text_input` form, one object a line: `{"text_input": …, "output_length": …}` with an
//! optional `timestamp` in ms for trace replay. A row with `input_length` and `hash_ids` instead of text (the
//! published Mooncake traces) gets synthetic text in which equal ids are equal blocks of 512 tokens.

use super::prompt::{Tokenizer, append, prose};
use super::random::Random;
use super::shape::Shape;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Tokens that one Mooncake hash id stands for.
const MOONCAKE_BLOCK: u32 = 512;
/// Prompt text of one point held in memory at most, in tokens (about 6 bytes each).
const MOST_TOKENS: u64 = 400_000_000;

/// One request to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The user message.
    pub text: String,
    /// Its length, o200k_base.
    pub prompt_tokens: u64,
    /// Answer tokens to ask for.
    pub osl: u32,
    /// Intended start in ms from the first, for trace replay.
    pub at_ms: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    text_input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_length: Option<u32>,
    output_length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hash_ids: Vec<u64>,
}

/// `count` prompts of a shape; `stream` keeps the points of one run apart, so that none repeats another's prompts.
pub fn synthetic(shape: &Shape, count: usize, seed: u64, stream: u64) -> Result<Vec<Item>> {
    let lengths = shape.draw(count, seed);
    let total: u64 = lengths.iter().map(|l| u64::from(l.0)).sum();
    if total > MOST_TOKENS {
        return Err(Error::input(
            format!("{count} requests of shape {}", shape.name),
            format!("{total} prompt tokens in one point"),
            format!("Hold a point under {MOST_TOKENS}: fewer requests, or several runs"),
        ));
    }
    let item = |(i, (isl, osl)): (usize, (u32, u32))| Item {
        text: prose(isl, &mut Random::new(seed, (stream << 32) + 1000 + i as u64)),
        prompt_tokens: u64::from(isl),
        osl,
        at_ms: None,
    };
    Ok(lengths.into_iter().enumerate().map(item).collect())
}

/// Reads a dataset. An error names the line.
pub fn read(path: &Path, seed: u64, tokenizer: &Tokenizer) -> Result<Vec<Item>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::input(format!("--dataset {name}"), e.to_string(), "Give a readable JSONL file"))?;
    parse(&text, &name, seed, tokenizer)
}

fn parse(text: &str, name: &str, seed: u64, tokenizer: &Tokenizer) -> Result<Vec<Item>> {
    let mut items = vec![];
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let wrong = |found: String| {
            Error::input(
                format!("{name}:{}", number + 1),
                found,
                "A row is {\"text_input\": \"…\", \"output_length\": 100}, optionally with a timestamp in ms",
            )
        };
        let row: Row = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        if row.output_length == 0 || row.timestamp.is_some_and(|t| t.is_nan() || t < 0.0) {
            return Err(wrong("an output_length of 0 or a negative timestamp".into()));
        }
        let text = match (row.text_input, row.input_length) {
            (Some(text), _) if !text.is_empty() => text,
            (None, Some(length)) if length > 0 && u64::from(length) <= MOST_TOKENS => {
                blocks(length, &row.hash_ids, seed, items.len() as u64)
            }
            _ => return Err(wrong("neither text_input nor input_length".into())),
        };
        let prompt_tokens = tokenizer.count(&text) as u64;
        items.push(Item { text, prompt_tokens, osl: row.output_length, at_ms: row.timestamp });
    }
    if items.is_empty() {
        return Err(Error::input(format!("--dataset {name}"), "no row", "Generate one with --write-dataset"));
    }
    Ok(items)
}

fn blocks(length: u32, hash_ids: &[u64], seed: u64, row: u64) -> String {
    let mut text = String::new();
    let mut left = length;
    for id in hash_ids {
        let take = left.min(MOONCAKE_BLOCK);
        append(&mut text, take, &mut Random::new(seed, (1 << 62) | id));
        left -= take;
    }
    append(&mut text, left, &mut Random::new(seed, (1 << 61) | row));
    text
}

/// Writes items as a dataset; a file is there whole or not at all.
pub fn write(path: &Path, items: &[Item]) -> Result<()> {
    let mut text = String::new();
    for item in items {
        let row = Row {
            text_input: Some(item.text.clone()),
            input_length: None,
            output_length: item.osl,
            timestamp: item.at_ms,
            hash_ids: vec![],
        };
        text.push_str(&serde_json::to_string(&row).map_err(|e| Error::input("dataset", e.to_string(), ""))?);
        text.push('\n');
    }
    super::output::write_whole(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_comes_back_as_written() {
        let tokenizer = Tokenizer::load().unwrap();
        let items = synthetic(&Shape::free(50.0, 7.0, 0.0, 0.0, 1.0).unwrap(), 3, 1, 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("d.jsonl");
        write(&file, &items).unwrap();
        assert_eq!(read(&file, 9, &tokenizer).unwrap(), items);
    }

    #[test]
    fn equal_hash_ids_are_equal_blocks_of_512_tokens() {
        let tokenizer = Tokenizer::load().unwrap();
        let text = r#"{"timestamp":0,"input_length":1100,"output_length":5,"hash_ids":[1,2,3]}
{"timestamp":10,"input_length":1030,"output_length":5,"hash_ids":[1,2,9]}"#;
        let items = parse(text, "t", 1, &tokenizer).unwrap();
        assert_eq!((items[0].prompt_tokens, items[1].prompt_tokens), (1100, 1030));
        let same = items[0].text.bytes().zip(items[1].text.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!(tokenizer.count(&items[0].text[..same]) / 512, 2);
    }

    #[test]
    fn a_bad_row_names_its_line() {
        let tokenizer = Tokenizer::load().unwrap();
        let e = parse("{\"text_input\":\"a\",\"output_length\":1}\n{\"text\":1}", "d", 1, &tokenizer).unwrap_err();
        assert!(e.tried == "d:2" && e.found.contains("text_input"), "{e}");
        assert!(parse("", "d", 1, &tokenizer).is_err());
    }
}
