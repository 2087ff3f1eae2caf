//! One line that says why a point is out: the budget, the value, the overshoot, what binds, and the nearest change.

use super::Evaluator;
use super::exhaustive::{Search, Verdict};
use super::tally::{Group, Reason, Rejected, Why};
use crate::serve::Refusal;
use crate::space::{Neighbour, knob_value};

impl<E: Evaluator> Search<'_, E> {
    /// The name a reason is counted under.
    pub fn reason_name(&self, reason: &Reason) -> String {
        match reason {
            Reason::Slo(at) => self.objective.slos[*at].reason(),
            Reason::Memory => "does not fit in memory".to_string(),
            Reason::NoModel(name) => name.clone(),
            Reason::Illegal(name) => (*name).to_string(),
        }
    }

    /// `tpot_ms 24.1 over the budget of 20 (1.21x) at tp 1, concurrency 64; bound by weight reads: concurrency 48
    /// meets it`.
    pub fn explain(&self, group: &Group) -> String {
        let blocked = self.blocked_by(&group.nearest);
        if matches!(group.reason, Reason::Illegal(_)) {
            return blocked;
        }
        match self.nearest_change(&group.reason, &group.nearest) {
            None => format!("{blocked}: no single change of this space helps"),
            Some((neighbour, verdict)) => format!("{blocked}: {}", self.change(&group.reason, neighbour, &verdict)),
        }
    }

    /// What blocks a point, without a remedy.
    pub fn blocked_by(&self, rejected: &Rejected) -> String {
        let deployment = self.space.deployment(rejected.index);
        match &rejected.why {
            Why::Illegal(violation) => self.legality.message(violation, self.space.gpus(rejected.index)),
            Why::Missed(miss, evaluation) => {
                let slo = self.objective.slos[miss.slo].describe(miss);
                format!("{slo} at {deployment}; bound by {}", evaluation.bound)
            }
            Why::Refused(Refusal::NoModel(name)) => format!("{name} at {deployment}"),
            Why::Refused(Refusal::DoesNotFit(plan)) if plan.kv_available.0 <= 0.0 => {
                let over = plan.kv_available * -1.0;
                let needed = plan.budget + over;
                let factor = needed / plan.budget;
                format!(
                    "weights {} and reserves need {needed} of a budget of {} ({factor:.2}x, {over} over) at {deployment}",
                    plan.weights, plan.budget
                )
            }
            Why::Refused(Refusal::DoesNotFit(plan)) => {
                let factor = plan.kv_bytes_per_request / plan.kv_available;
                format!(
                    "one request needs {} of KV, {} are left ({factor:.2}x) at {deployment}",
                    plan.kv_bytes_per_request, plan.kv_available
                )
            }
        }
    }

    fn change(&self, reason: &Reason, neighbour: Neighbour, verdict: &Verdict) -> String {
        let value = knob_value(&self.space.deployment(neighbour.index), neighbour.knob);
        match (verdict, reason) {
            (Verdict::Feasible(_), Reason::Memory) => format!("{value} fits"),
            (Verdict::Feasible(_), _) => format!("{value} meets it"),
            (Verdict::Rejected(_, nearer), Reason::Slo(_)) => {
                format!("no single change meets it, {value} brings it to {:.2}x", nearer.distance)
            }
            (Verdict::Rejected(..), _) => format!("no single change is enough, {value} comes nearest"),
        }
    }
}
