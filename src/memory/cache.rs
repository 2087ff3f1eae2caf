//! How does the KV cache of one rank divide into blocks, and how many does a request hold?
//!
//! vLLM draws all layers from one pool of equal pages. Layers of one kind form groups of equal size; a block of the
//! pool serves one group. Attention pages grow until a linear layer's state fits in one (then states are padded to
//! it), and layers with fewer bytes a token get longer blocks. Rules read in vLLM 0.11 to 0.33 (`kv_cache_utils`).
//! SGLang and TensorRT-LLM keep a pool per kind; there a block is `block_size` tokens of all full layers.

use crate::config::Deployment;
use crate::memory::weights::kv_heads_per_rank;
use crate::model::{Architecture, Indexer, KvFormat, Mixer};
use crate::target::EngineFamily;
use crate::target::engine::{EngineSettings, HybridPrint};

/// Different cache kinds a model may have.
const MAX_KINDS: usize = 6;

/// What a layer keeps of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Holds {
    /// Every token.
    All,
    /// The last tokens.
    Window(f64),
    /// A fixed state, whatever the length.
    State,
}

/// Layers that keep the same amount.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    holds: Holds,
    layers: f64,
    /// Bytes of one token in one layer; of the whole state for [`Holds::State`].
    bytes: f64,
}

/// Groups of layers that take blocks alike.
#[derive(Debug, Clone, Copy)]
struct Group {
    holds: Holds,
    copies: f64,
    block_tokens: f64,
}

/// The pool of one rank.
#[derive(Debug, Clone, Copy)]
pub struct CacheLayout {
    groups: [Group; MAX_KINDS],
    kinds: usize,
    /// Bytes of one block of the pool.
    pub bytes_per_block: f64,
    /// Tokens of a block of the full-attention layers.
    pub block_tokens: f64,
    /// Bytes one more token of context costs with all windows full.
    pub marginal_bytes: f64,
    /// State bytes of one sequence where the engine keeps a pool apart for them.
    pub separate_state_bytes: f64,
    state_blocks: f64,
    steps_in_flight: f64,
    one_kind: bool,
    print: HybridPrint,
}

impl CacheLayout {
    /// Lays the pool out for the fullest pipeline stage.
    pub fn new(arch: &Architecture, kv: KvFormat, engine: &EngineSettings, deployment: &Deployment) -> Self {
        let (mut buckets, n) = buckets(arch, kv, deployment);
        let buckets = &mut buckets[..n];
        let mla = arch.layers.iter().any(|g| matches!(g.mixer, Mixer::Mla(_)));
        let block = f64::from(if mla { engine.mla_block_size } else { engine.block_size });
        let mut layout = Self {
            groups: [Group { holds: Holds::All, copies: 0.0, block_tokens: 1.0 }; MAX_KINDS],
            kinds: 0,
            bytes_per_block: 0.0,
            block_tokens: block,
            marginal_bytes: marginal(buckets),
            separate_state_bytes: 0.0,
            state_blocks: f64::from(engine.state_blocks.max(1)),
            steps_in_flight: f64::from(engine.steps_in_flight.max(1)),
            one_kind: true,
            print: engine.hybrid_print,
        };
        match engine.family {
            EngineFamily::Vllm => layout.one_pool(buckets, block),
            _ => layout.pools_apart(buckets, block, engine.window_pool_ratio),
        }
        layout
    }

    /// vLLM: equal pages, groups of equal size.
    fn one_pool(&mut self, buckets: &[Bucket], block: f64) {
        let full_only = buckets.iter().all(|b| b.holds == Holds::All);
        let same_window = buckets.windows(2).all(|w| w[0].holds == w[1].holds) && !has_state(buckets);
        if full_only || same_window {
            let per_token: f64 = buckets.iter().map(|b| b.layers * b.bytes).sum();
            self.bytes_per_block = per_token * block;
            let holds = buckets.first().map_or(Holds::All, |b| b.holds);
            self.push(Group { holds, copies: 1.0, block_tokens: block });
            return;
        }
        self.one_kind = false;
        let largest_token = fold_max(buckets, |b| b.holds != Holds::State);
        let state = fold_max(buckets, |b| b.holds == Holds::State);
        let needed = if largest_token > 0.0 { (state / (largest_token * block)).ceil() * block } else { block };
        let page = (largest_token * needed.max(block)).max(state);
        let fewest = buckets.iter().map(|b| b.layers).fold(f64::INFINITY, f64::min);
        let most = buckets.iter().map(|b| b.layers).fold(0.0, f64::max);
        let group = if most < 1.5 * fewest { most } else { fewest };
        self.bytes_per_block = page * group;
        for b in buckets {
            let tokens = if b.holds == Holds::State { 1.0 } else { (page / b.bytes / block).floor().max(1.0) * block };
            if b.holds == Holds::All {
                self.block_tokens = tokens;
            }
            self.push(Group { holds: b.holds, copies: (b.layers / group).ceil(), block_tokens: tokens });
        }
    }

    /// SGLang, TensorRT-LLM: tokens of the full layers; windows and states beside them.
    fn pools_apart(&mut self, buckets: &[Bucket], block: f64, window_ratio: f64) {
        self.one_kind = buckets.iter().all(|b| b.holds == Holds::All);
        let full: f64 = buckets.iter().filter(|b| b.holds == Holds::All).map(|b| b.layers * b.bytes).sum();
        let window: f64 =
            buckets.iter().filter(|b| matches!(b.holds, Holds::Window(_))).map(|b| b.layers * b.bytes).sum();
        self.separate_state_bytes =
            buckets.iter().filter(|b| b.holds == Holds::State).map(|b| b.layers * b.bytes).fold(0.0, |a, b| a + b);
        let per_token = if full > 0.0 { full + window_ratio * window } else { window };
        self.bytes_per_block = per_token * block;
        self.push(Group { holds: Holds::All, copies: 1.0, block_tokens: block });
    }

    fn push(&mut self, group: Group) {
        self.groups[self.kinds] = group;
        self.kinds += 1;
    }

    /// Blocks a request of `tokens` may hold, as the engine counts it: a window layer is charged for a whole prefill
    /// chunk of `batch` tokens on top of its window.
    pub fn blocks(&self, tokens: f64, batch: f64) -> f64 {
        let per_group = self.groups[..self.kinds].iter().map(|g| {
            g.copies
                * match g.holds {
                    Holds::All => (tokens / g.block_tokens).ceil(),
                    Holds::Window(window) => {
                        ((window - 1.0 + batch * self.steps_in_flight).min(tokens) / g.block_tokens).ceil() + 1.0
                    }
                    Holds::State => self.state_blocks,
                }
        });
        per_group.sum::<f64>().max(1.0)
    }

    /// Capacity as the engine prints it, in tokens and requests of `longest` tokens, for a pool of `bytes`.
    pub fn printed(&self, bytes: f64, longest: f64, batch: f64) -> (f64, f64) {
        if self.bytes_per_block <= 0.0 {
            return (0.0, 0.0);
        }
        let blocks = (bytes / self.bytes_per_block).floor().max(0.0);
        let concurrency = blocks / self.blocks(longest, batch);
        let tokens = if self.one_kind {
            blocks * self.block_tokens
        } else if self.print == HybridPrint::BlocksOverGroups {
            let groups: f64 = self.groups[..self.kinds].iter().map(|g| g.copies).sum();
            (blocks / groups).floor() * self.block_tokens
        } else {
            (concurrency * longest).floor()
        };
        (tokens, concurrency)
    }
}

impl CacheLayout {
    /// Longest request, in whole blocks, that a pool of `bytes` holds; zero where not even one block fits.
    pub fn longest(&self, bytes: f64, batch: f64) -> f64 {
        let blocks = (bytes / self.bytes_per_block).floor();
        let (mut low, mut high) = (0.0, (blocks.max(0.0) + 1.0).ceil());
        // `low` blocks of full attention fit, `high` do not.
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0_f64).floor();
            if self.blocks(middle * self.block_tokens, batch) <= blocks { low = middle } else { high = middle }
        }
        low * self.block_tokens
    }
}

/// The pool of one rank as a scheduler allocates from it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockPool {
    /// Blocks in all.
    pub blocks: u64,
    /// Tokens of a block of the full-attention layers.
    pub block_tokens: u32,
    /// Block tables of a request: the window of each in tokens, `None` for full attention. A recurrent state is a
    /// window of one token.
    pub tables: Vec<Option<u32>>,
}

/// Most block tables a scheduler is asked to keep for a request.
const MOST_TABLES: f64 = 4.0;

impl CacheLayout {
    /// The pool of `bytes`. Where layers form many groups, several take part in one table of the answer, and its blocks
    /// are that many times fewer.
    pub fn block_pool(&self, bytes: f64) -> BlockPool {
        let groups = &self.groups[..self.kinds];
        // Blocks of a table are all counted as the full layers' are.
        let share = |g: &Group| match g.holds {
            Holds::State => g.copies * self.state_blocks,
            _ => g.copies * self.block_tokens / g.block_tokens,
        };
        let all: f64 = groups.iter().map(share).sum();
        let joined = if all > MOST_TABLES { groups.iter().map(share).fold(1.0, f64::max) } else { 1.0 };
        let mut tables = Vec::new();
        for group in groups {
            let window = match group.holds {
                Holds::All => None,
                Holds::Window(window) => Some((window as u32).max(1)),
                Holds::State => Some(1),
            };
            let count = (share(group) / joined).round().clamp(1.0, MOST_TABLES) as usize;
            tables.extend(std::iter::repeat_n(window, count));
        }
        let blocks =
            if self.bytes_per_block > 0.0 { bytes / self.bytes_per_block / joined } else { f64::from(u32::MAX) };
        BlockPool { blocks: blocks.max(0.0) as u64, block_tokens: self.block_tokens as u32, tables }
    }
}

fn has_state(buckets: &[Bucket]) -> bool {
    buckets.iter().any(|b| b.holds == Holds::State)
}

fn fold_max(buckets: &[Bucket], keep: impl Fn(&Bucket) -> bool) -> f64 {
    buckets.iter().filter(|b| keep(b)).map(|b| b.bytes).fold(0.0, f64::max)
}

/// Full layers' bytes a token; all layers' where none is full.
fn marginal(buckets: &[Bucket]) -> f64 {
    buckets.iter().filter(|b| b.holds == Holds::All).map(|b| b.layers * b.bytes).sum()
}

/// Cache kinds of the fullest stage. Layers that share an index cache, or keep none, add nothing.
fn buckets(arch: &Architecture, kv: KvFormat, deployment: &Deployment) -> ([Bucket; MAX_KINDS], usize) {
    let ranks = f64::from(deployment.attention_tp().max(1));
    let spread = f64::from(deployment.context_parallel.max(1));
    let layers = arch.layer_count().max(1);
    let share = f64::from(layers.div_ceil(deployment.pp.max(1))) / f64::from(layers);
    let mut list = [Bucket { holds: Holds::All, layers: 0.0, bytes: 0.0 }; MAX_KINDS];
    let mut n = 0;
    let mut add = |holds: Holds, count: u32, bytes: f64| {
        if bytes <= 0.0 {
            return;
        }
        let count = (f64::from(count) * share).ceil();
        let bytes = if holds == Holds::All { bytes / spread } else { bytes };
        let same = list[..n].iter_mut().find(|b| b.holds == holds && b.bytes == bytes);
        match same {
            Some(bucket) => bucket.layers += count,
            None if n < MAX_KINDS => {
                list[n] = Bucket { holds, layers: count, bytes };
                n += 1;
            }
            // More kinds than any known model has: the last one takes the bytes, so nothing is lost.
            None => list[n - 1].bytes += bytes * count / list[n - 1].layers,
        }
    };
    for group in &arch.layers {
        match &group.mixer {
            Mixer::Gqa(a) => {
                let dims = f64::from(a.head_dim) + f64::from(a.v_head_dim.unwrap_or(a.head_dim));
                let bytes = kv_heads_per_rank(a.kv_heads, ranks) * dims * kv.bytes();
                let holds = a.window.map_or(Holds::All, |w| Holds::Window(f64::from(w)));
                // Shared keys and values are cached twice (they are normed apart), but once where they are compressed.
                let bytes = if a.shared_kv && a.compression.is_some() { bytes / 2.0 } else { bytes };
                add(holds, group.count, bytes);
                add(Holds::All, group.count, a.compression.map_or(0.0, |tokens| bytes / f64::from(tokens)));
                add(Holds::All, group.count, index_bytes(a.indexer.as_ref()));
            }
            Mixer::Mla(a) => {
                add(Holds::All, group.count, latent_bytes(a.kv_lora, a.rope, kv, a.indexer.is_some()));
                add(Holds::All, group.count, index_bytes(a.indexer.as_ref()));
            }
            Mixer::Linear(_) | Mixer::Mamba2(_) => {
                add(Holds::State, group.count, state_bytes(arch, &group.mixer, ranks))
            }
            Mixer::None => {}
        }
    }
    if deployment.speculation.is_some() && arch.mtp_layers > 0 {
        let attention = list[..n].iter().position(|b| b.holds == Holds::All);
        if let Some(at) = attention {
            list[at].layers += f64::from(arch.mtp_layers);
        }
    }
    (list, n)
}

/// The latent and the rotary key, once for all heads, never divided by TP. Sparse attention in fp8 keeps the rotary
/// part in bf16 and a 32-bit scale per 128 values: 512 + 4·4 + 2·64 = 656 bytes (vLLM `fp8_ds_mla`).
fn latent_bytes(latent: u32, rope: u32, kv: KvFormat, sparse: bool) -> f64 {
    let (latent, rope) = (f64::from(latent), f64::from(rope));
    match kv {
        KvFormat::Fp8 if sparse => latent + (latent / 128.0).ceil() * 4.0 + 2.0 * rope,
        _ => (latent + rope) * kv.bytes(),
    }
}

/// The index key: fp8 with a 32-bit scale per 128 values.
fn index_bytes(indexer: Option<&Indexer>) -> f64 {
    match indexer {
        Some(i) if i.owns_index => f64::from(i.head_dim) + (f64::from(i.head_dim) / 128.0).ceil() * 4.0,
        _ => 0.0,
    }
}

/// Convolution window in bf16 and recurrent state of one layer and sequence on a rank.
fn state_bytes(arch: &Architecture, mixer: &Mixer, ranks: f64) -> f64 {
    // Qwen3.5 and Nemotron state fp32 in their configurations, Kimi delta attention is fp32 always, Qwen3-Next and
    // older Mamba models follow the model's bf16.
    let wide = ["Qwen3_5", "KimiLinear", "NemotronH"].iter().any(|f| arch.family.starts_with(f));
    let cell = if wide { 4.0 } else { 2.0 };
    match mixer {
        Mixer::Linear(a) => {
            let channels = f64::from(2 * a.key_heads * a.key_dim + a.value_heads * a.value_dim);
            let conv = channels * f64::from(a.conv_width.saturating_sub(1)) * 2.0;
            let state = f64::from(a.value_heads) * f64::from(a.key_dim) * f64::from(a.value_dim) * cell;
            (conv + state) / ranks
        }
        Mixer::Mamba2(a) => {
            let groups = f64::from(a.groups).max(ranks);
            let channels = f64::from(a.heads * a.head_dim) + 2.0 * groups * f64::from(a.state);
            let conv = channels * f64::from(a.conv_width.saturating_sub(1)) * 2.0;
            (conv + f64::from(a.heads * a.head_dim) * f64::from(a.state) * cell) / ranks
        }
        _ => 0.0,
    }
}
