//! [`VllmScheduler`] as the simulator uses it.

use super::request::State;
use super::{
    Content, DecodeRun, DraftCheck, Load, NewRequest, Outcome, Plan, Scheduler, Slot, Unservable, VllmScheduler, Waste,
};

impl Scheduler for VllmScheduler {
    fn add(&mut self, new: NewRequest) -> Slot {
        self.add(new)
    }

    fn abort(&mut self, slot: Slot) {
        self.abort(slot);
    }

    fn schedule(&mut self, plan: &mut Plan) {
        self.schedule(plan);
    }

    fn update(&mut self, plan: &Plan, accepted: &mut dyn FnMut(DraftCheck) -> u32, outcome: &mut Outcome) {
        self.update(plan, accepted, outcome);
    }

    fn decode_run(&self) -> Option<DecodeRun> {
        self.decode_run()
    }

    fn advance(&mut self, steps: u32) {
        self.advance(steps);
    }

    fn load(&self) -> Load {
        self.load()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn steps_in_flight(&self) -> u32 {
        self.config.steps_in_flight()
    }

    fn sequence_limit(&self) -> u32 {
        self.config.max_num_active_seqs.unwrap_or(self.config.max_num_seqs)
    }

    fn waste(&self) -> Waste {
        self.waste
    }

    fn blocked(&self) -> Option<(Slot, u64)> {
        let slot = self.waiting.head().or(self.running.first().copied())?;
        Some((slot, self.requests[slot].tag))
    }

    fn admissible(&self, prompt_len: u32, max_tokens: u32) -> Result<(), Unservable> {
        let config = &self.config;
        let whole = prompt_len.saturating_add(max_tokens);
        if whole > config.max_model_len {
            return Err(Unservable::TooLong);
        }
        if !config.enable_chunked_prefill && whole - 1 > config.max_num_batched_tokens {
            return Err(Unservable::TooBigForStep);
        }
        let slots = (whole + config.lookahead_tokens + config.speculative_tokens).min(config.max_model_len);
        let blocks = slots.div_ceil(config.block_size);
        let of_group = |window: Option<u32>| match window {
            None => blocks,
            Some(window) => {
                let reach = (window - 1).saturating_add(config.max_in_flight_tokens).min(config.max_model_len);
                blocks.min(reach.div_ceil(config.block_size) + 1)
            }
        };
        let needed: u64 = config.groups.iter().map(|g| u64::from(of_group(g.window))).sum();
        if needed > u64::from(self.kv.pool.usable()) { Err(Unservable::TooBigForCache) } else { Ok(()) }
    }

    fn cached_prefix(&self, _: &Content, keys: &[u64]) -> u32 {
        let hit = keys.iter().take_while(|key| self.kv.pool.find(**key).is_some()).count() as u32;
        hit * self.config.block_size
    }

    fn blocks_balance(&self) -> bool {
        let (free, references) = self.kv.pool.audit();
        let held: u64 = self
            .running
            .iter()
            .filter(|slot| self.requests[**slot].state == State::Running)
            .flat_map(|slot| &self.requests[*slot].tables)
            .map(|table| table.blocks.iter().filter(|b| **b != 0).count() as u64)
            .sum();
        free == self.kv.pool.free() && references == held && free + self.kv.pool.referenced() == self.kv.pool.usable()
    }

    fn evictions(&self) -> u64 {
        self.kv.pool.evictions()
    }
}
