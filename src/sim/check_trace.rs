//! Does our scheduler take the same steps as the real one? Replays a recorded trace and compares every field.
//!
//! A trace (schema `inferasim-vllm-sched-golden/1`) holds the options, the requests and, per engine iteration, what
//! was scheduled, preempted, appended and finished, with block ids and free counts. See [`TraceFile`].

use crate::serve::scheduler::{
    Content, DraftCheck, FinishReason, KvGroup, NewRequest, Outcome, Plan, Policy, RowKind, SchedulerConfig, Segment,
    Slot, VllmRules, VllmScheduler,
};
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::path::Path;

/// The schema this reader knows.
const SCHEMA: &str = "inferasim-vllm-sched-golden/1";
/// Streams of the trace's token rule repeat after this many keys.
const KEY_PERIOD: u64 = 1_000_003;
/// Key of a request's answer: this plus its index.
const OUTPUT_KEY: u64 = 1_000_000;

/// One recorded trace.
#[derive(Debug, Deserialize)]
pub struct TraceFile {
    schema: String,
    #[serde(default)]
    vllm_version: Option<String>,
    config: TraceConfig,
    #[serde(default)]
    resolved: Resolved,
    requests: Vec<TraceRequest>,
    steps: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct TraceConfig {
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    max_model_len: u32,
    block_size: u32,
    num_gpu_blocks: u32,
    enable_prefix_caching: bool,
    enable_chunked_prefill: bool,
    #[serde(default)]
    long_prefill_token_threshold: u32,
    #[serde(default)]
    long_prefill_token_threshold_adaptive: bool,
    policy: String,
    scheduler_reserve_full_isl: bool,
    #[serde(default)]
    watermark: f64,
    #[serde(default)]
    max_num_active_seqs: Option<u32>,
    #[serde(default = "one")]
    prefill_schedule_interval: u32,
    #[serde(default)]
    async_scheduling: bool,
    #[serde(default)]
    num_speculative_tokens: u32,
    #[serde(default)]
    spec_method: Option<String>,
    #[serde(default)]
    kv_groups: Option<Vec<TraceGroup>>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
struct TraceGroup {
    #[serde(default)]
    sliding_window: Option<u32>,
    #[serde(default)]
    block_size: Option<u32>,
}

/// What the recorded scheduler derived from its options; each wins over our own derivation.
#[derive(Debug, Default, Deserialize)]
struct Resolved {
    num_lookahead_tokens: Option<u32>,
    num_hash_lookahead_tokens: Option<u32>,
    eagle_block_drop: Option<bool>,
    max_num_scheduled_tokens: Option<u32>,
    watermark_blocks: Option<u32>,
    max_in_flight_tokens: Option<u32>,
    batch_queue_size: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct TraceRequest {
    i: u64,
    id: String,
    arrival_step: u64,
    arrival_time: f64,
    priority: i64,
    prompt: Vec<(u64, u32)>,
    max_tokens: u32,
    stop_at: Option<u32>,
    abort_step: Option<u64>,
}

/// How a replay went.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Every field of every step is equal.
    Equal {
        /// Steps compared.
        steps: usize,
    },
    /// The first step that differs.
    Differs {
        /// Its index in the file.
        step: usize,
        /// What the trace says; `None` past its end.
        recorded: Option<Value>,
        /// What the scheduler did; `None` where it had stopped.
        simulated: Option<Value>,
    },
}

impl TraceFile {
    /// Reads a trace file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::input(&name, format!("cannot be read: {e}"), "Give the path of a scheduler trace"))?;
        let trace: Self =
            serde_json::from_str(&text).map_err(|e| Error::input(&name, format!("not a scheduler trace: {e}"), ""))?;
        trace.validate().map_err(|found| Error::input(name, found, ""))?;
        Ok(trace)
    }

    fn validate(&self) -> std::result::Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema `{}`; this version reads `{SCHEMA}`", self.schema));
        }
        for (at, request) in self.requests.iter().enumerate() {
            let name = &request.id;
            if request.i != at as u64 {
                return Err(format!("request {name} has index {} at place {at}", request.i));
            }
            let len: u64 = request.prompt.iter().map(|(_, len)| u64::from(*len)).sum();
            if len == 0 || len > 1 << 30 {
                return Err(format!("request {name} has a prompt of {len} tokens"));
            }
            if request.max_tokens == 0 {
                return Err(format!("request {name} asks for 0 tokens"));
            }
            if !request.arrival_time.is_finite() {
                return Err(format!("request {name} has no arrival time"));
            }
        }
        if !matches!(self.config.policy.as_str(), "fcfs" | "priority") {
            return Err(format!("policy `{}`; known are fcfs and priority", self.config.policy));
        }
        let groups = self.config.kv_groups.iter().flatten();
        if groups.filter_map(|g| g.block_size).any(|b| b != self.config.block_size) {
            return Err("KV groups with unequal block sizes".to_string());
        }
        if self.config.num_gpu_blocks > 1 << 26 {
            return Err(format!("{} KV blocks", self.config.num_gpu_blocks));
        }
        match self.last_time() {
            Some(last) if last > 10_000_000 => Err(format!("{last} iterations")),
            _ => Ok(()),
        }
    }

    fn last_time(&self) -> Option<u64> {
        self.steps.last().and_then(|s| s["t"].as_u64())
    }

    fn scheduler_config(&self) -> Result<SchedulerConfig> {
        let c = &self.config;
        let rules = match &self.vllm_version {
            Some(version) => VllmRules::of_version(version)?,
            None => VllmRules::default(),
        };
        let groups = match &c.kv_groups {
            Some(groups) => groups.iter().map(|g| KvGroup { window: g.sliding_window }).collect(),
            None => vec![KvGroup { window: None }],
        };
        let draft_head = c.spec_method.as_deref().is_some_and(|m| m != "ngram");
        let mut config = SchedulerConfig {
            max_num_batched_tokens: c.max_num_batched_tokens,
            max_num_seqs: c.max_num_seqs,
            max_num_active_seqs: c.max_num_active_seqs.filter(|n| *n > 0),
            max_model_len: c.max_model_len,
            block_size: c.block_size,
            num_blocks: c.num_gpu_blocks,
            enable_prefix_caching: c.enable_prefix_caching,
            enable_chunked_prefill: c.enable_chunked_prefill,
            long_prefill_token_threshold: c.long_prefill_token_threshold,
            long_prefill_token_threshold_adaptive: c.long_prefill_token_threshold_adaptive,
            policy: if c.policy == "priority" { Policy::Priority } else { Policy::Fcfs },
            reserve_full_prompt: c.scheduler_reserve_full_isl,
            watermark_blocks: (c.watermark * f64::from(c.num_gpu_blocks)) as u32,
            prefill_schedule_interval: c.prefill_schedule_interval,
            async_scheduling: c.async_scheduling,
            speculative_tokens: c.num_speculative_tokens,
            groups,
            rules,
            ..SchedulerConfig::default()
        }
        .resolve(draft_head);
        let r = &self.resolved;
        let put = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
        put(&mut config.max_num_batched_tokens, r.max_num_scheduled_tokens);
        put(&mut config.lookahead_tokens, r.num_lookahead_tokens);
        put(&mut config.hash_lookahead_tokens, r.num_hash_lookahead_tokens);
        put(&mut config.watermark_blocks, r.watermark_blocks);
        put(&mut config.max_in_flight_tokens, r.max_in_flight_tokens);
        config.drop_last_hit_block = r.eagle_block_drop.unwrap_or(config.drop_last_hit_block);
        config.validate()?;
        Ok(config)
    }

    /// Replays the requests and compares every iteration.
    pub fn check(&self) -> Result<Comparison> {
        let mut replay = Replay::new(self)?;
        let last = self.last_time().unwrap_or(0);
        let mut recorded = self.steps.iter();
        let mut step = 0;
        for time in 0..=last {
            let Some(simulated) = replay.iterate(time) else { continue };
            let recorded = recorded.next();
            if recorded != Some(&simulated) {
                return Ok(Comparison::Differs { step, recorded: recorded.cloned(), simulated: Some(simulated) });
            }
            step += 1;
        }
        Ok(match recorded.next() {
            None => Comparison::Equal { steps: step },
            Some(missing) => Comparison::Differs { step, recorded: Some(missing.clone()), simulated: None },
        })
    }
}

/// The engine loop around the scheduler, as the traces were recorded.
struct Replay<'a> {
    trace: &'a TraceFile,
    scheduler: VllmScheduler,
    arrivals: VecDeque<usize>,
    aborts: VecDeque<usize>,
    /// Position of each request's id among all ids, as strings.
    ties: Vec<u64>,
    slots: Vec<Option<Slot>>,
    unfinished: usize,
    /// Finished ids that the engine has not been told yet.
    to_flush: bool,
    in_flight: VecDeque<(u64, Plan)>,
    queue_size: usize,
    outcome: Outcome,
}

impl<'a> Replay<'a> {
    fn new(trace: &'a TraceFile) -> Result<Self> {
        let config = trace.scheduler_config()?;
        let requests = &trace.requests;
        let mut arrivals: Vec<usize> = (0..requests.len()).collect();
        arrivals.sort_by_key(|i| (requests[*i].arrival_step, *i));
        let mut aborts: Vec<usize> = (0..requests.len()).filter(|i| requests[*i].abort_step.is_some()).collect();
        aborts.sort_by_key(|i| (requests[*i].abort_step, *i));
        let mut by_name: Vec<usize> = (0..requests.len()).collect();
        by_name.sort_by_key(|i| &requests[*i].id);
        let mut ties = vec![0; requests.len()];
        for (place, index) in by_name.into_iter().enumerate() {
            ties[index] = place as u64;
        }
        Ok(Self {
            queue_size: trace.resolved.batch_queue_size.unwrap_or(config.steps_in_flight() as usize),
            scheduler: VllmScheduler::new(config),
            arrivals: arrivals.into(),
            aborts: aborts.into(),
            ties,
            slots: vec![None; requests.len()],
            unfinished: 0,
            to_flush: false,
            in_flight: VecDeque::new(),
            outcome: Outcome::default(),
            trace,
        })
    }

    /// One engine iteration; `None` where there is nothing to do.
    fn iterate(&mut self, time: u64) -> Option<Value> {
        self.take_arrivals(time);
        let mut record = Map::new();
        record.insert("t".into(), time.into());
        let aborted = self.take_aborts(time);
        if !aborted.is_empty() {
            record.insert("a".into(), json!(aborted));
        }
        if self.unfinished == 0 && !self.to_flush && self.in_flight.is_empty() {
            return None;
        }
        let mut wait_for_more = false;
        if self.unfinished > 0 || self.to_flush {
            let mut plan = Plan::recording();
            self.scheduler.schedule(&mut plan);
            self.to_flush = false;
            record.insert("s".into(), self.rows(&plan));
            if !plan.preempted.is_empty() {
                record.insert("p".into(), json!(plan.preempted));
            }
            record.insert("free_s".into(), self.scheduler.pool().free().into());
            let executed = !plan.rows.is_empty();
            self.in_flight.push_back((time, plan));
            wait_for_more = self.trace.config.async_scheduling
                && self.in_flight.len() < self.queue_size
                && (executed || self.unfinished > 0);
        }
        let due = if wait_for_more { None } else { self.in_flight.pop_front() };
        if let Some((scheduled_at, plan)) = due {
            self.take_result(scheduled_at, &plan, &mut record);
        }
        record.insert("free".into(), self.scheduler.pool().free().into());
        record.insert("run".into(), self.scheduler.running().collect());
        record.insert("wait".into(), self.scheduler.waiting().collect());
        if self.trace.config.enable_prefix_caching {
            record.insert("hashed".into(), self.scheduler.pool().cached_contents().into());
        }
        Some(Value::Object(record))
    }

    fn take_arrivals(&mut self, time: u64) {
        while let Some(index) = self.arrivals.front().copied().filter(|i| self.trace.requests[*i].arrival_step <= time)
        {
            self.arrivals.pop_front();
            let request = &self.trace.requests[index];
            let segment = |(key, len): &(u64, u32)| Segment { key: key % KEY_PERIOD, start: 0, len: *len };
            self.slots[index] = Some(self.scheduler.add(NewRequest {
                tag: request.i,
                prompt_len: request.prompt.iter().map(|(_, len)| len).sum(),
                max_tokens: request.max_tokens,
                stop_at: request.stop_at,
                priority: request.priority,
                arrival: request.arrival_time,
                tie: self.ties[index],
                content: Content {
                    prompt: request.prompt.iter().map(segment).collect(),
                    output_key: (OUTPUT_KEY + request.i) % KEY_PERIOD,
                    unshared: false,
                },
                outputs: 0,
                external: 0,
            }));
            self.unfinished += 1;
        }
    }

    fn take_aborts(&mut self, time: u64) -> Vec<u64> {
        let mut aborted = Vec::new();
        while let Some(index) =
            self.aborts.front().copied().filter(|i| self.trace.requests[*i].abort_step <= Some(time))
        {
            self.aborts.pop_front();
            if let Some(slot) = self.slots[index].take() {
                self.scheduler.abort(slot);
                self.ended();
                aborted.push(index as u64);
            }
        }
        aborted
    }

    fn ended(&mut self) {
        self.unfinished -= 1;
        self.to_flush = true;
    }

    fn rows(&self, plan: &Plan) -> Value {
        let groups = self.scheduler.config().groups.len();
        let several = self.trace.config.kv_groups.as_ref().is_some_and(|g| g.len() > 1);
        let row = |(at, row): (usize, &crate::serve::scheduler::Row)| {
            let lists = &plan.blocks[at * groups..(at + 1) * groups];
            let kind = match row.kind {
                RowKind::New => 0,
                RowKind::Resumed => 1,
                RowKind::Running => 2,
            };
            let blocks = if several { json!(lists) } else { json!(lists[0]) };
            let mut fields = vec![json!(row.tag), json!(row.tokens), json!(kind), json!(row.computed_before), blocks];
            if self.trace.config.num_speculative_tokens > 0 {
                fields.push(json!(row.drafts));
            }
            Value::Array(fields)
        };
        plan.rows.iter().enumerate().map(row).collect()
    }

    fn take_result(&mut self, scheduled_at: u64, plan: &Plan, record: &mut Map<String, Value>) {
        // The recorder's rule for how many drafts hold.
        let choices = self.trace.config.num_speculative_tokens + 1;
        let mut accepted =
            |check: DraftCheck| ((check.tag * 5 + u64::from(check.samplings) * 3) % u64::from(choices)) as u32;
        let mut outcome = std::mem::take(&mut self.outcome);
        self.scheduler.update(plan, &mut accepted, &mut outcome);
        if !outcome.finished.is_empty() {
            let finished: Vec<u64> = outcome.finished.iter().map(|(tag, _): &(u64, FinishReason)| *tag).collect();
            for tag in &finished {
                self.slots[*tag as usize] = None;
                self.ended();
            }
            record.insert("f".into(), json!(finished));
        }
        record.insert("o".into(), outcome.emitted.iter().map(|(tag, n)| json!([tag, n])).collect());
        if self.trace.config.async_scheduling {
            record.insert("u".into(), scheduled_at.into());
        }
        self.outcome = outcome;
    }
}
