//! The scheduler of a vLLM V1 engine as a pure state machine: which request gets how many tokens in the next step.
//!
//! There are no phases. Each request has tokens and computed tokens; a step gives it the difference, as far as the
//! token budget and the KV blocks go. Running requests come first, in order of admission; then, if nobody was
//! preempted, the queue is served from its head and never past it.
//!
//! The caller owns the clock: [`VllmScheduler::schedule`] decides a step, [`VllmScheduler::update`] takes its result.

use super::config::{Policy, SchedulerConfig};
use super::kv::KvCache;
use super::plan::{Plan, Row, RowKind};
use super::queue::WaitQueue;
use super::request::{NO_ROW, NewRequest, Slab, Slot, State};

/// What an engine holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests admitted and not finished.
    pub running: u32,
    /// Requests in the queue.
    pub waiting: u32,
    /// KV blocks free or merely cached.
    pub free_blocks: u32,
    /// KV blocks that can be used.
    pub usable_blocks: u32,
}

/// The scheduler of one engine.
#[derive(Debug)]
pub struct VllmScheduler {
    pub(super) config: SchedulerConfig,
    pub(super) requests: Slab,
    pub(super) running: Vec<Slot>,
    pub(super) waiting: WaitQueue,
    pub(super) kv: KvCache,
    /// The last step that admitted requests left some waiting.
    admission_backlog: bool,
    executed_steps: u64,
    /// The executed step that last carried prefill.
    last_prefill_step: i64,
    /// Every running request is in its decode phase and the last step changed nothing else.
    pub(super) steady: bool,
    passed_over: Vec<Slot>,
    pub(super) waste: Waste,
}

/// Computed tokens that did not last, for the token balance of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waste {
    /// Thrown away by preemptions; prefix hits may save part of the recomputation.
    pub preempted: u64,
    /// Drafts that were not accepted.
    pub rejected: u64,
    /// Scheduled beyond the end of a request.
    pub discarded: u64,
    /// Held by requests that were aborted.
    pub aborted: u64,
}

/// What remains to be given out in the step being scheduled.
struct Step {
    budget: u32,
    /// Most tokens for one request; 0 for no limit.
    threshold: u32,
    hold_prefill: bool,
    running_prefill: bool,
    admitted_prefill: bool,
    passed_over: bool,
}

impl VllmScheduler {
    /// An idle engine.
    pub fn new(config: SchedulerConfig) -> Self {
        Self {
            kv: KvCache::new(&config),
            requests: Slab::default(),
            running: Vec::new(),
            waiting: WaitQueue::new(config.policy),
            admission_backlog: false,
            executed_steps: 0,
            last_prefill_step: -i64::from(config.prefill_schedule_interval),
            steady: false,
            passed_over: Vec::new(),
            waste: Waste::default(),
            config,
        }
    }

    /// Options as given.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// A request arrives.
    pub fn add(&mut self, new: NewRequest) -> Slot {
        let slot = self.requests.insert(new, self.kv.group_count());
        self.waiting.push(slot, self.requests[slot].rank);
        self.steady = false;
        slot
    }

    /// The client gives up on a request that has not finished.
    pub fn abort(&mut self, slot: Slot) {
        match self.requests[slot].state {
            State::Running => self.running.retain(|s| *s != slot),
            State::Waiting | State::Preempted => self.waiting.remove(slot, self.requests[slot].rank),
            State::Gone => return,
        }
        self.waste.aborted += u64::from(self.requests[slot].computed);
        self.end(slot);
        self.steady = false;
    }

    /// Computed tokens that did not last.
    pub fn waste(&self) -> Waste {
        self.waste
    }

    /// Frees what a request holds; it is in no list any more.
    pub(super) fn end(&mut self, slot: Slot) {
        let request = &mut self.requests[slot];
        self.kv.drop_tables(request);
        request.state = State::Gone;
        if request.inflight == 0 {
            self.requests.vacate(slot);
        }
    }

    /// Nobody runs or waits.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Requests and blocks held now.
    pub fn load(&self) -> Load {
        Load {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            free_blocks: self.kv.pool.free(),
            usable_blocks: self.kv.pool.usable(),
        }
    }

    /// Running requests by the caller's name, in order.
    pub fn running(&self) -> impl Iterator<Item = u64> + '_ {
        self.running.iter().map(|s| self.requests[*s].tag)
    }

    /// Waiting requests by the caller's name, in order.
    pub fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.waiting.iter().map(|s| self.requests[s].tag)
    }

    /// The block pool, to look at.
    pub fn pool(&self) -> &super::blocks::BlockPool {
        &self.kv.pool
    }

    /// Decides the next step.
    pub fn schedule(&mut self, plan: &mut Plan) {
        plan.clear();
        let mut step = self.open_step();
        self.serve_running(&mut step, plan);
        if plan.preempted.is_empty() {
            self.serve_queue(&mut step, plan);
        }
        self.commit(&step, plan);
    }

    fn open_step(&self) -> Step {
        let budget = self.config.max_num_batched_tokens;
        let present = (self.running.len() + self.waiting.len()) as u32;
        let mut threshold = if present > 1 { self.config.long_prefill_token_threshold } else { 0 };
        if threshold > 0 && self.config.long_prefill_token_threshold_adaptive {
            threshold = threshold.max(budget / present);
        }
        let interval = i64::from(self.config.prefill_schedule_interval);
        let hold_prefill = interval > 1
            && self.config.rules.prefill_interval
            && !self.admission_backlog
            && self.executed_steps as i64 + 1 - self.last_prefill_step < interval
            && self.running.iter().any(|s| !self.requests[*s].prefilling);
        Step { budget, threshold, hold_prefill, running_prefill: false, admitted_prefill: false, passed_over: false }
    }

    fn serve_running(&mut self, step: &mut Step, plan: &mut Plan) {
        let mut at = 0;
        while at < self.running.len() && step.budget > 0 {
            let slot = self.running[at];
            let Some(tokens) = self.tokens_due(slot, step) else {
                at += 1;
                continue;
            };
            let told_before = plan.blocks.len();
            let mut served = false;
            loop {
                let told = plan.record_blocks.then_some(&mut plan.blocks);
                if self.kv.extend(&mut self.requests[slot], tokens, told) {
                    served = true;
                    break;
                }
                plan.blocks.truncate(told_before);
                let victim_at = self.victim();
                let victim = self.running.remove(victim_at);
                if victim_at < at {
                    at -= 1;
                }
                self.preempt(victim, step, plan);
                if victim == slot {
                    break;
                }
            }
            if !served {
                if self.config.policy == Policy::Fcfs || self.config.rules.self_preemption_stops {
                    break;
                }
                continue;
            }
            self.add_running_row(slot, tokens, step, plan);
            at += 1;
        }
        if !plan.preempted.is_empty() {
            self.drop_revoked_rows(plan);
        }
    }

    /// Tokens a running request is to get; `None` where it sits this step out.
    #[inline]
    fn tokens_due(&self, slot: Slot, step: &Step) -> Option<u32> {
        let request = &self.requests[slot];
        let sure_to_end = request.placeholders > 0
            && request.computed + 2 >= request.prompt_len + request.max_tokens + request.placeholders;
        if sure_to_end || step.hold_prefill && request.prefilling {
            return None;
        }
        let mut tokens = (request.tokens() + request.drafts + request.placeholders).saturating_sub(request.computed);
        if step.threshold > 0 {
            tokens = tokens.min(step.threshold);
        }
        let room = self.config.max_model_len.saturating_sub(request.computed + 1);
        let tokens = tokens.min(step.budget).min(room);
        (tokens > 0).then_some(tokens)
    }

    fn add_running_row(&mut self, slot: Slot, tokens: u32, step: &mut Step, plan: &mut Plan) {
        let request = &mut self.requests[slot];
        let beyond_known = (tokens + request.computed).saturating_sub(request.tokens() + request.placeholders);
        let drafts = request.drafts.min(beyond_known);
        request.drafts = 0;
        request.row = plan.rows.len() as u32;
        step.running_prefill |= request.prefilling;
        step.budget -= tokens;
        plan.rows.push(Row {
            request: slot,
            tag: request.tag,
            tokens,
            kind: RowKind::Running,
            computed_before: request.computed,
            hit: 0,
            loaded: 0,
            from_host: 0,
            drafts,
            decode: !request.prefilling,
            samples: false,
        });
    }

    /// Place among the running of the one to be preempted.
    fn victim(&self) -> usize {
        if self.config.policy == Policy::Fcfs {
            return self.running.len() - 1;
        }
        let urgency = |at: usize| {
            let rank = self.requests[self.running[at]].rank;
            (rank.priority, rank.arrival)
        };
        let mut worst = 0;
        for at in 1..self.running.len() {
            if urgency(at) > urgency(worst) {
                worst = at;
            }
        }
        worst
    }

    /// Takes all blocks from a request and queues it for recomputation.
    fn preempt(&mut self, slot: Slot, step: &mut Step, plan: &mut Plan) {
        let request = &mut self.requests[slot];
        if request.row != NO_ROW {
            let row = &mut plan.rows[request.row as usize];
            step.budget += row.tokens;
            row.tokens = 0;
            request.row = NO_ROW;
        }
        self.waste.preempted += u64::from(request.computed);
        self.kv.seek_own(request);
        self.kv.drop_tables(request);
        request.state = State::Preempted;
        request.computed = 0;
        request.drafts = 0;
        request.stale = request.inflight;
        request.placeholders = 0;
        request.preemptions += 1;
        request.external = 0;
        plan.preempted.push(request.tag);
        let rank = request.rank;
        self.waiting.push_front(slot, rank);
    }

    /// Rows whose request was preempted after it had been served.
    fn drop_revoked_rows(&mut self, plan: &mut Plan) {
        if plan.record_blocks {
            let groups = self.kv.group_count();
            let mut lists = std::mem::take(&mut plan.blocks).into_iter();
            for row in &plan.rows {
                let own: Vec<_> = lists.by_ref().take(groups).collect();
                if row.tokens > 0 {
                    plan.blocks.extend(own);
                }
            }
        }
        plan.rows.retain(|row| row.tokens > 0);
        for (at, row) in plan.rows.iter().enumerate() {
            self.requests[row.request].row = at as u32;
        }
    }

    fn serve_queue(&mut self, step: &mut Step, plan: &mut Plan) {
        let cap = self.config.max_num_active_seqs.unwrap_or(self.config.max_num_seqs) as usize;
        let others_served = !plan.rows.is_empty();
        while step.budget > 0 && self.running.len() < cap {
            let Some(slot) = self.waiting.head() else { break };
            if self.requests[slot].stale > 0 {
                // Its tokens from before the preemption are still in flight.
                self.waiting.pop();
                self.passed_over.push(slot);
                continue;
            }
            if !self.admit(slot, others_served, step, plan) {
                break;
            }
        }
        let passed_over = self.passed_over.len();
        step.passed_over = passed_over > 0;
        while let Some(slot) = self.passed_over.pop() {
            self.waiting.push_front(slot, self.requests[slot].rank);
        }
        if !step.hold_prefill {
            self.admission_backlog = self.waiting.len() > passed_over;
        }
    }

    /// Admits the head of the queue, or says no.
    fn admit(&mut self, slot: Slot, others_served: bool, step: &mut Step, plan: &mut Plan) -> bool {
        let request = &mut self.requests[slot];
        self.kv.look_up(request);
        let hit = self.kv.hit.blocks * self.config.block_size;
        let host = self.kv.hit.host_blocks * self.config.block_size;
        let external = request.external.min(request.tokens() - 1).saturating_sub(hit).max(host);
        let computed = hit + external;
        let known = request.tokens();
        if step.hold_prefill && computed + 1 < known {
            return false;
        }
        let mut tokens = known - computed;
        let drafts = self.config.speculative_tokens;
        let mut padding = 0;
        if drafts > 0
            && tokens == 1
            && !step.running_prefill
            && (others_served || computed > 0)
            && computed + 2 + drafts <= self.config.max_model_len
        {
            if 1 + drafts > step.budget {
                return false;
            }
            tokens = 1 + drafts;
            padding = drafts;
        }
        if step.threshold > 0 {
            tokens = tokens.min(step.threshold);
        }
        if !self.config.enable_chunked_prefill && tokens > step.budget {
            return false;
        }
        let tokens = tokens.min(step.budget);
        let watermark = if self.running.is_empty() { 0 } else { self.config.watermark_blocks };
        let told = plan.record_blocks.then_some(&mut plan.blocks);
        if !self.kv.admit(request, external, tokens, watermark, told) {
            return false;
        }
        self.waiting.pop();
        self.running.push(slot);
        let request = &mut self.requests[slot];
        request.row = plan.rows.len() as u32;
        request.computed = computed;
        request.state = State::Running;
        step.budget -= tokens;
        step.admitted_prefill |= computed + 1 < known;
        plan.rows.push(Row {
            request: slot,
            tag: request.tag,
            tokens,
            kind: if request.preemptions > 0 { RowKind::Resumed } else { RowKind::New },
            computed_before: computed,
            hit,
            loaded: external,
            from_host: if external == host { host } else { 0 },
            drafts: padding,
            decode: false,
            samples: false,
        });
        true
    }

    /// Counts the scheduled tokens as computed, before the step has run.
    fn commit(&mut self, step: &Step, plan: &mut Plan) {
        if !plan.rows.is_empty() {
            self.executed_steps += 1;
        }
        if step.running_prefill || step.admitted_prefill {
            self.last_prefill_step = self.executed_steps as i64;
        }
        let mut decode_only = true;
        for row in &mut plan.rows {
            let request = &mut self.requests[row.request];
            request.row = NO_ROW;
            request.computed += row.tokens;
            request.inflight += row.tokens;
            request.prefilling = request.computed < request.tokens() + request.placeholders;
            row.samples = !request.prefilling;
            decode_only &= row.decode && row.tokens == 1;
            if self.config.async_scheduling && row.samples {
                request.placeholders += 1 + row.drafts;
                request.drafts = self.config.speculative_tokens;
            }
        }
        self.steady =
            decode_only && plan.preempted.is_empty() && !step.passed_over && plan.rows.len() == self.running.len();
    }
}
