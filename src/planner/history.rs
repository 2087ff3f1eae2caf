//! Which points were tried, by whom, and what came of each.

use crate::search::{Advice, Found, Verdict};
use std::collections::HashMap;

/// Who proposed a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The seed sweep.
    Seed,
    /// A candidate of the model.
    Model,
    /// A tool the model called.
    Tool,
    /// Another backend.
    Other,
}

/// A point that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number in the space.
    pub index: u64,
    /// Its settings, `tp=4 concurrency=64`.
    pub settings: String,
    /// Who proposed it.
    pub by: By,
    /// What came of it.
    pub verdict: Verdict,
    /// The same in words, with what to try next.
    pub text: String,
    /// What the model expected.
    pub expects: Option<f64>,
}

/// All of them, in order.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Entry>,
    place: HashMap<u64, usize>,
    best: Option<usize>,
}

impl History {
    /// In the order they were tried.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a point.
    pub fn of(&self, index: u64) -> Option<&Entry> {
        self.place.get(&index).map(|at| &self.entries[*at])
    }

    /// The best feasible one.
    pub fn best(&self) -> Option<&Entry> {
        self.best.map(|at| &self.entries[at])
    }

    /// The best score, where a point is feasible.
    pub fn best_score(&self) -> Option<f64> {
        self.best().and_then(|entry| found(entry)).map(|f| f.score)
    }

    /// The nearest to what is wanted, feasible or not.
    pub fn nearest(&self) -> Option<&Entry> {
        self.entries.iter().min_by(|a, b| Verdict::order(&a.verdict, &b.verdict))
    }

    /// Feasible ones, best first.
    pub fn ranked(&self) -> Vec<&Entry> {
        let mut ranked: Vec<&Entry> = self.entries.iter().filter(|e| found(e).is_some()).collect();
        ranked.sort_by(|a, b| Verdict::order(&a.verdict, &b.verdict));
        ranked
    }

    /// Adds a point; one that is known stays as it is.
    pub fn add(&mut self, advice: Advice, settings: String, by: By, expects: Option<f64>) {
        let index = advice.verdict.index();
        if self.place.contains_key(&index) {
            return;
        }
        let at = self.entries.len();
        self.place.insert(index, at);
        self.entries.push(Entry { index, settings, by, verdict: advice.verdict, text: advice.text, expects });
        let entry = &self.entries[at];
        let better = found(entry).is_some_and(|new| match self.best().and_then(found) {
            Some(old) => Found::order(new, old).is_lt(),
            None => true,
        });
        if better {
            self.best = Some(at);
        }
    }
}

fn found(entry: &Entry) -> Option<&Found> {
    match &entry.verdict {
        Verdict::Feasible(found) => Some(found),
        Verdict::Rejected(..) => None,
    }
}
