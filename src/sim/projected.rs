//! How long does a step of a projected deployment take? The closed form's own step cost, applied to the exact
//! composition of each step.
//!
//! A step of an engine that decodes takes `k·(decode + interference·prefill + interference_fixed·fixed)`, one with
//! prompts alone `prefill + fixed`: terms and constants are those of [`crate::serve::closed_loop`], `k` is the correction of TPOT that
//! measured runs of the combination leave over. What the closed form says of TTFT beyond the engine's steps (front end,
//! steps of admission, the correction of TTFT) is time outside the engine.
//!
//! Pipeline stages hold equal shares of the running sequences, and a step stands for one round of all stages;
//! attention-DP groups step together.

use super::step_time::{DecodeLine, FirstToken, StepBatch, StepTime};
use crate::cost::{Constants, DecodeWork, OpTime, PrefillTime, PrefillWork, StepCost};
use crate::serve::CompiledDeployment;
use crate::serve::closed_loop::{Load, arrivals};
use std::collections::HashMap;
use std::sync::Arc;

/// Mean contexts between which decode time is taken as a line grow by this factor. The roofline's arms join smoothly,
/// so that a line misses the curve by less than 0.1 %.
const KNOT_RATIO: f64 = 1.125;
/// First knot beyond a context of 1, tokens.
const FIRST_KNOT: f64 = 32.0;
/// Beyond every context.
const LAST_KNOT: f64 = 1e8;
/// Tokens up to which a step with prompts runs as a captured graph, like a decode step, and so pays no floors again:
/// vLLM's largest `cudagraph_capture_sizes` by default.
const CAPTURED_TOKENS: f64 = 512.0;
/// Steps a request sees of an engine that decodes: half of the one it arrives in, and the one it shares.
const STEPS_SEEN: f64 = 1.5;

/// Step times of one instance of a deployment.
#[derive(Debug, Clone)]
pub struct ProjectedStep {
    compiled: Arc<CompiledDeployment>,
    load: Load,
    /// Clients per instance in a closed loop; in an open one corrections follow the running sequences.
    clients: Option<f64>,
    replicas: u32,
    knots: Arc<Vec<u32>>,
    lines: Vec<Vec<Option<DecodeLine>>>,
    factors: Vec<Option<(f64, f64)>>,
    solo: HashMap<(u32, u32, u32), PrefillTime>,
}

impl ProjectedStep {
    /// The step times of each of `replicas` instances of a compiled deployment under a closed loop of `clients` per
    /// instance, or another load.
    pub fn new(compiled: Arc<CompiledDeployment>, clients: Option<f64>, replicas: u32) -> Self {
        let mut knots = vec![1];
        let mut at = FIRST_KNOT;
        while at < LAST_KNOT {
            knots.push(at as u32);
            at *= KNOT_RATIO;
        }
        let plan = compiled.plan(1, 1);
        let load = compiled.load(1, &plan).load;
        Self {
            compiled,
            load,
            clients,
            replicas: replicas.max(1),
            knots: Arc::new(knots),
            lines: Vec::new(),
            factors: Vec::new(),
            solo: HashMap::new(),
        }
    }

    fn cost(&self) -> &StepCost {
        &self.compiled.step
    }

    fn constants(&self) -> &Constants {
        &self.compiled.step.constants
    }

    /// Corrections of TPOT and TTFT that measured runs leave over at a number of running sequences.
    fn factors(&mut self, sequences: u32) -> (f64, f64) {
        let at = if self.clients.is_some() { 0 } else { sequences as usize };
        if self.factors.len() <= at {
            self.factors.resize(at + 1, None);
        }
        if let Some(known) = self.factors[at] {
            return known;
        }
        let clients = self.clients.unwrap_or(f64::from(sequences.max(1)));
        let found = self.compiled.corrections(&Load { clients, ..self.load });
        self.factors[at] = Some(found);
        found
    }

    /// The work of a stage's decodes where `sequences` run in all, `queries` tokens each.
    fn decode_work(&self, sequences: u32, context: f64, queries: f64) -> DecodeWork {
        let cost = self.cost();
        cost.decode_work((f64::from(sequences) / cost.stages).max(1.0), context, queries)
    }

    /// A decode step and its least time by the datasheet, ms; drafting included, uncorrected.
    fn decode_ms(&self, work: &DecodeWork, queries: f64) -> f64 {
        let c = self.constants();
        work.time(c).total() * (1.0 + c.draft_cost * (queries - 1.0) / 3.0)
    }

    /// Correction of a step's time, never below the datasheet's.
    fn step_factor(&mut self, sequences: u32, work: &DecodeWork) -> f64 {
        let least = work.roof() / work.time(self.constants()).total();
        self.factors(sequences).0.max(least)
    }

    fn corrected_decode_s(&mut self, sequences: u32, context: f64) -> f64 {
        let work = self.decode_work(sequences, context, 1.0);
        self.step_factor(sequences, &work) * self.decode_ms(&work, 1.0) / 1e3
    }

    /// All prompts of a step as one piece of work on top of its decodes; attention prompt by prompt.
    fn prefill_work(&self, batch: &StepBatch, running: &DecodeWork, running_tokens: f64) -> PrefillWork {
        let cost = self.cost();
        if let [only] = batch.prefill[..] {
            let (new, prefix) = (f64::from(only.tokens), f64::from(only.context));
            return cost.prefill_work(new, prefix, running, running_tokens, f64::INFINITY);
        }
        let mut work = cost.prefill_work(batch.prefill_tokens as f64, 0.0, running, running_tokens, f64::INFINITY);
        let roofs = |ops: &[OpTime; 2]| ops[0].compute_roof + ops[1].compute_roof;
        let whole = roofs(&cost.prompt_attention(batch.prefill_tokens as f64, 0.0));
        let mut sum = [OpTime::default(); 2];
        for chunk in &batch.prefill {
            let [attention, index] = cost.prompt_attention(f64::from(chunk.tokens), f64::from(chunk.context));
            sum[0] += attention;
            sum[1] += index;
        }
        work.attention = sum[0].variable;
        work.index = sum[1].variable;
        work.roof += (roofs(&sum) - whole) / 1e3;
        work
    }

    /// Mean wait of a closed loop's prompts for each other, as measured runs have it, ms: the wait in the engine counts
    /// towards it.
    fn queued_ms(&self, clients: f64, sequences: u32, dt: f64) -> f64 {
        let running = clients.min(f64::from(sequences + 1));
        let load = Load { clients, running, ..self.load };
        let (arrivals, lock) = arrivals(&load);
        dt * (self.constants().queue_mean * arrivals.min(1.0) + running / 2.0 * lock)
    }

    /// Fixed part of a prefill step of so many tokens, ms.
    fn fixed_ms(&self, fixed: f64, tokens: f64) -> f64 {
        if tokens <= CAPTURED_TOKENS { fixed.min(self.constants().prefill_fixed_ms) } else { fixed }
    }

    /// Prefill of one prompt alone, and what it adds to the step of `sequences` decodes, ms.
    fn solo(&mut self, computed: u32, cached: u32, sequences: u32) -> PrefillTime {
        let key = (computed, cached, sequences);
        if let Some(known) = self.solo.get(&key) {
            return *known;
        }
        let cost = self.cost();
        let queries = 1.0 + self.load.draft_tokens;
        let running = self.decode_work(sequences, f64::from(computed + cached), queries);
        let tokens = f64::from(sequences) / cost.stages * queries;
        let (new, prefix) = (f64::from(computed), f64::from(cached));
        let time = cost.prefill_work(new, prefix, &running, tokens, f64::INFINITY).time(self.constants());
        if self.solo.len() < 1 << 16 {
            self.solo.insert(key, time);
        }
        time
    }
}

impl StepTime for ProjectedStep {
    fn seconds(&mut self, batch: &StepBatch) -> f64 {
        let sequences = batch.decode_sequences;
        let running = sequences + batch.held_sequences;
        let stages = self.cost().stages;
        let (mut decode_ms, mut factor) = (0.0, 1.0);
        let queries = (f64::from(batch.decode_tokens) / f64::from(sequences.max(1))).max(1.0);
        let context = batch.decode_context as f64 / f64::from(sequences.max(1));
        let work = self.decode_work(running, context.max(1.0), queries);
        if running > 0 {
            factor = self.step_factor(running, &work);
        }
        if sequences > 0 {
            decode_ms = self.decode_ms(&work, queries);
        }
        if batch.prefill.is_empty() {
            return factor * decode_ms / 1e3;
        }
        let running_tokens = f64::from(running) * queries / stages;
        let c = *self.constants();
        let prefill = self.prefill_work(batch, &work, running_tokens);
        let PrefillTime { increment, alone, fixed } = prefill.time(&c);
        let fixed = self.fixed_ms(fixed, batch.tokens() as f64);
        let prompts = batch.prefill.len() as f64;
        // n prompts pass S stages in (n + S − 1)/(n·S) of the time that one stage would need for all.
        let pipelined = (prompts + stages - 1.0) / (prompts * stages);
        let ms = if running > 0 {
            factor * (decode_ms + c.interference * increment / stages + c.interference_fixed * fixed)
        } else {
            alone * pipelined + fixed
        };
        ms / 1e3
    }

    fn decode_line(&mut self, sequences: u32, context: u64) -> Option<DecodeLine> {
        let count = u64::from(sequences);
        let mean = u32::try_from(context / count.max(1)).ok()?;
        let segment = self.knots.partition_point(|knot| *knot <= mean).checked_sub(1)?;
        let (from, to) = (*self.knots.get(segment)?, *self.knots.get(segment + 1)?);
        let row = sequences as usize;
        if self.lines.len() <= row {
            self.lines.resize(row + 1, Vec::new());
        }
        if self.lines[row].is_empty() {
            self.lines[row].resize(self.knots.len(), None);
        }
        if let Some(line) = self.lines[row][segment] {
            return Some(line);
        }
        let (early, late) =
            (self.corrected_decode_s(sequences, f64::from(from)), self.corrected_decode_s(sequences, f64::from(to)));
        let (first, last) = (u64::from(from) * count, u64::from(to) * count);
        let per_context_token_s = ((late - early) / (last - first) as f64).max(0.0);
        let base_s = early - per_context_token_s * first as f64;
        let line = (base_s > 0.0).then_some(DecodeLine { base_s, per_context_token_s, up_to_context: last })?;
        self.lines[row][segment] = Some(line);
        Some(line)
    }

    fn outside(&mut self, request: &FirstToken) -> f64 {
        let sequences = request.running;
        let beside = match (request.wave_place, self.clients) {
            (Some(_), Some(clients)) => clients.round() as u32,
            _ => sequences,
        };
        let PrefillTime { increment, alone, fixed } = self.solo(request.computed.max(1), request.cached, beside.max(1));
        let tokens = f64::from(request.computed) + f64::from(sequences) * (1.0 + self.load.draft_tokens);
        let fixed = self.fixed_ms(fixed, tokens);
        // A short prompt beside decodes costs what it adds: the step reads the weights anyway.
        let own = if sequences > 0 && tokens <= CAPTURED_TOKENS { increment } else { alone };
        let (_, ttft_factor) = self.factors(sequences.max(1));
        let c = *self.constants();
        let context = f64::from(request.computed + request.cached);
        let work = self.decode_work(sequences.max(1), context, 1.0 + self.load.draft_tokens);
        let step_ms = self.decode_ms(&work, 1.0 + self.load.draft_tokens);
        let dt = increment / self.cost().stages;
        let engine_ms = request.engine_s * 1e3;
        if let Some(place) = request.wave_place {
            // Each waits for the prefills and the front-end work of those before it.
            let waits = f64::from(place / self.replicas) * (c.first_wave_scale * dt + c.first_wave_request_ms);
            let said = c.front_end_ms + alone + fixed + waits + c.cold_ms;
            return (ttft_factor * said - engine_ms).max(0.0) / 1e3;
        }
        // What the closed form says, and what an engine without other prompts takes.
        let said = c.front_end_ms + c.admission_steps * step_ms + own + fixed;
        let seen = if sequences == 0 {
            alone + fixed
        } else {
            let factor = self.step_factor(sequences, &work);
            factor * (STEPS_SEEN * step_ms + c.interference * dt + c.interference_fixed * fixed)
        };
        let outside = (ttft_factor * said - seen).max(0.0);
        let queued = self.clients.map_or(0.0, |clients| ttft_factor * self.queued_ms(clients, sequences, dt));
        (outside + (queued - (engine_ms - seen).max(0.0)).max(0.0)) / 1e3
    }
}
