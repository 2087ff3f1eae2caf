//! SGLang's scheduler, as read in release 0.5.23. No recorded trace exists for it: best effort.
//!
//! A step is either an extend step (prompts, as soon as any waiting request fits) or a decode step of all running
//! requests. Admission reserves future memory: what running requests will still need, times a ratio that starts high,
//! falls with every decode step and rises again when memory runs out and requests are retracted.
//!
//! Not modelled: mixed chunks, policies other than first come first served, hierarchical caches, and the one-step lag
//! of overlap scheduling (its effect on step time belongs to the cost model).

use super::content::{Content, Segment};
use super::decode_run::DecodeRun;
use super::plan::{FinishReason, Outcome, Plan, Row, RowKind};
use super::radix::{Node, RadixTree, head};
use super::request::{NewRequest, Slot};
use super::update::DraftCheck;
use super::vllm::{Load, Waste};
use super::{Scheduler, Unservable};
use crate::{Error, Result};
use std::collections::VecDeque;

/// SGLang's options that shape scheduling.
#[derive(Debug, Clone, PartialEq)]
pub struct SglangConfig {
    /// Prompt tokens of one extend step.
    pub chunked_prefill_size: u32,
    /// Prompt tokens one extend step admits beyond its first request.
    pub max_prefill_tokens: u32,
    /// Requests that run at once.
    pub max_running_requests: u32,
    /// Tokens of one request.
    pub context_length: u32,
    /// Tokens of the KV pool.
    pub max_total_tokens: u64,
    /// Tokens of one page.
    pub page_size: u32,
    /// Prefixes are cached.
    pub radix_cache: bool,
    /// Factor on the initial ratio.
    pub schedule_conservativeness: f64,
}

impl Default for SglangConfig {
    fn default() -> Self {
        Self {
            chunked_prefill_size: 8192,
            max_prefill_tokens: 16_384,
            max_running_requests: 1024,
            context_length: 131_072,
            max_total_tokens: 524_288,
            page_size: 1,
            radix_cache: true,
            schedule_conservativeness: 1.0,
        }
    }
}

impl SglangConfig {
    /// Refuses what no engine starts with.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("chunked_prefill_size", u64::from(self.chunked_prefill_size)),
            ("max_prefill_tokens", u64::from(self.max_prefill_tokens)),
            ("max_running_requests", u64::from(self.max_running_requests)),
            ("context_length", u64::from(self.context_length)),
            ("max_total_tokens", self.max_total_tokens),
            ("page_size", u64::from(self.page_size)),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(Error::input(name, "is 0", "It must be at least 1")),
            None if self.chunked_prefill_size < self.page_size => {
                Err(Error::input("chunked_prefill_size", "is below a page", "Give at least one page"))
            }
            None => Ok(()),
        }
    }
}

/// Initial share of its remaining answer that a running request is expected to need (environment default).
const INITIAL_RATIO: f64 = 0.7;
/// The ratio falls to this share of its start …
const LOWEST_RATIO_SHARE: f64 = 0.14;
/// … in so many decode steps.
const RATIO_STEPS: f64 = 600.0;
/// Decode steps for which a retraction makes room.
const RETRACT_STEPS: u64 = 20;
/// Most answer tokens an admission reserves.
const RESERVED_ANSWER: u32 = 4096;

#[derive(Debug, Clone, Default)]
struct Sequence {
    alive: bool,
    tag: u64,
    prompt_len: u32,
    max_tokens: u32,
    outputs: u32,
    /// Tokens with KV, in the tree or private.
    computed: u32,
    /// Of them, tokens in the tree.
    in_tree: u32,
    node: Node,
    preempted: bool,
    external: u32,
    content: Content,
}

impl Sequence {
    fn tokens(&self) -> u32 {
        self.prompt_len + self.outputs
    }

    fn left(&self) -> u32 {
        self.max_tokens.saturating_sub(self.outputs)
    }

    /// The first `len` tokens as a run.
    fn run(&self, len: u32) -> Vec<Segment> {
        let mut run = self.content.prompt.clone();
        run.push(Segment { key: self.content.output_key, start: 0, len: self.outputs });
        head(&run, len)
    }
}

/// The scheduler of one SGLang engine.
#[derive(Debug)]
pub struct SglangScheduler {
    config: SglangConfig,
    tree: RadixTree,
    sequences: Vec<Sequence>,
    vacant: Vec<Slot>,
    waiting: VecDeque<Slot>,
    running: Vec<Slot>,
    /// The request whose prompt is spread over steps.
    chunked: Option<Slot>,
    /// Tokens of pages that sequences hold outside the tree.
    private: u64,
    ratio: f64,
    /// Nobody fits until somebody leaves.
    full: bool,
    steady: bool,
    waste: Waste,
}

impl SglangScheduler {
    /// An idle engine.
    pub fn new(config: SglangConfig) -> Self {
        Self {
            tree: RadixTree::new(config.page_size),
            sequences: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            chunked: None,
            private: 0,
            ratio: (INITIAL_RATIO * config.schedule_conservativeness).min(1.0),
            full: false,
            steady: false,
            waste: Waste::default(),
            config,
        }
    }

    fn lowest_ratio(&self) -> f64 {
        (INITIAL_RATIO * self.config.schedule_conservativeness).min(1.0) * LOWEST_RATIO_SHARE
    }

    fn pages(&self, tokens: u32) -> u64 {
        u64::from(tokens.next_multiple_of(self.config.page_size))
    }

    fn private_of(&self, slot: Slot) -> u64 {
        let s = &self.sequences[slot as usize];
        self.pages(s.computed - s.in_tree)
    }

    /// Tokens free, or free once cached ones are evicted.
    fn available(&self) -> u64 {
        (self.config.max_total_tokens + self.tree.evictable()).saturating_sub(self.private + self.tree.size())
    }

    fn make_room(&mut self, tokens: u64) {
        let free = self.config.max_total_tokens.saturating_sub(self.private + self.tree.size());
        if tokens > free {
            self.tree.evict(tokens - free);
        }
    }

    /// Grows a sequence's private pages to hold `computed` tokens.
    fn grow(&mut self, slot: Slot, computed: u32) {
        let before = self.private_of(slot);
        let s = &self.sequences[slot as usize];
        let after = self.pages(computed - s.in_tree);
        self.make_room(after.saturating_sub(before));
        self.private = self.private + after - before;
        self.sequences[slot as usize].computed = computed;
    }

    /// Puts a sequence's computed tokens into the tree and keeps them in use.
    fn share(&mut self, slot: Slot) {
        if !self.config.radix_cache {
            return;
        }
        let before = self.private_of(slot);
        let s = &self.sequences[slot as usize];
        let (computed, old) = (s.computed, s.node);
        let (node, _) = self.tree.insert(&s.run(computed));
        self.tree.lock(node);
        self.tree.unlock(old);
        let s = &mut self.sequences[slot as usize];
        s.node = node;
        s.in_tree = computed / self.config.page_size * self.config.page_size;
        self.private = self.private - before + self.private_of(slot);
    }

    /// Gives back all a sequence holds; what is in the tree stays cached.
    fn give_back(&mut self, slot: Slot) {
        self.private -= self.private_of(slot);
        let s = &mut self.sequences[slot as usize];
        let node = std::mem::take(&mut s.node);
        (s.computed, s.in_tree) = (0, 0);
        self.tree.unlock(node);
    }

    fn end(&mut self, slot: Slot) {
        self.give_back(slot);
        self.sequences[slot as usize] = Sequence::default();
        self.vacant.push(slot);
        self.full = false;
        self.steady = false;
    }

    fn schedule_extend(&mut self, plan: &mut Plan) {
        let mut chunk_left = self.config.chunked_prefill_size;
        let mut input_left = i64::from(self.config.max_prefill_tokens);
        let expected: f64 = self
            .running
            .iter()
            .map(|s| f64::from(self.sequences[*s as usize].left().min(RESERVED_ANSWER)) * self.ratio)
            .sum();
        let mut room = self.available() as f64 - expected;
        if let Some(slot) = self.chunked {
            let s = &self.sequences[slot as usize];
            let (computed, known, left) = (s.computed, s.tokens(), s.left());
            let take = (known - computed).min(chunk_left);
            self.extend_row(slot, take, RowKind::Running, 0, 0, plan);
            chunk_left -= take;
            input_left -= i64::from(take);
            room -= f64::from(take);
            if computed + take == known {
                self.chunked = None;
                self.running.push(slot);
                room -= f64::from(left.min(RESERVED_ANSWER));
            }
        } else if self.full {
            return;
        }
        while chunk_left > 0 && self.chunked.is_none() {
            let Some(slot) = self.waiting.front().copied() else { return };
            if self.running.len() as u32 >= self.config.max_running_requests {
                self.full = true;
                return;
            }
            let s = &self.sequences[slot as usize];
            let (known, left, external) = (s.tokens(), s.left(), s.external);
            let (node, hit) = if self.config.radix_cache { self.tree.find(&s.run(known - 1)) } else { (0, 0) };
            // What a hit pins is no longer evictable.
            let evictable = self.tree.evictable();
            self.tree.lock(node);
            let pinned = evictable - self.tree.evictable();
            let loaded = external.min(known - 1).saturating_sub(hit);
            let extend = known - hit - loaded;
            let reserve = f64::from(extend + loaded) + f64::from(left.min(RESERVED_ANSWER)) + pinned as f64;
            let fits = reserve <= room && (plan.rows.is_empty() || i64::from(extend) <= input_left);
            let floored = chunk_left / self.config.page_size * self.config.page_size;
            let take = if extend <= chunk_left { extend } else { floored };
            if !fits || take == 0 {
                self.tree.unlock(node);
                self.full |= reserve > room && plan.rows.is_empty();
                return;
            }
            self.waiting.pop_front();
            let s = &mut self.sequences[slot as usize];
            (s.node, s.in_tree, s.computed) = (node, hit, hit);
            let kind = if s.preempted { RowKind::Resumed } else { RowKind::New };
            self.extend_row(slot, take, kind, hit, loaded, plan);
            chunk_left -= take;
            input_left -= i64::from(take);
            room -= reserve;
            if take < extend {
                self.chunked = Some(slot);
            } else {
                self.running.push(slot);
            }
        }
    }

    fn extend_row(&mut self, slot: Slot, take: u32, kind: RowKind, hit: u32, loaded: u32, plan: &mut Plan) {
        let before = self.sequences[slot as usize].computed + loaded;
        self.grow(slot, before + take);
        let s = &self.sequences[slot as usize];
        plan.rows.push(Row {
            request: slot,
            tag: s.tag,
            tokens: take,
            kind,
            computed_before: before,
            hit,
            loaded,
            drafts: 0,
            decode: false,
            samples: before + take == s.tokens(),
        });
    }

    fn schedule_decode(&mut self, plan: &mut Plan) {
        self.retract_if_needed(plan);
        for at in 0..self.running.len() {
            let slot = self.running[at];
            let before = self.sequences[slot as usize].computed;
            self.grow(slot, before + 1);
            plan.rows.push(Row {
                request: slot,
                tag: self.sequences[slot as usize].tag,
                tokens: 1,
                kind: RowKind::Running,
                computed_before: before,
                hit: 0,
                loaded: 0,
                drafts: 0,
                decode: true,
                samples: true,
            });
        }
        self.steady = plan.preempted.is_empty() && (self.waiting.is_empty() || self.full);
    }

    fn decode_need(&self, steps: u32) -> u64 {
        let grown = |slot: &Slot| {
            let s = &self.sequences[*slot as usize];
            self.pages(s.computed + steps - s.in_tree) - self.private_of(*slot)
        };
        self.running.iter().map(grown).sum()
    }

    /// Takes the requests with the least progress out until the next decode steps fit.
    fn retract_if_needed(&mut self, plan: &mut Plan) {
        if self.decode_need(1) <= self.available() {
            self.ratio = (self.ratio - self.decay()).max(self.lowest_ratio());
            return;
        }
        let mut order = self.running.clone();
        order.sort_by_key(|slot| {
            let s = &self.sequences[*slot as usize];
            (std::cmp::Reverse(s.outputs), s.prompt_len)
        });
        while order.len() > 1 && order.len() as u64 * RETRACT_STEPS > self.available() {
            let Some(slot) = order.pop() else { break };
            self.waste.preempted += u64::from(self.sequences[slot as usize].computed);
            self.give_back(slot);
            let s = &mut self.sequences[slot as usize];
            s.preempted = true;
            s.external = 0;
            plan.preempted.push(s.tag);
            self.running.retain(|other| *other != slot);
            self.waiting.push_back(slot);
        }
        let (mut made, mut wanted) = (0, 0);
        for slot in &self.running {
            made += u64::from(self.sequences[*slot as usize].outputs);
            wanted += u64::from(self.sequences[*slot as usize].max_tokens);
        }
        self.ratio = ((made + RETRACT_STEPS * self.running.len() as u64) as f64 / (wanted + 1) as f64).min(1.0);
        self.full = false;
    }

    fn decay(&self) -> f64 {
        let start = (INITIAL_RATIO * self.config.schedule_conservativeness).min(1.0);
        (start - self.lowest_ratio()) / RATIO_STEPS
    }
}

impl Scheduler for SglangScheduler {
    fn add(&mut self, new: NewRequest) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.sequences.push(Sequence::default());
            self.sequences.len() as Slot - 1
        });
        self.sequences[slot as usize] = Sequence {
            alive: true,
            tag: new.tag,
            prompt_len: new.prompt_len,
            max_tokens: new.stop_at.map_or(new.max_tokens, |at| at.min(new.max_tokens)),
            outputs: new.outputs,
            external: new.external,
            content: new.content,
            ..Sequence::default()
        };
        self.waiting.push_back(slot);
        self.steady = self.steady && self.full;
        slot
    }

    fn abort(&mut self, slot: Slot) {
        if !self.sequences[slot as usize].alive {
            return;
        }
        self.running.retain(|s| *s != slot);
        self.waiting.retain(|s| *s != slot);
        self.chunked = self.chunked.filter(|s| *s != slot);
        self.waste.aborted += u64::from(self.sequences[slot as usize].computed);
        self.end(slot);
    }

    fn schedule(&mut self, plan: &mut Plan) {
        plan.rows.clear();
        plan.preempted.clear();
        plan.blocks.clear();
        self.steady = false;
        self.schedule_extend(plan);
        if plan.rows.is_empty() {
            self.schedule_decode(plan);
        }
    }

    fn update(&mut self, plan: &Plan, _: &mut dyn FnMut(DraftCheck) -> u32, outcome: &mut Outcome) {
        outcome.emitted.clear();
        outcome.finished.clear();
        for row in &plan.rows {
            let slot = row.request;
            if !self.sequences[slot as usize].alive || self.sequences[slot as usize].tag != row.tag {
                continue;
            }
            if !row.decode {
                self.share(slot);
            }
            if !row.samples {
                continue;
            }
            let s = &mut self.sequences[slot as usize];
            s.outputs += 1;
            outcome.emitted.push((row.tag, 1));
            if s.left() == 0 || s.tokens() >= self.config.context_length {
                self.share(slot);
                self.end(slot);
                outcome.finished.push((row.tag, FinishReason::Length));
            }
        }
        if !outcome.finished.is_empty() {
            let sequences = &self.sequences;
            self.running.retain(|slot| sequences[*slot as usize].alive);
        }
    }

    fn decode_run(&self) -> Option<DecodeRun> {
        if !self.steady || self.running.is_empty() || self.chunked.is_some() {
            return None;
        }
        let (mut steps, mut context) = (1 << 20, 0);
        for slot in &self.running {
            let s = &self.sequences[*slot as usize];
            steps = steps.min(s.left().saturating_sub(1));
            steps = steps.min(self.config.context_length.saturating_sub(s.tokens() + 1));
            context += u64::from(s.computed) + 1;
        }
        let available = self.available();
        while steps > 0 && self.decode_need(steps) > available {
            steps /= 2;
        }
        (steps > 0).then_some(DecodeRun { sequences: self.running.len() as u32, context, steps })
    }

    fn advance(&mut self, steps: u32) {
        for at in 0..self.running.len() {
            let slot = self.running[at];
            let computed = self.sequences[slot as usize].computed + steps;
            self.grow(slot, computed);
            self.sequences[slot as usize].outputs += steps;
        }
        for _ in 0..steps.min(RATIO_STEPS as u32) {
            self.ratio = (self.ratio - self.decay()).max(self.lowest_ratio());
        }
    }

    fn load(&self) -> Load {
        let page = u64::from(self.config.page_size);
        let usable = (self.config.max_total_tokens / page) as u32;
        Load {
            running: self.running.len() as u32 + u32::from(self.chunked.is_some()),
            waiting: self.waiting.len() as u32,
            free_blocks: ((self.available() / page) as u32).min(usable),
            usable_blocks: usable,
        }
    }

    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.chunked.is_none()
    }

    fn steps_in_flight(&self) -> u32 {
        1
    }

    fn sequence_limit(&self) -> u32 {
        self.config.max_running_requests
    }

    fn waste(&self) -> Waste {
        self.waste
    }

    fn blocked(&self) -> Option<(Slot, u64)> {
        let slot = self.waiting.front().or(self.running.first()).copied()?;
        Some((slot, self.sequences[slot as usize].tag))
    }

    fn admissible(&self, prompt_len: u32, max_tokens: u32) -> std::result::Result<(), Unservable> {
        if prompt_len.saturating_add(max_tokens) > self.config.context_length {
            return Err(Unservable::TooLong);
        }
        let reserved = prompt_len + max_tokens.max(1);
        if self.pages(reserved) + u64::from(self.config.page_size) > self.config.max_total_tokens {
            return Err(Unservable::TooBigForCache);
        }
        Ok(())
    }

    fn cached_prefix(&self, content: &Content, _: &[u64]) -> u32 {
        self.tree.peek(&content.prompt)
    }

    fn blocks_balance(&self) -> bool {
        let held: u64 = self.running.iter().chain(&self.chunked).map(|slot| self.private_of(*slot)).sum();
        let fits = self.private + self.tree.size() <= self.config.max_total_tokens;
        held == self.private && fits && (!self.is_empty() || self.tree.evictable() == self.tree.size())
    }

    fn evictions(&self) -> u64 {
        self.tree.evicted() / u64::from(self.config.page_size)
    }
}
