//! Everything one simulation is given.

use super::load::LoadSpec;
use super::router::RouterPolicy;
use crate::serve::scheduler::{Policy, Scheduler, SchedulerConfig, SglangConfig, SglangScheduler, VllmScheduler};
use crate::{Error, Result};
use serde::Serialize;

/// The engine whose scheduler is followed.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineConfig {
    /// vLLM V1 (and engines that schedule like it).
    Vllm(SchedulerConfig),
    /// SGLang, as far as it is known.
    Sglang(SglangConfig),
}

impl EngineConfig {
    /// A fresh scheduler.
    pub fn build(&self) -> Box<dyn Scheduler> {
        match self {
            Self::Vllm(config) => Box::new(VllmScheduler::new(config.clone())),
            Self::Sglang(config) => Box::new(SglangScheduler::new(config.clone())),
        }
    }

    /// Tokens per KV block.
    pub fn block_size(&self) -> u32 {
        match self {
            Self::Vllm(config) => config.block_size,
            Self::Sglang(config) => config.page_size,
        }
    }

    /// Serves the lowest priority value first.
    ///
    /// # Errors
    /// SGLang: its priority scheduling is not modelled.
    pub fn serve_by_priority(&mut self) -> Result<()> {
        match self {
            Self::Vllm(config) => config.policy = Policy::Priority,
            Self::Sglang(_) => {
                return Err(Error::input("--priority", "not modelled for SGLang", "Leave it out"));
            }
        }
        Ok(())
    }

    fn validate(&self) -> Result<()> {
        match self {
            Self::Vllm(config) => config.validate(),
            Self::Sglang(config) => config.validate(),
        }
    }
}

/// Separate replicas for prompts and for answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disaggregation {
    /// The first so many replicas compute prompts; the others decode.
    pub prefill_replicas: u32,
    /// KV bytes of one token.
    pub kv_bytes_per_token: f64,
    /// Bytes per second out of one prefill replica.
    pub link_bytes_per_s: f64,
    /// Seconds per transfer on top.
    pub latency_s: f64,
}

/// A replica is away for a while: it starts late, or it fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// Which one.
    pub replica: u32,
    /// From when, s.
    pub from_s: f64,
    /// Until when, s; `None` for good.
    pub until_s: Option<f64>,
}

/// Limits that a good request keeps, s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Slos {
    /// Time to first token.
    pub ttft_s: Option<f64>,
    /// Time per output token after the first.
    pub tpot_s: Option<f64>,
    /// End-to-end latency.
    pub e2e_s: Option<f64>,
}

impl Slos {
    /// Any limit is set.
    pub fn any(&self) -> bool {
        self.ttft_s.is_some() || self.tpot_s.is_some() || self.e2e_s.is_some()
    }
}

/// One simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The engine of every replica.
    pub engine: EngineConfig,
    /// Replicas, prefill ones included.
    pub replicas: u32,
    /// How requests are spread (over the prefill replicas where those are separate).
    pub router: RouterPolicy,
    /// The requests.
    pub load: LoadSpec,
    /// Requests that may wait beyond those being served, over all replicas; more are refused.
    pub queue_limit: Option<u32>,
    /// Separate prefill replicas.
    pub disaggregation: Option<Disaggregation>,
    /// Late starts and failures.
    pub outages: Vec<Outage>,
    /// Probability that a draft token is accepted, given that those before it were.
    pub draft_acceptance: f64,
    /// Take every step singly.
    pub one_by_one: bool,
    /// Seconds to copy one token's KV in from the host tier; added to the step that does.
    pub host_seconds_per_token: f64,
    /// Limits for goodput.
    pub slos: Slos,
    /// The first so many requests are not measured.
    pub warmup_requests: u64,
    /// Nor the last so many.
    pub drain_requests: u64,
    /// The run stops, and says so, after this many steps.
    pub max_steps: u64,
}

impl Scenario {
    /// One replica, no extras.
    pub fn new(engine: EngineConfig, load: LoadSpec) -> Self {
        Self {
            engine,
            replicas: 1,
            router: RouterPolicy::RoundRobin,
            load,
            queue_limit: None,
            disaggregation: None,
            outages: Vec::new(),
            draft_acceptance: 0.0,
            one_by_one: false,
            host_seconds_per_token: 0.0,
            slos: Slos::default(),
            warmup_requests: 0,
            drain_requests: 0,
            max_steps: 200_000_000,
        }
    }

    /// Refuses what cannot be simulated.
    pub fn validate(&self) -> Result<()> {
        self.engine.validate()?;
        let input = |tried: &str, found: String, repair: &str| Err(Error::input(tried, found, repair));
        if !(1..=4096).contains(&self.replicas) {
            return input("replicas", self.replicas.to_string(), "Give 1 to 4096");
        }
        if self.load.requests == 0 {
            return input("requests", "0".into(), "Give at least 1");
        }
        if self.warmup_requests.saturating_add(self.drain_requests) >= self.load.requests {
            let found = format!("{} + {} of {}", self.warmup_requests, self.drain_requests, self.load.requests);
            return input("warm-up and drain requests", found, "Leave at least one request to measure");
        }
        let split = self.disaggregation.map_or(1, |split| split.prefill_replicas);
        if self.disaggregation.is_some() && (split == 0 || split >= self.replicas) {
            let found = format!("{split} of {}", self.replicas);
            return input("prefill replicas", found, "Leave at least one replica on each side");
        }
        for outage in &self.outages {
            if outage.replica >= self.replicas {
                let found = format!("replica {} of {}", outage.replica, self.replicas);
                return input("outage", found, "Replicas count from 0");
            }
            if outage.until_s.is_some_and(|until| until <= outage.from_s) {
                return input("outage", format!("it ends before {} s, where it starts", outage.from_s), "");
            }
        }
        Ok(())
    }
}
