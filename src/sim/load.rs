//! Which request comes when: open and closed loops, sessions of several turns, shared prefixes, recorded traces.

use super::clock::Time;
use super::distribution::{Gaps, Lengths, Zipf};
use super::trace_file::Trace;
use crate::serve::scheduler::{Content, Segment};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;

/// When requests (or first turns of sessions) arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Whatever the engine does, at this mean rate per second; infinite means all at once.
    Open {
        /// Arrivals per second.
        rate: f64,
        /// The law of the gaps.
        gaps: Gaps,
    },
    /// Each of so many clients sends its next request when the last is answered and it has thought.
    Closed {
        /// Clients; all start at time 0.
        clients: u32,
        /// Mean think time, s.
        think_s: f64,
        /// Its law.
        think: Gaps,
    },
    /// As recorded, with times divided by `speed`.
    Replay {
        /// The recorded requests.
        trace: Trace,
        /// Above 1 for a denser load.
        speed: f64,
    },
}

/// Where prompt and answer lengths come from.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthSource {
    /// Independent draws.
    Laws(Lengths, Lengths),
    /// Pairs drawn with equal probability; the law serves where the answer's length is missing.
    Pairs(Vec<(u32, Option<u32>)>, Lengths),
}

/// Prefixes that requests share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixPool {
    /// Different prefixes.
    pub prefixes: u32,
    /// Tokens of each; they come on top of the prompt's own length.
    pub tokens: u32,
    /// Popularity falls as 1/rank^exponent.
    pub exponent: f64,
}

/// Conversations: each turn's prompt holds all earlier prompts and answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sessions {
    /// Turns of one session.
    pub turns: u32,
    /// Seconds from an answer to the next turn (closed loops use the clients' think time).
    pub think_s: f64,
}

/// The whole load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// When.
    pub arrivals: Arrivals,
    /// How long; ignored by a replay.
    pub lengths: LengthSource,
    /// Requests in all, turns counted singly; a replay stops earlier when its trace ends.
    pub requests: u64,
    /// Shared prefixes.
    pub prefix: Option<PrefixPool>,
    /// Conversations.
    pub sessions: Option<Sessions>,
    /// Priorities with the running sums of their shares, which end at 1; empty where all are 0. Lower is served first.
    pub priorities: Vec<(i64, f64)>,
    /// Same seed, same load.
    pub seed: u64,
}

/// A request about to arrive.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// Its number, from 0.
    pub number: u64,
    /// Client or session it belongs to.
    pub client: u64,
    /// When it arrives.
    pub at: Time,
    /// Prompt tokens.
    pub prompt_len: u32,
    /// Answer tokens.
    pub output_len: u32,
    /// Lower is served first, under the priority policy.
    pub priority: i64,
    /// What the tokens are.
    pub content: Content,
}

/// Draws the load, one request at a time.
#[derive(Debug)]
pub struct LoadGenerator {
    spec: LoadSpec,
    clock: Pcg64Mcg,
    lengths: Pcg64Mcg,
    prefixes: Pcg64Mcg,
    priorities: Pcg64Mcg,
    zipf: Option<Zipf>,
    issued: u64,
    sessions_started: u64,
    open_at_s: f64,
    /// Turns left and the conversation so far, per live session.
    talks: HashMap<u64, (u32, Vec<Segment>)>,
}

/// Streams of one purpose never meet those of another.
const PREFIX_STREAM: u64 = 1 << 60;
const TRACE_STREAM: u64 = 2 << 60;
const OUTPUT_STREAM: u64 = 3 << 60;
const PROMPT_STREAM: u64 = 4 << 60;

impl LoadGenerator {
    /// A fresh draw.
    pub fn new(spec: LoadSpec) -> Self {
        let stream = |n: u64| Pcg64Mcg::seed_from_u64(spec.seed.wrapping_mul(4).wrapping_add(n));
        Self {
            clock: stream(0),
            lengths: stream(1),
            prefixes: stream(2),
            priorities: stream(3),
            zipf: spec.prefix.map(|p| Zipf::new(p.prefixes, p.exponent)),
            issued: 0,
            sessions_started: 0,
            open_at_s: 0.0,
            talks: HashMap::new(),
            spec,
        }
    }

    /// The requests that arrive whatever is answered: the next one of an open loop or a replay, or one of a closed
    /// loop's first wave. `None` when no more follow.
    pub fn next_arrival(&mut self) -> Option<Incoming> {
        if self.issued >= self.spec.requests {
            return None;
        }
        let at = match &self.spec.arrivals {
            Arrivals::Replay { .. } => return self.next_recorded(),
            Arrivals::Open { rate, gaps } => {
                let (rate, gaps) = (*rate, *gaps);
                if rate.is_finite() {
                    self.open_at_s += gaps.sample(1.0 / rate, &mut self.clock);
                }
                self.open_at_s
            }
            Arrivals::Closed { clients, .. } if self.sessions_started < u64::from(*clients) => 0.0,
            Arrivals::Closed { .. } => return None,
        };
        let client = self.sessions_started;
        self.sessions_started += 1;
        Some(self.first_turn(client, Time::from_seconds(at)))
    }

    /// What follows from an answer (or a refusal) at `now`: the session's next turn, or the client's next request.
    pub fn answered(&mut self, client: u64, output_len: u32, answered: bool, now: Time) -> Option<Incoming> {
        let talk = self.talks.remove(&client);
        if self.issued >= self.spec.requests {
            return None;
        }
        let closed = match self.spec.arrivals {
            Arrivals::Closed { think_s, think, .. } => Some((think_s, think)),
            _ => None,
        };
        let next_turn = talk.filter(|(left, _)| *left > 0 && answered);
        let (think_s, law) = match (closed, self.spec.sessions) {
            (Some(think), _) => think,
            (None, Some(sessions)) if next_turn.is_some() => (sessions.think_s, Gaps::Exponential),
            _ => return None,
        };
        let at = if think_s > 0.0 { now.after(Time::from_seconds(law.sample(think_s, &mut self.clock))) } else { now };
        match next_turn {
            Some((left, mut history)) => {
                if let Some(last) = history.last_mut() {
                    last.len = output_len;
                }
                Some(self.turn(client, at, left, history))
            }
            None => Some(self.first_turn(client, at)),
        }
    }

    fn first_turn(&mut self, client: u64, at: Time) -> Incoming {
        let mut history = Vec::new();
        if let (Some(pool), Some(zipf)) = (self.spec.prefix, &self.zipf) {
            let rank = zipf.sample(&mut self.prefixes);
            history.push(Segment { key: PREFIX_STREAM + u64::from(rank), start: 0, len: pool.tokens });
        }
        let turns = self.spec.sessions.map_or(1, |s| s.turns);
        self.turn(client, at, turns, history)
    }

    /// A turn on top of a conversation; the answer-to-be is added to the conversation.
    fn turn(&mut self, client: u64, at: Time, turns_left: u32, mut history: Vec<Segment>) -> Incoming {
        let number = self.issued;
        self.issued += 1;
        let (own, output_len) = self.draw_lengths();
        history.push(Segment { key: PROMPT_STREAM + number, start: 0, len: own });
        let output_key = OUTPUT_STREAM + number;
        let unshared = self.spec.prefix.is_none() && self.spec.sessions.is_none();
        let content = Content { prompt: history.clone(), output_key, unshared };
        if turns_left > 1 {
            history.push(Segment { key: output_key, start: 0, len: output_len });
            self.talks.insert(client, (turns_left - 1, history));
        }
        let priority = self.draw_priority();
        Incoming { number, client, at, prompt_len: content.prompt_len(), output_len, priority, content }
    }

    fn draw_priority(&mut self) -> i64 {
        let classes = &self.spec.priorities;
        let Some(last) = classes.last() else { return 0 };
        let at: f64 = self.priorities.random();
        classes.iter().find(|c| at < c.1).unwrap_or(last).0
    }

    fn draw_lengths(&mut self) -> (u32, u32) {
        match &self.spec.lengths {
            LengthSource::Laws(prompt, output) => (prompt.sample(&mut self.lengths), output.sample(&mut self.lengths)),
            LengthSource::Pairs(pairs, law) => {
                let (prompt, output) = pairs[self.lengths.random_range(0..pairs.len())];
                (prompt, output.unwrap_or_else(|| law.sample(&mut self.lengths)))
            }
        }
    }

    fn next_recorded(&mut self) -> Option<Incoming> {
        let Arrivals::Replay { trace, speed } = &self.spec.arrivals else { return None };
        let number = self.issued;
        let row = *trace.rows.get(number as usize)?;
        let ids = &trace.prefix_ids[row.ids.0 as usize..row.ids.1 as usize];
        let mut left = row.prompt_len;
        let mut prompt: Vec<Segment> = ids
            .iter()
            .map(|id| {
                let len = left.min(trace.tokens_per_id);
                left -= len;
                Segment { key: TRACE_STREAM + id, start: 0, len }
            })
            .collect();
        let unshared = prompt.is_empty();
        if unshared {
            prompt.push(Segment { key: PROMPT_STREAM + number, start: 0, len: row.prompt_len });
        }
        let at = Time::from_seconds(row.at_s / speed);
        let priority = self.draw_priority();
        self.issued += 1;
        Some(Incoming {
            number,
            client: number,
            at,
            prompt_len: row.prompt_len,
            output_len: row.output_len,
            priority,
            content: Content { prompt, output_key: OUTPUT_STREAM + number, unshared },
        })
    }
}
