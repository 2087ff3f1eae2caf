//! What should be tried next? What is known of one point, in words to act on: its figure, the limit it breaks and by
//! how much, what binds it, and the knobs (named and valued as in the space) that would move it.

use super::Evaluator;
use super::exhaustive::{Search, Verdict};
use super::tally::{Found, Reason, Rejected};
use crate::serve::Evaluation;
use crate::space::{Setting, settings::is_cut};
use std::cmp::Ordering;

/// Values of one knob that are looked at.
const VALUES: usize = 48;
/// Points that differ in two knobs are looked at where one knob gains less than this share.
const WORTH: f64 = 0.01;
/// Most points that differ in two knobs.
const PAIRS: usize = 6000;
/// Most other cuts of the model.
const CUTS: usize = 256;
/// Smallest gain worth a word.
const NOTICEABLE: f64 = 1e-3;

/// What is known of a point and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The point.
    pub verdict: Verdict,
    /// What to change, best first choice; empty where no change of one or two knobs helps.
    pub change: Vec<Setting>,
    /// The point it leads to.
    pub next: Option<u64>,
    /// All of it in a sentence or two.
    pub text: String,
}

impl<E: Evaluator> Search<'_, E> {
    /// Looks at a point and at those one knob away; where these gain little, at those two knobs away; where these gain
    /// nothing, at other cuts of the model (tp, pp, ep and attention_dp together) with one more knob.
    pub fn advise(&self, index: u64) -> Advice {
        let verdict = self.verdict(index);
        let ones: Vec<(usize, Verdict)> =
            self.space.one_turn(index, VALUES).into_iter().map(|(knob, at)| (knob, self.verdict(at))).collect();
        let mut best = best_of(ones.iter().map(|(_, v)| v), &verdict);
        let (pairs, cuts);
        if best.is_none_or(|b| gain(&verdict, b) < WORTH) {
            pairs = self.pairs(index);
            best = best_of(pairs.iter().chain(best), &verdict);
        }
        if best.is_none() {
            cuts = self.cuts(index);
            best = best_of(cuts.iter(), &verdict);
        }
        let next = best.map(Verdict::index);
        let change = next.map_or_else(Vec::new, |to| self.space.difference(index, to));
        let text = match (&verdict, best) {
            (Verdict::Feasible(found), None) => {
                format!("{}. No change of one or two knobs, and no other cut, raises it.", self.state(found))
            }
            (Verdict::Feasible(found), Some(better)) => {
                let also = self.also(index, &verdict, &ones, next);
                format!("{}. Set {}: {}.{also}", self.state(found), joined(&change), self.outcome(&verdict, better))
            }
            (Verdict::Rejected(_, rejected), None) => {
                format!(
                    "{}. No change of one or two knobs, and no other cut, helps.",
                    self.blocked_by(rejected).trim_end_matches('.')
                )
            }
            (Verdict::Rejected(_, rejected), Some(better)) => format!(
                "{}. Set {}: {}.",
                self.blocked_by(rejected).trim_end_matches('.'),
                joined(&change),
                self.outcome(&verdict, better)
            ),
        };
        Advice { verdict, change, next, text }
    }

    fn pairs(&self, index: u64) -> Vec<Verdict> {
        let mut points: Vec<u64> = Vec::new();
        for (first, at) in self.space.one_turn(index, VALUES) {
            let second = self.space.one_turn(at, VALUES).into_iter().filter(|(knob, _)| *knob > first);
            points.extend(second.map(|(_, point)| point));
        }
        // Large spaces: an even choice.
        let step = points.len().div_ceil(PAIRS).max(1);
        points.into_iter().step_by(step).map(|point| self.verdict(point)).collect()
    }

    fn cuts(&self, index: u64) -> Vec<Verdict> {
        let mut points: Vec<u64> = Vec::new();
        for cut in self.space.other_cuts(index, CUTS) {
            if self.legality.layout_violations(&self.space.deployment(cut), self.space.gpus(cut)).is_empty() {
                points.push(cut);
                let turns = self.space.one_turn(cut, VALUES).into_iter().filter(|(knob, _)| !is_cut(*knob));
                points.extend(turns.map(|(_, point)| point));
            }
        }
        points.into_iter().map(|point| self.verdict(point)).collect()
    }

    /// `tok_s_per_gpu 5210 at tp 1, 8 replicas, concurrency 64, keeps every limit (ttft_ms 180 of 500); bound by weight
    /// reads (54 % of TPOT)`.
    fn state(&self, found: &Found) -> String {
        let metrics = &found.evaluation.metrics;
        let limits: Vec<String> = self.objective.slos.iter().filter_map(|slo| slo.kept(metrics)).collect();
        let kept =
            if limits.is_empty() { String::new() } else { format!(", keeps every limit ({})", limits.join(", ")) };
        let deployment = self.space.deployment(found.index);
        format!("{} at {deployment}{kept}; {}", self.figure(&found.evaluation), binding(&found.evaluation))
    }

    /// The objective's figure: `tok_s_per_gpu 5210`.
    fn figure(&self, evaluation: &Evaluation) -> String {
        let metric = self.objective.metric;
        match metric.of(&evaluation.metrics) {
            Some(value) => format!("{metric} {}", metric.show(value)),
            None => format!("{metric} unknown"),
        }
    }

    /// What a change leads to.
    fn outcome(&self, from: &Verdict, to: &Verdict) -> String {
        match (from, to) {
            (Verdict::Feasible(a), Verdict::Feasible(b)) => {
                let metric = self.objective.metric;
                let (old, new) = (metric.of(&a.evaluation.metrics), metric.of(&b.evaluation.metrics));
                let percent = match (old, new) {
                    (Some(old), Some(new)) if old != 0.0 => format!(" ({:+.1} %)", (new / old - 1.0) * 100.0),
                    _ => String::new(),
                };
                format!("{}{percent}", self.figure(&b.evaluation))
            }
            (Verdict::Rejected(..), Verdict::Feasible(b)) => {
                let kept = if self.objective.slos.is_empty() { "it runs" } else { "it keeps every limit" };
                format!("{kept}, {}", self.figure(&b.evaluation))
            }
            (_, Verdict::Rejected(reason, rejected)) => {
                let far = match reason {
                    Reason::Slo(_) => format!(" ({:.2}x)", rejected.distance),
                    Reason::Memory => format!(" (by {:.0} % of a GPU)", rejected.distance * 100.0),
                    Reason::NoModel(_) | Reason::Illegal(_) => String::new(),
                };
                format!("nearer, but still out: {}{far}", self.reason_name(reason))
            }
        }
    }

    /// Other knobs that help alone, with what each gains.
    fn also(&self, index: u64, here: &Verdict, ones: &[(usize, Verdict)], taken: Option<u64>) -> String {
        let mut best: Vec<(usize, &Verdict)> = Vec::new();
        for (knob, verdict) in ones.iter().filter(|(_, v)| gain(here, v) >= NOTICEABLE && Some(v.index()) != taken) {
            match best.iter_mut().find(|(known, _)| known == knob) {
                Some(slot) if gain(here, verdict) > gain(here, slot.1) => slot.1 = verdict,
                Some(_) => {}
                None => best.push((*knob, verdict)),
            }
        }
        best.sort_by(|a, b| gain(here, b.1).total_cmp(&gain(here, a.1)));
        let told: Vec<String> = best
            .iter()
            .take(3)
            .map(|(_, v)| {
                let change = self.space.difference(index, v.index());
                format!("{} ({:+.1} %)", joined(&change), gain(here, v) * 100.0)
            })
            .collect();
        if told.is_empty() { String::new() } else { format!(" Also: {}.", told.join(", ")) }
    }
}

impl Verdict {
    /// The point's number.
    pub fn index(&self) -> u64 {
        match self {
            Verdict::Feasible(found) => found.index,
            Verdict::Rejected(_, rejected) => rejected.index,
        }
    }

    /// Better first: feasible by the ranking, then what runs but breaks a limit, then what does not fit, then what no
    /// engine starts; within one kind the less far out.
    pub fn order(a: &Verdict, b: &Verdict) -> Ordering {
        let kind = |verdict: &Verdict| match verdict {
            Verdict::Feasible(_) => 0,
            Verdict::Rejected(Reason::Slo(_), _) => 1,
            Verdict::Rejected(Reason::Memory | Reason::NoModel(_), _) => 2,
            Verdict::Rejected(Reason::Illegal(_), _) => 3,
        };
        match (a, b) {
            (Verdict::Feasible(a), Verdict::Feasible(b)) => Found::order(a, b),
            (Verdict::Rejected(_, x), Verdict::Rejected(_, y)) if kind(a) == kind(b) => {
                x.distance.total_cmp(&y.distance).then(x.index.cmp(&y.index))
            }
            _ => kind(a).cmp(&kind(b)),
        }
    }
}

/// The best of `others` where it is better than `here` by more than its number.
fn best_of<'v>(others: impl Iterator<Item = &'v Verdict>, here: &Verdict) -> Option<&'v Verdict> {
    others.min_by(|a, b| Verdict::order(a, b)).filter(|best| gain(here, best) >= NOTICEABLE)
}

/// By what share the score grows; without bound where a point that is out comes in or nearer.
fn gain(from: &Verdict, to: &Verdict) -> f64 {
    match (from, to) {
        (Verdict::Feasible(a), Verdict::Feasible(b)) if a.score != 0.0 => (b.score - a.score) / a.score.abs(),
        (Verdict::Feasible(_), _) => 0.0,
        (Verdict::Rejected(_, a), Verdict::Rejected(_, b)) if nearer(a, b, from, to) => f64::INFINITY,
        (Verdict::Rejected(..), Verdict::Rejected(..)) => 0.0,
        (Verdict::Rejected(..), Verdict::Feasible(_)) => f64::INFINITY,
    }
}

fn nearer(a: &Rejected, b: &Rejected, from: &Verdict, to: &Verdict) -> bool {
    Verdict::order(to, from).is_lt() && (a.distance != b.distance || a.why != b.why)
}

fn joined(settings: &[Setting]) -> String {
    settings.iter().map(Setting::to_string).collect::<Vec<_>>().join(" and ")
}

/// `bound by weight reads (54 % of TPOT)`.
fn binding(evaluation: &Evaluation) -> String {
    match evaluation.bound_share() {
        Some(share) => format!("bound by {} ({:.0} % of TPOT)", evaluation.bound, share * 100.0),
        None => format!("bound by {}", evaluation.bound),
    }
}
