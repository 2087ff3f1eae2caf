//! One engine on the virtual clock: launches steps, takes their results, and takes runs of equal steps at once.

use super::clock::Time;
use super::histogram::DurationHistogram;
use super::step_time::{DecodeLine, PrefillChunk, StepBatch, StepTime};
use crate::serve::scheduler::{DecodeRun, DraftCheck, Outcome, Plan, Scheduler};

/// What an engine is doing.
#[derive(Debug)]
enum Activity {
    Idle,
    /// One step is executing.
    Step,
    /// A run of equal decode steps; not yet applied to the scheduler.
    Run {
        start: Time,
        line: PsLine,
        run: DecodeRun,
    },
    /// The same, applied: only its end is awaited.
    CutRun,
}

/// A decode line in whole picoseconds.
#[derive(Debug, Clone, Copy)]
struct PsLine {
    base: u64,
    slope: u64,
}

impl PsLine {
    fn new(line: DecodeLine) -> Self {
        Self { base: Time::from_seconds(line.base_s).0.max(1), slope: Time::from_seconds(line.per_context_token_s).0 }
    }

    fn one(self, context: u64) -> u64 {
        self.base.saturating_add(self.slope.saturating_mul(context))
    }

    /// Time of the first `steps` steps of a run.
    fn span(self, run: &DecodeRun, steps: u32) -> Time {
        let m = u128::from(steps);
        let pairs = m * (m.max(1) - 1) / 2;
        let contexts = m * u128::from(run.context) + u128::from(run.sequences) * pairs;
        let total = m * u128::from(self.base) + u128::from(self.slope) * contexts;
        Time(u64::try_from(total).unwrap_or(u64::MAX))
    }
}

/// Sums over a replica's life.
#[derive(Debug, Clone, Default)]
pub struct ReplicaSums {
    /// Steps executed.
    pub steps: u64,
    /// Time spent in steps.
    pub busy: Time,
    /// Tokens of prefill and recomputation.
    pub prefill_tokens: u64,
    /// Tokens of decodes, drafts included.
    pub decode_tokens: u64,
    /// Tokens found in the prefix cache at admissions.
    pub hit_tokens: u64,
    /// Tokens loaded from another engine or tier.
    pub loaded_tokens: u64,
    /// Tokens that admissions asked the prefix cache for: those already known.
    pub looked_up_tokens: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Requests served to the end.
    pub finished: u64,
    /// Sequences in a step, times its duration in seconds.
    pub sequence_seconds: f64,
    /// Blocks in use during a step, times its duration in seconds.
    pub block_seconds: f64,
    /// Most sequences in one step.
    pub most_sequences: u32,
    /// Most blocks in use.
    pub most_blocks: u32,
    /// Steps that carried prefill.
    pub prefill_steps: u64,
}

/// One step, for a record file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRecord {
    /// Which engine.
    pub replica: u32,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Decoding sequences.
    pub decode_sequences: u32,
    /// Tokens they attend to.
    pub decode_context: u64,
    /// Prefill chunks.
    pub prefill_chunks: u32,
    /// Their tokens.
    pub prefill_tokens: u64,
    /// Requests preempted when the step was scheduled.
    pub preempted: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// KV blocks in use.
    pub used_blocks: u32,
}

/// How a launch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// Something ends at this time.
    Until(Time),
    /// Nobody is there to serve.
    Idle,
    /// Somebody is there, but nothing can ever be scheduled.
    Blocked,
}

/// One engine of the fleet.
#[derive(Debug)]
pub struct Replica {
    /// Its scheduler.
    pub scheduler: Box<dyn Scheduler>,
    /// It accepts requests.
    pub up: bool,
    /// Distinguishes the present activity's end from ends that no longer count.
    pub epoch: u64,
    /// A wake-up is on the agenda.
    pub wake_pending: bool,
    /// Sums over its life.
    pub sums: ReplicaSums,
    activity: Activity,
    /// The step executing, and with async scheduling the one after it.
    current: Plan,
    next: Plan,
    next_ready: bool,
    current_preempted: u32,
    batch: StepBatch,
    one_by_one: bool,
    host_seconds_per_token: f64,
    last_step: StepRecord,
}

impl Replica {
    /// An idle engine; `one_by_one` forbids taking runs of steps at once. A step takes `host_seconds_per_token` more
    /// for every token whose KV it copies in from the host tier.
    pub fn new(scheduler: Box<dyn Scheduler>, one_by_one: bool, host_seconds_per_token: f64) -> Self {
        let nothing = StepRecord {
            replica: 0,
            start: Time(0),
            end: Time(0),
            decode_sequences: 0,
            decode_context: 0,
            prefill_chunks: 0,
            prefill_tokens: 0,
            preempted: 0,
            waiting: 0,
            used_blocks: 0,
        };
        Self {
            scheduler,
            up: true,
            epoch: 0,
            wake_pending: false,
            sums: ReplicaSums::default(),
            activity: Activity::Idle,
            current: Plan::default(),
            next: Plan::default(),
            next_ready: false,
            current_preempted: 0,
            batch: StepBatch::default(),
            one_by_one,
            host_seconds_per_token,
            last_step: nothing,
        }
    }

    /// Nothing is executing.
    pub fn is_idle(&self) -> bool {
        matches!(self.activity, Activity::Idle)
    }

    /// Sequences that decode in the step last launched, or are held back for it.
    pub fn decoding(&self) -> u32 {
        self.batch.decode_sequences + self.batch.held_sequences
    }

    /// The step last launched (not the last of a run).
    pub fn last_step(&self) -> StepRecord {
        self.last_step
    }

    /// Starts whatever comes next. `on_row` sees every row when its step is scheduled, `on_preempted` every victim.
    pub fn launch(&mut self, now: Time, step_time: &mut dyn StepTime, on_scheduled: &mut dyn FnMut(&Plan)) -> Launch {
        debug_assert!(self.is_idle());
        if let Some(end) = self.start_run(now, step_time) {
            return Launch::Until(end);
        }
        if self.next_ready {
            std::mem::swap(&mut self.current, &mut self.next);
            self.next_ready = false;
        } else {
            if self.scheduler.is_empty() {
                return Launch::Idle;
            }
            self.scheduler.schedule(&mut self.current);
            on_scheduled(&self.current);
            self.count_scheduled(false);
            if self.current.rows.is_empty() {
                return Launch::Blocked;
            }
        }
        self.describe();
        let span = self.duration(step_time);
        let end = now.after(span);
        self.count_step(now, end);
        self.activity = Activity::Step;
        self.epoch += 1;
        if self.scheduler.steps_in_flight() > 1 && !self.scheduler.is_empty() {
            self.scheduler.schedule(&mut self.next);
            on_scheduled(&self.next);
            self.count_scheduled(true);
            self.next_ready = !self.next.rows.is_empty();
        }
        Launch::Until(end)
    }

    fn start_run(&mut self, now: Time, step_time: &mut dyn StepTime) -> Option<Time> {
        let two_in_flight = self.scheduler.steps_in_flight() > 1;
        if self.one_by_one || two_in_flight && !self.next_ready {
            return None;
        }
        let mut run = self.scheduler.decode_run()?;
        let line = step_time.decode_line(run.sequences, run.context)?;
        if line.up_to_context <= run.context {
            return None;
        }
        let valid = (line.up_to_context - run.context) / u64::from(run.sequences);
        run.steps = run.steps.min(u32::try_from(valid).unwrap_or(u32::MAX));
        if run.steps < 2 {
            return None;
        }
        let line = PsLine::new(line);
        self.activity = Activity::Run { start: now, line, run };
        self.epoch += 1;
        Some(now.after(line.span(&run, run.steps)))
    }

    /// Ends a run after the step that is executing at `now`, so that the scheduler's state is that moment's. Gives
    /// the end of that step, where the run is cut.
    pub fn cut(&mut self, now: Time, emitted: &mut RunSink<'_>) -> Option<Time> {
        self.cut_run(now, emitted, false)
    }

    /// The engine dies at `now`: as [`cut`](Self::cut), but the step that is executing gives no tokens.
    pub fn break_off(&mut self, now: Time, emitted: &mut RunSink<'_>) {
        self.cut_run(now, emitted, true);
    }

    fn cut_run(&mut self, now: Time, emitted: &mut RunSink<'_>, loses_last: bool) -> Option<Time> {
        let Activity::Run { start, line, run } = &self.activity else { return None };
        let (start, line, run) = (*start, *line, *run);
        // The fewest steps that reach `now`: those that started before it.
        let passed = now.since(start);
        let (mut few, mut enough) = (0, run.steps);
        while enough - few > 0 {
            let middle = few + (enough - few) / 2;
            if line.span(&run, middle) >= passed { enough = middle } else { few = middle + 1 }
        }
        self.take_run(start, line, DecodeRun { steps: enough, ..run }, u32::from(loses_last), emitted);
        self.activity = Activity::CutRun;
        self.epoch += 1;
        Some(start.after(line.span(&run, enough)))
    }

    /// The activity ends: gives tokens and finished requests in `outcome`, or a run to `emitted`.
    pub fn complete(
        &mut self,
        accepted: &mut dyn FnMut(DraftCheck) -> u32,
        outcome: &mut Outcome,
        emitted: &mut RunSink<'_>,
    ) {
        outcome.emitted.clear();
        outcome.finished.clear();
        match std::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Idle | Activity::CutRun => {}
            Activity::Step => {
                self.scheduler.update(&self.current, accepted, outcome);
                self.sums.finished += outcome.finished.len() as u64;
            }
            Activity::Run { start, line, run } => self.take_run(start, line, run, 0, emitted),
        }
    }

    fn take_run(&mut self, start: Time, line: PsLine, run: DecodeRun, lost: u32, emitted: &mut RunSink<'_>) {
        if run.steps == 0 {
            return;
        }
        let before = self.scheduler.load();
        self.scheduler.advance(run.steps);
        let after = self.scheduler.load();
        let rows = if self.next_ready { &mut self.next.rows } else { &mut self.current.rows };
        for row in rows {
            row.computed_before += run.steps;
        }
        let span = line.span(&run, run.steps);
        let mut context = run.context;
        for _ in 0..run.steps.saturating_sub(lost) {
            emitted.gaps.add(Time(line.one(context)), u64::from(run.sequences));
            context += u64::from(run.sequences);
        }
        let sums = &mut self.sums;
        sums.steps += u64::from(run.steps);
        sums.busy = sums.busy.after(span);
        sums.decode_tokens += u64::from(run.steps) * u64::from(run.sequences);
        sums.sequence_seconds += f64::from(run.sequences) * span.seconds();
        let used = |free: u32| f64::from(before.usable_blocks - free);
        sums.block_seconds += (used(before.free_blocks) + used(after.free_blocks)) / 2.0 * span.seconds();
        sums.most_blocks = sums.most_blocks.max(after.usable_blocks - after.free_blocks);
        let rows = if self.next_ready { &self.next.rows } else { &self.current.rows };
        let end = start.after(span);
        rows.iter().for_each(|row| (emitted.tokens)(row.tag, run.steps, end));
    }

    /// The engine dies: everything in it is lost.
    pub fn kill(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.activity = Activity::Idle;
        self.next_ready = false;
        self.epoch += 1;
        self.up = false;
    }

    fn count_scheduled(&mut self, ahead: bool) {
        let plan = if ahead { &self.next } else { &self.current };
        self.current_preempted = plan.preempted.len() as u32;
        self.sums.preemptions += plan.preempted.len() as u64;
        for row in &plan.rows {
            if row.decode {
                self.sums.decode_tokens += u64::from(row.tokens);
            } else {
                self.sums.prefill_tokens += u64::from(row.tokens);
                self.sums.hit_tokens += u64::from(row.hit);
                self.sums.loaded_tokens += u64::from(row.loaded);
            }
        }
    }

    /// Fills `batch` from the step about to run.
    fn describe(&mut self) {
        let batch = &mut self.batch;
        batch.clear();
        let present = self.current.rows.len() as u32;
        batch.held_sequences = self.scheduler.load().running.saturating_sub(present);
        for row in &self.current.rows {
            if row.decode {
                batch.decode_sequences += 1;
                batch.decode_tokens += row.tokens;
                batch.decode_context += u64::from(row.computed_before) + u64::from(row.tokens);
            } else {
                batch.prefill_tokens += u64::from(row.tokens);
                batch.loaded_tokens += u64::from(row.from_host);
                batch.prefill.push(PrefillChunk {
                    tokens: row.tokens,
                    context: row.computed_before,
                    samples: row.samples,
                });
            }
        }
    }

    fn duration(&mut self, step_time: &mut dyn StepTime) -> Time {
        let batch = &self.batch;
        // Pure decode steps take the line where there is one, so that single steps and runs agree to the picosecond.
        let plain = batch.prefill.is_empty() && batch.decode_tokens == batch.decode_sequences;
        let line = if plain { step_time.decode_line(batch.decode_sequences, batch.decode_context) } else { None };
        match line.filter(|line| batch.decode_context <= line.up_to_context) {
            Some(line) => Time(PsLine::new(line).one(batch.decode_context)),
            None => {
                let copied = batch.loaded_tokens as f64 * self.host_seconds_per_token;
                Time(Time::from_seconds(step_time.seconds(batch) + copied).0.max(1))
            }
        }
    }

    fn count_step(&mut self, start: Time, end: Time) {
        let load = self.scheduler.load();
        let used = load.usable_blocks - load.free_blocks;
        let sequences = self.batch.sequences();
        let seconds = end.since(start).seconds();
        let sums = &mut self.sums;
        sums.steps += 1;
        sums.busy = sums.busy.after(end.since(start));
        sums.sequence_seconds += f64::from(sequences) * seconds;
        sums.block_seconds += f64::from(used) * seconds;
        sums.most_sequences = sums.most_sequences.max(sequences);
        sums.most_blocks = sums.most_blocks.max(used);
        sums.prefill_steps += u64::from(!self.batch.prefill.is_empty());
        self.last_step = StepRecord {
            replica: 0,
            start,
            end,
            decode_sequences: self.batch.decode_sequences,
            decode_context: self.batch.decode_context,
            prefill_chunks: self.batch.prefill.len() as u32,
            prefill_tokens: self.batch.prefill_tokens,
            preempted: self.current_preempted,
            waiting: load.waiting,
            used_blocks: used,
        };
    }
}

/// Where the tokens of a run go.
pub struct RunSink<'a> {
    /// Gaps between tokens.
    pub gaps: &'a mut DurationHistogram,
    /// Request, tokens appended, time of the last of them.
    pub tokens: &'a mut dyn FnMut(u64, u32, Time),
}
