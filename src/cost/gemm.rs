//! Time of a dense matrix product with a weight matrix, on one rank.

use super::op::{Arms, OpTime, Silicon, join};
use super::tables::{Found, OpTables, first, gpu_key};
use crate::model::WeightFormat;
use crate::target::{Gpu, GpuFamily};

/// `(tokens × k) · (k × n)`, `count` times a step; shapes are the rank's own.
///
/// `t_mem = (N·K·w + M·K·a + o·M·N) / (share · bandwidth)`,
/// `t_flop = 2·max(M, 16)·N·K / (share · peak) + wave · 2·tile(M)·128·K / (peak / units)`: rows are padded to a matrix
/// instruction, and a share of one partial wave of tiles is paid. Form and constants: fit on tuned kernel times, see
/// the table. On a probed device the time is that of the timed numbers of rows, straight between them.
#[derive(Debug, Clone)]
pub struct Gemm {
    /// What it computes.
    pub name: &'static str,
    /// How often per step on this rank.
    pub count: f64,
    /// Output columns on this rank.
    pub n: f64,
    /// Reduction length on this rank.
    pub k: f64,
    /// Table entry it was priced by.
    pub table: String,
    /// The entry is the GPU's and format's own.
    pub exact: bool,
    /// Tokens are divided by this (attention data parallelism).
    pub token_divisor: f64,
    floor: f64,
    memory: (f64, f64),
    flop: f64,
    wave: f64,
    least_rows: f64,
    overlap: f64,
    memory_roof: (f64, f64),
    compute_roof: f64,
    /// Rows and the time they take, µs, where a probe timed them one by one.
    timed: Vec<(f64, f64)>,
}

/// Largest row tile.
const MAX_TILE: f64 = 256.0;
/// Rows of one matrix instruction.
const MIN_ROWS: f64 = 16.0;

/// Rows a product pays for at least: those of a matrix instruction; a device that was probed has no such units for sure.
fn least_rows(family: GpuFamily) -> f64 {
    if family == GpuFamily::Local { 1.0 } else { MIN_ROWS }
}

/// Straight line between the neighbours of `x`; the first value below the first, the last slope beyond the last.
fn between(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|p| p.0 < x).clamp(1, points.len().max(2) - 1);
    match (points.get(after - 1), points.get(after)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x.max(a.0) - a.0) / (b.0 - a.0),
        (Some(only), None) => only.1 * (x / only.0).max(1.0),
        _ => 0.0,
    }
}

fn tile(rows: f64) -> f64 {
    let rows = rows.clamp(MIN_ROWS, MAX_TILE) as u32;
    f64::from(rows.next_power_of_two())
}

/// Table format, bytes per activation and peak of a weight format on a GPU.
fn kernel(format: WeightFormat, gpu: &Gpu, silicon: &Silicon) -> (&'static str, f64, f64, bool) {
    let family = gpu.family;
    match format {
        // Of a probed device alone, whose peak is that of the format it computes in.
        WeightFormat::F32 => ("f32", 4.0, silicon.bf16, true),
        WeightFormat::Bf16 => ("bf16", 2.0, silicon.bf16, true),
        WeightFormat::Fp8 => ("fp8", 1.0, silicon.fp8, true),
        WeightFormat::Int8 => match family {
            GpuFamily::Gfx950 => ("int8", 1.0, silicon.fp8, true),
            _ => ("fp8", 1.0, silicon.fp8, false),
        },
        WeightFormat::Fp8Block | WeightFormat::Mxfp8 => ("fp8b", 1.0, silicon.fp8, true),
        WeightFormat::Mxfp4 if family == GpuFamily::Gfx950 => ("fp4", 17.0 / 32.0, silicon.fp4, true),
        WeightFormat::Nvfp4 | WeightFormat::Mxfp4 if family == GpuFamily::Blackwell => {
            ("nvfp4", 9.0 / 16.0, silicon.fp4, true)
        }
        // Four-bit weights without four-bit units, or weight-only: widened to 16 bits on the way in.
        WeightFormat::Nvfp4 | WeightFormat::Mxfp4 | WeightFormat::Int4 => ("bf16", 2.0, silicon.bf16, false),
    }
}

impl Gemm {
    /// Prices a product once per layout.
    pub fn compile(
        tables: &OpTables,
        gpu: &Gpu,
        silicon: &Silicon,
        name: &'static str,
        count: f64,
        (n, k): (f64, f64),
        format: WeightFormat,
    ) -> Self {
        let (dtype, activation, peak, own) = kernel(format, gpu, silicon);
        let (key, own_gpu) = gpu_key(&gpu.name, gpu.family);
        let neighbour = if gpu.family.is_amd() { "gfx950" } else { "b200" };
        let wanted = [
            format!("{key}|{dtype}"),
            format!("{key}|fp8b"),
            format!("{neighbour}|{dtype}"),
            format!("{neighbour}|bf16"),
        ];
        // Wide formats must not fall back to fp8b: skip that rung.
        let wide = dtype == "bf16" || dtype == "f32";
        let wanted: Vec<String> = wanted.into_iter().filter(|w| !(wide && w.ends_with("fp8b"))).collect();
        let found: Found<'_, _> = first(&tables.gemm, |c| &c.key, &wanted, own && own_gpu)
            .unwrap_or(Found { curve: &tables.gemm[0], exact: false });
        let curve = found.curve;
        let bytes_w = format.bytes();
        // The output has 16 bits, or the 32 of a product in f32.
        let memory_bytes = (n * k * bytes_w, k * activation + activation.max(2.0) * n);
        let bandwidth = curve.hbm_share * silicon.bandwidth;
        Self {
            name,
            count,
            n,
            k,
            table: curve.key.clone(),
            exact: found.exact && !curve.borrowed,
            token_divisor: 1.0,
            floor: if curve.by_rows.is_empty() { curve.floor_us + curve.ramp_us * (k / 1024.0).sqrt() } else { 0.0 },
            memory: (memory_bytes.0 / bandwidth, memory_bytes.1 / bandwidth),
            flop: 2.0 * n * k / (curve.peak_share * peak),
            wave: curve.wave * 2.0 * 128.0 * k / (peak / silicon.units),
            least_rows: least_rows(gpu.family),
            overlap: curve.overlap,
            memory_roof: (memory_bytes.0 / silicon.bandwidth, memory_bytes.1 / silicon.bandwidth),
            compute_roof: 2.0 * n * k / peak,
            timed: curve.by_rows.iter().map(|t| (t.rows, t.time(n, k))).collect(),
        }
    }

    /// The same product on a share of the tokens.
    pub fn per_group(mut self, groups: f64) -> Self {
        self.token_divisor = groups;
        self
    }

    /// Rows this rank multiplies in a step of `tokens` tokens over the instance.
    pub fn rows(&self, tokens: f64) -> f64 {
        (tokens / self.token_divisor).max(1.0)
    }

    /// Memory and compute arm of one product, µs. Where rows were timed, what the fewest take counts as memory.
    fn pair(&self, rows: f64) -> (f64, f64) {
        match self.timed.first() {
            Some((_, least)) => (*least, (between(&self.timed, rows) - least).max(0.0)),
            None => {
                (self.memory.0 + self.memory.1 * rows, self.flop * rows.max(self.least_rows) + self.wave * tile(rows))
            }
        }
    }

    /// Both arms of all `count` products, µs.
    pub fn arms(&self, tokens: f64) -> Arms {
        let rows = self.rows(tokens);
        let (memory, compute) = self.pair(rows);
        Arms { memory, compute, beside: 0.0, overlap: self.overlap }.of(self.count)
    }

    /// Time for a step of `tokens` tokens over the instance, all `count` products together.
    pub fn time(&self, tokens: f64) -> OpTime {
        let rows = self.rows(tokens);
        let (memory, flop) = self.pair(rows);
        OpTime {
            floor: self.floor,
            variable: join(memory, flop, self.overlap),
            memory_roof: self.memory_roof.0 + self.memory_roof.1 * rows,
            compute_roof: self.compute_roof * rows,
        }
        .above_roof()
            * self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_rows_are_joined_by_straight_lines() {
        let timed = [(1.0, 10.0), (2.0, 30.0), (10.0, 46.0)];
        for (rows, expected) in [(1.0, 10.0), (0.5, 10.0), (1.5, 20.0), (2.0, 30.0), (6.0, 38.0), (20.0, 66.0)] {
            assert!((between(&timed, rows) - expected).abs() < 1e-9, "{rows}");
        }
        assert_eq!(between(&timed[..1], 3.0), 30.0);
    }
}
