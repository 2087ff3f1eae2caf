//! Points spread evenly and at random: an Owen-scrambled Sobol sequence (Burley, "Practical hash-based Owen
//! scrambling", JCGT 9(4), 2020), the yardstick of every other backend.

use super::backend::{Ask, Backend, Domain, History};
use crate::Result;
use std::collections::HashSet;

/// The library's sequences end here; the next one starts with another seed.
const SEQUENCE: u64 = 1 << 16;

/// Draws in a row that may be known or not allowed before the rest is taken to be empty.
const DRAWS: usize = 200_000;

/// An even, seeded stream of allowed points, each once.
#[derive(Debug, Clone)]
pub struct Spread {
    seed: u64,
    drawn: u64,
    given: HashSet<u64>,
}

impl Spread {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0, given: HashSet::new() }
    }

    /// The next point that is allowed and was neither given nor looked at; `None` where there seems to be none left.
    pub fn next(&mut self, domain: &dyn Domain, history: &History) -> Option<u64> {
        for _ in 0..DRAWS {
            let point = self.draw(domain);
            if !self.given.contains(&point) && history.of(point).is_none() && domain.allows(point) {
                self.given.insert(point);
                return Some(point);
            }
        }
        // What even draws do not hit is counted out, where that is quick.
        let rest = (0..domain.len().min(DRAWS as u64))
            .find(|p| !self.given.contains(p) && history.of(*p).is_none() && domain.allows(*p));
        self.given.extend(rest);
        rest
    }

    fn draw(&mut self, domain: &dyn Domain) -> u64 {
        let (round, at) = (self.drawn / SEQUENCE, (self.drawn % SEQUENCE) as u32);
        self.drawn += 1;
        let mixed = mix(self.seed ^ mix(round));
        let scramble = (mixed ^ (mixed >> 32)) as u32;
        let coordinates: Vec<usize> = (0u32..)
            .zip(domain.dimensions())
            .map(|(axis, dimension)| {
                let size = dimension.values.len();
                let share = f64::from(sobol_burley::sample(at, axis % 256, scramble.wrapping_add(axis / 256)));
                ((share * size as f64) as usize).min(size.saturating_sub(1))
            })
            .collect();
        domain.point(&coordinates)
    }
}

/// SplitMix64's finaliser (Steele et al. 2014).
pub(super) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The backend `random`.
#[derive(Debug, Clone)]
pub struct Random {
    spread: Spread,
}

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { spread: Spread::new(seed) }
    }
}

impl Backend for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn batch(&self) -> usize {
        256
    }

    fn ask(&mut self, domain: &dyn Domain, history: &History, wanted: usize) -> Result<Ask> {
        let points: Vec<u64> = std::iter::from_fn(|| self.spread.next(domain, history)).take(wanted).collect();
        Ok(if points.is_empty() { Ask::Exhausted } else { Ask::Points(points) })
    }
}
