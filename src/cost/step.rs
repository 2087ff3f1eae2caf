//! How long one engine step takes: the ops of a layout and the serving constants of an engine on a GPU.
//!
//! The work (op times by kernel table) does not depend on the constants, so a calibration computes it once a row.

use super::attention::AttentionPart;
use super::calibration::Constants;
use super::lower::{LayerKinds, Ops};
use super::op::{OpTime, Silicon};

/// Op times of one decode step through all pipeline stages, µs.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeWork {
    /// Dense products.
    pub gemm: OpTime,
    /// Experts.
    pub moe: OpTime,
    /// Attention and recurrent mixers.
    pub attention: OpTime,
    /// The scan of a sparse-attention index.
    pub index: OpTime,
    /// Latents read again for further groups of heads.
    pub reread: OpTime,
    /// Collectives and hand-over.
    pub collectives: OpTime,
    /// Layers that bring small kernels.
    pub kinds: LayerKinds,
    /// Running sequences.
    pub sequences: f64,
}

/// A decode step's time by part, ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTime {
    /// Dense products.
    pub gemm: f64,
    /// Experts.
    pub moe: f64,
    /// Attention.
    pub attention: f64,
    /// Collectives and hand-over.
    pub collectives: f64,
    /// Small kernels.
    pub small: f64,
    /// Engine.
    pub host: f64,
}

impl StepTime {
    /// Whole step, ms.
    pub fn total(&self) -> f64 {
        self.gemm + self.moe + self.attention + self.collectives + self.small + self.host
    }

    fn scaled(self, k: f64) -> Self {
        Self {
            gemm: self.gemm * k,
            moe: self.moe * k,
            attention: self.attention * k,
            collectives: self.collectives * k,
            small: self.small * k,
            host: self.host * k,
        }
    }
}

/// Small kernels of a step: those of each layer kind, times its layers.
pub fn small_kernels(kinds: &LayerKinds, c: &Constants) -> f64 {
    c.kernels_gqa * kinds.gqa
        + c.kernels_mla * kinds.mla
        + c.kernels_linear * kinds.linear
        + c.kernels_dense * kinds.dense
        + c.kernels_moe * kinds.moe
        + c.kernels_shared * kinds.shared
        + c.kernels_index * kinds.index
        + c.kernels_compressed * kinds.compressed
}

impl DecodeWork {
    /// Floors of all ops, µs.
    pub fn floors(&self) -> f64 {
        self.gemm.floor + self.moe.floor + self.attention.floor + self.collectives.floor
    }

    /// Attention without its floors at the rates that the constants say, index and rereads included, µs.
    pub fn attention_variable(&self, c: &Constants) -> f64 {
        c.attention_scale * self.attention.variable
            + c.index_scale * self.index.variable
            + c.latent_reread * self.reread.variable
    }

    /// Least time by the datasheet, ms: bytes over bandwidth or flops over peak, whichever is longer.
    pub fn roof(&self) -> f64 {
        let read = self.attention.memory_roof + self.index.memory_roof;
        let memory = self.gemm.memory_roof + self.moe.memory_roof + read;
        let compute = self.gemm.compute_roof + self.moe.compute_roof;
        memory.max(compute) / 1e3
    }

    /// `release · step · (host + small kernels + floors + variable parts)`, never below the roofline.
    pub fn time(&self, c: &Constants) -> StepTime {
        let k = c.release_scale * c.step_scale / 1e3;
        let part = |op: &OpTime, scale: f64| k * (c.floor_scale * op.floor + scale * op.variable);
        let step = StepTime {
            gemm: part(&self.gemm, c.gemm_scale),
            moe: part(&self.moe, c.moe_scale),
            attention: part(&self.attention, c.attention_scale)
                + part(&self.index, c.index_scale)
                + part(&self.reread, c.latent_reread),
            collectives: part(&self.collectives, c.collective_scale),
            small: k * c.small_kernel * small_kernels(&self.kinds, c),
            host: k * (c.host_step + c.host_sequence * self.sequences),
        };
        let total = step.total();
        step.scaled((self.roof() / total).max(1.0))
    }
}

/// Op times of prefilling one prompt, µs.
#[derive(Debug, Clone, Copy, Default)]
pub struct PrefillWork {
    /// Uncached tokens.
    pub new: f64,
    /// Steps the prompt is cut into.
    pub chunks: f64,
    /// Dense products on top of the running step.
    pub gemm_added: f64,
    /// Experts on top of the running step.
    pub moe_added: f64,
    /// Dense products of a step with the prompt alone.
    pub gemm_alone: f64,
    /// Experts of a step with the prompt alone.
    pub moe_alone: f64,
    /// Attention.
    pub attention: f64,
    /// Sparse attention's index, and gathering what it chose.
    pub index: f64,
    /// Collectives.
    pub collectives: f64,
    /// One pass over the activations of all layers.
    pub pass: f64,
    /// Floors of a step's ops.
    pub floors: f64,
    /// Layers that bring small kernels.
    pub kinds: LayerKinds,
    /// Least time by the datasheet, ms.
    pub roof: f64,
    /// Copying the prompt's cached part in from host memory, beside the steps of others, ms.
    pub copied_ms: f64,
}

/// The variable work of prefill over the same step without it, ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PrefillTime {
    /// Added work of one prompt on top of a running step.
    pub increment: f64,
    /// Work of the prompt in steps of its own, fixed part apart.
    pub alone: f64,
    /// Fixed part of its steps.
    pub fixed: f64,
}

impl PrefillWork {
    /// Prefill time with an engine's constants.
    pub fn time(&self, c: &Constants) -> PrefillTime {
        let common = c.prefill_attention_scale * self.attention
            + c.prefill_index_scale * self.index
            + c.prefill_collective_scale * self.collectives
            + c.prompt_token * self.new
            + c.elementwise_passes * self.pass;
        let increment = c.prefill_gemm_scale * self.gemm_added + c.prefill_moe_scale * self.moe_added + common;
        let alone = c.prefill_gemm_scale * self.gemm_alone + c.prefill_moe_scale * self.moe_alone;
        let step_floors = c.small_kernel * small_kernels(&self.kinds, c) + c.floor_scale * self.floors;
        let increment = (increment / 1e3).max(0.0);
        PrefillTime {
            increment,
            alone: (alone / 1e3).max(increment).max(self.roof) + self.copied_ms,
            fixed: self.chunks * (c.prefill_fixed_ms + c.prefill_floor_share * step_floors / 1e3),
        }
    }
}

/// Step cost of one layout.
#[derive(Debug, Clone)]
pub struct StepCost {
    /// The ops.
    pub ops: Ops,
    /// The constants.
    pub constants: Constants,
    /// Pipeline stages.
    pub stages: f64,
    bandwidth: f64,
}

impl StepCost {
    /// Joins ops and constants.
    pub fn new(ops: Ops, constants: Constants, silicon: &Silicon, stages: u32) -> Self {
        Self { ops, constants, stages: f64::from(stages), bandwidth: silicon.bandwidth }
    }

    /// Dense products of a step of `tokens` tokens.
    pub fn gemm(&self, tokens: f64) -> OpTime {
        self.ops.gemms.iter().map(|g| g.time(tokens)).sum()
    }

    /// Experts of a step of `tokens` tokens.
    pub fn moe(&self, tokens: f64) -> OpTime {
        self.ops.moes.iter().map(|m| m.time(tokens)).sum()
    }

    /// Decode attention of one part.
    pub fn attention(&self, part: AttentionPart, sequences: f64, context: f64, queries: f64) -> OpTime {
        self.ops.decode.iter().filter(|d| d.part == part).map(|d| d.time(sequences, context, queries)).sum()
    }

    /// Attention of a prompt of `new` tokens behind `prefix` cached ones, and what sparse attention adds.
    pub fn prompt_attention(&self, new: f64, prefix: f64) -> [OpTime; 2] {
        [AttentionPart::Context, AttentionPart::Index]
            .map(|part| self.ops.prefill.iter().filter(|p| p.part == part).map(|p| p.time(new, prefix)).sum())
    }

    /// All-reduces and hand-over of a step of `tokens` tokens.
    pub fn collectives(&self, tokens: f64) -> OpTime {
        let reduce: OpTime = self.ops.collectives.iter().map(|c| c.time(tokens)).sum();
        if self.stages > 1.0 { reduce + self.ops.hand_over.time(tokens) } else { reduce }
    }

    /// Work of a step with `sequences` decoding sequences, `queries` tokens each, at mean context `context` tokens.
    pub fn decode_work(&self, sequences: f64, context: f64, queries: f64) -> DecodeWork {
        let tokens = sequences * queries;
        DecodeWork {
            gemm: self.gemm(tokens),
            moe: self.moe(tokens),
            attention: self.attention(AttentionPart::Context, sequences, context, queries),
            index: self.attention(AttentionPart::Index, sequences, context, queries),
            reread: self.attention(AttentionPart::Reread, sequences, context, queries),
            collectives: self.ops.exchanges.iter().map(|e| e.time(tokens)).fold(self.collectives(tokens), |a, b| a + b),
            kinds: self.ops.kinds,
            sequences,
        }
    }

    /// Time of such a step, ms.
    pub fn decode(&self, sequences: f64, context: f64, queries: f64) -> StepTime {
        self.decode_work(sequences, context, queries).time(&self.constants)
    }

    /// Work of a full step of a pool that only prefills: `prompts` prompts of `new` uncached tokens each behind `prefix`
    /// cached ones, spread over `groups` attention groups that work side by side, in chunks of `budget` tokens.
    pub fn packed_prefill_work(&self, prompts: f64, new: f64, prefix: f64, groups: f64, budget: f64) -> PrefillWork {
        let tokens = prompts * new;
        let chunks = (tokens / budget).ceil().max(1.0);
        let chunk = tokens / chunks;
        let (gemm, moe) = (self.gemm(chunk), self.moe(chunk));
        let [attention, index] = self.prompt_attention(new, prefix);
        let roof = |op: &OpTime| op.memory_roof.max(op.compute_roof);
        let one = self.decode_work(1.0, new, 1.0);
        PrefillWork {
            new: tokens,
            chunks,
            gemm_added: chunks * gemm.variable,
            moe_added: chunks * moe.variable,
            gemm_alone: chunks * gemm.variable,
            moe_alone: chunks * moe.variable,
            attention: prompts / groups * attention.variable,
            index: prompts / groups * index.variable,
            collectives: chunks * self.collectives(chunk).variable,
            pass: 2.0 * tokens / groups * self.ops.passed_layers() * self.ops.hidden / self.bandwidth,
            floors: one.floors(),
            kinds: self.ops.kinds,
            roof: (chunks * (roof(&gemm) + roof(&moe))
                + prompts / groups * (attention.compute_roof + index.compute_roof))
                / 1e3,
            copied_ms: 0.0,
        }
    }

    /// Work of prefilling `new` uncached tokens behind `prefix` cached ones on top of the step `running` (whose tokens
    /// are `running_tokens`), in chunks that keep a step within `budget` tokens.
    pub fn prefill_work(
        &self,
        new: f64,
        prefix: f64,
        running: &DecodeWork,
        running_tokens: f64,
        budget: f64,
    ) -> PrefillWork {
        let chunks = (new / (budget - running_tokens).max(1.0)).ceil().max(1.0);
        let chunk = new / chunks;
        let (gemm, moe) = (self.gemm(chunk), self.moe(chunk));
        let [attention, index] = self.prompt_attention(new, prefix);
        let roof = |op: &OpTime| op.memory_roof.max(op.compute_roof);
        PrefillWork {
            new,
            chunks,
            gemm_added: chunks * (self.gemm(chunk + running_tokens).variable - running.gemm.variable).max(0.0),
            moe_added: chunks * (self.moe(chunk + running_tokens).variable - running.moe.variable).max(0.0),
            gemm_alone: chunks * gemm.variable,
            moe_alone: chunks * moe.variable,
            attention: attention.variable,
            index: index.variable,
            collectives: chunks * self.collectives(chunk).variable,
            pass: 2.0 * new * self.ops.passed_layers() * self.ops.hidden / self.bandwidth,
            floors: running.floors(),
            kinds: self.ops.kinds,
            roof: (chunks * (roof(&gemm) + roof(&moe)) + (attention.compute_roof + index.compute_roof)) / 1e3,
            copied_ms: 0.0,
        }
    }

    /// Time of one step that prefills `prompts` whole prompts of `new` tokens each and decodes nothing, ms.
    pub fn prefill_batch(&self, prompts: f64, new: f64) -> f64 {
        let tokens = prompts * new;
        let (gemm, moe) = (self.gemm(tokens), self.moe(tokens));
        let [attention, index] = self.prompt_attention(new, 0.0).map(|op| op * prompts);
        let roof = |op: &OpTime| op.memory_roof.max(op.compute_roof);
        let work = PrefillWork {
            new: tokens,
            chunks: 1.0,
            gemm_added: gemm.variable,
            moe_added: moe.variable,
            gemm_alone: gemm.variable,
            moe_alone: moe.variable,
            attention: attention.variable,
            index: index.variable,
            collectives: self.collectives(tokens).variable,
            pass: 2.0 * tokens * self.ops.passed_layers() * self.ops.hidden / self.bandwidth,
            floors: self.decode_work(prompts, new, 1.0).floors(),
            kinds: self.ops.kinds,
            roof: (roof(&gemm) + roof(&moe) + (attention.compute_roof + index.compute_roof)) / 1e3,
            copied_ms: 0.0,
        };
        let time = work.time(&self.constants);
        time.alone + time.fixed
    }
}
