//! From the parts of an answer to the whole: text, refusal, tool calls and token counts of a chat completion.

use super::channel::{Completion, Fault, FaultKind, ToolCall, Usage};
use serde_json::Value;
use std::time::Duration;

/// Longest answer that is kept, bytes.
const LONGEST: usize = 512 * 1024;
/// Most tool calls of one answer.
const MOST_CALLS: usize = 32;

/// An answer in the making.
#[derive(Debug, Default)]
pub struct Assembly {
    completion: Completion,
    refusal: String,
    thought: String,
    seen: bool,
}

impl Assembly {
    /// Adds one chunk of a stream.
    ///
    /// # Errors
    /// An error the server sends inside the stream.
    pub fn chunk(&mut self, chunk: &Value) -> Result<(), Fault> {
        self.part(chunk, "delta")
    }

    /// Takes an answer that came at once.
    ///
    /// # Errors
    /// An error in place of an answer.
    pub fn whole(&mut self, answer: &Value) -> Result<(), Fault> {
        self.part(answer, "message")
    }

    fn part(&mut self, value: &Value, field: &str) -> Result<(), Fault> {
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            let message = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), String::from);
            return Err(Fault::passing(FaultKind::Server, format!("the server says: {message}"), Duration::ZERO));
        }
        if let Some(usage) = value.get("usage").filter(|u| u.is_object()) {
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
            self.completion.usage =
                Some(Usage { prompt_tokens: count("prompt_tokens"), completion_tokens: count("completion_tokens") });
            self.seen = true;
        }
        let Some(choice) = value.get("choices").and_then(|c| c.get(0)) else { return Ok(()) };
        self.seen = true;
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.completion.finish = finish.to_string();
        }
        let Some(part) = choice.get(field).or_else(|| choice.get("message")).or_else(|| choice.get("delta")) else {
            return Ok(());
        };
        for key in ["content", "refusal", "reasoning_content", "reasoning"] {
            let into = match key {
                "content" => &mut self.completion.text,
                "refusal" => &mut self.refusal,
                _ => &mut self.thought,
            };
            match part.get(key) {
                Some(Value::String(text)) => into.push_str(text),
                // Content in parts.
                Some(Value::Array(parts)) => {
                    let texts = parts.iter().filter_map(|p| p.get("text")?.as_str());
                    texts.for_each(|text| into.push_str(text));
                }
                _ => {}
            }
        }
        for (place, call) in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
            self.tool_call(call, place);
        }
        Ok(())
    }

    fn tool_call(&mut self, call: &Value, place: usize) {
        let at = call.get("index").and_then(Value::as_u64).map_or(place, |at| at as usize);
        if at >= MOST_CALLS {
            return;
        }
        let calls = &mut self.completion.tool_calls;
        while calls.len() <= at {
            calls.push(ToolCall::default());
        }
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            // Arguments as an object rather than as text.
            Some(value @ Value::Object(_)) => value.to_string(),
            _ => String::new(),
        };
        calls[at].id.push_str(&text(call.get("id")));
        let function = call.get("function");
        calls[at].name.push_str(&text(function.and_then(|f| f.get("name"))));
        calls[at].arguments.push_str(&text(function.and_then(|f| f.get("arguments"))));
    }

    /// Nothing of an answer has come.
    pub fn is_empty(&self) -> bool {
        !self.seen
    }

    /// Longer than any plan.
    pub fn is_endless(&self) -> bool {
        self.completion.text.len() + self.thought.len() > LONGEST
    }

    /// The whole answer.
    ///
    /// # Errors
    /// It has no end, and nothing to go on with; or nothing came at all.
    pub fn finish(mut self) -> Result<Completion, Fault> {
        if !self.seen {
            return Err(Fault::passing(FaultKind::Unreadable, "the answer holds no completion", Duration::ZERO));
        }
        let usable = !self.completion.text.trim().is_empty() || !self.refusal.is_empty();
        if self.completion.finish.is_empty() {
            // Text without its end may still hold whole candidates; tool calls without theirs may not be acted on.
            self.completion.tool_calls.clear();
            if !usable {
                return Err(Fault::passing(FaultKind::HalfStream, "the answer broke off", Duration::ZERO));
            }
            self.completion.finish = "cut off".to_string();
        }
        for (at, call) in self.completion.tool_calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = format!("call_{at}");
            }
        }
        self.completion.refusal = Some(self.refusal).filter(|r| !r.trim().is_empty());
        Ok(self.completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assembled(chunks: &[Value]) -> Result<Completion, Fault> {
        let mut assembly = Assembly::default();
        for chunk in chunks {
            assembly.chunk(chunk)?;
        }
        assembly.finish()
    }

    fn delta(delta: Value, finish: Option<&str>) -> Value {
        json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    }

    #[test]
    fn parts_make_a_whole() {
        let whole = assembled(&[
            delta(json!({"role": "assistant", "content": ""}), None),
            delta(json!({"content": "{\"done\""}), None),
            delta(json!({"content": ": true}"}), Some("stop")),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}),
        ])
        .unwrap();
        assert_eq!((whole.text.as_str(), whole.finish.as_str()), ("{\"done\": true}", "stop"));
        assert_eq!(whole.usage, Some(Usage { prompt_tokens: 7, completion_tokens: 3 }));
    }

    #[test]
    fn tool_calls_come_in_pieces() {
        let piece = |at: u64, id: Value, name: Value, arguments: &str| {
            delta(
                json!({"tool_calls": [{"index": at, "id": id, "function": {"name": name, "arguments": arguments}}]}),
                None,
            )
        };
        let whole = assembled(&[
            piece(0, json!("a"), json!("best"), ""),
            piece(1, json!("b"), json!("explain"), "{\"tp\""),
            piece(1, Value::Null, Value::Null, ": 4}"),
            delta(json!({}), Some("tool_calls")),
        ])
        .unwrap();
        let calls: Vec<_> = whole.tool_calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
        assert_eq!(calls, [("a", "best", ""), ("b", "explain", "{\"tp\": 4}")]);
    }

    #[test]
    fn half_an_answer_counts_only_where_it_says_something() {
        let half = assembled(&[delta(json!({"content": "{\"candidates\": ["}), None)]).unwrap();
        assert_eq!(half.finish, "cut off");
        assert_eq!(assembled(&[delta(json!({"role": "assistant"}), None)]).unwrap_err().kind, FaultKind::HalfStream);
        assert_eq!(assembled(&[]).unwrap_err().kind, FaultKind::Unreadable);
        let error = assembled(&[json!({"error": {"message": "out of memory"}})]).unwrap_err();
        assert!(error.message.contains("out of memory"));
    }

    #[test]
    fn a_refusal_is_kept_apart() {
        let whole = assembled(&[delta(json!({"refusal": "I cannot help"}), Some("stop"))]).unwrap();
        assert_eq!(whole.refusal.as_deref(), Some("I cannot help"));
    }
}
