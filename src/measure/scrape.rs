//! What does the server's own `/metrics` say about the interval of a point?
//!
//! Counters are summed over label sets (engines, ranks) and differenced; a counter that fell was reset, and then the
//! differences of the point are not given. Gauges are sampled during the point. vLLM's and SGLang's names are known.
//! Acceptance length = 1 + accepted / drafts; accept rate = accepted / draft tokens; per position = accepted at that
//! position / drafts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One sample: name, labels, value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// One scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape(Vec<Sample>);

impl Scrape {
    /// Reads the Prometheus text format. Lines that cannot be read are skipped.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(sample).collect())
    }

    fn sum(&self, name: &str) -> Option<f64> {
        let mut found = self.0.iter().filter(|s| s.name == name).map(|s| s.value).peekable();
        found.peek()?;
        Some(found.sum())
    }

    fn max(&self, names: &[&str]) -> Option<f64> {
        self.0.iter().filter(|s| names.contains(&s.name.as_str())).map(|s| s.value).reduce(f64::max)
    }

    fn by_label(&self, name: &str, label: &str) -> BTreeMap<u32, f64> {
        let mut all = BTreeMap::new();
        for s in self.0.iter().filter(|s| s.name == name) {
            if let Some(position) = s.labels.iter().find(|l| l.0 == label).and_then(|l| l.1.parse().ok()) {
                *all.entry(position).or_default() += s.value;
            }
        }
        all
    }

    /// True when an engine that is known speaks here.
    pub fn is_known_engine(&self) -> bool {
        self.0.iter().any(|s| s.name.starts_with("vllm:") || s.name.starts_with("sglang:"))
    }
}

fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = match line.find('{') {
        Some(open) => {
            let mut labels = vec![];
            let mut rest = &line[open + 1..];
            while !rest.starts_with('}') {
                let (key, tail) = rest.split_once("=\"")?;
                let (mut value, mut end, mut escaped) = (String::new(), None, false);
                for (i, c) in tail.char_indices() {
                    match c {
                        _ if escaped => {
                            value.push(if c == 'n' { '\n' } else { c });
                            escaped = false;
                        }
                        '\\' => escaped = true,
                        '"' => {
                            end = Some(i);
                            break;
                        }
                        _ => value.push(c),
                    }
                }
                labels.push((key.trim_start_matches(',').trim().to_string(), value));
                rest = &tail[end? + 1..];
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            (&line[..open], labels, &rest[1..])
        }
        None => {
            let (name, rest) = line.split_once(char::is_whitespace)?;
            (name, vec![], rest)
        }
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.trim().to_string(), labels, value })
}

/// Largest gauges seen during the point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Share of the KV blocks in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Running requests.
    pub running: Option<f64>,
    /// Waiting requests.
    pub waiting: Option<f64>,
}

impl Peaks {
    /// Takes one more scrape into account.
    pub fn see(&mut self, scrape: &Scrape) {
        let grow = |peak: &mut Option<f64>, names: &[&str]| {
            *peak = [*peak, scrape.max(names)].into_iter().flatten().reduce(f64::max);
        };
        grow(&mut self.kv_usage, &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"]);
        grow(&mut self.running, &["vllm:num_requests_running", "sglang:num_running_reqs"]);
        grow(&mut self.waiting, &["vllm:num_requests_waiting", "sglang:num_queue_reqs"]);
    }
}

/// Speculative decoding during the point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speculation {
    /// Draft rounds.
    pub drafts: f64,
    /// Drafted tokens.
    pub draft_tokens: f64,
    /// Accepted tokens.
    pub accepted_tokens: f64,
    /// Tokens per engine step: 1 + accepted / drafts.
    pub acceptance_length: f64,
    /// Accepted / drafted tokens.
    pub accept_rate: Option<f64>,
    /// Accepted / drafts at each draft position, from 0.
    pub rate_per_position: Vec<f64>,
}

/// The server during one point. Null is not stated by the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerDelta {
    /// A counter fell between the scrapes: the server restarted, and no difference is given.
    pub counters_reset: bool,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_cache_queries: Option<f64>,
    /// Prompt tokens found there.
    pub prefix_cache_hits: Option<f64>,
    /// Hits / queries.
    pub prefix_cache_hit_rate: Option<f64>,
    /// Preempted requests.
    pub preemptions: Option<f64>,
    /// Tokens generated, all clients together.
    pub generation_tokens: Option<f64>,
    /// Prompt tokens processed, all clients together.
    pub prompt_tokens: Option<f64>,
    /// Speculative decoding; null without drafts.
    pub speculation: Option<Speculation>,
    /// Gauges, sampled while the point ran.
    pub peaks: Peaks,
}

/// The difference of two scrapes.
pub fn delta(before: &Scrape, after: &Scrape, peaks: Peaks) -> ServerDelta {
    let mut counters_reset = false;
    let mut diff = |names: &[&str]| {
        names.iter().find_map(|name| {
            let (a, b) = (before.sum(name), after.sum(name)?);
            let d = b - a.unwrap_or(0.0);
            counters_reset |= d < 0.0;
            Some(d)
        })
    };
    let queries = diff(&["vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"]);
    let hits =
        diff(&["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total"]);
    let preemptions = diff(&["vllm:num_preemptions_total", "sglang:num_retracted_reqs_total"]);
    let generated = diff(&["vllm:generation_tokens_total", "sglang:generation_tokens_total"]);
    let prompt = diff(&["vllm:prompt_tokens_total", "sglang:prompt_tokens_total"]);
    let drafts = diff(&["vllm:spec_decode_num_drafts_total"]);
    let draft_tokens = diff(&["vllm:spec_decode_num_draft_tokens_total"]);
    let accepted = diff(&["vllm:spec_decode_num_accepted_tokens_total"]);
    let position = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    let at_start = before.by_label(position, "position");
    let speculation = drafts.zip(accepted).filter(|(d, _)| *d > 0.0).map(|(drafts, accepted)| Speculation {
        drafts,
        draft_tokens: draft_tokens.unwrap_or(0.0),
        accepted_tokens: accepted,
        acceptance_length: 1.0 + accepted / drafts,
        accept_rate: draft_tokens.filter(|d| *d > 0.0).map(|d| accepted / d),
        rate_per_position: after
            .by_label(position, "position")
            .iter()
            .map(|(p, v)| (v - at_start.get(p).copied().unwrap_or(0.0)) / drafts)
            .collect(),
    });
    let keep = |v: Option<f64>| v.filter(|_| !counters_reset);
    let looked_up = queries.or(prompt);
    ServerDelta {
        counters_reset,
        prefix_cache_queries: keep(queries),
        prefix_cache_hits: keep(hits),
        prefix_cache_hit_rate: keep(hits.zip(looked_up).filter(|(_, q)| *q > 0.0).map(|(h, q)| h / q)),
        preemptions: keep(preemptions),
        generation_tokens: keep(generated),
        prompt_tokens: keep(prompt),
        speculation: speculation.filter(|_| !counters_reset),
        peaks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(drafts: f64, accepted: f64) -> Scrape {
        Scrape::parse(&format!(
            "# HELP x\nvllm:spec_decode_num_drafts_total{{engine=\"0\"}} {drafts}\n\
             vllm:spec_decode_num_drafts_total{{engine=\"1\"}} 0\n\
             vllm:spec_decode_num_drafts_created{{engine=\"0\"}} 1.79e9\n\
             vllm:spec_decode_num_draft_tokens_total{{engine=\"0\"}} {}\n\
             vllm:spec_decode_num_accepted_tokens_total{{engine=\"0\"}} {accepted}\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine=\"0\",position=\"0\"}} {drafts}\n",
            drafts * 4.0
        ))
    }

    /// 10 drafts of 4 tokens, 24 accepted: length 1 + 24/10 = 3.4, rate 24/40 = 0.6.
    #[test]
    fn acceptance_follows_its_definition() {
        let d = delta(&with(5.0, 6.0), &with(15.0, 30.0), Peaks::default());
        let s = d.speculation.unwrap();
        assert!((s.acceptance_length - 3.4).abs() < 1e-12 && (s.accept_rate.unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(s.rate_per_position, [1.0]);
    }

    #[test]
    fn a_restart_between_scrapes_gives_no_numbers() {
        let d = delta(&with(100.0, 50.0), &with(5.0, 60.0), Peaks::default());
        assert!(d.counters_reset && d.speculation.is_none());
        assert_eq!(delta(&with(5.0, 5.0), &with(5.0, 5.0), Peaks::default()).speculation, None);
    }

    #[test]
    fn labels_may_hold_any_character() {
        let s = sample(r#"a_total{model="x{}\"\\,=",b="1"} 2.5e1 1234"#).unwrap();
        assert_eq!(s.labels[0].1, r#"x{}"\,="#);
        assert_eq!((s.value, s.labels.len()), (25.0, 2));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[a-z:{}=\"\\\\, 0-9.e+é-]{0,60}") { let _ = sample(&line); }
    }
}
