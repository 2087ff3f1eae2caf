//! What a returned step changes: tokens appended, drafts accepted or taken back, requests finished.

use super::plan::{FinishReason, Outcome, Plan, Row, RowKind};
use super::request::{Slot, State};
use super::vllm::VllmScheduler;

/// A sampling step with drafts, for whoever decides how many are accepted.
#[derive(Debug, Clone, Copy)]
pub struct DraftCheck {
    /// The caller's name of the request.
    pub tag: u64,
    /// Sampling steps the request has had before.
    pub samplings: u32,
    /// Drafts verified in this step.
    pub drafts: u32,
}

impl VllmScheduler {
    /// Takes the result of the oldest step in flight. `accepted` says how many drafts of a request held.
    pub fn update(&mut self, plan: &Plan, accepted: &mut dyn FnMut(DraftCheck) -> u32, outcome: &mut Outcome) {
        outcome.emitted.clear();
        outcome.finished.clear();
        for row in &plan.rows {
            self.update_row(row, accepted, outcome);
        }
        if self.config.speculative_tokens > 0 && !self.config.async_scheduling {
            for row in &plan.rows {
                let request = &mut self.requests[row.request];
                if request.state != State::Gone {
                    request.drafts = if request.prefilling { 0 } else { self.config.speculative_tokens };
                }
            }
        }
        if !outcome.finished.is_empty() {
            self.steady = false;
            let requests = &self.requests;
            self.running.retain(|slot| requests[*slot].state == State::Running);
        }
    }

    fn update_row(&mut self, row: &Row, accepted: &mut dyn FnMut(DraftCheck) -> u32, outcome: &mut Outcome) {
        let request = &mut self.requests[row.request];
        request.inflight -= row.tokens;
        if request.state == State::Gone {
            if request.inflight == 0 {
                self.requests.vacate(row.request);
            }
            return;
        }
        let stale = request.stale > 0;
        if stale {
            request.stale = request.stale.saturating_sub(row.tokens);
        }
        if !row.samples {
            return;
        }
        let held_back = request.placeholders > 0;
        let kept = if row.drafts > 0 && row.kind == RowKind::Running {
            accepted(DraftCheck { tag: row.tag, samplings: request.samplings, drafts: row.drafts }).min(row.drafts)
        } else {
            0
        };
        request.samplings += 1;
        if row.drafts > 0 && !stale {
            let rejected = row.drafts - kept;
            self.waste.rejected += u64::from(rejected);
            request.computed = request.computed.saturating_sub(rejected);
            request.placeholders = request.placeholders.saturating_sub(rejected);
        }
        let mut appended = 0;
        let mut end = None;
        while appended < kept + 1 && end.is_none() {
            request.outputs += 1;
            appended += 1;
            end = if request.stop_at == Some(request.outputs) {
                Some(FinishReason::Stop)
            } else if request.tokens() >= self.config.max_model_len || request.outputs >= request.max_tokens {
                Some(FinishReason::Length)
            } else {
                None
            };
        }
        if !stale {
            if end.is_some() {
                let unused = kept + 1 - appended;
                request.computed = request.computed.saturating_sub(unused);
                self.waste.rejected += u64::from(unused);
            }
            request.placeholders = request.placeholders.saturating_sub(kept + 1);
        }
        outcome.emitted.push((row.tag, appended));
        let speculates = self.config.speculative_tokens > 0 && self.config.rules.hash_verified_at_once;
        if !stale && request.state == State::Running && (held_back || speculates) {
            let verified = request.computed.saturating_sub(request.inflight);
            self.kv.record(request, verified);
        }
        if let Some(reason) = end {
            self.finish(row.request);
            outcome.finished.push((row.tag, reason));
        }
    }

    fn finish(&mut self, slot: Slot) {
        let request = &self.requests[slot];
        if request.state != State::Running {
            // It ended with a token that was in flight when it was preempted: nothing is recomputed.
            self.waste.preempted = self.waste.preempted.saturating_sub(u64::from(request.tokens() - 1));
            self.waiting.remove(slot, request.rank);
        }
        self.waste.discarded += u64::from((request.computed + 1).saturating_sub(request.tokens()));
        // The list of running requests is swept once per step.
        self.end(slot);
    }
}
