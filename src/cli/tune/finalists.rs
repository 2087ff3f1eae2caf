//! Which deployments should be measured? The contenders of a search, and what is said of those chosen.

use super::anchored::AnchoredProjector;
use super::answer::candidate;
use super::bands::{Bands, COVERAGE, DEVIATIONS, bands};
use super::inputs::Inputs;
use crate::config::Deployment;
use crate::model::KvFormat;
use crate::report::record::Finalist;
use crate::search::finalists::{Contender, Pick, Role, choose};
use crate::search::{Found, Outcome};
use crate::serve::Bound;
use std::collections::BTreeMap;

/// Most contenders besides the front and the best of each layout.
const CONTENDERS: usize = 256;

/// Chooses at most `n`, the predicted best first, then by the objective.
pub fn finalists(
    inputs: &Inputs,
    evaluator: &AnchoredProjector<'_>,
    outcome: &Outcome,
    n: usize,
    seed: u64,
) -> Vec<Finalist> {
    let Some(best) = outcome.layouts.first() else { return Vec::new() };
    let mut points: BTreeMap<u64, (Found, bool)> = BTreeMap::new();
    for found in outcome.kept.iter().take(CONTENDERS).chain(&outcome.layouts) {
        points.entry(found.index).or_insert((*found, false));
    }
    for found in outcome.front.iter().chain(&outcome.cost_front) {
        points.entry(found.index).or_insert((*found, false)).1 = true;
    }
    let field: Vec<Entry> =
        points.into_values().map(|(found, on_front)| Entry::new(inputs, evaluator, found, on_front)).collect();
    let Some(winner) = field.iter().find(|e| e.found.index == best.index) else { return Vec::new() };
    let (top, reach) = (winner.score, winner.band);
    let contenders: Vec<Contender> = field
        .iter()
        .map(|e| Contender {
            score: e.score,
            band: e.band / DEVIATIONS,
            features: features(&e.deployment, e.found.evaluation.bound),
            eligible: e.on_front || e.score >= top - reach,
        })
        .collect();
    let mut picks = choose(&contenders, n, seed);
    picks.sort_by(|a, b| Found::order(&field[a.at].found, &field[b.at].found));
    let told = picks.iter().zip(1..).filter_map(|(pick, rank)| {
        let entry = &field[pick.at];
        entry.finalist(inputs, pick, rank, top - reach)
    });
    told.collect()
}

/// A contender with what is known of it.
struct Entry {
    found: Found,
    deployment: Deployment,
    on_front: bool,
    bands: Bands,
    /// ln of the objective's figure, larger better.
    score: f64,
    /// Half-width of its band.
    band: f64,
}

impl Entry {
    fn new(inputs: &Inputs, evaluator: &AnchoredProjector<'_>, found: Found, on_front: bool) -> Self {
        let deployment = inputs.space.deployment(found.index);
        let bands = bands(inputs, evaluator, &deployment);
        let (metric, metrics) = (inputs.objective.metric, &found.evaluation.metrics);
        let figure = metric.of(metrics).filter(|v| *v > 0.0).map_or(f64::NEG_INFINITY, f64::ln);
        let score = if metric.maximise() { figure } else { -figure };
        let band = bands.of(metric, metrics);
        Self { found, deployment, on_front, bands, score, band }
    }

    fn finalist(&self, inputs: &Inputs, pick: &Pick, rank: u64, reach: f64) -> Option<Finalist> {
        let role = match pick.role {
            Role::Best => "best",
            Role::Diverse => "diverse",
            Role::Informative => "informative",
            Role::Next => "next",
        };
        let place = match (self.on_front, self.score >= reach) {
            (true, true) => "on the front and within the band of the best",
            (true, false) => "on the front",
            (false, true) => "within the band of the best",
            (false, false) => "outside the band of the best",
        };
        let reason = match pick.role {
            Role::Best => "The predicted best.".to_string(),
            Role::Diverse => format!("The best of its kind (bound by {}), {place}.", self.found.evaluation.bound),
            Role::Informative => {
                format!("Measuring it is expected to say {:.2} bits about which is best; {place}.", pick.bits)
            }
            Role::Next => format!("The next best, {place}."),
        };
        let metrics = &self.found.evaluation.metrics;
        Some(Finalist {
            candidate: candidate(inputs, rank, self.found.index, &self.found.evaluation)?,
            role: role.to_string(),
            reason,
            on_front: self.on_front,
            win_probability: pick.win_probability,
            information_bits: pick.bits,
            ranges: self.bands.ranges(metrics),
            band_coverage: COVERAGE,
            band_origin: self.bands.origin.clone(),
        })
    }
}

/// Where a deployment lies among others; a distance of 2 stands for two doublings of a width.
fn features(d: &Deployment, bound: Bound) -> Vec<f64> {
    let doublings = |n: u32| f64::from(n.max(1)).log2();
    let per_instance = f64::from(d.concurrency.max(1)) / f64::from(d.replicas.max(1));
    let mut features = vec![
        doublings(d.tp),
        doublings(d.ep),
        doublings(d.attention_dp),
        doublings(d.context_parallel),
        doublings(d.pp),
        doublings(d.replicas) / 2.0,
        if d.kv_dtype == KvFormat::Fp8 { 1.0 } else { 0.0 },
        // Bits of a weight, as its name says them.
        d.weight_dtype.chars().filter(char::is_ascii_digit).collect::<String>().parse::<f64>().map_or(0.0, f64::log2),
        doublings(d.max_num_batched_tokens) / 2.0,
        per_instance.log2() / 2.0,
    ];
    let regimes = [
        Bound::WeightReads,
        Bound::KvReads,
        Bound::Compute,
        Bound::Collectives,
        Bound::KernelFloors,
        Bound::Host,
        Bound::Prefill,
        Bound::KvCapacity,
        Bound::SequenceLimit,
    ];
    features.extend(regimes.map(|regime| if regime == bound { 1.0 } else { 0.0 }));
    features
}
