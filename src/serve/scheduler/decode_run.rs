//! Runs of identical decode steps, taken at once.
//!
//! After a step in which every running request decoded one token and nothing else happened, the next steps are the
//! same until a request ends, a request arrives or the blocks run out. [`VllmScheduler::decode_run`] says how many
//! such steps are certain; [`VllmScheduler::advance`] takes them, allocating, hashing and releasing blocks in the
//! very order in which single steps would.

use super::request::Slot;
use super::vllm::VllmScheduler;

/// Most steps of one run.
const LONGEST_RUN: u32 = 1 << 20;

/// Identical decode steps ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeRun {
    /// Sequences in each step.
    pub sequences: u32,
    /// Tokens they attend to in the first step, the new ones included; grows by `sequences` a step.
    pub context: u64,
    /// Steps that are certain.
    pub steps: u32,
}

impl VllmScheduler {
    /// How many decode steps are certain to be alike, if any.
    ///
    /// With async scheduling the caller has taken the result of the last step and one scheduled step is in flight;
    /// that step is the first of the run.
    pub fn decode_run(&self) -> Option<DecodeRun> {
        let config = &self.config;
        let windowed = config.groups.iter().any(|g| g.window.is_some());
        if !self.steady
            || self.running.is_empty()
            || config.speculative_tokens > 0
            || config.prefill_schedule_interval > 1
            || (windowed && !self.waiting.is_empty())
        {
            return None;
        }
        let in_flight = u64::from(config.async_scheduling);
        let mut steps = LONGEST_RUN;
        let mut context = 0;
        for slot in &self.running {
            let request = &self.requests[*slot];
            let last_output = request.max_tokens.min(request.stop_at.unwrap_or(u32::MAX));
            let outputs_left = last_output.saturating_sub(request.outputs + 1);
            let length_left = config.max_model_len.saturating_sub(request.tokens() + 1);
            steps = steps.min(outputs_left).min(length_left);
            context += u64::from(request.computed) + 1 - in_flight;
        }
        let steps = self.steps_with_blocks(steps);
        (steps > 0).then_some(DecodeRun { sequences: self.running.len() as u32, context, steps })
    }

    /// Most of `steps` for which the free blocks suffice, whatever windows give back.
    fn steps_with_blocks(&self, steps: u32) -> u32 {
        let free = u64::from(self.kv.pool.free());
        let fits = |steps: u32| {
            let mut needed = 0;
            for slot in &self.running {
                let request = &self.requests[*slot];
                let wanted = (request.computed + steps).div_ceil(self.config.block_size) as usize;
                needed += request.tables.iter().map(|t| wanted.saturating_sub(t.blocks.len()) as u64).sum::<u64>();
            }
            needed <= free
        };
        if fits(steps) {
            return steps;
        }
        let (mut good, mut bad) = (0, steps);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if fits(middle) { good = middle } else { bad = middle }
        }
        good
    }

    /// Takes `steps` steps of the run that [`decode_run`](Self::decode_run) promised.
    pub fn advance(&mut self, steps: u32) {
        let size = self.config.block_size;
        // In which steps of each block-long round a request's tables change.
        let mut touched: Vec<(u32, u32, Slot)> = Vec::new();
        for (order, slot) in self.running.iter().enumerate() {
            let computed = self.requests[*slot].computed;
            let own = touched.len();
            let mut at = |position: u32| {
                // The first step, from 0, that starts with `computed` at `position` within a block.
                let step = (position + size - computed % size) % size;
                if step < steps && touched[own..].iter().all(|t| t.0 != step) {
                    touched.push((step, order as u32, *slot));
                }
            };
            at(0);
            if self.config.host_blocks > 0 {
                at(size - 1); // a full block is stored: the order is the host's LRU order
            }
            for window in self.config.groups.iter().filter_map(|g| g.window) {
                // Blocks fall out of the window when computed + 1 - window is a multiple of the block size.
                at((window - 1) % size);
                at(window % size);
            }
        }
        touched.sort_unstable();
        let mut round = 0;
        while round < steps {
            for (step, _, slot) in &touched {
                if round + step < steps {
                    self.touch_tables(*slot, round + step);
                }
            }
            round = round.saturating_add(size);
        }
        for at in 0..self.running.len() {
            let request = &mut self.requests[self.running[at]];
            request.computed += steps;
            request.outputs += steps;
            request.samplings += steps;
            let known = (request.computed - request.inflight).min(request.tokens());
            self.kv.record(request, known);
        }
    }

    /// Makes the changes of one step, `ahead` steps from now, to one request's block tables.
    fn touch_tables(&mut self, slot: Slot, ahead: u32) {
        let request = &mut self.requests[slot];
        let (computed, outputs) = (request.computed, request.outputs);
        request.computed += ahead;
        request.outputs += ahead;
        let held = self.kv.extend(request, 1, None);
        debug_assert!(held, "the run was promised its blocks");
        request.computed = computed;
        request.outputs = outputs;
    }
}
