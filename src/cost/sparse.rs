//! What attention costs beyond reading the context once: the index of sparse attention, gathering what it chose, and
//! reading a latent again for further groups of heads.

use super::attention::{AttentionPart, DecodeAttention, PrefillAttention};
use super::op::Silicon;
use crate::model::{Indexer, KvFormat};
use crate::target::GpuFamily;

/// Share of the 16-bit peak at which an index scores tokens and picks the best; assumed, and scaled by `index_scale` and
/// `prefill_index_scale`.
const INDEX_SHARE: f64 = 0.1;
/// Bandwidth of gathering chosen entries in prefill over that of HBM: neighbouring queries choose alike, so that caches
/// answer for much of it; assumed, and scaled by `prefill_index_scale`.
const GATHER_SHARE: f64 = 2.0;
/// Heads for which AMD's kernels of latent attention read the cache once: for long AITER had kernels for 16 and for 128
/// heads alone (ROCm/aiter issue 726) and folded 32 into calls of the one for 16 (pull request 3304, 2026-05); later ones
/// take 32 and 64 at once, which `latent_reread` below 1 says.
const LATENT_HEADS: f64 = 16.0;
const LATENT_HEADS_WIDE: f64 = 128.0;

/// Bytes of the index per context token: one 8-bit key and a 32-bit scale (DeepSeek-V3.2: 132 for a key of 128).
fn index_bytes(index: &Indexer) -> f64 {
    f64::from(index.head_dim) + 4.0
}

/// Flops of scoring one context token: every index head multiplies a query with the token's key.
fn index_flops(index: &Indexer) -> f64 {
    2.0 * f64::from(index.heads) * f64::from(index.head_dim)
}

/// Times a decode kernel reads a latent for `heads` query heads on a rank.
pub fn latent_reads(heads: f64, family: GpuFamily) -> f64 {
    if !family.is_amd() || heads >= LATENT_HEADS_WIDE { 1.0 } else { (heads / LATENT_HEADS).ceil().max(1.0) }
}

impl DecodeAttention {
    /// The scan of the index over the whole context, every head on every rank, beside the attention `self` it chooses
    /// for: `t = B·ctx·(bytes/(share·bandwidth) + queries·flops/(0.1·bf16 peak))`.
    pub fn index_scan(&self, index: &Indexer, silicon: &Silicon) -> Self {
        let bytes = index_bytes(index);
        // The share of the bandwidth that the attention kernel reaches.
        let share = self.per_token.1 / self.per_token.0;
        let scored = index_flops(index) / (INDEX_SHARE * silicon.bf16);
        Self {
            name: "index scan",
            part: AttentionPart::Index,
            exact: false,
            values_per_token: f64::from(index.head_dim),
            floor: 0.0,
            per_token: (bytes / (share * silicon.bandwidth), bytes / silicon.bandwidth),
            split: 0.0,
            flop: (scored, index_flops(index) / silicon.fp8),
            overlap: 1.0,
            ..self.clone()
        }
        .over_whole_context()
    }

    /// Reading the latent again, `times` more often than once.
    pub fn reread(&self, times: f64) -> Self {
        Self {
            name: "latent reread",
            part: AttentionPart::Reread,
            exact: false,
            floor: 0.0,
            per_token: (times * self.per_token.0, 0.0),
            split: 0.0,
            flop: (0.0, 0.0),
            ..self.clone()
        }
    }
}

impl PrefillAttention {
    /// Scoring all pairs of prompt tokens by the index, every head on every rank, at a tenth of the 16-bit peak; the
    /// index has one key for `ratio` tokens.
    pub fn index_scores(&self, index: &Indexer, ratio: f64, silicon: &Silicon) -> Self {
        Self {
            name: "index scores",
            part: AttentionPart::Index,
            exact: false,
            heads: f64::from(index.heads),
            dims: f64::from(index.head_dim),
            flop: index_flops(index) / ratio / (INDEX_SHARE * silicon.bf16),
            roof: index_flops(index) / ratio / silicon.fp8,
            half_length: 0.0,
            longest: f64::INFINITY,
            ..self.clone()
        }
    }

    /// Gathering the chosen entries of `values` values for every prompt token, at twice the HBM bandwidth.
    pub fn gather(&self, values: f64, kv: KvFormat, silicon: &Silicon) -> Self {
        Self {
            name: "gather of chosen entries",
            part: AttentionPart::Index,
            exact: false,
            flop: values * kv.bytes() / (GATHER_SHARE * silicon.bandwidth),
            roof: 0.0,
            half_length: 0.0,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::OpTables;
    use crate::cost::attention::DecodeShape;

    fn mi355x(kv: KvFormat, longest: f64) -> (DecodeAttention, Silicon) {
        let target = crate::target::Target::load("mi355x").unwrap();
        let silicon = Silicon::of(&target.gpu);
        let shape = DecodeShape::mla(16.0, 512.0, 64.0, longest);
        let engine = crate::target::EngineFamily::Vllm;
        let tables = OpTables::built_in().unwrap();
        let op = DecodeAttention::compile(tables, &target.gpu, &silicon, engine, "latent", 61.0, true, shape, kv, 1.0);
        (op, silicon)
    }

    #[test]
    fn an_index_is_scanned_over_the_whole_context_on_every_rank() {
        let index = Indexer { heads: 64, head_dim: 128, top_k: 2048, owns_index: true };
        let (attention, silicon) = mi355x(KvFormat::Bf16, 2048.0);
        let scan = attention.index_scan(&index, &silicon);
        // DeepSeek-V3.2: 132 bytes and 2 · 64 · 128 flops a token; AITER's latent kernel reaches 0.7358 of the bandwidth.
        let token = 132.0 / (0.7358 * silicon.bandwidth) + 16_384.0 / (0.1 * silicon.bf16);
        let expected = 61.0 * 32.0 * 10_000.0 * token;
        assert!((scan.time(32.0, 10_000.0, 1.0).variable / expected - 1.0).abs() < 1e-9);
        // Two drafts beside each token are scored too; the index is read once.
        let drafted = 132.0 / (0.7358 * silicon.bandwidth) + 3.0 * 16_384.0 / (0.1 * silicon.bf16);
        assert!((scan.time(32.0, 10_000.0, 3.0).variable / (61.0 * 320_000.0 * drafted) - 1.0).abs() < 1e-9);
        // The attention itself stops growing at the tokens that are chosen.
        assert_eq!(attention.time(32.0, 10_000.0, 1.0), attention.time(32.0, 2048.0, 1.0));
    }

    #[test]
    fn reading_again_costs_what_reading_does_and_has_no_floor() {
        let (attention, _) = mi355x(KvFormat::Fp8, f64::INFINITY);
        let again = attention.reread(1.0).time(64.0, 8192.0, 1.0);
        let bytes = 61.0 * 64.0 * 8192.0 * 576.0;
        let memory = attention.arms(64.0, 8192.0, 1.0).memory;
        assert_eq!((again.floor, again.memory_roof), (0.0, 0.0));
        assert!(again.variable > bytes / 8e6 && again.variable <= memory, "{} of {memory}", again.variable);
    }

    #[test]
    fn amd_kernels_read_a_latent_once_for_16_heads() {
        assert_eq!(latent_reads(8.0, GpuFamily::Gfx950), 1.0);
        assert_eq!(latent_reads(16.0, GpuFamily::Gfx950), 1.0);
        assert_eq!(latent_reads(32.0, GpuFamily::Gfx950), 2.0);
        assert_eq!(latent_reads(128.0, GpuFamily::Gfx942), 1.0);
        assert_eq!(latent_reads(32.0, GpuFamily::Hopper), 1.0);
    }
}
