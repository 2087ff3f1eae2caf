//! The event loop: requests arrive at a router, engines step, answers call for the next requests.
//!
//! Everything happens in one loop on one clock, so routers see the state their decisions caused.

use super::clock::{Agenda, Class, Time};
use super::load::{Arrivals, Incoming, LoadGenerator};
use super::replica::{Launch, Replica, RunSink, StepRecord};
use super::request_log::{Live, RequestLog, RequestRecord};
use super::router::Router;
use super::scenario::Scenario;
use super::step_time::{FirstToken, StepTime};
use crate::serve::scheduler::{DraftCheck, NewRequest, Outcome, Plan, RowKind, Unservable, Waste};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

enum Event {
    /// A request arrives; `streamed` ones are followed by the next of the stream.
    Arrive {
        incoming: Box<Incoming>,
        streamed: bool,
    },
    /// A replica's activity ends.
    End {
        replica: usize,
        epoch: u64,
    },
    /// A replica looks for work.
    Wake {
        replica: usize,
    },
    /// KV has arrived at the decode side.
    Transferred {
        live: u32,
    },
    /// The last token has reached the client.
    Delivered {
        live: u32,
    },
    /// A replica goes or comes.
    Down {
        replica: usize,
    },
    Up {
        replica: usize,
    },
}

/// Who watches a run as it happens.
pub trait Observer {
    /// A request was answered.
    fn request(&mut self, record: &RequestRecord) {
        let _ = record;
    }
    /// A step was launched (runs of steps are not reported: ask for single steps).
    fn step(&mut self, record: &StepRecord) {
        let _ = record;
    }
}

/// Nobody watches.
pub struct Unobserved;

impl Observer for Unobserved {}

/// A run in progress, and what is left of it at the end.
pub struct Fleet<'a> {
    pub(super) scenario: &'a Scenario,
    /// The engines.
    pub replicas: Vec<Replica>,
    /// What was observed.
    pub log: RequestLog,
    /// The run reached its limit of steps.
    pub limit_reached: bool,
    /// Tokens that did not last, in engines that failed.
    pub lost: Waste,
    pub(super) lives: Vec<Live>,
    vacant: Vec<u32>,
    pub(super) in_flight: Vec<u32>,
    agenda: Agenda<Event>,
    load: LoadGenerator,
    router: Router,
    step_time: Box<dyn StepTime>,
    pub(super) held: VecDeque<u32>,
    link_free: Vec<Time>,
    drafts: Pcg64Mcg,
    keep_content: bool,
    /// Requests of a closed loop that arrive at once at the start.
    first_wave: u32,
    outcome: Outcome,
}

impl<'a> Fleet<'a> {
    /// Sets up a run of a valid scenario.
    pub fn new(scenario: &'a Scenario, step_time: Box<dyn StepTime>) -> Self {
        let count = scenario.replicas as usize;
        let seed = scenario.load.seed;
        let replica = |_| Replica::new(scenario.engine.build(), scenario.one_by_one, scenario.host_seconds_per_token);
        let measured = (scenario.warmup_requests, scenario.load.requests - scenario.drain_requests);
        Self {
            replicas: (0..count).map(replica).collect(),
            log: RequestLog::measuring(measured.0, measured.1),
            limit_reached: false,
            lost: Waste::default(),
            lives: Vec::new(),
            vacant: Vec::new(),
            in_flight: vec![0; count],
            agenda: Agenda::default(),
            load: LoadGenerator::new(scenario.load.clone()),
            router: Router::new(scenario.router, scenario.engine.block_size(), seed),
            step_time,
            held: VecDeque::new(),
            link_free: vec![Time(0); count],
            drafts: Pcg64Mcg::seed_from_u64(seed ^ 0xd2af),
            keep_content: scenario.disaggregation.is_some() || !scenario.outages.is_empty(),
            first_wave: match scenario.load.arrivals {
                Arrivals::Closed { clients, .. } => clients,
                _ => 0,
            },
            outcome: Outcome::default(),
            scenario,
        }
    }

    /// Runs to the end.
    pub fn run(&mut self, observer: &mut dyn Observer) {
        for outage in &self.scenario.outages {
            let replica = outage.replica as usize;
            self.agenda.push(Time::from_seconds(outage.from_s), Class::End, Event::Down { replica });
            if let Some(until) = outage.until_s {
                self.agenda.push(Time::from_seconds(until), Class::End, Event::Up { replica });
            }
        }
        self.stream_next();
        let mut now = Time(0);
        let mut events = 0u64;
        while let Some((at, event)) = self.agenda.pop() {
            now = at;
            match event {
                Event::Arrive { incoming, streamed } => {
                    self.accept(*incoming, now);
                    if streamed {
                        self.stream_next();
                    }
                }
                Event::End { replica, epoch } if self.replicas[replica].epoch == epoch => {
                    self.end_activity(replica, now, observer);
                    if self.agenda.has_earlier_than_wake(now) {
                        self.wake(replica, now);
                    } else {
                        self.launch(replica, now, observer);
                    }
                }
                Event::End { .. } => {}
                Event::Wake { replica } => {
                    self.replicas[replica].wake_pending = false;
                    if self.replicas[replica].is_idle() && self.replicas[replica].up {
                        self.launch(replica, now, observer);
                    }
                }
                Event::Transferred { live } => self.start_decode(live, now),
                Event::Delivered { live } => self.depart(live, now, true, observer),
                Event::Down { replica } => self.fail(replica, now),
                Event::Up { replica } => self.recover(replica, now),
            }
            events += 1;
            if events.is_multiple_of(1024) && self.steps() > self.scenario.max_steps {
                self.limit_reached = true;
                break;
            }
        }
        self.give_up_rest(now);
    }

    fn steps(&self) -> u64 {
        self.replicas.iter().map(|r| r.sums.steps).sum()
    }

    fn stream_next(&mut self) {
        if let Some(incoming) = self.load.next_arrival() {
            let at = incoming.at;
            self.agenda.push(at, Class::Arrival, Event::Arrive { incoming: Box::new(incoming), streamed: true });
        }
    }

    pub(super) fn front_pool(&self) -> std::ops::Range<usize> {
        0..self.scenario.disaggregation.map_or(self.replicas.len(), |d| d.prefill_replicas as usize)
    }

    fn accept(&mut self, incoming: Incoming, now: Time) {
        self.log.sent += 1;
        self.log.last_arrival = now;
        self.log.finished_at_last_arrival = self.log.finished;
        let scheduler = &self.replicas[0].scheduler;
        let verdict = scheduler.admissible(incoming.prompt_len, incoming.output_len);
        let seats = u64::from(scheduler.sequence_limit()) * self.front_pool().len() as u64;
        let full = self.scenario.queue_limit.is_some_and(|limit| self.log.present() >= seats + u64::from(limit));
        let refusals = &mut self.log.refusals;
        match verdict {
            Err(Unservable::TooLong) => refusals.too_long += 1,
            Err(Unservable::TooBigForCache) => refusals.too_big_for_cache += 1,
            Err(Unservable::TooBigForStep) => refusals.too_big_for_step += 1,
            Ok(()) if full => refusals.queue_full += 1,
            Ok(()) => {
                self.log.enter(now);
                let live = Live {
                    number: incoming.number,
                    client: incoming.client,
                    prompt_len: incoming.prompt_len,
                    output_len: incoming.output_len,
                    priority: incoming.priority,
                    arrival: now,
                    content: Some(incoming.content),
                    ..Live::default()
                };
                let index = match self.vacant.pop() {
                    Some(index) => {
                        self.lives[index as usize] = live;
                        index
                    }
                    None => {
                        self.lives.push(live);
                        self.lives.len() as u32 - 1
                    }
                };
                self.route(index, now);
                return;
            }
        }
        self.follow_up(incoming.client, 0, false, now);
    }

    fn follow_up(&mut self, client: u64, output_len: u32, answered: bool, now: Time) {
        if let Some(incoming) = self.load.answered(client, output_len, answered, now) {
            let at = incoming.at;
            self.agenda.push(at, Class::Arrival, Event::Arrive { incoming: Box::new(incoming), streamed: false });
        }
    }

    pub(super) fn route(&mut self, index: u32, now: Time) {
        if self.router.looks_at_blocks() {
            for replica in self.front_pool() {
                self.cut(replica, now, false);
            }
        }
        let pool = self.front_pool();
        let live = &self.lives[index as usize];
        let empty = Default::default();
        let content = live.content.as_ref().unwrap_or(&empty);
        match self.router.pick(&self.replicas, pool, &self.in_flight, content, live.prompt_len) {
            Some(replica) => self.deliver(index, replica, now),
            None => self.held.push_back(index),
        }
    }

    pub(super) fn deliver(&mut self, index: u32, replica: usize, now: Time) {
        self.cut(replica, now, false);
        let live = &mut self.lives[index as usize];
        let mut content = if self.keep_content { live.content.clone() } else { live.content.take() };
        if let (Some(content), true) = (&mut content, self.keep_content) {
            content.unshared = false; // it may come back to an engine that knows it
        }
        let split = self.scenario.disaggregation.is_some();
        let decoding = split && live.outputs > 0;
        live.in_prefill = split && !decoding;
        live.replica = replica;
        let new = NewRequest {
            tag: u64::from(index),
            prompt_len: live.prompt_len,
            max_tokens: if live.in_prefill { 1 } else { live.output_len },
            priority: live.priority,
            arrival: live.arrival.seconds(),
            tie: live.number,
            content: content.unwrap_or_default(),
            outputs: live.outputs,
            external: if decoding { live.prompt_len } else { 0 },
            ..NewRequest::default()
        };
        live.slot = self.replicas[replica].scheduler.add(new);
        self.in_flight[replica] += 1;
        if self.replicas[replica].is_idle() {
            self.wake(replica, now);
        }
    }

    fn wake(&mut self, replica: usize, now: Time) {
        if !std::mem::replace(&mut self.replicas[replica].wake_pending, true) {
            self.agenda.push(now, Class::Wake, Event::Wake { replica });
        }
    }

    /// Ends a run of steps at the one that is executing now; if the replica dies, without that one.
    pub(super) fn cut(&mut self, replica: usize, now: Time, dies: bool) {
        let lives = &mut self.lives;
        let mut tokens = |tag: u64, count: u32, at: Time| {
            let live = &mut lives[tag as usize];
            live.outputs += count;
            live.last_token = at;
        };
        let mut sink = RunSink { gaps: &mut self.log.gaps, tokens: &mut tokens };
        let engine = &mut self.replicas[replica];
        if dies {
            engine.break_off(now, &mut sink);
        } else if let Some(end) = engine.cut(now, &mut sink) {
            self.agenda.push(end, Class::End, Event::End { replica, epoch: engine.epoch });
        }
    }

    fn launch(&mut self, replica: usize, now: Time, observer: &mut dyn Observer) {
        loop {
            let lives = &mut self.lives;
            let mut on_scheduled = |plan: &Plan| {
                for tag in &plan.preempted {
                    lives[*tag as usize].preemptions += 1;
                }
                for row in plan.rows.iter().filter(|row| row.kind != RowKind::Running) {
                    let live = &mut lives[row.tag as usize];
                    if live.admitted.is_none() {
                        live.admitted = Some(now);
                        live.hit_tokens = row.hit;
                    }
                }
            };
            let engine = &mut self.replicas[replica];
            match engine.launch(now, &mut *self.step_time, &mut on_scheduled) {
                Launch::Until(end) => {
                    self.agenda.push(end, Class::End, Event::End { replica, epoch: engine.epoch });
                    if self.scenario.one_by_one {
                        observer.step(&StepRecord { replica: replica as u32, ..engine.last_step() });
                    }
                    return;
                }
                Launch::Idle => return,
                Launch::Blocked => {
                    let Some((slot, tag)) = engine.scheduler.blocked() else { return };
                    engine.scheduler.abort(slot);
                    self.in_flight[replica] -= 1;
                    self.log.refusals.dropped += 1;
                    self.depart(tag as u32, now, false, observer);
                }
            }
        }
    }

    fn end_activity(&mut self, replica: usize, now: Time, observer: &mut dyn Observer) {
        let mut outcome = std::mem::take(&mut self.outcome);
        let (chance, random) = (self.scenario.draft_acceptance, &mut self.drafts);
        let mut accepted =
            |check: DraftCheck| (0..check.drafts).take_while(|_| random.random::<f64>() < chance).count() as u32;
        let lives = &mut self.lives;
        let mut tokens = |tag: u64, count: u32, at: Time| {
            let live = &mut lives[tag as usize];
            live.outputs += count;
            live.last_token = at;
        };
        let mut sink = RunSink { gaps: &mut self.log.gaps, tokens: &mut tokens };
        self.replicas[replica].complete(&mut accepted, &mut outcome, &mut sink);
        for (tag, count) in &outcome.emitted {
            let live = &mut self.lives[*tag as usize];
            if live.outputs == 0 {
                live.first_token = now;
                let wave = u64::from(self.first_wave);
                let first = FirstToken {
                    computed: live.prompt_len.saturating_sub(live.hit_tokens),
                    cached: live.hit_tokens,
                    running: self.replicas[replica].decoding(),
                    wave_place: (live.number < wave).then_some(live.number as u32),
                    engine_s: now.since(live.arrival).seconds(),
                };
                live.outside = Time::from_seconds(self.step_time.outside(&first));
            } else {
                self.log.gaps.add(now.since(live.last_token), 1);
            }
            live.outputs += count;
            live.last_token = now;
        }
        for (tag, _) in &outcome.finished {
            self.in_flight[replica] -= 1;
            self.finish(*tag as u32, now, observer);
        }
        if !outcome.finished.is_empty() {
            self.serve_held(now);
        }
        self.outcome = outcome;
    }

    fn finish(&mut self, index: u32, now: Time, observer: &mut dyn Observer) {
        let live = &self.lives[index as usize];
        self.log.lasting_tokens += u64::from(live.prompt_len) + u64::from(live.outputs) - 1;
        match self.scenario.disaggregation {
            Some(split) if live.in_prefill && live.outputs < live.output_len => {
                let link = &mut self.link_free[live.replica];
                let bytes = f64::from(live.prompt_len) * split.kv_bytes_per_token;
                let sent = (*link).max(now).after(Time::from_seconds(bytes / split.link_bytes_per_s));
                *link = sent;
                let arrives = sent.after(Time::from_seconds(split.latency_s));
                self.agenda.push(arrives, Class::End, Event::Transferred { live: index });
            }
            _ if live.outside == Time(0) => self.depart(index, now, true, observer),
            _ => {
                let at = now.after(live.outside);
                self.lives[index as usize].leaving = true;
                self.agenda.push(at, Class::End, Event::Delivered { live: index });
            }
        }
    }

    /// A request leaves the system, answered or not.
    fn depart(&mut self, index: u32, now: Time, answered: bool, observer: &mut dyn Observer) {
        let live = std::mem::take(&mut self.lives[index as usize]);
        if let Some(record) = self.log.leave(&live, now, answered) {
            observer.request(&record);
        }
        self.vacant.push(index);
        self.follow_up(live.client, live.outputs, answered, now);
    }
}
