//! Who waits, in which order.

use super::config::Policy;
use super::request::Slot;
use std::collections::{BTreeSet, VecDeque};

/// What the priority policy sorts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rank {
    /// Lower is served first.
    pub priority: i64,
    /// Arrival time as an order-preserving integer ([`order_of`]).
    pub arrival: u64,
    /// Decides between equals.
    pub tie: u64,
}

/// Maps a finite number to an integer of the same order.
pub fn order_of(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits(); // -0 and 0 are one number
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}

/// Waiting requests.
#[derive(Debug)]
pub enum WaitQueue {
    /// Order of arrival, preempted ones at the front.
    Fcfs(VecDeque<Slot>),
    /// Sorted by rank.
    Priority(BTreeSet<(Rank, Slot)>),
}

impl WaitQueue {
    /// An empty queue.
    pub fn new(policy: Policy) -> Self {
        match policy {
            Policy::Fcfs => Self::Fcfs(VecDeque::new()),
            Policy::Priority => Self::Priority(BTreeSet::new()),
        }
    }

    /// Requests waiting.
    pub fn len(&self) -> usize {
        match self {
            Self::Fcfs(queue) => queue.len(),
            Self::Priority(queue) => queue.len(),
        }
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next to be served.
    pub fn head(&self) -> Option<Slot> {
        match self {
            Self::Fcfs(queue) => queue.front().copied(),
            Self::Priority(queue) => queue.first().map(|(_, slot)| *slot),
        }
    }

    /// Removes the head.
    pub fn pop(&mut self) -> Option<Slot> {
        match self {
            Self::Fcfs(queue) => queue.pop_front(),
            Self::Priority(queue) => queue.pop_first().map(|(_, slot)| slot),
        }
    }

    /// A new arrival.
    pub fn push(&mut self, slot: Slot, rank: Rank) {
        match self {
            Self::Fcfs(queue) => queue.push_back(slot),
            Self::Priority(queue) => {
                queue.insert((rank, slot));
            }
        }
    }

    /// Back to the front: a preempted request, or one that was passed over.
    pub fn push_front(&mut self, slot: Slot, rank: Rank) {
        match self {
            Self::Fcfs(queue) => queue.push_front(slot),
            Self::Priority(queue) => {
                queue.insert((rank, slot));
            }
        }
    }

    /// Takes one request out, wherever it is.
    pub fn remove(&mut self, slot: Slot, rank: Rank) {
        match self {
            Self::Fcfs(queue) => {
                if let Some(at) = queue.iter().position(|s| *s == slot) {
                    queue.remove(at);
                }
            }
            Self::Priority(queue) => {
                queue.remove(&(rank, slot));
            }
        }
    }

    /// All, in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Slot> + '_> {
        match self {
            Self::Fcfs(queue) => Box::new(queue.iter().copied()),
            Self::Priority(queue) => Box::new(queue.iter().map(|(_, slot)| *slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::order_of;

    #[test]
    fn numbers_keep_their_order() {
        let sorted = [-3.5, -1.0, 0.0, 1e-9, 2.0, 1e12];
        assert!(sorted.windows(2).all(|w| order_of(w[0]) < order_of(w[1])));
    }
}
