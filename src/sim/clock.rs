//! Simulated time, and what happens next.
//!
//! Time is a whole number of picoseconds, so that a stretch of steps taken at once ends at the very instant at which
//! the same steps taken one by one would end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A point or span of simulated time, ps. A `u64` reaches 213 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub u64);

const PS_PER_S: f64 = 1e12;

impl Time {
    /// Later than everything.
    pub const NEVER: Time = Time(u64::MAX);

    /// Rounds to the nearest picosecond; negative and NaN become 0, what is too long becomes [`Time::NEVER`].
    pub fn from_seconds(seconds: f64) -> Self {
        Time((seconds * PS_PER_S).round() as u64)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PS_PER_S
    }

    /// The span since an earlier time; 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }

    /// The time a span later.
    pub fn after(self, span: Time) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

/// Order among events of one instant: results first, then arrivals, then new steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Something ends: a step, a transfer, a replica's start-up or life.
    End,
    /// A request arrives.
    Arrival,
    /// An engine looks for work.
    Wake,
}

/// Events in the order of (time, class, insertion).
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: (Time, Class, u64),
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E> Agenda<E> {
    /// Adds an event.
    pub fn push(&mut self, time: Time, class: Class, event: E) {
        self.inserted += 1;
        self.heap.push(Reverse(Entry { key: (time, class, self.inserted), event }));
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.key.0, entry.event))
    }

    /// Something else happens at this instant before engines look for work.
    pub fn has_earlier_than_wake(&self, now: Time) -> bool {
        self.heap.peek().is_some_and(|Reverse(entry)| (entry.key.0, entry.key.1) < (now, Class::Wake))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_ordered_by_class_then_insertion() {
        let mut agenda = Agenda::default();
        let now = Time::from_seconds(1.0);
        agenda.push(now, Class::Wake, "wake");
        agenda.push(now, Class::Arrival, "first");
        agenda.push(now, Class::Arrival, "second");
        agenda.push(now, Class::End, "end");
        agenda.push(Time(0), Class::Wake, "before");
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, ["before", "end", "first", "second", "wake"]);
    }
}
