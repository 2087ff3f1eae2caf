//! Which requests run in which tick of a continuous batch?
//!
//! A tick admits every queued request there is a slot for (their prompts are prefilled as one batch, which yields each
//! its first token), then decodes one token for every running request. A request leaves when it has all its tokens.

use std::collections::VecDeque;

/// A running request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Number of the request.
    pub request: usize,
    /// Tokens it has yielded.
    pub yielded: usize,
}

/// The queue and the running batch, in order of admission.
#[derive(Debug, Clone)]
pub struct Schedule {
    queued: VecDeque<usize>,
    running: Vec<Running>,
    capacity: usize,
    tokens: usize,
    completed: usize,
}

impl Schedule {
    /// `requests` requests of `tokens` tokens each, at most `capacity` at once.
    pub fn new(requests: usize, tokens: usize, capacity: usize) -> Self {
        Self { queued: (0..requests).collect(), running: Vec::new(), capacity, tokens, completed: 0 }
    }

    /// Admits what fits and counts the token that prefill yields; returns the requests admitted.
    pub fn admit(&mut self) -> Vec<usize> {
        let free = self.capacity.saturating_sub(self.running.len()).min(self.queued.len());
        let admitted: Vec<usize> = self.queued.drain(..free).collect();
        self.running.extend(admitted.iter().map(|r| Running { request: *r, yielded: 1 }));
        admitted
    }

    /// Removes requests that have all their tokens; returns their places in the batch as it was, ascending.
    pub fn retire(&mut self) -> Vec<usize> {
        let done = |r: &Running| r.yielded >= self.tokens;
        let places: Vec<usize> = (0..self.running.len()).filter(|at| done(&self.running[*at])).collect();
        let tokens = self.tokens;
        self.running.retain(|r| r.yielded < tokens);
        self.completed += places.len();
        places
    }

    /// Counts one more token for every running request.
    pub fn decoded(&mut self) {
        self.running.iter_mut().for_each(|r| r.yielded += 1);
    }

    /// Running requests, in batch order.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// Requests that wait.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Requests that have all their tokens.
    pub fn completed(&self) -> usize {
        self.completed
    }

    /// Nothing waits and nothing runs.
    pub fn is_drained(&self) -> bool {
        self.queued.is_empty() && self.running.is_empty()
    }
}

/// Ticks that `requests` requests of `tokens` tokens need at `capacity`.
pub fn ticks_needed(requests: usize, tokens: usize, capacity: usize) -> usize {
    let mut schedule = Schedule::new(requests, tokens, capacity);
    let mut ticks = 0;
    while !schedule.is_drained() {
        schedule.admit();
        schedule.retire();
        if !schedule.running().is_empty() {
            schedule.decoded();
            schedule.retire();
        }
        ticks += 1;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_by_hand() {
        // All fit: prefill and the first decode share a tick, so G tokens take G − 1 ticks.
        assert_eq!(ticks_needed(4, 8, 4), 7);
        // One token each: prefill yields it.
        assert_eq!(ticks_needed(3, 1, 8), 1);
        assert_eq!(ticks_needed(3, 1, 1), 3);
        // Six of 8 tokens, four at once: 7 ticks for the first four, 7 for the other two.
        assert_eq!(ticks_needed(6, 8, 4), 14);
    }

    #[test]
    fn a_request_joins_when_another_leaves() {
        let mut schedule = Schedule::new(3, 3, 2);
        assert_eq!(schedule.admit(), [0, 1]);
        schedule.decoded();
        assert!(schedule.admit().is_empty());
        schedule.decoded();
        assert_eq!(schedule.retire(), [0, 1]);
        assert_eq!((schedule.completed(), schedule.queued()), (2, 1));
        assert_eq!(schedule.admit(), [2]);
        assert_eq!(schedule.running(), [Running { request: 2, yielded: 1 }]);
    }
}
