//! The rounds: ask, check what came, have it evaluated, say what came of it; until nothing improves or the budget ends.

use super::budget::Budget;
use super::channel::{Channel, Completion, FaultKind};
use super::history::{By, History};
use super::prompt::{self, Briefing, Manner};
use super::reply::{self, Reply};
use super::tools::{self, Asked};
use super::transcript::Transcript;
use crate::search::{Evaluator, Search, Verdict};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

/// Times one request is repeated before the endpoint is given up.
const REPEATS: u32 = 4;
/// First wait before a repeat; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Turns of tool calls in one round.
const TOOL_TURNS: usize = 6;
/// Tool calls answered in one turn.
const CALLS_A_TURN: usize = 8;
/// Rounds without a new usable candidate before the model is given up.
const BARREN: usize = 3;
/// Rounds without an improvement by [`IMPROVEMENT`] before the search ends.
const PLATEAU: usize = 3;
/// Smallest improvement that counts.
const IMPROVEMENT: f64 = 0.002;
/// Most tokens of an answer.
const MOST_WRITTEN: u64 = 2048;
/// Lines of history in a request.
const LINES: usize = 12;

/// Why the model is asked no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "what", rename_all = "snake_case")]
pub enum End {
    /// Rounds in a row brought no better point.
    Plateau,
    /// The model has nothing left to try.
    Done,
    /// Calls, tokens or money are spent.
    Budget(String),
    /// The endpoint does not answer.
    Unreachable(String),
    /// The endpoint refuses the request.
    Refused(String),
    /// Answers hold nothing usable.
    Barren(String),
    /// The user stopped the run.
    Interrupted,
    /// The replayed transcript ends here.
    Exhausted,
}

impl End {
    /// The model finished its search, rather than being given up.
    pub fn is_proper(&self) -> bool {
        matches!(self, End::Plateau | End::Done | End::Budget(_) | End::Exhausted)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Plateau => write!(f, "{PLATEAU} rounds brought no better point"),
            End::Done => f.write_str("the model has nothing left to try"),
            End::Budget(what) => f.write_str(what),
            End::Unreachable(what) => write!(f, "the endpoint does not answer ({what})"),
            End::Refused(what) => write!(f, "the endpoint refuses the request ({what})"),
            End::Barren(what) => write!(f, "{BARREN} answers in a row held no new point ({what})"),
            End::Interrupted => f.write_str("interrupted"),
            End::Exhausted => f.write_str("the replayed transcript ends here"),
        }
    }
}

/// What is known of a point that is yet to be evaluated.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// It belongs to the seed sweep.
    seeded: bool,
    /// What the model expects.
    value: Option<f64>,
}

/// A search led by a model.
pub struct Session<'a, E: Evaluator> {
    search: &'a Search<'a, E>,
    model: String,
    seed: u64,
    system: String,
    channel: Box<dyn Channel + 'a>,
    transcript: Transcript,
    budget: Budget,
    history: History,
    pending: VecDeque<(u64, Expected)>,
    expected: HashMap<u64, Expected>,
    errors: Vec<String>,
    round: usize,
    barren: usize,
    stale: usize,
    mark: Option<f64>,
    lines: usize,
    ended: Option<End>,
    interrupted: Box<dyn Fn() -> bool + 'a>,
}

/// What a session is made of.
pub struct Parts<'a> {
    /// Name of the model at the endpoint.
    pub model: String,
    /// Seed of the model's sampling.
    pub seed: u64,
    /// What the run is about.
    pub briefing: Briefing,
    /// Carries requests.
    pub channel: Box<dyn Channel + 'a>,
    /// Keeps them.
    pub transcript: Transcript,
    /// What may be spent.
    pub budget: Budget,
    /// Whether the user wants to stop.
    pub interrupted: Box<dyn Fn() -> bool + 'a>,
}

impl<'a, E: Evaluator> Session<'a, E> {
    /// Begins with the seed sweep.
    pub fn new(search: &'a Search<'a, E>, parts: Parts<'a>) -> Self {
        let Parts { model, seed, briefing, channel, mut transcript, budget, interrupted } = parts;
        let system = prompt::system(&briefing, search.space, search.objective);
        transcript.write(
            "start",
            json!({ "schema": super::transcript::SCHEMA, "model": model, "seed": seed, "limits": budget.limits }),
        );
        let seed_sweep = super::seeds::seeds(search).into_iter();
        let pending = seed_sweep.map(|index| (index, Expected { seeded: true, value: None })).collect();
        Self {
            search,
            model,
            seed,
            system,
            channel,
            transcript,
            budget,
            history: History::default(),
            pending,
            expected: HashMap::new(),
            errors: Vec::new(),
            round: 0,
            barren: 0,
            stale: 0,
            mark: None,
            lines: LINES,
            ended: None,
            interrupted,
        }
    }

    /// The next points to evaluate, at most `most`; none once the model is asked no more.
    pub fn ask(&mut self, most: usize) -> Vec<u64> {
        while self.pending.is_empty() && self.ended.is_none() {
            self.next_round();
        }
        let count = most.min(self.pending.len());
        let taken: Vec<(u64, Expected)> = self.pending.drain(..count).collect();
        self.expected.extend(taken.iter().copied());
        taken.into_iter().map(|(index, _)| index).collect()
    }

    /// A point was evaluated, with its score where it is feasible. What others proposed is kept where it is better than
    /// everything before.
    pub fn tell(&mut self, index: u64, score: Option<f64>) {
        let expects = self.expected.get(&index).copied();
        let by = match &expects {
            Some(Expected { seeded: true, .. }) => By::Seed,
            Some(_) => By::Model,
            None => By::Other,
        };
        let worth_a_word = by != By::Other || score.is_some_and(|s| self.history.best_score().is_none_or(|b| s > b));
        if worth_a_word {
            self.note(index, by, expects.and_then(|e| e.value));
        }
    }

    /// A point of an earlier run.
    pub fn restore(&mut self, index: u64) {
        self.pending.retain(|(at, _)| *at != index);
        self.note(index, By::Other, None);
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Points of the seed sweep that were tried.
    pub fn seeded(&self) -> usize {
        self.history.entries().iter().filter(|e| e.by == By::Seed).count()
    }

    /// Points the model proposed, by itself or through a tool.
    pub fn proposed(&self) -> usize {
        self.history.entries().iter().filter(|e| matches!(e.by, By::Model | By::Tool)).count()
    }

    /// Why the model is asked no more, once that is so.
    pub fn ended(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// What was spent.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What was tried.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What a reader of the run must know, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let remarks = self.transcript.failure().map(str::to_string).into_iter();
        remarks.chain(self.channel.remark()).collect()
    }

    fn note(&mut self, index: u64, by: By, expects: Option<f64>) -> String {
        if let Some(known) = self.history.of(index) {
            return prompt::line(known);
        }
        let advice = self.search.advise(index);
        self.history.add(advice, settings(self.search, index), by, expects);
        self.history.of(index).map_or_else(String::new, prompt::line)
    }

    /// The point that settings are relative to.
    fn base(&self) -> u64 {
        let known = self.history.best().or_else(|| self.history.nearest());
        known.map_or_else(|| self.search.space.middle(), |entry| entry.index)
    }

    fn next_round(&mut self) {
        if (self.interrupted)() {
            return self.end(End::Interrupted);
        }
        if self.round > 0 {
            let best = self.history.best_score();
            let better = match (best, self.mark) {
                (Some(best), Some(mark)) => best > mark + IMPROVEMENT * mark.abs(),
                (best, mark) => best.is_some() && mark.is_none(),
            };
            self.stale = if better { 0 } else { self.stale + 1 };
            if self.stale >= PLATEAU && self.history.best().is_some() {
                return self.end(End::Plateau);
            }
        }
        self.mark = self.history.best_score();
        self.round += 1;
        let completion = match self.converse() {
            Ok(completion) => completion,
            Err(end) => return self.end(end),
        };
        let mut reply = self.understood(&completion);
        let fresh: Vec<_> = std::mem::take(&mut reply.candidates);
        let before = self.pending.len();
        for candidate in &fresh {
            if let Some(known) = self.history.of(candidate.index) {
                reply.errors.push(format!("Tried before: {}.", known.settings));
            } else {
                self.pending.push_back((candidate.index, Expected { seeded: false, value: candidate.expects }));
            }
        }
        self.transcript.write(
            "round",
            json!({
                "round": self.round,
                "rationale": reply.rationale,
                "candidates": fresh.iter().map(|c| json!({
                    "settings": settings(self.search, c.index), "why": c.why, "expects": c.expects,
                })).collect::<Vec<_>>(),
                "errors": reply.errors,
            }),
        );
        if self.pending.len() > before {
            self.barren = 0;
        } else if reply.done {
            return self.end(End::Done);
        } else {
            self.barren += 1;
            if self.barren >= BARREN {
                let last = reply.errors.last().cloned().unwrap_or_else(|| "no candidates".to_string());
                return self.end(End::Barren(last.trim_end_matches('.').to_string()));
            }
        }
        self.errors = reply.errors;
    }

    fn understood(&self, completion: &Completion) -> Reply {
        match &completion.refusal {
            Some(refusal) if completion.text.trim().is_empty() => {
                let refusal: String = refusal.chars().take(200).collect();
                let error =
                    format!("You refused (\"{refusal}\"). This is arithmetic on a simulator: answer with candidates.");
                Reply { errors: vec![error], ..Reply::default() }
            }
            _ => reply::read(&completion.text, self.search.space, self.base()),
        }
    }

    /// One round's exchange, its tool calls included.
    fn converse(&mut self) -> Result<Completion, End> {
        let mut messages = self.opening();
        let mut turns = 0;
        loop {
            let completion = match self.call(&messages, turns < TOOL_TURNS)? {
                Some(completion) => completion,
                None => {
                    messages = self.opening();
                    continue;
                }
            };
            if completion.tool_calls.is_empty() || turns >= TOOL_TURNS {
                return Ok(completion);
            }
            turns += 1;
            let calls: Vec<_> = completion.tool_calls.iter().take(CALLS_A_TURN).collect();
            let told = calls.iter().map(|call| {
                json!({
                    "id": call.id, "type": "function",
                    "function": { "name": call.name, "arguments": call.arguments },
                })
            });
            messages.push(json!({
                "role": "assistant", "content": completion.text, "tool_calls": told.collect::<Vec<_>>(),
            }));
            for call in calls {
                let answer = self.look_up(&call.name, &call.arguments);
                messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": answer }));
            }
            if turns == TOOL_TURNS {
                messages.push(json!({ "role": "user", "content": "No more tools. Give the candidates now." }));
            }
        }
    }

    fn opening(&self) -> Vec<Value> {
        let told = prompt::round(&self.history, &self.errors, self.round, self.lines);
        vec![json!({ "role": "system", "content": self.system }), json!({ "role": "user", "content": told })]
    }

    fn look_up(&mut self, name: &str, arguments: &str) -> String {
        match tools::understand(name, arguments, self.search.space, &self.history, self.base()) {
            Asked::Told(text) => text,
            Asked::Point(index, explain) => {
                let known = self.history.of(index).is_some();
                let line = self.note(index, By::Tool, None);
                if !known {
                    // The search counts and keeps it like any other point.
                    self.pending.push_back((index, Expected { seeded: false, value: None }));
                }
                if explain { format!("{line}\n{}", self.details(index)) } else { line }
            }
        }
    }

    fn details(&self, index: u64) -> String {
        let evaluation = match self.history.of(index).map(|entry| &entry.verdict) {
            Some(Verdict::Feasible(found)) => &found.evaluation,
            Some(Verdict::Rejected(_, rejected)) => match &rejected.why {
                crate::search::Why::Missed(_, evaluation) => evaluation.as_ref(),
                _ => return "It does not run, so there are no figures.".to_string(),
            },
            None => return String::new(),
        };
        let m = &evaluation.metrics;
        let figures = crate::objective::Metric::ALL
            .iter()
            .filter_map(|metric| Some(format!("{metric} {}", metric.show(metric.of(m)?))));
        let parts = evaluation.breakdown.parts().map(|(part, ms)| format!("{part} {ms:.3}"));
        format!(
            "{}; requests running {:.0}. TPOT in ms: {}.",
            figures.collect::<Vec<_>>().join(", "),
            m.running,
            parts.join(", ")
        )
    }

    /// One call, repeated while that may help; `None` where the request must be made shorter first.
    fn call(&mut self, messages: &[Value], with_tools: bool) -> Result<Option<Completion>, End> {
        let manner = Manner {
            lines: self.lines,
            // A model that answers alike must be moved to answer otherwise.
            temperature: if self.barren == 0 { 0.0 } else { 0.7 },
            seed: self.seed + self.round as u64,
            most_written: MOST_WRITTEN,
        };
        let mut request = prompt::request(&self.model, messages, self.search.space, manner);
        if !with_tools {
            request["tool_choice"] = json!("none");
        }
        let mut repeats = 0;
        loop {
            if (self.interrupted)() {
                return Err(End::Interrupted);
            }
            if let Some(spent) = self.budget.exhausted(&request, MOST_WRITTEN) {
                return Err(End::Budget(spent));
            }
            let number = self.budget.spent.calls + 1;
            self.transcript.write("request", json!({ "number": number, "body": request }));
            let fault = match self.channel.complete(&request) {
                Ok(completion) => {
                    self.budget.count(&request, &completion);
                    self.transcript.write("reply", json!({ "number": number, "reply": completion }));
                    return Ok(Some(completion));
                }
                Err(fault) => fault,
            };
            if fault.kind == FaultKind::Exhausted {
                return Err(End::Exhausted);
            }
            self.budget.count_fault();
            self.transcript.write("fault", json!({ "number": number, "fault": fault }));
            let message = fault.message.clone();
            match (fault.kind, fault.again_after_s) {
                (FaultKind::Interrupted, _) => return Err(End::Interrupted),
                (FaultKind::TooLong, _) if self.lines > 1 => {
                    self.lines /= 2;
                    return Ok(None);
                }
                (FaultKind::Unsupported, Some(_)) => continue,
                (FaultKind::Refused | FaultKind::TooLong, _) => return Err(End::Refused(message)),
                (_, None) => return Err(End::Unreachable(message)),
                (_, Some(least)) => {
                    repeats += 1;
                    if repeats >= REPEATS {
                        return Err(End::Unreachable(format!("{message}, {repeats} times")));
                    }
                    self.wait(Duration::from_secs_f64(least).max(FIRST_WAIT * 2u32.pow(repeats - 1)));
                }
            }
        }
    }

    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.channel.waits() && Instant::now() < until && !(self.interrupted)() {
            std::thread::sleep(Duration::from_millis(50).min(until - Instant::now().min(until)));
        }
    }

    fn end(&mut self, end: End) {
        self.transcript.write("end", json!({ "why": end, "spent": self.budget.spent }));
        self.ended = Some(end);
    }
}

/// `tp=4 concurrency=64`: the knobs that vary, as a point sets them.
fn settings<E: Evaluator>(search: &Search<'_, E>, index: u64) -> String {
    search.space.settings(index).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
