//! A model behind an OpenAI-compatible endpoint: chat completions as a stream, with time-outs at every wait.
//!
//! Servers differ in what they take. What one refuses (tool calls, a reply schema, token counts in the stream,
//! streaming itself) is left out of every later request.

use super::assembly::Assembly;
use super::channel::{Channel, Completion, Fault, FaultKind};
use super::sender::{Head, Sender};
use crate::{Error, Result};
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout_at};

/// Longest wait that a server's `Retry-After` is honoured for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest part of a server's message that is repeated, characters.
const QUOTED: usize = 300;

/// Where the model is.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Base of the API, `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// Key, where the endpoint wants one.
    pub key: Option<String>,
    /// Longest wait for a whole answer; of one that is still coming then, what has come is taken.
    pub timeout: Duration,
}

/// A connection to a model.
pub struct Live {
    runtime: Runtime,
    client: Client<OpenAIConfig>,
    head: Arc<Mutex<Head>>,
    timeout: Duration,
    left_out: Vec<Feature>,
    interrupted: Box<dyn Fn() -> bool + Send>,
}

/// What a server may not take, in the order in which it is given up where the server does not say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    Schema,
    Usage,
    Tools,
    Stream,
}

impl Feature {
    const ALL: [Feature; 4] = [Feature::Schema, Feature::Usage, Feature::Tools, Feature::Stream];

    fn remove(self, request: &mut Value) -> bool {
        let Some(fields) = request.as_object_mut() else { return false };
        match self {
            Feature::Schema => fields.remove("response_format").is_some(),
            Feature::Usage => fields.remove("stream_options").is_some(),
            Feature::Tools => fields.remove("tools").is_some() | fields.remove("tool_choice").is_some(),
            Feature::Stream => {
                fields.remove("stream_options");
                fields.insert("stream".into(), json!(false)) == Some(json!(true))
            }
        }
    }

    fn named_in(self, message: &str) -> bool {
        let words: &[&str] = match self {
            Feature::Schema => &["response_format", "json_schema", "schema", "grammar", "guided"],
            Feature::Usage => &["stream_options", "include_usage"],
            Feature::Tools => &["tool"],
            Feature::Stream => &["stream"],
        };
        words.iter().any(|word| message.contains(word))
    }
}

impl Live {
    /// Prepares a connection; nothing is sent yet. `interrupted` is asked between waits.
    ///
    /// # Errors
    /// An address or a key no request can carry.
    pub fn new(endpoint: &Endpoint, interrupted: Box<dyn Fn() -> bool + Send>) -> Result<Self> {
        let base = base(&endpoint.url)?;
        let key = endpoint.key.as_deref().map(bearer).transpose()?;
        // The process's TLS provider; a second call finds it set.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let broken = |e: &dyn std::fmt::Display| Error::input("--planner-url", format!("no HTTP client: {e}"), "");
        // No redirects: the key goes where the user sent it and nowhere else.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|e| broken(&e))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| broken(&e))?;
        let head = Arc::new(Mutex::new(Head::default()));
        // Everything the library would read from the environment is set here; the key is added by the sender.
        let config = OpenAIConfig::new().with_api_base(base).with_api_key("").with_org_id("").with_project_id("");
        let sender = Sender { http, key, head: head.clone() };
        let client = Client::with_config(config).with_http_service(sender);
        Ok(Self { runtime, client, head, timeout: endpoint.timeout, left_out: Vec::new(), interrupted })
    }

    /// Leaves out what the server named in its refusal, else the next thing it may not know.
    fn give_up_a_feature(&mut self, sent: &Value, message: &str) -> Option<Feature> {
        let message = message.to_lowercase();
        let present = |feature: &Feature| feature.remove(&mut sent.clone());
        let candidates: Vec<Feature> = Feature::ALL.into_iter().filter(present).collect();
        let named = candidates.iter().find(|feature| feature.named_in(&message));
        let feature = *named.or(candidates.first())?;
        self.left_out.push(feature);
        Some(feature)
    }

    fn fault_of(&mut self, error: &OpenAIError, sent: &Value) -> Fault {
        let head = self.head.lock().map(|head| head.clone()).unwrap_or_default();
        let message = quoted(&error.to_string());
        match (error, head.status) {
            (OpenAIError::Reqwest(e), _) if e.is_timeout() => {
                Fault::passing(FaultKind::Timeout, "the endpoint did not answer in time", Duration::ZERO)
            }
            (OpenAIError::Reqwest(e), None) => {
                Fault::passing(FaultKind::Down, format!("no connection: {}", innermost(e)), Duration::ZERO)
            }
            (OpenAIError::Reqwest(e), Some(_)) => {
                Fault::passing(FaultKind::HalfStream, format!("the answer broke off: {}", innermost(e)), Duration::ZERO)
            }
            (_, Some(status @ (408 | 409 | 425 | 429 | 500..=599))) => {
                let kind = if matches!(status, 429 | 503) { FaultKind::Busy } else { FaultKind::Server };
                match head.retry_after {
                    Some(wait) if wait > PATIENCE => {
                        let seconds = wait.as_secs();
                        Fault::lasting(kind, format!("{message} (asks to wait {seconds} s, longer than a run waits)"))
                    }
                    wait => Fault::passing(kind, message, wait.unwrap_or_default()),
                }
            }
            (_, Some(400 | 413 | 422)) if is_too_long(&message) => {
                Fault::passing(FaultKind::TooLong, message, Duration::ZERO)
            }
            (_, Some(status @ (400 | 404 | 405 | 415 | 422))) => {
                // A 404 means a wrong address or model far more often than a feature.
                let feature = (status != 404).then(|| self.give_up_a_feature(sent, &message)).flatten();
                match feature {
                    Some(feature) => {
                        let message = format!("{message}; without {feature:?} from now on");
                        Fault::passing(FaultKind::Unsupported, message, Duration::ZERO)
                    }
                    None => Fault::lasting(FaultKind::Refused, message),
                }
            }
            (_, Some(status)) if status >= 300 => Fault::lasting(FaultKind::Refused, format!("{status}: {message}")),
            _ => Fault::passing(FaultKind::Unreadable, message, Duration::ZERO),
        }
    }
}

impl Channel for Live {
    fn complete(&mut self, request: &Value) -> std::result::Result<Completion, Fault> {
        let mut sent = request.clone();
        for feature in &self.left_out {
            feature.remove(&mut sent);
        }
        if let Ok(mut head) = self.head.lock() {
            *head = Head::default();
        }
        let exchange = exchange(&self.client, &sent, self.timeout);
        let interrupted = &self.interrupted;
        let watched = async {
            tokio::pin!(exchange);
            loop {
                match tokio::time::timeout(Duration::from_millis(100), &mut exchange).await {
                    Ok(outcome) => return outcome,
                    Err(_) if interrupted() => {
                        return Err(Ended::Fault(Fault::lasting(FaultKind::Interrupted, "interrupted")));
                    }
                    Err(_) => {}
                }
            }
        };
        match self.runtime.block_on(watched) {
            Ok(completion) => Ok(completion),
            Err(Ended::Fault(fault)) => {
                if fault.kind == FaultKind::Unreadable && sent["stream"] == json!(true) {
                    self.left_out.push(Feature::Stream);
                }
                Err(fault)
            }
            Err(Ended::Error(error)) => Err(self.fault_of(&error, &sent)),
        }
    }
}

enum Ended {
    Fault(Fault),
    Error(OpenAIError),
}

fn late(timeout: Duration) -> Fault {
    let message = format!("no whole answer within {} s", timeout.as_secs_f64());
    Fault::passing(FaultKind::Timeout, message, Duration::ZERO)
}

/// One request and its answer, streamed or not. A stream that has not ended in time counts as one that broke off.
async fn exchange(
    client: &Client<OpenAIConfig>,
    request: &Value,
    timeout: Duration,
) -> std::result::Result<Completion, Ended> {
    let end = Instant::now() + timeout;
    let late = |_| Ended::Fault(late(timeout));
    let mut assembly = Assembly::default();
    if request["stream"] != json!(true) {
        let whole = timeout_at(end, client.chat().create_byot(request)).await.map_err(late)?;
        let whole: Value = whole.map_err(Ended::Error)?;
        assembly.whole(&whole).map_err(Ended::Fault)?;
        return assembly.finish().map_err(Ended::Fault);
    }
    let stream = timeout_at(end, client.chat().create_stream_byot::<_, Value>(request)).await.map_err(late)?;
    let mut stream = stream.map_err(Ended::Error)?;
    loop {
        match timeout_at(end, poll_fn(|cx| stream.as_mut().poll_next(cx))).await {
            Err(elapsed) => return assembly.finish().map_err(|_| late(elapsed)),
            Ok(None) => break,
            Ok(Some(Ok(chunk))) => {
                assembly.chunk(&chunk).map_err(Ended::Fault)?;
                if assembly.is_endless() {
                    break;
                }
            }
            Ok(Some(Err(error))) if assembly.is_empty() => return Err(Ended::Error(error)),
            Ok(Some(Err(_))) => break,
        }
    }
    assembly.finish().map_err(Ended::Fault)
}

/// The base of the API without a closing slash or the path of the call.
///
/// # Errors
/// No address, or one that carries a secret.
pub fn base(url: &str) -> Result<String> {
    let wrong = |found: &str| {
        let shown = if url.contains('@') { "(address not shown: it may hold a password)" } else { url };
        Error::input(format!("--planner-url {shown}"), found, "Give the base of an API, e.g. http://127.0.0.1:8000/v1")
    };
    let parsed = Url::parse(url).map_err(|e| wrong(&e.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(wrong("no http or https address"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
        return Err(wrong("holds a user, a password or a query; keys come from --planner-key-env alone"));
    }
    let base = url.trim_end_matches('/');
    Ok(base.strip_suffix("/chat/completions").unwrap_or(base).to_string())
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
        Error::input(
            "the planner's key",
            "holds a line break or another character no header takes",
            "Set the key alone",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Servers say it in their own words.
fn is_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("context") && ["length", "window", "size", "exceed"].iter().any(|word| message.contains(word))
}

fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    quoted(&inner.to_string())
}

fn quoted(message: &str) -> String {
    let line: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_a_base_and_holds_no_secret() {
        assert_eq!(base("http://h:1/v1/").unwrap(), "http://h:1/v1");
        assert_eq!(base("https://h/v1/chat/completions").unwrap(), "https://h/v1");
        for bad in ["", "h:1", "ftp://h", "http://", "http://h/?key=1"] {
            assert!(base(bad).is_err(), "{bad}");
        }
        let secret = base("http://user:hunter2@h/v1").unwrap_err().to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn a_key_with_a_line_break_is_an_error_not_a_panic() {
        assert!(bearer("abc\n").is_err());
        assert!(!format!("{:?}", bearer("hunter2").unwrap()).contains("hunter2"));
    }
}
