//! One request, one completion: what passes between the planner and a model, whoever carries it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// Carries requests to a model: an endpoint, or the transcript of an earlier run.
pub trait Channel {
    /// Sends the body of a chat-completions request and waits for the whole answer.
    ///
    /// # Errors
    /// Why there is no usable answer, and whether asking again may help.
    fn complete(&mut self, request: &Value) -> Result<Completion, Fault>;

    /// Asking again waits in real time.
    fn waits(&self) -> bool {
        true
    }

    /// What a reader of the run must know about the answers.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Completion {
    /// What the model wrote.
    pub text: String,
    /// Why it refuses, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Tools it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped: `stop`, `length`, `tool_calls` …
    pub finish: String,
    /// Tokens read and written, as the server counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A tool the model calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, repeated in the answer to it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON as the model wrote it.
    pub arguments: String,
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub prompt_tokens: u64,
    /// Written.
    pub completion_tokens: u64,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of thing went wrong.
    pub kind: FaultKind,
    /// In words.
    pub message: String,
    /// Least wait before asking again, seconds; absent where asking again cannot help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_after_s: Option<f64>,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// No connection.
    Down,
    /// Nothing came in time.
    Timeout,
    /// The server has no room now: 429, 503.
    Busy,
    /// The server failed: other 5xx, or an error inside a stream.
    Server,
    /// The server does not take a part of the request, which is left out from now on.
    Unsupported,
    /// The request is longer than the model's context.
    TooLong,
    /// The server refuses the request: 401, 404 …
    Refused,
    /// The answer ended before its end.
    HalfStream,
    /// The answer is no chat completion.
    Unreadable,
    /// The user stopped the run.
    Interrupted,
    /// The transcript holds no further answer.
    Exhausted,
}

impl Fault {
    /// A fault that may pass.
    pub fn passing(kind: FaultKind, message: impl Into<String>, wait: Duration) -> Self {
        Self { kind, message: message.into(), again_after_s: Some(wait.as_secs_f64()) }
    }

    /// A fault that stays.
    pub fn lasting(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), again_after_s: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
