//! Which deployments can an engine start at all? Every rule a deployment breaks is listed, not only the first.

use super::violation::divisors;
use super::{Deployment, Violation};
use crate::model::{Ffn, Formats, Mixer, Model, WeightFormat};
use crate::target::{GpuFamily, Target};
use crate::{Error, Result};
use std::collections::BTreeSet;

/// The rules for one model on one machine; built once, asked for every point of a space.
#[derive(Debug, Clone)]
pub struct Legality {
    machine: String,
    model: String,
    scaleup_world: u32,
    layers: u32,
    /// Heads that attention ranks must share evenly.
    heads: BTreeSet<u32>,
    kv_heads: BTreeSet<u32>,
    /// KV heads of each kind of attention over the whole context; a latent is one.
    cached_heads: BTreeSet<u32>,
    experts: BTreeSet<u32>,
    expert_inters: BTreeSet<u32>,
    dense_inters: BTreeSet<u32>,
    checkpoints: Vec<CheckpointBlocks>,
}

/// Scale-block widths a shard of a checkpoint must respect.
#[derive(Debug, Clone)]
struct CheckpointBlocks {
    dtype: String,
    experts: u32,
    dense: u32,
    /// The GPU's engines have kernels for its formats.
    runs_here: bool,
}

impl Legality {
    /// Collects what the rules need.
    pub fn new(model: &Model, target: &Target) -> Self {
        let mut rules = Self {
            machine: target.name.clone(),
            model: model.architecture.name.clone(),
            scaleup_world: target.node.scaleup_world,
            layers: model.architecture.layer_count(),
            heads: BTreeSet::new(),
            kv_heads: BTreeSet::new(),
            cached_heads: BTreeSet::new(),
            experts: BTreeSet::new(),
            expert_inters: BTreeSet::new(),
            dense_inters: BTreeSet::new(),
            checkpoints: model
                .checkpoints
                .iter()
                .map(|c| CheckpointBlocks {
                    dtype: c.dtype.clone(),
                    experts: block_width(c.formats.experts),
                    dense: block_width(c.formats.dense),
                    runs_here: has_kernels(model, &c.formats, target.gpu.family),
                })
                .collect(),
        };
        for group in &model.architecture.layers {
            match &group.mixer {
                Mixer::Gqa(gqa) => {
                    rules.heads.insert(gqa.heads);
                    rules.kv_heads.insert(gqa.kv_heads);
                    if gqa.window.is_none() {
                        rules.cached_heads.insert(gqa.kv_heads);
                    }
                }
                Mixer::Mla(mla) => {
                    rules.heads.insert(mla.heads);
                    rules.cached_heads.insert(1);
                }
                Mixer::Linear(linear) => {
                    rules.heads.insert(linear.value_heads);
                    rules.kv_heads.insert(linear.key_heads);
                }
                Mixer::Mamba2(mamba) => {
                    rules.heads.insert(mamba.heads);
                }
                Mixer::None => {}
            }
            match &group.ffn {
                Ffn::Dense { inter, .. } => {
                    rules.dense_inters.insert(*inter);
                }
                Ffn::Moe(moe) => {
                    rules.experts.insert(moe.experts);
                    rules.expert_inters.insert(moe.inter);
                }
                Ffn::None => {}
            }
        }
        rules
    }

    /// Every rule `deployment` breaks on a machine of `gpus` GPUs.
    pub fn violations(&self, deployment: &Deployment, gpus: u32) -> Vec<Violation> {
        let mut broken = self.layout_violations(deployment, gpus);
        broken.extend(self.load_violations(deployment));
        broken
    }

    /// The rules that do not look at the load: the same for every concurrency and token budget.
    pub fn layout_violations(&self, deployment: &Deployment, gpus: u32) -> Vec<Violation> {
        let d = deployment;
        let mut broken = Vec::new();
        for (knob, value) in
            [("tp", d.tp), ("ep", d.ep), ("attention_dp", d.attention_dp), ("pp", d.pp), ("replicas", d.replicas)]
                .into_iter()
                .chain([("context_parallel", d.context_parallel)])
        {
            if value == 0 {
                broken.push(Violation::Zero { knob });
            }
        }
        if d.max_num_seqs == 0 {
            broken.push(Violation::Zero { knob: "max_num_seqs" });
        }
        if !(d.memory_fraction > 0.0 && d.memory_fraction <= 1.0) {
            broken.push(Violation::MemoryFraction { fraction: d.memory_fraction });
        }
        if let Some(s) = &d.speculation
            && !(s.tokens_per_step >= 1.0 && s.tokens_per_step <= f64::from(s.draft_tokens) + 1.0)
        {
            broken.push(Violation::Speculation { draft_tokens: s.draft_tokens, tokens_per_step: s.tokens_per_step });
        }
        if !broken.is_empty() {
            // The rules below divide by these.
            return broken;
        }
        if d.tp > self.scaleup_world {
            broken.push(Violation::BeyondScaleUp { tp: d.tp, world: self.scaleup_world });
        }
        let wanted = (u64::from(d.tp) * u64::from(d.pp)).saturating_mul(u64::from(d.replicas));
        if wanted > u64::from(gpus) {
            broken.push(Violation::TooManyGpus { wanted, gpus });
        }
        if d.pp > self.layers {
            broken.push(Violation::Stages { pp: d.pp, layers: self.layers });
        }
        self.attention(d, &mut broken);
        self.feed_forward(d, &mut broken);
        if let Some(prefill) = d.prefill_deployment() {
            // Both pools share the machine.
            let left =
                gpus.saturating_sub((u64::from(d.tp) * u64::from(d.pp)).saturating_mul(d.replicas.into()) as u32);
            let of_pool = self.layout_violations(&prefill, left).into_iter();
            broken.extend(of_pool.map(|v| Violation::InPrefillPool(Box::new(v))));
        }
        broken
    }

    /// The rules that look at the load alone.
    pub fn load_violations(&self, deployment: &Deployment) -> Option<Violation> {
        let d = deployment;
        if d.concurrency == 0 {
            return Some(Violation::Zero { knob: "concurrency" });
        }
        if d.max_num_batched_tokens == 0 {
            return Some(Violation::Zero { knob: "max_num_batched_tokens" });
        }
        (d.concurrency < d.replicas)
            .then_some(Violation::IdleReplicas { concurrency: d.concurrency, replicas: d.replicas })
    }

    /// `Ok` for a legal deployment, else one error that lists every violation.
    pub fn require(&self, deployment: &Deployment, gpus: u32) -> Result<()> {
        let broken = self.violations(deployment, gpus);
        if broken.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = broken.iter().map(|v| self.sentence(v)).collect();
        // Two rules often ask for the same.
        let mut repairs: Vec<String> = Vec::new();
        for repair in broken.iter().map(Violation::repair) {
            if !repairs.contains(&repair) {
                repairs.push(repair);
            }
        }
        Err(Error::input(self.machine(gpus), texts.join("; "), repairs.join(" ")))
    }

    /// `mi355x, 8 GPUs: tp 6 does not divide 64 attention heads (llama-3.3-70b). Use 1, 2, 4 or 8.`
    pub fn message(&self, violation: &Violation, gpus: u32) -> String {
        format!("{}: {}. {}", self.machine(gpus), self.sentence(violation), violation.repair())
    }

    fn machine(&self, gpus: u32) -> String {
        format!("{}, {gpus} GPU{}", self.machine, if gpus == 1 { "" } else { "s" })
    }

    fn sentence(&self, violation: &Violation) -> String {
        if violation.is_about_the_model() { format!("{violation} ({})", self.model) } else { violation.to_string() }
    }

    fn attention(&self, d: &Deployment, broken: &mut Vec<Violation>) {
        if !d.tp.is_multiple_of(d.attention_dp) {
            broken.push(Violation::AttentionDp { attention_dp: d.attention_dp, tp: d.tp });
            return;
        }
        let width = d.attention_tp();
        let limit = self.scaleup_world.min(8).max(width);
        for &heads in &self.heads {
            if !heads.is_multiple_of(width) {
                let allowed = divisors(heads, limit);
                broken.push(Violation::Heads { attention_tp: width, attention_dp: d.attention_dp, heads, allowed });
            }
        }
        for &kv_heads in &self.kv_heads {
            let fits = |w: u32| kv_heads.is_multiple_of(w) || w.is_multiple_of(kv_heads.max(1));
            if !fits(width) {
                let allowed = (1..=limit).filter(|w| fits(*w)).collect();
                broken.push(Violation::KvHeads { attention_tp: width, kv_heads, allowed });
            }
        }
        let copies = self.cached_heads.iter().map(|kv_heads| (width / kv_heads).max(1)).min().unwrap_or(1);
        if !copies.is_multiple_of(d.context_parallel) {
            broken.push(Violation::ContextParallel { ranks: d.context_parallel, copies });
        }
    }

    fn feed_forward(&self, d: &Deployment, broken: &mut Vec<Violation>) {
        let Some(blocks) = self.checkpoints.iter().find(|c| c.dtype == d.weight_dtype) else {
            let known = self.checkpoints.iter().map(|c| c.dtype.clone()).collect();
            broken.push(Violation::NoCheckpoint { dtype: d.weight_dtype.clone(), known });
            return;
        };
        if !blocks.runs_here {
            broken.push(Violation::NoKernels {
                dtype: d.weight_dtype.clone(),
                known: self.checkpoints.iter().filter(|c| c.runs_here).map(|c| c.dtype.clone()).collect(),
            });
            return;
        }
        if d.ep > 1 && self.experts.is_empty() {
            broken.push(Violation::NoExperts { ep: d.ep });
            return;
        }
        if !d.tp.is_multiple_of(d.ep) {
            broken.push(Violation::ExpertRanks { ep: d.ep, tp: d.tp });
            return;
        }
        for &experts in &self.experts {
            if !experts.is_multiple_of(d.ep) {
                broken.push(Violation::Experts { ep: d.ep, experts });
            }
        }
        let mut shards = |of: &'static str, inters: &BTreeSet<u32>, ranks: u32, block: u32| {
            for &inter in inters {
                let whole = inter.is_multiple_of(ranks);
                if !whole || (ranks > 1 && !(inter / ranks).is_multiple_of(block)) {
                    broken.push(Violation::Inter { of, ranks, inter, block: if whole { block } else { 1 } });
                }
            }
        };
        shards("expert", &self.expert_inters, d.tp / d.ep, blocks.experts);
        shards("feed-forward", &self.dense_inters, d.tp, blocks.dense);
    }
}

/// Weights a shard must hold a multiple of; formats other than block fp8 are padded by the engines.
fn block_width(format: WeightFormat) -> u32 {
    match format {
        WeightFormat::Fp8Block => 128,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "legality_tests.rs"]
mod tests;

/// Engines run NVFP4 on NVIDIA GPUs only, and MXFP4 with quantised activations (Quark builds) on GPUs of AMD with fp4
/// units only; MXFP4 as a storage format for experts with biases (gpt-oss) runs everywhere. 32-bit weights have a price
/// on probed devices only.
fn has_kernels(model: &Model, formats: &Formats, family: GpuFamily) -> bool {
    let stored_only = model.architecture.layers.iter().any(|g| matches!(&g.ffn, Ffn::Moe(moe) if moe.bias));
    let used = [formats.attention, formats.dense, formats.experts, formats.shared];
    used.iter().all(|format| match format {
        WeightFormat::F32 => family == GpuFamily::Local,
        WeightFormat::Nvfp4 => !family.is_amd(),
        WeightFormat::Mxfp4 => stored_only || family == GpuFamily::Gfx950,
        _ => true,
    })
}
