//! Runs at a stated rate: the projector's step cost against measured means and percentiles. A factor on the step and a
//! time outside the engine, part of it exponential, are fitted on the runs of all models but the one that is scored.
//!
//! Every prompt of these runs is one of `n_sys_prompts · users_per_sys` prompts, each sent again and again, so that the
//! prefix cache answers all but the first sending of each: a run's first stage starts with an empty cache, later ones
//! find it filled. Answers have `output_len` tokens; the recorded counts of re-tokenised text are not used.

use super::{Pair, Row};
use crate::config::{Deployment, Legality};
use crate::cost::Calibration;
use crate::model::Model;
use crate::serve::{Projector, Refusal};
use crate::sim::deployment::Instance;
use crate::sim::distribution::{Gaps, Lengths};
use crate::sim::fleet::Unobserved;
use crate::sim::histogram::percentile;
use crate::sim::load::{Arrivals, LengthSource, LoadSpec, PrefixPool};
use crate::sim::scenario::{EngineConfig, Scenario};
use crate::sim::simulate;
use crate::sim::step_time::{DecodeLine, FirstToken, StepBatch, StepTime};
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;
use crate::{Error, Result};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use serde::Serialize;

/// A measured run, or one stage of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Experiment and stage.
    pub name: String,
    /// Model as the row names it.
    pub model: String,
    /// GPU as the row names it.
    pub hardware: String,
    /// Tensor-parallel ranks.
    pub tp: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Sequence limit.
    pub max_num_seqs: u32,
    /// Longest request, tokens.
    pub max_model_len: u32,
    /// Requests per second.
    pub rate: f64,
    /// Requests sent.
    pub requests: u64,
    /// Prompt tokens.
    pub isl: u32,
    /// Answer tokens.
    pub osl: u32,
    /// Different prompts.
    pub prompts: u32,
    /// The cache starts empty.
    pub cold: bool,
    /// Part of the requests failed or waited for minutes: only whether overload is seen counts.
    pub overloaded: bool,
    /// Measured mean TTFT, ms.
    pub ttft_ms: f64,
    /// Measured 99th percentile of TTFT, ms.
    pub ttft_p99_ms: f64,
    /// Measured mean TPOT, (E2E − TTFT)/(tokens − 1), ms.
    pub tpot_ms: f64,
    /// Measured mean E2E, ms.
    pub e2e_ms: f64,
}

/// A mean TTFT beyond this is a queue that never empties, ms.
const OVERLOADED_TTFT_MS: f64 = 10_000.0;

/// The rows that state rate and lengths, each run or stage once: a summary only where the run had one rate and no
/// stage of its own.
pub(super) fn read(file: &str, reader: &mut csv::Reader<std::fs::File>) -> Result<Vec<Run>> {
    let rows = Row::all(file, reader)?;
    let mut runs: Vec<Run> = Vec::new();
    let full = |r: &&Row<'_>| !r.text("rate_rps").is_empty() && !r.text("tpot_from_e2e_ms").is_empty();
    for row in rows.iter().filter(full) {
        let (experiment, stage) = (row.text("experiment"), row.text("stage"));
        let single = !row.text("rate_rps").contains('|');
        let staged = rows.iter().any(|r| {
            full(&r) && r.text("experiment") == experiment && r.text("stage") != "summary" && stage == "summary"
        });
        if !single || staged {
            continue;
        }
        let (ttft_ms, failed) = (row.number("ttft_mean_ms")?, row.number("n_fail")?);
        runs.push(Run {
            name: if stage == "summary" { experiment.to_string() } else { format!("{experiment} stage {stage}") },
            model: row.text("model").to_string(),
            hardware: row.text("hardware").to_string(),
            tp: row.count("tp")?,
            max_num_batched_tokens: row.count("max_num_batched_tokens")?,
            max_num_seqs: row.count("max_num_seqs")?,
            max_model_len: row.count("max_model_len")?,
            rate: row.number("rate_rps")?,
            requests: (row.number("n_ok")? + failed) as u64,
            isl: row.count("isl_mean")?,
            osl: row.count("output_len")?,
            prompts: row.count("n_sys_prompts")?.saturating_mul(row.count("users_per_sys")?),
            cold: matches!(stage, "0" | "summary"),
            overloaded: failed > 0.0 || ttft_ms > OVERLOADED_TTFT_MS,
            ttft_ms,
            ttft_p99_ms: row.number("ttft_p99_ms")?,
            tpot_ms: row.number("tpot_from_e2e_ms")?,
            e2e_ms: row.number("e2e_mean_ms")?,
        });
    }
    if runs.is_empty() {
        return Err(Error::input(file, "no row states rate, lengths and latencies of one run", ""));
    }
    Ok(runs)
}

/// A run beside its simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredRun {
    /// Experiment and stage.
    pub name: String,
    /// Why there is no simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The engine was overloaded.
    pub overloaded: bool,
    /// The simulation is saturated.
    pub simulated_saturated: bool,
    /// Mean TTFT.
    pub ttft: Pair,
    /// 99th percentile of TTFT.
    pub ttft_p99: Pair,
    /// Mean TPOT.
    pub tpot: Pair,
    /// Mean E2E.
    pub e2e: Pair,
}

/// What a fit on other models' runs adds to the calibration: a factor on every step, and time outside the engine, in
/// decode steps of the moment (a first token is handed on between steps, and slower models delay it by more). Part of
/// that time is the same for all requests, the rest exponential around the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tuning {
    step: f64,
    outside_steps: f64,
    exponential_steps: f64,
}

/// The 99th percentile of an exponential time over its mean, ln 100, less the 1 that the mean already counts.
const EXPONENTIAL_P99: f64 = 3.605;

impl Tuning {
    const NONE: Tuning = Tuning { step: 1.0, outside_steps: 0.0, exponential_steps: 0.0 };

    /// Brings the geometric mean of TPOT and the medians of what TTFT and its 99th percentile miss over simulated
    /// runs to what was measured.
    fn refined(self, scored: &[&ScoredRun]) -> Self {
        let counted: Vec<&&ScoredRun> =
            scored.iter().filter(|r| r.refused.is_none() && !r.overloaded && !r.simulated_saturated).collect();
        if counted.is_empty() {
            return self;
        }
        let mean = |f: &dyn Fn(&ScoredRun) -> f64| counted.iter().map(|r| f(r)).sum::<f64>() / counted.len() as f64;
        let step = mean(&|r| (r.tpot.measured / r.tpot.simulated).ln()).exp();
        let missing = median(&counted, |r| (r.ttft.measured - r.ttft.simulated) / r.tpot.measured);
        let tail = median(&counted, |r| (r.ttft_p99.measured - r.ttft_p99.simulated) / r.tpot.measured);
        let outside_steps = self.outside_steps + missing;
        let exponential = self.exponential_steps + (tail - missing) / EXPONENTIAL_P99;
        Self {
            step: self.step * step,
            outside_steps,
            exponential_steps: exponential.clamp(0.0, outside_steps.max(0.0)),
        }
    }
}

/// The median: a run whose queue the simulation does not have must not delay all others.
fn median(runs: &[&&ScoredRun], of: impl Fn(&ScoredRun) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|r| of(r)).collect();
    values.sort_by(f64::total_cmp);
    percentile(&values, 50.0)
}

/// Seed of the simulations.
const SEED: u64 = 1;

/// Requests of a run that a fit simulates; means need no more.
const FIT_REQUESTS: u64 = 1500;

/// The projector's step times, tuned.
struct Tuned {
    projected: Box<dyn StepTime>,
    tuning: Tuning,
    random: Pcg64Mcg,
}

impl Tuned {
    fn new(projected: Box<dyn StepTime>, tuning: Tuning) -> Self {
        Self { projected, tuning, random: Pcg64Mcg::seed_from_u64(SEED) }
    }
}

impl StepTime for Tuned {
    fn seconds(&mut self, batch: &StepBatch) -> f64 {
        self.tuning.step * self.projected.seconds(batch)
    }

    fn decode_line(&mut self, sequences: u32, context: u64) -> Option<DecodeLine> {
        let line = self.projected.decode_line(sequences, context)?;
        Some(DecodeLine {
            base_s: self.tuning.step * line.base_s,
            per_context_token_s: self.tuning.step * line.per_context_token_s,
            up_to_context: line.up_to_context,
        })
    }

    fn outside(&mut self, request: &FirstToken) -> f64 {
        let sequences = request.running.max(1);
        let context = u64::from(sequences) * u64::from(request.computed + request.cached);
        let step = StepBatch {
            decode_sequences: sequences,
            decode_tokens: sequences,
            decode_context: context,
            ..StepBatch::default()
        };
        let drawn: f64 = Exp1.sample(&mut self.random);
        let steps = self.tuning.outside_steps + self.tuning.exponential_steps * (drawn - 1.0);
        (self.projected.outside(request) + steps * self.seconds(&step)).max(0.0)
    }
}

/// Simulates every run with the step cost that `calibration` gives, tuned on the runs of all other models: nothing is
/// fitted on a run that is scored, nor on another of its model. Where there is one model only, nothing is fitted.
pub fn score(runs: &[Run], calibration: &Calibration) -> Vec<ScoredRun> {
    let all = |tuning: Tuning| -> Vec<ScoredRun> {
        runs.par_iter().map(|run| scored(run, calibration, tuning, FIT_REQUESTS)).collect()
    };
    let first = all(Tuning::NONE);
    let mut models: Vec<&str> = runs.iter().map(|r| family(&r.model)).collect();
    models.sort_unstable();
    models.dedup();
    let mut answer: Vec<Option<ScoredRun>> = vec![None; runs.len()];
    for model in models {
        let own = |at: &usize| family(&runs[*at].model) == model;
        let others = |scores: &[ScoredRun], tuning: Tuning| {
            let fit: Vec<&ScoredRun> = scores.iter().enumerate().filter(|(at, _)| !own(at)).map(|(_, r)| r).collect();
            tuning.refined(&fit)
        };
        let mut tuning = others(&first, Tuning::NONE);
        for _ in 0..2 {
            tuning = others(&all(tuning), tuning);
        }
        let final_scores: Vec<(usize, ScoredRun)> = (0..runs.len())
            .into_par_iter()
            .filter(own)
            .map(|at| (at, scored(&runs[at], calibration, tuning, u64::MAX / 2)))
            .collect();
        final_scores.into_iter().for_each(|(at, score)| answer[at] = Some(score));
    }
    answer.into_iter().flatten().collect()
}

/// A model's name without what tells its variants apart.
fn family(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model).trim_end_matches("-hf")
}

fn scored(run: &Run, calibration: &Calibration, tuning: Tuning, most: u64) -> ScoredRun {
    let pair = |measured, simulated| Pair { measured, simulated };
    let mut row = ScoredRun {
        name: run.name.clone(),
        refused: None,
        overloaded: run.overloaded,
        simulated_saturated: false,
        ttft: pair(run.ttft_ms, f64::NAN),
        ttft_p99: pair(run.ttft_p99_ms, f64::NAN),
        tpot: pair(run.tpot_ms, f64::NAN),
        e2e: pair(run.e2e_ms, f64::NAN),
    };
    match simulated(run, calibration, tuning, most) {
        Err(error) => row.refused = Some(error.to_string()),
        Ok(report) => {
            row.simulated_saturated = report.saturated;
            row.ttft.simulated = report.ttft_ms.mean;
            row.ttft_p99.simulated = report.ttft_ms.p99;
            row.tpot.simulated = report.tpot_ms.mean;
            row.e2e.simulated = report.e2e_ms.mean;
        }
    }
    row
}

fn simulated(run: &Run, calibration: &Calibration, tuning: Tuning, most: u64) -> Result<crate::sim::report::Report> {
    let model = Model::load(&run.model)?;
    let gpu = run.hardware.split(['-', ' ']).next().unwrap_or_default().to_lowercase();
    let target = Target::load(&gpu)?;
    let engine = EngineProfile::load("vllm")?;
    let workload = Workload::constant(run.isl, run.osl);
    let projector = Projector::new(&model, &target, &engine, None, calibration, &workload)?;
    let checkpoint = model.checkpoints.iter().find(|c| c.dtype == "bf16" || c.dtype == "fp16");
    let Some(checkpoint) = checkpoint else {
        return Err(Error::input(&run.model, "no 16-bit checkpoint", "Name one in its preset"));
    };
    let settings = &projector.settings;
    let deployment = Deployment {
        tp: run.tp,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: run.max_num_seqs,
        weight_dtype: checkpoint.dtype.clone(),
        kv_dtype: settings.default_kv_dtype(target.gpu.family),
        max_num_batched_tokens: run.max_num_batched_tokens,
        max_num_seqs: run.max_num_seqs,
        memory_fraction: settings.memory_fraction,
        speculation: None,
        prefill: None,
    };
    Legality::new(&model, &target).require(&deployment, target.gpus())?;
    let instance = Instance::new(&projector, &deployment, run.max_model_len).map_err(|refusal| match refusal {
        Refusal::NoModel(found) => Error::input(&run.name, found, ""),
        Refusal::DoesNotFit(_) => Error::input(&run.name, "does not fit in memory", ""),
    })?;
    let mut scenario = scenario(run, instance.engine.clone());
    scenario.load.requests = scenario.load.requests.min(scenario.warmup_requests + most);
    simulate(&scenario, Box::new(Tuned::new(instance.step_time(None), tuning)), &mut Unobserved)
}

/// The load of a run. A filled cache is what unmeasured requests before the run leave behind.
fn scenario(run: &Run, engine: EngineConfig) -> Scenario {
    let warmup = if run.cold { 0 } else { u64::from(run.prompts) * 8 };
    let shared = run.isl.saturating_sub(1);
    let load = LoadSpec {
        arrivals: Arrivals::Open { rate: run.rate, gaps: Gaps::Constant },
        lengths: LengthSource::Laws(Lengths::Fixed(run.isl - shared.min(run.isl - 1)), Lengths::Fixed(run.osl)),
        requests: run.requests + warmup,
        prefix: (shared > 0).then_some(PrefixPool { prefixes: run.prompts, tokens: shared, exponent: 0.0 }),
        sessions: None,
        priorities: Vec::new(),
        seed: SEED,
    };
    Scenario { warmup_requests: warmup, ..Scenario::new(engine, load) }
}
