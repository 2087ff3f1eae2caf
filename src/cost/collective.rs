//! Time of the collectives of a step: all-reduce of a tensor group, and the hand-over between pipeline stages.

use super::op::OpTime;
use super::tables::{Found, OpTables, first, gpu_key};
use crate::target::{EngineFamily, Gpu, Node, Topology};

/// Fixed time of a collective that leaves the scale-up domain, µs; assumed (about two network hops with the host
/// stack bypassed; public all-to-all figures over 16 ranks are 76–122 µs, over 8 ranks 31–47 µs).
const SCALE_OUT_FLOOR: f64 = 30.0;
/// Fixed time of a dispatch or a combine, µs: public figures are 31–47 over 8 ranks of one scale-up domain and 76–122
/// over 16 ranks of two nodes; their middles.
const EXCHANGE_FLOOR_UP: f64 = 39.0;
const EXCHANGE_FLOOR_OUT: f64 = 99.0;
/// Share of a link an exchange reaches; assumed, as for a collective of its size.
const EXCHANGE_SHARE: f64 = 0.7;
/// Fixed time of a point-to-point hand-over, µs; assumed.
const HAND_OVER_FLOOR: f64 = 10.0;

/// `count` all-reduces of `tokens × width` values in 16 bits over `ranks` ranks.
#[derive(Debug, Clone)]
pub struct AllReduce {
    /// How many per step.
    pub count: f64,
    /// Ranks.
    pub ranks: f64,
    /// Table entry it was priced by.
    pub table: String,
    /// The entry is the GPU's and engine's own.
    pub exact: bool,
    /// Values per token.
    pub width: f64,
    token_divisor: f64,
    floor: f64,
    per_token: (f64, f64),
}

impl AllReduce {
    /// Prices an all-reduce once per layout; `None` for a single rank.
    ///
    /// Mesh links are used between pairs, so a group of P gets (P − 1)/(world − 1) of the GPU's links.
    #[allow(clippy::too_many_arguments)]
    pub fn compile(
        tables: &OpTables,
        gpu: &Gpu,
        node: &Node,
        engine: EngineFamily,
        count: f64,
        ranks: u32,
        width: f64,
        groups: f64,
    ) -> Option<Self> {
        if ranks < 2 || count == 0.0 {
            return None;
        }
        let (key, own) = gpu_key(&gpu.name, gpu.family);
        let source = match (gpu.family.is_amd(), engine) {
            (true, _) => "aiter",
            (false, EngineFamily::Trtllm) => "trtllm",
            (false, EngineFamily::Sglang) => "sglang",
            (false, _) => "vllm",
        };
        let wanted = [format!("{key}|{source}"), format!("{key}|vllm")];
        let found: Found<'_, _> = first(&tables.all_reduce, |c| &c.key, &wanted, own)
            .unwrap_or(Found { curve: &tables.all_reduce[0], exact: false });
        let p = f64::from(ranks);
        let link = node.scaleup_gb_s.value * 1e3;
        let leaves = ranks > node.scaleup_world;
        let (link, extra) = if leaves {
            (node.scaleout_gb_s.value * 1e3, SCALE_OUT_FLOOR)
        } else if node.topology == Topology::Mesh {
            (link * (p - 1.0) / f64::from(node.scaleup_world - 1).max(1.0), 0.0)
        } else {
            (link, 0.0)
        };
        let bytes = 2.0 * (p - 1.0) / p * width * 2.0;
        Some(Self {
            count,
            ranks: p,
            table: found.curve.key.clone(),
            exact: found.exact && !leaves,
            width,
            token_divisor: groups,
            floor: found.curve.floor_us + found.curve.per_rank_us * (p - 2.0) + extra,
            per_token: (bytes / (found.curve.link_share * link), bytes / link),
        })
    }

    /// Prices the exchange of a wide expert-parallel group instead, where attention is data-parallel over all its ranks:
    /// a token goes to the ranks that hold its `top_k` experts in 8 bits and its results come back in 16.
    ///
    /// A rank sends `T/P · r · H · 3` bytes, `r = (P − 1)(1 − (1 − 1/P)^k)` ranks other than its own per token.
    pub fn exchange(gpu: &Gpu, node: &Node, count: f64, ranks: u32, width: f64, top_k: f64) -> Self {
        let p = f64::from(ranks);
        let leaves = ranks > node.scaleup_world;
        let (link, floor) = if leaves {
            (node.scaleout_gb_s.value * 1e3, EXCHANGE_FLOOR_OUT)
        } else {
            (node.scaleup_gb_s.value * 1e3, EXCHANGE_FLOOR_UP)
        };
        let remote = (p - 1.0) * (1.0 - (1.0 - 1.0 / p).powf(top_k));
        let bytes = remote / p * width * 3.0;
        let (key, _) = gpu_key(&gpu.name, gpu.family);
        Self {
            count,
            ranks: p,
            table: format!("{key}|exchange"),
            exact: false,
            width,
            token_divisor: 1.0,
            floor: 2.0 * floor,
            per_token: (bytes / (EXCHANGE_SHARE * link), bytes / link),
        }
    }

    /// Tokens of a step of `tokens` tokens that this group reduces.
    pub fn rows(&self, tokens: f64) -> f64 {
        tokens / self.token_divisor
    }

    /// Groups that each reduce their own share of the tokens.
    pub fn groups(&self) -> f64 {
        self.token_divisor
    }

    /// Time for a step of `tokens` tokens over the instance.
    pub fn time(&self, tokens: f64) -> OpTime {
        let tokens = tokens / self.token_divisor;
        OpTime {
            floor: self.floor,
            variable: self.per_token.0 * tokens,
            memory_roof: self.per_token.1 * tokens,
            compute_roof: 0.0,
        } * self.count
    }
}

/// Hand-over of activations between pipeline stages, all stages together.
#[derive(Debug, Clone)]
pub struct HandOver {
    /// Hops between stages.
    pub hops: f64,
    /// Values per token.
    pub width: f64,
    per_token: f64,
}

impl HandOver {
    /// Prices `stages − 1` hops; the link is the scale-up one where the instance fits into a domain.
    pub fn compile(node: &Node, stages: u32, ranks_per_stage: u32, width: f64) -> Self {
        let inside = stages * ranks_per_stage <= node.scaleup_world;
        let link = if inside { node.scaleup_gb_s.value } else { node.scaleout_gb_s.value } * 1e3;
        Self { hops: f64::from(stages - 1), width, per_token: 2.0 * width / link }
    }

    /// Time for `tokens` tokens to pass all stages.
    pub fn time(&self, tokens: f64) -> OpTime {
        OpTime {
            floor: HAND_OVER_FLOOR,
            variable: self.per_token * tokens,
            memory_roof: self.per_token * tokens,
            compute_roof: 0.0,
        } * self.hops
    }
}
