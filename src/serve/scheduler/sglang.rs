//! SGLang's scheduler, as read in release 0.5.23. No recorded trace exists for it: best effort.
//!
//! A step is either an extend step (prompts, as soon as any waiting request fits) or a decode step of all running
//! requests. Admission reserves future memory: what running requests will still need, times a ratio that starts high,
//! falls with every decode step and rises again when memory runs out and requests are retracted.
//!
//! Not modelled: mixed chunks, policies other than first come first served, hierarchical caches, and the one-step lag
//! of overlap scheduling (its effect on step time belongs to the cost model).

use super::content::{Content, Segment};
use super::plan::{Plan, Row, RowKind};
use super::radix::{Node, RadixTree, head};
use super::request::Slot;
use super::sglang_config::SglangConfig;
use super::vllm::Waste;
use std::collections::VecDeque;

/// Initial share of its remaining answer that a running request is expected to need (environment default).
const INITIAL_RATIO: f64 = 0.7;
/// The ratio falls to this share of its start …
const LOWEST_RATIO_SHARE: f64 = 0.14;
/// … in so many decode steps.
pub(super) const RATIO_STEPS: f64 = 600.0;
/// Decode steps for which a retraction makes room.
const RETRACT_STEPS: u64 = 20;
/// Most answer tokens an admission reserves.
const RESERVED_ANSWER: u32 = 4096;

#[derive(Debug, Clone, Default)]
pub(super) struct Sequence {
    pub alive: bool,
    pub tag: u64,
    pub prompt_len: u32,
    pub max_tokens: u32,
    pub outputs: u32,
    /// Tokens with KV, in the tree or private.
    pub computed: u32,
    /// Of them, tokens in the tree.
    pub in_tree: u32,
    pub node: Node,
    pub preempted: bool,
    pub external: u32,
    pub content: Content,
}

impl Sequence {
    pub(super) fn tokens(&self) -> u32 {
        self.prompt_len + self.outputs
    }

    pub(super) fn left(&self) -> u32 {
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
    pub(super) config: SglangConfig,
    pub(super) tree: RadixTree,
    pub(super) sequences: Vec<Sequence>,
    pub(super) vacant: Vec<Slot>,
    pub(super) waiting: VecDeque<Slot>,
    pub(super) running: Vec<Slot>,
    /// The request whose prompt is spread over steps.
    pub(super) chunked: Option<Slot>,
    /// Tokens of pages that sequences hold outside the tree.
    pub(super) private: u64,
    pub(super) ratio: f64,
    /// Nobody fits until somebody leaves.
    pub(super) full: bool,
    pub(super) steady: bool,
    pub(super) waste: Waste,
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

    pub(super) fn lowest_ratio(&self) -> f64 {
        (INITIAL_RATIO * self.config.schedule_conservativeness).min(1.0) * LOWEST_RATIO_SHARE
    }

    pub(super) fn pages(&self, tokens: u32) -> u64 {
        u64::from(tokens.next_multiple_of(self.config.page_size))
    }

    pub(super) fn private_of(&self, slot: Slot) -> u64 {
        let s = &self.sequences[slot as usize];
        self.pages(s.computed - s.in_tree)
    }

    /// Tokens free, or free once cached ones are evicted.
    pub(super) fn available(&self) -> u64 {
        (self.config.max_total_tokens + self.tree.evictable()).saturating_sub(self.private + self.tree.size())
    }

    fn make_room(&mut self, tokens: u64) {
        let free = self.config.max_total_tokens.saturating_sub(self.private + self.tree.size());
        if tokens > free {
            self.tree.evict(tokens - free);
        }
    }

    /// Grows a sequence's private pages to hold `computed` tokens.
    pub(super) fn grow(&mut self, slot: Slot, computed: u32) {
        let before = self.private_of(slot);
        let s = &self.sequences[slot as usize];
        let after = self.pages(computed - s.in_tree);
        self.make_room(after.saturating_sub(before));
        self.private = self.private + after - before;
        self.sequences[slot as usize].computed = computed;
    }

    /// Puts a sequence's computed tokens into the tree and keeps them in use.
    pub(super) fn share(&mut self, slot: Slot) {
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

    pub(super) fn end(&mut self, slot: Slot) {
        self.give_back(slot);
        self.sequences[slot as usize] = Sequence::default();
        self.vacant.push(slot);
        self.full = false;
        self.steady = false;
    }

    pub(super) fn schedule_extend(&mut self, plan: &mut Plan) {
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
            from_host: 0,
            drafts: 0,
            decode: false,
            samples: before + take == s.tokens(),
        });
    }

    pub(super) fn schedule_decode(&mut self, plan: &mut Plan) {
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
                from_host: 0,
                drafts: 0,
                decode: true,
                samples: true,
            });
        }
        self.steady = plan.preempted.is_empty() && (self.waiting.is_empty() || self.full);
    }

    pub(super) fn decode_need(&self, steps: u32) -> u64 {
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

    pub(super) fn decay(&self) -> f64 {
        let start = (INITIAL_RATIO * self.config.schedule_conservativeness).min(1.0);
        (start - self.lowest_ratio()) / RATIO_STEPS
    }
}
