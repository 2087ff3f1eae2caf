//! The anchors that matter for one model on one target with one engine, ready to be applied to projected figures.

use super::artifact::{Artifact, Layout, LoadPoint};
use super::case::sequence_limit;
use super::confidence::{self, Confidence};
use super::regime::RegimeSignature;
use super::transport::{Carrier, Observation, Place, Projected, Rule};
use crate::config::{Deployment, Speculation};
use crate::model::{KvFormat, Model};
use crate::serve::{CompiledDeployment, Evaluation, Projector, Refusal};
use crate::target::EngineProfile;
use crate::workload::Workload;
use serde::Serialize;
use std::collections::HashMap;

/// How anchors are applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How decode is carried over.
    pub rule: Rule,
    /// Most GPUs of a rung of the ladder.
    pub ladder_gpus: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rule: Rule::default(), ladder_gpus: confidence::LADDER_GPUS }
    }
}

/// An artifact that is not used, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Name of the artifact.
    pub id: String,
    /// `differs in gpu, engine`, or what kept it from being projected.
    pub why: String,
}

/// What the figures of a deployment rest on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basis {
    /// TPOT and the rates that follow from it.
    pub decode: Confidence,
    /// TTFT.
    pub prefill: Confidence,
    /// Relative half-width of the band of TPOT, about one standard deviation.
    pub band: f64,
    /// Anchors used, the nearest first.
    pub anchors: Vec<String>,
    /// GPUs that the anchors vouch for.
    pub vouched_gpus: u32,
    /// How decode was carried over.
    pub rule: Rule,
}

impl Basis {
    /// One sentence per figure.
    pub fn statements(&self) -> [String; 2] {
        let from = match self.anchors.as_slice() {
            [] => "no anchor of this regime".to_string(),
            [one] => format!("anchor {one}"),
            several => format!("{} anchors, nearest {}", several.len(), several[0]),
        };
        let decode = match self.decode {
            Confidence::OutOfRegime => format!("TPOT and throughput: out of regime, the projection alone ({from})"),
            Confidence::Measured => {
                format!("TPOT and throughput: measured at this very point (anchor {})", self.anchors[0])
            }
            c => format!(
                "TPOT and throughput: {c} from {from} by {}, ±{:.0} %; anchors vouch for up to {} GPUs",
                self.rule.word(),
                self.band * 100.0,
                self.vouched_gpus
            ),
        };
        let prefill = match self.prefill {
            Confidence::OutOfRegime => "TTFT: the projection alone; no anchor says that prefix caching was off".into(),
            Confidence::Measured => "TTFT: measured at this very point".to_string(),
            c => format!("TTFT: {c} by ratio"),
        };
        [decode, prefill]
    }
}

#[derive(Debug, Clone)]
struct Entry {
    observation: Observation,
    regime: RegimeSignature,
}

/// Anchors of one model, GPU and engine.
#[derive(Debug, Clone)]
pub struct AnchorSet {
    entries: Vec<Entry>,
    target: RegimeSignature,
    settings: Settings,
    workload: Workload,
    epoch: String,
    /// Artifacts that are not used.
    pub left_out: Vec<LeftOut>,
    /// Discarded figures, a sentence each.
    pub warnings: Vec<String>,
}

/// The anchors that count for one layout.
#[derive(Debug, Clone)]
pub struct Chosen {
    used: Carrier,
    layout: Layout,
}

impl AnchorSet {
    /// Projects every artifact of the projector's regime at its own point.
    pub fn new(artifacts: &[Artifact], projector: &Projector, settings: Settings) -> Self {
        let mut names = Names::default();
        let mut set = Self {
            entries: Vec::new(),
            target: RegimeSignature {
                gpu: projector.target.name.clone(),
                model: projector.model.architecture.name.clone(),
                engine: projector.engine.name.clone(),
                engine_version: projector.engine_version.clone(),
                ..RegimeSignature::default()
            },
            settings,
            workload: projector.workload.clone(),
            epoch: projector.epoch.clone(),
            left_out: Vec::new(),
            warnings: Vec::new(),
        };
        // Software that the target leaves open is not compared; speculation belongs to each deployment.
        for artifact in artifacts {
            let regime = names.canonical(&artifact.regime, &projector.model);
            let open = RegimeSignature { speculation: None, ..regime.clone() };
            let axes = set.target.differences(&open);
            let out = if axes.is_empty() {
                match observe(artifact, &regime, projector) {
                    Ok(observation) => {
                        set.warnings.extend(artifact.discarded_prefill());
                        set.entries.push(Entry { observation, regime });
                        continue;
                    }
                    Err(why) => why,
                }
            } else {
                format!("differs in {}", axes.join(", "))
            };
            set.left_out.push(LeftOut { id: artifact.id.clone(), why: out });
        }
        set
    }

    /// Anchors of the model, GPU and engine.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No anchor of the model, GPU and engine.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How anchors are applied.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    fn signature(&self, deployment: &Deployment) -> RegimeSignature {
        RegimeSignature {
            weight_dtype: Some(deployment.weight_dtype.clone()),
            kv_dtype: Some(deployment.kv_dtype.to_string()),
            speculation: deployment.speculation.as_ref().map(|s| format!("k{}", s.draft_tokens)),
            ..self.target.clone()
        }
    }

    fn in_regime(&self, signature: &RegimeSignature) -> impl Iterator<Item = &Entry> {
        let drafts = drafts_label(&signature.speculation);
        self.entries.iter().filter(move |e| {
            let regime = RegimeSignature { speculation: drafts_label(&e.regime.speculation), ..e.regime.clone() };
            RegimeSignature { speculation: drafts.clone(), ..signature.clone() }.differences(&regime).is_empty()
        })
    }

    /// The anchors of a deployment's regime; its load does not matter.
    pub fn choose(&self, deployment: &Deployment) -> Chosen {
        let signature = self.signature(deployment);
        // The store holds runs of one pool; they say nothing of a decode step without prefill.
        let used = if self.entries.is_empty() || deployment.prefill.is_some() {
            Vec::new()
        } else {
            self.in_regime(&signature).map(|e| e.observation.clone()).collect()
        };
        Chosen { used: Carrier::new(self.settings.rule, used, &self.epoch), layout: layout(deployment) }
    }

    /// Figures with the chosen anchors applied; the compiled deployment names the datasheet's floor.
    pub fn apply(
        &self,
        chosen: &Chosen,
        compiled: &CompiledDeployment,
        concurrency: u32,
        max_num_batched_tokens: u32,
        evaluation: &Evaluation,
    ) -> Evaluation {
        if chosen.used.is_empty() {
            return *evaluation;
        }
        let floor = compiled.decode_floor_ms(concurrency, max_num_batched_tokens);
        let projected = projected(evaluation, self.workload.mean_osl(), floor);
        let place = Place { layout: chosen.layout, load: load(concurrency, &self.workload) };
        anchored(evaluation, &projected, &chosen.used.transport(&place, &projected))
    }

    /// What the figures of a deployment at a load rest on.
    pub fn basis(&self, deployment: &Deployment, concurrency: u32) -> Basis {
        let signature = self.signature(deployment);
        let entries: Vec<&Entry> = self.in_regime(&signature).collect();
        let place = Place { layout: layout(deployment), load: load(concurrency, &self.workload) };
        let mut used: Vec<&Observation> = entries.iter().map(|e| &e.observation).collect();
        used.sort_by(|a, b| a.place.gap(&place).total_cmp(&b.place.gap(&place)));
        let vouched = confidence::vouched_gpus(&used, self.settings.ladder_gpus);
        let decode = confidence::confidence(&used, &place, vouched);
        let prefill: Vec<&Observation> =
            used.iter().copied().filter(|o| o.measured.ttft_ms.or(o.measured.ttft_p50_ms).is_some()).collect();
        let other_version = !entries.is_empty() && entries.iter().all(|e| signature.other_version(&e.regime));
        Basis {
            decode,
            prefill: confidence::confidence(&prefill, &place, vouched),
            band: confidence::band(self.settings.rule, &used, decode, other_version),
            anchors: used.iter().map(|o| o.id.clone()).collect(),
            vouched_gpus: vouched,
            rule: self.settings.rule,
        }
    }
}

/// Drafts per step are what two runs must share; the method's name is the engine's own.
fn drafts_label(label: &Option<String>) -> Option<String> {
    match drafts(label.as_deref().unwrap_or("")) {
        0 => None,
        n => Some(format!("k{n}")),
    }
}

/// Draft tokens of a label: its trailing digit, else three; 0 for `none`.
fn drafts(label: &str) -> u32 {
    match label.to_ascii_lowercase().as_str() {
        "" | "none" | "off" => 0,
        l => l.chars().rev().find_map(|c| c.to_digit(10)).filter(|d| (1..=8).contains(d)).unwrap_or(3),
    }
}

fn layout(d: &Deployment) -> Layout {
    Layout {
        tp: d.tp,
        ep: d.ep,
        pp: d.pp,
        attention_dp: d.attention_dp,
        context_parallel: d.context_parallel,
        replicas: d.replicas,
    }
}

fn load(concurrency: u32, workload: &Workload) -> LoadPoint {
    LoadPoint { concurrency, isl: workload.isl, osl: workload.osl, range_ratio: workload.range_ratio }
}

fn projected(evaluation: &Evaluation, osl: f64, floor_ms: f64) -> Projected {
    let m = &evaluation.metrics;
    Projected {
        ttft_ms: m.ttft_ms,
        ttft_p50_ms: m.ttft_p50_ms,
        tpot_ms: m.tpot_ms,
        output_tok_s: m.output_tok_s,
        osl,
        floor_ms,
    }
}

/// The evaluation with transported figures; what they imply (E2E, rates, cost) follows, the parts of TPOT in proportion.
fn anchored(evaluation: &Evaluation, before: &Projected, after: &Projected) -> Evaluation {
    let mut out = *evaluation;
    let m = &mut out.metrics;
    let rate = after.output_tok_s / before.output_tok_s;
    m.ttft_ms = after.ttft_ms;
    m.ttft_p50_ms = after.ttft_p50_ms;
    m.tpot_ms = after.tpot_ms;
    m.e2e_ms = after.ttft_ms + (after.osl - 1.0).max(0.0) * after.tpot_ms;
    m.output_tok_s = after.output_tok_s;
    m.total_tok_s *= rate;
    m.tok_s_per_gpu *= rate;
    m.tok_s_per_user = 1e3 / after.tpot_ms;
    m.usd_per_m_output = m.usd_per_m_output.map(|c| c / rate);
    m.usd_per_m_total = m.usd_per_m_total.map(|c| c / rate);
    let share = after.tpot_ms / before.tpot_ms;
    let b = &mut out.breakdown;
    for part in [
        &mut b.gemm_ms,
        &mut b.moe_ms,
        &mut b.attention_ms,
        &mut b.collectives_ms,
        &mut b.small_kernels_ms,
        &mut b.host_ms,
        &mut b.prefill_ms,
    ] {
        *part *= share;
    }
    out
}

/// The artifact beside its own projection.
fn observe(artifact: &Artifact, regime: &RegimeSignature, projector: &Projector) -> Result<Observation, String> {
    let mut own = projector.clone();
    let load = &artifact.load;
    own.workload = Workload { range_ratio: load.range_ratio, ..Workload::constant(load.isl, load.osl) };
    if artifact.date.as_deref().is_some_and(|d| d < projector.calibration.reference_date.as_str()) {
        own.epoch = "2025".into();
    }
    let (settings, gpu, l) = (&own.settings, &own.target.gpu, &artifact.layout);
    let checkpoints = &own.model.checkpoints;
    let probe = |dtype: &str| RegimeSignature { weight_dtype: Some(dtype.into()), ..RegimeSignature::default() };
    let wanted = RegimeSignature { weight_dtype: regime.weight_dtype.clone(), ..RegimeSignature::default() };
    let checkpoint = checkpoints
        .iter()
        .find(|c| wanted.differences(&probe(&c.dtype)).is_empty())
        .ok_or_else(|| format!("no checkpoint in {}", regime.weight_dtype.as_deref().unwrap_or("that precision")))?;
    let kv_dtype = match regime.kv_dtype.as_deref() {
        None => settings.default_kv_dtype(gpu.family),
        Some(k) if k.to_ascii_lowercase().starts_with("fp8") => KvFormat::Fp8,
        Some(_) => KvFormat::Bf16,
    };
    let draft_tokens = drafts(regime.speculation.as_deref().unwrap_or(""));
    let deployment = Deployment {
        tp: l.tp,
        ep: l.ep,
        attention_dp: l.attention_dp,
        context_parallel: l.context_parallel,
        pp: l.pp,
        replicas: l.replicas,
        concurrency: load.concurrency,
        weight_dtype: checkpoint.dtype.clone(),
        kv_dtype,
        max_num_batched_tokens: settings.max_num_batched_tokens(gpu),
        max_num_seqs: sequence_limit(settings.max_num_seqs(gpu), load.concurrency),
        memory_fraction: settings.memory_fraction,
        speculation: (draft_tokens > 0).then_some(Speculation { draft_tokens, tokens_per_step: ACCEPTED }),
        prefill: None,
    };
    let refused = |refusal: Refusal| match refusal {
        Refusal::DoesNotFit(plan) => format!("does not fit by our account: weights {} of {}", plan.weights, plan.total),
        Refusal::NoModel(why) => why,
    };
    let tokens = deployment.max_num_batched_tokens;
    let compiled = own.compile(&deployment).map_err(refused)?;
    let evaluation = compiled.evaluate(load.concurrency, tokens).map_err(refused)?;
    let floor = compiled.decode_floor_ms(load.concurrency, tokens);
    if let Some(tpot) = artifact.measured.tpot_ms.filter(|tpot| *tpot < (1.0 - BELOW_FLOOR) * floor) {
        return Err(format!("its TPOT of {tpot} ms lies under the datasheet's floor of {floor:.3} ms"));
    }
    let (ttft_ms, ttft_p50_ms) = artifact.usable_ttft();
    Ok(Observation {
        id: artifact.id.clone(),
        place: Place { layout: *l, load: *load },
        measured: super::artifact::Figures { ttft_ms, ttft_p50_ms, ..artifact.measured },
        projected: projected(&evaluation, own.workload.mean_osl(), floor),
        epoch: own.epoch,
    })
}

/// How far under the floor a measurement may lie: lengths of a run are means.
const BELOW_FLOOR: f64 = 0.05;
/// Mean tokens per step where a run does not record them (public runs with three drafts).
const ACCEPTED: f64 = 2.4;

/// Names as presets spell them; each is looked up once.
#[derive(Default)]
struct Names {
    models: HashMap<String, String>,
    engines: HashMap<String, String>,
}

impl Names {
    fn canonical(&mut self, regime: &RegimeSignature, target: &Model) -> RegimeSignature {
        let known = |name: &str| Model::load(name).map_or_else(|_| name.to_string(), |m| m.architecture.name);
        let engine = |name: &str| EngineProfile::load(name).map_or_else(|_| name.to_string(), |e| e.name);
        let model = self.models.entry(regime.model.clone()).or_insert_with_key(|n| known(n)).clone();
        let engine = self.engines.entry(regime.engine.clone()).or_insert_with_key(|n| engine(n)).clone();
        // A model that exists in one precision is that one, whatever label the run carries.
        let only = (target.checkpoints.len() == 1 && model == target.architecture.name)
            .then(|| target.checkpoints[0].dtype.clone());
        RegimeSignature { model, engine, weight_dtype: only.or(regime.weight_dtype.clone()), ..regime.clone() }
    }
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
