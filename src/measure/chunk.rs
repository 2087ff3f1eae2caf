//! What does one streamed chunk say: tokens of which kind, usage, an end, an error?
//!
//! A chunk counts as content when a choice's delta holds non-empty `content`, `reasoning`, `reasoning_content` or a
//! tool call's name or arguments. Role-only, empty and usage-only chunks hold no token.

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the text of a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `reasoning` or `reasoning_content`.
    Reasoning,
    /// `content` (or `text` of the completions endpoint).
    Answer,
    /// A tool call's name or arguments.
    Tool,
}

/// Token counts as the server states them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, chat template included.
    #[serde(default, deserialize_with = "count")]
    pub prompt_tokens: Option<u64>,
    /// Generated tokens, reasoning included.
    #[serde(default, deserialize_with = "count")]
    pub completion_tokens: Option<u64>,
    /// Reasoning tokens among them, as the server's parser counts.
    #[serde(default, deserialize_with = "count")]
    pub reasoning_tokens: Option<u64>,
    /// Prompt tokens answered from the prefix cache.
    #[serde(default, deserialize_with = "count")]
    pub cached_tokens: Option<u64>,
}

/// One parsed chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The kind of the first non-empty text, none when the chunk holds no token.
    pub kind: Option<Kind>,
    /// Text of the answer in this chunk.
    pub answer: String,
    /// Text of the reasoning in this chunk.
    pub reasoning: String,
    /// Text of tool calls in this chunk.
    pub tool: String,
    /// The stated reason of the end.
    pub finish_reason: Option<String>,
    /// Usage, on a last chunk without choices, beside choices, or on every chunk.
    pub usage: Option<Usage>,
    /// An error sent inside the stream.
    pub error: Option<String>,
    /// A choice was present (a usage-only chunk has none).
    pub has_choice: bool,
}

impl Chunk {
    /// Reads the data of one event. An error names what is wrong with it.
    pub fn parse(data: &[u8]) -> std::result::Result<Self, String> {
        let text = std::str::from_utf8(data).map_err(|e| format!("invalid UTF-8 after byte {}", e.valid_up_to()))?;
        let wire: Wire = serde_json::from_str(text).map_err(|e| format!("not a chunk: {e}"))?;
        let mut chunk = Chunk { usage: wire.usage.map(Usage::from), ..Self::default() };
        if let Some(error) = wire.error.filter(|e| !e.is_null()) {
            chunk.error = Some(error_text(&error));
        } else if wire.object.as_deref() == Some("error") {
            chunk.error = Some(wire.message.map_or_else(|| "no message".into(), |m| error_text(&m)));
        }
        for choice in wire.choices.unwrap_or_default() {
            chunk.has_choice = true;
            chunk.finish_reason = choice.finish_reason.or(chunk.finish_reason);
            if let Some(delta) = choice.delta {
                let reasoning = if delta.reasoning.0.is_empty() { delta.reasoning_content } else { delta.reasoning };
                chunk.reasoning.push_str(&reasoning.0);
                chunk.answer.push_str(&delta.content.0);
                for call in delta.tool_calls.unwrap_or_default() {
                    let function = call.function.unwrap_or_default();
                    chunk.tool.push_str(&function.name.0);
                    chunk.tool.push_str(&function.arguments.0);
                }
            }
            chunk.answer.push_str(&choice.text.0);
        }
        chunk.kind = if !chunk.reasoning.is_empty() {
            Some(Kind::Reasoning)
        } else if !chunk.answer.is_empty() {
            Some(Kind::Answer)
        } else if !chunk.tool.is_empty() {
            Some(Kind::Tool)
        } else {
            None
        };
        Ok(chunk)
    }

    /// True when an answer or a tool call is in it, with or without reasoning.
    pub fn answers(&self) -> bool {
        !self.answer.is_empty() || !self.tool.is_empty()
    }
}

/// The message of an error body: `{"error": {"message": …}}`, `{"error": "…"}`, `{"message": …}`, or the text.
pub fn error_text(value: &serde_json::Value) -> String {
    for key in ["message", "error", "detail"] {
        match value.get(key) {
            Some(serde_json::Value::String(s)) => return s.clone(),
            Some(inner @ serde_json::Value::Object(_)) => return error_text(inner),
            _ => {}
        }
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[derive(Deserialize)]
struct Wire {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<serde_json::Value>,
    object: Option<String>,
    message: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    #[serde(default)]
    text: Text,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Text,
    #[serde(default)]
    reasoning: Text,
    #[serde(default)]
    reasoning_content: Text,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Option<Function>,
}

#[derive(Deserialize, Default)]
struct Function {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Text,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(flatten)]
    plain: Usage,
    completion_tokens_details: Option<Usage>,
    prompt_tokens_details: Option<Usage>,
}

impl From<WireUsage> for Usage {
    fn from(w: WireUsage) -> Self {
        let reasoning = w.completion_tokens_details.and_then(|d| d.reasoning_tokens);
        let cached = w.prompt_tokens_details.and_then(|d| d.cached_tokens);
        Usage {
            reasoning_tokens: reasoning.or(w.plain.reasoning_tokens),
            cached_tokens: cached.or(w.plain.cached_tokens),
            ..w.plain
        }
    }
}

/// No request has more tokens; a count beyond is none.
const MOST_TOKENS: f64 = 1e8;

/// A count some servers write as 12.0, and some as null.
fn count<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Option<u64>, D::Error> {
    let value = Option::<f64>::deserialize(d)?;
    Ok(value.filter(|v| (0.0..=MOST_TOKENS).contains(v)).map(|v| v as u64))
}

/// Text, null, or a list of parts with a `text` each; anything else is no text.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        d.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("text")
    }
    fn visit_str<E>(self, s: &str) -> std::result::Result<Text, E> {
        Ok(Text(s.to_string()))
    }
    fn visit_unit<E>(self) -> std::result::Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_bool<E>(self, _: bool) -> std::result::Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_u64<E>(self, _: u64) -> std::result::Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_i64<E>(self, _: i64) -> std::result::Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_f64<E>(self, _: f64) -> std::result::Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Text, A::Error> {
        let mut all = String::new();
        while let Some(part) = seq.next_element::<serde_json::Value>()? {
            all.push_str(part.get("text").and_then(|t| t.as_str()).unwrap_or_default());
        }
        Ok(Text(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Text, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(s: &str) -> Chunk {
        Chunk::parse(s.as_bytes()).unwrap()
    }

    #[test]
    fn role_empty_and_usage_chunks_hold_no_token() {
        for silent in [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":null,"reasoning_content":null}}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":94,"completion_tokens":29,"total_tokens":123}}"#,
        ] {
            assert_eq!(parse(silent).kind, None, "{silent}");
        }
    }

    #[test]
    fn both_reasoning_fields_are_read_once() {
        assert_eq!(parse(r#"{"choices":[{"delta":{"reasoning":"a"}}]}"#).kind, Some(Kind::Reasoning));
        assert_eq!(parse(r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#).kind, Some(Kind::Reasoning));
        let both = parse(r#"{"choices":[{"delta":{"reasoning":"a","reasoning_content":"a"}}]}"#);
        assert_eq!(both.reasoning, "a");
    }

    #[test]
    fn usage_is_read_beside_choices_and_from_details() {
        let c = parse(
            r#"{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":2.0,
            "completion_tokens_details":{"reasoning_tokens":1},"prompt_tokens_details":{"cached_tokens":2}}}"#,
        );
        let u = c.usage.unwrap();
        assert_eq!((u.prompt_tokens, u.completion_tokens), (Some(3), Some(2)));
        assert_eq!((u.reasoning_tokens, u.cached_tokens), (Some(1), Some(2)));
        assert!(parse(r#"{"choices":[],"usage":{"completion_tokens_details":null}}"#).usage.is_some());
    }

    #[test]
    fn an_error_inside_the_stream_is_found() {
        assert_eq!(parse(r#"{"error":{"message":"out of memory","code":500}}"#).error.unwrap(), "out of memory");
        assert_eq!(parse(r#"{"object":"error","message":"boom"}"#).error.unwrap(), "boom");
    }

    #[test]
    fn invalid_bytes_are_named() {
        assert!(Chunk::parse(b"{\"a\":\"\xff\"}").unwrap_err().contains("UTF-8"));
        assert!(Chunk::parse(b"<html>").unwrap_err().contains("not a chunk"));
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Chunk::parse(&bytes);
        }
        #[test]
        fn no_json_panics(key in "(choices|usage|error|delta|object)", value in "[\\[\\]{}\"a:0-9,null]{0,40}") {
            let _ = Chunk::parse(format!("{{\"{key}\":{value}}}").as_bytes());
        }
    }
}
