//! The model as one more backend of the search: alone, or taking turns with another, which also takes over where the
//! model is given up.

use super::session::{End, Session};
use crate::Result;
use crate::search::{Ask, Backend, Domain, Evaluator, History, Observation};

/// Points of one request to the model.
const BATCH: usize = 16;

/// A model that proposes points.
pub struct Planner<'a, E: Evaluator> {
    session: Session<'a, E>,
    other: Box<dyn Backend + 'a>,
    name: &'static str,
    mixed: bool,
    others_turn: bool,
    took_over: bool,
}

impl<'a, E: Evaluator> Planner<'a, E> {
    /// A model alone; `other` takes over where it is given up.
    pub fn alone(session: Session<'a, E>, other: Box<dyn Backend + 'a>) -> Self {
        Self { session, other, name: "llm", mixed: false, others_turn: false, took_over: false }
    }

    /// A model and another backend in turns, under a name of its own.
    pub fn mixed(session: Session<'a, E>, other: Box<dyn Backend + 'a>, name: &'static str) -> Self {
        Self { mixed: true, name, ..Self::alone(session, other) }
    }
}

impl<E: Evaluator> Backend for Planner<'_, E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn ask(&mut self, domain: &dyn Domain, history: &History, wanted: usize) -> Result<Ask> {
        if self.mixed && std::mem::take(&mut self.others_turn) {
            return self.other.ask(domain, history, wanted);
        }
        let points = self.session.ask(wanted);
        if !points.is_empty() {
            self.others_turn = self.mixed;
            return Ok(Ask::Points(points));
        }
        match self.session.ended() {
            // The loop looks at the interruption before it asks again.
            Some(End::Interrupted) | None => Ok(Ask::Points(Vec::new())),
            Some(end) if end.is_proper() && !self.mixed => Ok(Ask::Converged(end.to_string())),
            Some(_) => {
                self.took_over = true;
                self.other.ask(domain, history, wanted)
            }
        }
    }

    fn tell(&mut self, told: &[Observation]) {
        for observation in told {
            self.session.tell(observation.point, observation.feasible().then_some(observation.score).flatten());
        }
        self.other.tell(told);
    }

    fn restore(&mut self, history: &History) -> bool {
        for observation in history.observations() {
            self.session.restore(observation.point);
        }
        true
    }

    fn notes(&self) -> Vec<String> {
        let spent = self.session.budget().spent;
        let tokens = spent.prompt_tokens + spent.completion_tokens;
        let about = if spent.estimated { "about " } else { "" };
        let usd = spent.usd.map_or(String::new(), |usd| format!(", ${usd:.4}"));
        let mut notes = vec![format!(
            "Planner {}: {} calls, {about}{tokens} tokens{usd}; {} points seeded, {} proposed by it.",
            self.session.model(),
            spent.calls,
            self.session.seeded(),
            self.session.proposed(),
        )];
        match self.session.ended() {
            Some(end) if self.took_over && !end.is_proper() => {
                notes.push(format!("Planner given up: {end}; {} chose the other points.", self.other.name()));
            }
            Some(end) if self.mixed => notes.push(format!("Planner ended: {end}.")),
            // The search says why it ended.
            _ => {}
        }
        notes.extend(self.session.remarks());
        notes.extend(self.other.notes());
        notes
    }
}
