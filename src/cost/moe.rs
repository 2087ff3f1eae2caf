//! Time of a fused mixture-of-experts op (routing, two grouped products, combine) on one rank.

use super::op::{Arms, OpTime, Silicon, join};
use super::tables::{Found, LOCAL, OpTables, WORKLOAD, first, gpu_key};
use crate::model::{Moe, WeightFormat};
use crate::target::{EngineFamily, Gpu, GpuFamily};

/// Routed experts of `count` layers.
///
/// With T tokens over the instance, E experts of which k are used, G expert groups and F the intermediate size on this
/// rank: `active = (E/G)(1 − (1 − k/E)^T)` distinct experts are touched (uniform router), `rows = T·k/G`,
/// `t_mem = (active·3·H·F·w + rows·(2·H·a + 3·F·a + 2·H)) / (share · bandwidth)`,
/// `t_flop = 6·H·F·active·√(m² + m₀²) / (share · peak)` with `m = rows/active`,
/// `t = floor + per_expert·active + per_token·T + (F + F₀)/F · join(t_mem, t_flop)`.
/// Form and constants: fit on kernel times, see the table.
#[derive(Debug, Clone)]
pub struct MoeOp {
    /// Layers with this shape on this rank.
    pub count: f64,
    /// Routed experts.
    pub experts: f64,
    /// Experts per token.
    pub top_k: f64,
    /// Intermediate size on this rank.
    pub inter: f64,
    /// Expert groups.
    pub groups: f64,
    /// Table entry it was priced by.
    pub table: String,
    /// The entry is the GPU's, engine's and format's own.
    pub exact: bool,
    log_miss: f64,
    floor: f64,
    per_expert: f64,
    per_token: f64,
    weight_time: f64,
    row_time: f64,
    flop: f64,
    min_rows: f64,
    overlap: f64,
    widen: f64,
    imbalance: f64,
    roof: (f64, f64, f64),
}

/// Table source names, in order of preference, of an engine on a GPU family.
fn sources(engine: EngineFamily, gpu: GpuFamily) -> &'static [&'static str] {
    match (gpu.is_amd(), engine, gpu) {
        (true, ..) => &["aiter"],
        (false, _, GpuFamily::Local) => &[WORKLOAD, "vllm", "trtllm"],
        (false, EngineFamily::Trtllm, _) => &["trtllm", "vllm"],
        (false, EngineFamily::Sglang, GpuFamily::Hopper) => &["sglang", "vllm", "trtllm"],
        _ => &["vllm", "trtllm"],
    }
}

/// Table formats in order of preference, bytes per activation, and the peak that bounds the products.
fn formats(moe: &Moe, format: WeightFormat, gpu: GpuFamily, s: &Silicon) -> (&'static [&'static str], f64, f64) {
    let amd = gpu.is_amd();
    match format {
        WeightFormat::F32 => (&["f32"], 4.0, s.bf16),
        WeightFormat::Bf16 => (if amd { &["bf16"] } else { &["bf16", "bfloat16"] }, 2.0, s.bf16),
        WeightFormat::Fp8 | WeightFormat::Int8 => (if amd { &["fp8", "fp8b"] } else { &["fp8"] }, 1.0, s.fp8),
        WeightFormat::Fp8Block | WeightFormat::Mxfp8 => (if amd { &["fp8b"] } else { &["fp8_block"] }, 1.0, s.fp8),
        // Expert biases (gpt-oss) need kernels that keep activations in 8 or 16 bits.
        WeightFormat::Mxfp4 if moe.bias => match gpu {
            GpuFamily::Gfx950 => (&["a8w4", "a16w4"], 1.0, s.fp8),
            GpuFamily::Gfx942 => (&["a16w4"], 2.0, s.bf16),
            GpuFamily::Hopper | GpuFamily::Local => (&["w4a16_mxfp4"], 2.0, s.bf16),
            GpuFamily::Blackwell => (&["w4a8_mxfp4_mxfp8"], 1.0, s.fp8),
        },
        WeightFormat::Mxfp4 | WeightFormat::Nvfp4 => match gpu {
            GpuFamily::Gfx950 => (&["a4w4"], 17.0 / 32.0, s.fp4),
            GpuFamily::Gfx942 => (&["a16w4"], 2.0, s.bf16),
            GpuFamily::Hopper | GpuFamily::Local => (&["w4a16_mxfp4"], 2.0, s.bf16),
            GpuFamily::Blackwell => (&["nvfp4"], 9.0 / 16.0, s.fp4),
        },
        WeightFormat::Int4 => (if amd { &["a16w4"] } else { &["int4_wo"] }, 2.0, s.bf16),
    }
}

/// Sharding of the experts: `groups` of ranks hold disjoint experts, each expert split over `ranks_per_group`.
#[derive(Debug, Clone, Copy)]
pub struct ExpertShards {
    /// Expert-parallel groups.
    pub groups: f64,
    /// Ranks that share one expert.
    pub ranks_per_group: f64,
    /// Routed tokens of the busiest group over the mean group's; counts where there are several.
    pub imbalance: f64,
}

impl MoeOp {
    /// Prices the experts of a layer once per layout.
    #[allow(clippy::too_many_arguments)]
    pub fn compile(
        tables: &OpTables,
        gpu: &Gpu,
        silicon: &Silicon,
        engine: EngineFamily,
        moe: &Moe,
        hidden: f64,
        format: WeightFormat,
        shards: ExpertShards,
        count: f64,
    ) -> Self {
        let (dtypes, activation, peak) = formats(moe, format, gpu.family, silicon);
        let (key, own_gpu) = gpu_key(&gpu.name, gpu.family);
        let sources = sources(engine, gpu.family);
        let neighbours: &[&str] = match key {
            "gfx942" => &["gfx942", "gfx950"],
            "gfx950" => &["gfx950", "gfx942"],
            "h100" => &["h100", "h200"],
            "h200" => &["h200", "h100"],
            LOCAL => &[LOCAL, "h200", "b200"],
            _ => &["b200", "h200"],
        };
        let mut wanted = Vec::new();
        for gpu_name in neighbours {
            for source in sources {
                wanted.extend(dtypes.iter().map(|dtype| format!("{gpu_name}|{source}|{dtype}")));
            }
        }
        let found: Found<'_, _> =
            first(&tables.moe, |c| &c.key, &wanted, own_gpu).unwrap_or(Found { curve: &tables.moe[0], exact: false });
        let curve = found.curve;
        let hidden = moe.latent.map_or(hidden, f64::from);
        let (experts, top_k) = (f64::from(moe.experts), f64::from(moe.top_k));
        let inter = f64::from(moe.inter) / shards.ranks_per_group;
        let matrices = if moe.gated { 3.0 } else { 2.0 };
        let expert_bytes = matrices * hidden * inter * format.bytes();
        let row_bytes = 2.0 * hidden * activation + matrices * inter * activation + activation.max(2.0) * hidden;
        let row_flops = 2.0 * matrices * hidden * inter;
        let bandwidth = curve.hbm_share * silicon.bandwidth;
        Self {
            count,
            experts,
            top_k,
            inter,
            groups: shards.groups,
            table: curve.key.clone(),
            exact: found.exact,
            log_miss: (-(top_k / experts).min(1.0 - 1e-12)).ln_1p(),
            floor: curve.floor_us,
            per_expert: curve.per_expert_ns / 1e3,
            per_token: curve.per_ktoken_us / 1e3,
            weight_time: expert_bytes / bandwidth,
            row_time: row_bytes / bandwidth,
            flop: row_flops / (curve.peak_share * peak),
            min_rows: curve.min_rows,
            overlap: curve.overlap,
            widen: (inter + curve.extra_inter) / inter,
            imbalance: if shards.groups > 1.0 { shards.imbalance } else { 1.0 },
            roof: (expert_bytes / silicon.bandwidth, row_bytes / silicon.bandwidth, row_flops / peak),
        }
    }

    /// Distinct experts a rank touches when `tokens` tokens are routed uniformly.
    pub fn active(&self, tokens: f64) -> f64 {
        self.experts / self.groups * -(tokens * self.log_miss).exp_m1()
    }

    /// Token copies a group's experts work on in a step of `tokens` tokens.
    pub fn rows(&self, tokens: f64) -> f64 {
        tokens * self.top_k / self.groups
    }

    /// Both arms of all layers, µs; per-expert and per-token work is beside them.
    pub fn arms(&self, tokens: f64) -> Arms {
        let active = self.active(tokens);
        let rows = self.rows(tokens);
        let stretch = self.widen * self.imbalance;
        Arms {
            memory: stretch * (active * self.weight_time + rows * self.row_time),
            compute: stretch * self.flop * (rows * rows + active * active * self.min_rows * self.min_rows).sqrt(),
            beside: self.per_expert * active + self.per_token * tokens,
            overlap: self.overlap,
        }
        .of(self.count)
    }

    /// Time for a step of `tokens` tokens over the instance, all layers together.
    pub fn time(&self, tokens: f64) -> OpTime {
        let active = self.active(tokens);
        let rows = tokens * self.top_k / self.groups;
        let memory = active * self.weight_time + rows * self.row_time;
        let flop = self.flop * (rows * rows + active * active * self.min_rows * self.min_rows).sqrt();
        let grouped = self.widen * join(memory, flop, self.overlap) * self.imbalance;
        OpTime {
            floor: self.floor,
            variable: self.per_expert * active + self.per_token * tokens + grouped,
            memory_roof: active * self.roof.0 + rows * self.roof.1,
            compute_roof: rows * self.roof.2,
        }
        .above_roof()
            * self.count
    }
}
