//! Every point in the order of its number: an exhaustive search that a budget cuts short.

use super::backend::{Ask, Backend, Domain, History};
use crate::Result;

/// Counts through the points, leaving out those that are not allowed.
#[derive(Debug, Clone, Default)]
pub struct Sequential {
    next: u64,
}

impl Backend for Sequential {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn batch(&self) -> usize {
        4096
    }

    fn ask(&mut self, domain: &dyn Domain, _history: &History, wanted: usize) -> Result<Ask> {
        let mut points = Vec::new();
        while self.next < domain.len() && points.len() < wanted {
            if domain.allows(self.next) {
                points.push(self.next);
            }
            self.next += 1;
        }
        Ok(if points.is_empty() { Ask::Exhausted } else { Ask::Points(points) })
    }
}
