//! What does a run ask, and which points does that make?

use super::assemble::CountBy;
use super::dataset::Item;
use super::endpoint::{ApiKey, Endpoint};
use super::http::Limits;
use super::load::Load;
use super::shape::Shape;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where prompts come from.
#[derive(Debug, Clone)]
pub enum Prompts {
    /// Fresh for every request of the run.
    Synthetic(Shape),
    /// The rows of a dataset, the same for every endpoint.
    Replay(Shape, Arc<Vec<Item>>),
}

impl Prompts {
    /// The shape asked for.
    pub fn shape(&self) -> &Shape {
        match self {
            Prompts::Synthetic(shape) | Prompts::Replay(shape, _) => shape,
        }
    }
}

/// A run, validated.
#[derive(Debug, Clone)]
pub struct Options {
    #[allow(missing_docs)]
    pub endpoint: Endpoint,
    /// Name of the served model.
    pub model: String,
    /// Key and the variable it came from.
    pub key: Option<(String, ApiKey)>,
    /// What is asked.
    pub prompts: Vec<Prompts>,
    /// Load levels, each run with every shape.
    pub loads: Vec<Load>,
    /// Requests per point; none for 10 per client (100 in an open loop, all rows of a dataset).
    pub requests: Option<usize>,
    /// No request of a point starts after this.
    pub stop_after: Option<Duration>,
    /// Most requests in flight in an open loop.
    pub max_in_flight: usize,
    /// Silence and length limits of a request.
    pub limits: Limits,
    /// Times a request is sent again that the endpoint turned away.
    pub retries: u32,
    /// Seed of prompts, lengths and arrivals.
    pub seed: u64,
    /// Send `min_tokens` and `ignore_eos`.
    pub enforce_length: bool,
    /// Ask for usage on every chunk.
    pub usage_per_chunk: bool,
    /// Name of the answer-length field.
    pub length_field: String,
    /// Further fields of the body.
    pub extra: Map<String, Value>,
    /// Whose counts the metrics use.
    pub count_by: CountBy,
    /// Limits for goodput, by metric.
    pub slo: BTreeMap<String, f64>,
    /// The user's word on whether the model reasons.
    pub reasons: Option<bool>,
    /// One discarded request per shape before the first point.
    pub prewarm: bool,
    /// Discarded requests at the first load level.
    pub burn_in: usize,
    /// Pause after pre-warm, burn-in and each point.
    pub settle: Duration,
    /// `/metrics`; none to scrape nothing.
    pub metrics: Option<Endpoint>,
    /// Where the files go.
    pub out: Option<PathBuf>,
    /// The command line, for the record.
    pub command: String,
}

impl Options {
    /// The body of a request.
    pub fn body(&self, text: &str, osl: u32, enforce_length: bool) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.model));
        if self.endpoint.path.ends_with("/completions") && !self.endpoint.path.ends_with("/chat/completions") {
            body.insert("prompt".into(), json!(text));
        } else {
            body.insert("messages".into(), json!([{"role": "user", "content": text}]));
        }
        body.insert("stream".into(), json!(true));
        let mut stream = json!({"include_usage": true});
        if self.usage_per_chunk {
            stream["continuous_usage_stats"] = json!(true);
        }
        body.insert("stream_options".into(), stream);
        body.insert("temperature".into(), json!(0));
        body.insert("top_p".into(), json!(1));
        body.insert(self.length_field.clone(), json!(osl));
        if enforce_length {
            body.insert("min_tokens".into(), json!(osl));
            body.insert("ignore_eos".into(), json!(true));
        }
        for (key, value) in &self.extra {
            body.insert(key.clone(), value.clone());
        }
        body.into()
    }

    fn count(&self, prompts: &Prompts, load: &Load) -> usize {
        self.requests.unwrap_or(match (prompts, load) {
            (Prompts::Replay(_, items), _) => items.len(),
            (_, Load::Closed { concurrency, .. }) => 10 * concurrency,
            _ => 100,
        })
    }

    /// Every point, in order: its name, prompts, load and number of requests.
    pub fn points(&self) -> Vec<(String, &Prompts, &Load, usize)> {
        let all = |p| self.loads.iter().map(move |l| (p, l));
        let named = |(p, l): (&'_ _, &'_ Load)| format!("{}-{}", Prompts::shape(p).name, l.name());
        self.prompts.iter().flat_map(all).map(|(p, l)| (named((p, l)), p, l, self.count(p, l))).collect()
    }
}
