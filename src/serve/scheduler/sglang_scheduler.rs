//! [`SglangScheduler`] as the simulator uses it.

use super::decode_run::DecodeRun;
use super::plan::{FinishReason, Outcome, Plan};
use super::request::{NewRequest, Slot};
use super::sglang::{RATIO_STEPS, Sequence, SglangScheduler};
use super::update::DraftCheck;
use super::vllm::{Load, Waste};
use super::{Content, Scheduler, Unservable};

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
