//! Which replica gets a request?

use super::replica::Replica;
use crate::serve::scheduler::Content;
use crate::serve::scheduler::content::{HashChain, mix};
use crate::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How a router decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RouterPolicy {
    /// In turn.
    RoundRobin,
    /// Any, with equal probability.
    Random,
    /// Fewest requests in flight; the first of equals.
    LeastLoaded,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// By a hash of the prompt's first `tokens` tokens, on a ring that moves few requests when a replica goes.
    PrefixHash {
        /// Tokens hashed.
        tokens: u32,
    },
    /// Smallest `weight` · prompt blocks to compute + blocks in use.
    KvOverlap {
        /// What a block to compute counts against a block in use.
        weight: f64,
    },
    /// One queue for all: a request goes to the first replica with a free sequence.
    Central,
}

impl RouterPolicy {
    /// Reads `round-robin`, `random`, `least-loaded`, `power-of-two`, `prefix-hash[:TOKENS]`,
    /// `kv-overlap[:WEIGHT]` or `central`.
    pub fn parse(text: &str) -> Result<Self> {
        let known =
            "round-robin, random, least-loaded, power-of-two, prefix-hash[:TOKENS], kv-overlap[:WEIGHT], central";
        let bad = |found: &str| Error::input(format!("--router {text}"), found, format!("Known: {known}"));
        let (name, option) = text.split_once(':').map_or((text, None), |(n, o)| (n, Some(o)));
        let policy = match (name, option) {
            ("round-robin", None) => Self::RoundRobin,
            ("random", None) => Self::Random,
            ("least-loaded", None) => Self::LeastLoaded,
            ("power-of-two", None) => Self::PowerOfTwo,
            ("central", None) => Self::Central,
            ("prefix-hash", tokens) => {
                let tokens = tokens.map_or(Ok(256), str::parse).ok().filter(|t| *t > 0);
                Self::PrefixHash { tokens: tokens.ok_or_else(|| bad("not a number of tokens"))? }
            }
            ("kv-overlap", weight) => {
                let weight = weight.map_or(Ok(1.0), str::parse).ok().filter(|w| (0.0..=1e6).contains(w));
                Self::KvOverlap { weight: weight.ok_or_else(|| bad("not a weight from 0 to 1e6"))? }
            }
            _ => return Err(bad("not a known policy")),
        };
        Ok(policy)
    }
}

/// The router's state.
#[derive(Debug)]
pub struct Router {
    policy: RouterPolicy,
    turn: usize,
    random: Pcg64Mcg,
    chain: HashChain,
    block_size: u32,
    open: Vec<usize>,
}

impl Router {
    /// A router over engines with blocks of this size.
    pub fn new(policy: RouterPolicy, block_size: u32, seed: u64) -> Self {
        Self {
            policy,
            turn: 0,
            random: Pcg64Mcg::seed_from_u64(seed ^ 0x0004_07e4),
            chain: HashChain::default(),
            block_size,
            open: Vec::new(),
        }
    }

    /// The decision looks at KV blocks, so engines must be brought up to the moment.
    pub fn looks_at_blocks(&self) -> bool {
        matches!(self.policy, RouterPolicy::KvOverlap { .. })
    }

    /// One queue serves all.
    pub fn is_central(&self) -> bool {
        matches!(self.policy, RouterPolicy::Central)
    }

    /// The replica for a prompt, among those of `pool` that are up; `in_flight` counts each one's requests.
    pub fn pick(
        &mut self,
        replicas: &[Replica],
        pool: std::ops::Range<usize>,
        in_flight: &[u32],
        content: &Content,
        prompt_len: u32,
    ) -> Option<usize> {
        self.open.clear();
        self.open.extend(pool.clone().filter(|r| replicas[*r].up));
        let open = &self.open;
        let least = |among: &mut dyn Iterator<Item = usize>| among.min_by_key(|r| (in_flight[*r], *r));
        if open.is_empty() {
            return None;
        }
        match self.policy {
            RouterPolicy::RoundRobin => {
                self.turn += 1;
                Some(open[(self.turn - 1) % open.len()])
            }
            RouterPolicy::Random => Some(open[self.random.random_range(0..open.len())]),
            RouterPolicy::LeastLoaded => least(&mut open.iter().copied()),
            RouterPolicy::PowerOfTwo => {
                let mut draw = || open[self.random.random_range(0..open.len())];
                let pair = [draw(), draw()];
                least(&mut pair.into_iter())
            }
            RouterPolicy::PrefixHash { tokens } => {
                let key = prefix_key(content, tokens);
                // Highest random weight: each replica bids for the key, so that only a lost replica's keys move.
                open.iter().copied().max_by_key(|r| mix(key, *r as u64 + 1))
            }
            RouterPolicy::KvOverlap { weight } => {
                self.chain.clear();
                self.chain.extend(content, prompt_len, prompt_len, self.block_size, 0, None);
                let keys = self.chain.keys();
                let cost = |r: usize| {
                    let scheduler = &replicas[r].scheduler;
                    let load = scheduler.load();
                    let missing = prompt_len - scheduler.cached_prefix(content, keys).min(prompt_len);
                    let used = f64::from(load.usable_blocks - load.free_blocks);
                    weight * f64::from(missing.div_ceil(self.block_size)) + used
                };
                let mut best: Option<(f64, u32, usize)> = None;
                for r in open.iter().copied() {
                    let bid = (cost(r), in_flight[r], r);
                    if best.is_none_or(|b| bid < b) {
                        best = Some(bid);
                    }
                }
                best.map(|b| b.2)
            }
            RouterPolicy::Central => {
                open.iter().copied().find(|r| in_flight[*r] < replicas[*r].scheduler.sequence_limit())
            }
        }
    }
}

/// Hash of the first tokens of a prompt.
fn prefix_key(content: &Content, tokens: u32) -> u64 {
    let mut left = tokens;
    let mut key = 0x9e1f;
    for segment in &content.prompt {
        let take = segment.len.min(left);
        if take == 0 {
            break;
        }
        key = mix(mix(key, segment.key), (u64::from(segment.start) << 32) | u64::from(take));
        left -= take;
    }
    key
}
