//! Which deployments are searched? Knobs with their values, and the numbering of their combinations.
//!
//! Points are never stored: [`Space::deployment`] builds the one of a number. Concurrency counts fastest, then the
//! token budget, so that one layout is compiled once and evaluated under many loads.

pub mod drafts;
pub mod file;
pub mod prefill;
pub mod radix;
pub mod settings;
pub mod values;

pub use drafts::DraftChoice;
pub use file::{Knobs, SpaceFile};
pub use prefill::PrefillChoice;
pub use radix::Radix;
pub use settings::{NoSuch, Setting};
pub use values::Values;

use crate::config::{Deployment, Speculation};
use crate::model::{KvFormat, Model};
use crate::{Error, Result};

/// The dimensions, outermost first.
pub const KNOBS: [&str; 15] = [
    "gpus",
    "weight_dtype",
    "kv_dtype",
    "prefill",
    "tp",
    "pp",
    "ep",
    "attention_dp",
    "context_parallel",
    "replicas",
    "draft_tokens",
    "memory_fraction",
    "max_num_seqs",
    "max_num_batched_tokens",
    "concurrency",
];

/// Dimensions that make a layout: how the model is cut and stored.
const LAYOUT_KNOBS: usize = 10;
/// Dimensions that are fixed before a deployment is compiled: the layout, the drafts and the engine's limits.
const COMPILED_KNOBS: usize = 13;

/// What a file's words stand for.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The model: its checkpoints, and whether it has experts.
    pub model: &'a Model,
    /// GPUs in a node.
    pub gpus_per_node: u32,
    /// GPUs at hand where the file leaves the nodes open.
    pub gpus: u32,
    /// The engine's defaults on this GPU.
    pub engine: EngineLimits,
}

/// What an engine sets where no flag does, and what it makes of drafts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineLimits {
    /// Token budget of one step.
    pub max_num_batched_tokens: u32,
    /// Sequences that run at once.
    pub max_num_seqs: u32,
    /// Memory fraction.
    pub memory_fraction: f64,
    /// Mean tokens a step emits with three draft tokens.
    pub accepted_tokens: f64,
}

/// A space for one model on one machine.
#[derive(Debug, Clone)]
pub struct Space {
    radix: Radix<{ KNOBS.len() }>,
    gpus: Vec<u32>,
    weight_dtype: Vec<String>,
    kv_dtype: Vec<KvFormat>,
    prefill: Vec<PrefillChoice>,
    tp: Vec<u32>,
    pp: Vec<u32>,
    ep: Vec<u32>,
    attention_dp: Vec<u32>,
    context_parallel: Vec<u32>,
    /// `None` fills the GPUs.
    replicas: Option<Vec<u32>>,
    drafts: Vec<Option<Speculation>>,
    memory_fraction: Vec<f64>,
    max_num_seqs: Vec<u32>,
    max_num_batched_tokens: Vec<u32>,
    concurrency: Vec<u32>,
}

impl Space {
    /// Gives the file's words their meaning.
    ///
    /// # Errors
    /// More points than [`radix::MOST_POINTS`].
    pub fn new(file: &SpaceFile, context: &Context<'_>) -> Result<Self> {
        let knobs = &file.knobs;
        let gpus = match knobs.nodes.list() {
            Some(nodes) => nodes
                .iter()
                .map(|n| n.checked_mul(context.gpus_per_node))
                .collect::<Option<Vec<u32>>>()
                .ok_or_else(|| Error::input("space", "more GPUs than can be counted", "Use fewer nodes"))?,
            None => vec![context.gpus],
        };
        let or = |values: &Values<u32>, auto: u32| values.list().map_or_else(|| vec![auto], <[u32]>::to_vec);
        let is_moe = context.model.architecture.is_moe();
        let published = || context.model.checkpoints.iter().map(|c| c.dtype.clone()).collect();
        let space = Self {
            radix: Radix::new([1; KNOBS.len()])?,
            gpus,
            weight_dtype: knobs.weight_dtype.list().map_or_else(published, <[String]>::to_vec),
            kv_dtype: knobs.kv_dtype.list().map_or_else(|| vec![KvFormat::Bf16], <[KvFormat]>::to_vec),
            prefill: knobs.prefill.list().map_or_else(|| vec![PrefillChoice(None)], <[PrefillChoice]>::to_vec),
            tp: or(&knobs.tp, 1),
            pp: or(&knobs.pp, 1),
            ep: if is_moe { or(&knobs.ep, 1) } else { vec![1] },
            attention_dp: or(&knobs.attention_dp, 1),
            context_parallel: or(&knobs.context_parallel, 1),
            replicas: knobs.replicas.list().map(<[u32]>::to_vec),
            drafts: drafts(&knobs.draft_tokens, context),
            memory_fraction: knobs
                .memory_fraction
                .list()
                .map_or_else(|| vec![context.engine.memory_fraction], <[f64]>::to_vec),
            max_num_seqs: or(&knobs.max_num_seqs, context.engine.max_num_seqs),
            max_num_batched_tokens: or(&knobs.max_num_batched_tokens, context.engine.max_num_batched_tokens),
            concurrency: or(&knobs.concurrency, 1),
        };
        Ok(Self { radix: Radix::new(space.sizes())?, ..space })
    }

    fn sizes(&self) -> [usize; KNOBS.len()] {
        [
            self.gpus.len(),
            self.weight_dtype.len(),
            self.kv_dtype.len(),
            self.prefill.len(),
            self.tp.len(),
            self.pp.len(),
            self.ep.len(),
            self.attention_dp.len(),
            self.context_parallel.len(),
            self.replicas.as_ref().map_or(1, Vec::len),
            self.drafts.len(),
            self.memory_fraction.len(),
            self.max_num_seqs.len(),
            self.max_num_batched_tokens.len(),
            self.concurrency.len(),
        ]
    }

    /// Number of points, legal or not.
    pub fn len(&self) -> u64 {
        self.radix.len()
    }

    /// Never: a space without points cannot be built.
    pub fn is_empty(&self) -> bool {
        self.radix.is_empty()
    }

    /// The deployment of a point's number in `0..len()`.
    ///
    /// Where the GPUs do not hold even one copy, `replicas: fill` gives one, which the legality rules then refuse.
    pub fn deployment(&self, index: u64) -> Deployment {
        let [gpus, weight, kv, prefill, tp, pp, ep, adp, dcp, replicas, drafts, fraction, seqs, tokens, concurrency] =
            self.radix.digits(index);
        let (tp, pp) = (self.tp[tp], self.pp[pp]);
        let prefill = self.prefill[prefill].0;
        let gpus = self.gpus[gpus].saturating_sub(prefill.map_or(0, |pool| pool.gpus()));
        let copies = u64::from(gpus) / (u64::from(tp) * u64::from(pp)).max(1);
        let copies = u32::try_from(copies).unwrap_or(u32::MAX).max(1);
        Deployment {
            tp,
            ep: self.ep[ep],
            attention_dp: self.attention_dp[adp],
            context_parallel: self.context_parallel[dcp],
            pp,
            replicas: self.replicas.as_ref().map_or(copies, |listed| listed[replicas]),
            concurrency: self.concurrency[concurrency],
            weight_dtype: self.weight_dtype[weight].clone(),
            kv_dtype: self.kv_dtype[kv],
            max_num_batched_tokens: self.max_num_batched_tokens[tokens],
            max_num_seqs: self.max_num_seqs[seqs],
            memory_fraction: self.memory_fraction[fraction],
            speculation: self.drafts[drafts].clone(),
            prefill,
        }
    }

    /// GPUs a point may use.
    pub fn gpus(&self, index: u64) -> u32 {
        self.gpus[self.radix.digits(index)[0]]
    }

    /// Most GPUs any point may use.
    pub fn most_gpus(&self) -> u32 {
        self.gpus.iter().copied().max().unwrap_or(0)
    }

    /// Some points speculate.
    pub fn drafts(&self) -> bool {
        self.drafts.iter().any(Option::is_some)
    }

    /// The same space where three drafts emit another number of tokens a step.
    pub fn with_accepted_tokens(&self, accepted_tokens: f64) -> Self {
        let other = |s: &Speculation| Speculation::of(s.draft_tokens, accepted_tokens);
        Self { drafts: self.drafts.iter().map(|d| d.as_ref().map(other)).collect(), ..self.clone() }
    }

    /// Points of one layout: equal but for drafts, memory fraction, sequence limit, token budget and concurrency.
    pub fn layout_len(&self) -> u64 {
        self.radix.inner_len(LAYOUT_KNOBS)
    }

    /// Points that share everything but token budget and concurrency; numbered one after the other.
    pub fn compiled_len(&self) -> u64 {
        self.radix.inner_len(COMPILED_KNOBS)
    }

    /// Token budgets, then concurrencies, in the order in which the points of a compiled deployment count.
    pub fn loads(&self) -> (&[u32], &[u32]) {
        (&self.max_num_batched_tokens, &self.concurrency)
    }

    /// Every knob's values as a user writes them, outermost knob first.
    pub fn value_texts(&self) -> [Vec<String>; KNOBS.len()] {
        fn texts<T: ToString>(values: &[T]) -> Vec<String> {
            values.iter().map(T::to_string).collect()
        }
        [
            texts(&self.gpus),
            texts(&self.weight_dtype),
            texts(&self.kv_dtype),
            texts(&self.prefill),
            texts(&self.tp),
            texts(&self.pp),
            texts(&self.ep),
            texts(&self.attention_dp),
            texts(&self.context_parallel),
            self.replicas.as_ref().map_or_else(|| vec!["fill".to_string()], |r| texts(r)),
            self.drafts.iter().map(|d| draft_choice(d).to_string()).collect(),
            texts(&self.memory_fraction),
            texts(&self.max_num_seqs),
            texts(&self.max_num_batched_tokens),
            texts(&self.concurrency),
        ]
    }

    /// What each prefill choice is made of ([`PrefillChoice::parts`]), in the order of the space.
    pub fn prefill_parts(&self) -> Vec<Vec<f64>> {
        self.prefill.iter().map(|choice| choice.parts().to_vec()).collect()
    }

    /// Knobs with more than one value, for tables.
    pub fn varying(&self) -> Vec<&'static str> {
        KNOBS.into_iter().zip(self.sizes()).filter(|(_, size)| *size > 1).map(|(knob, _)| knob).collect()
    }

    /// Numbers of the points that differ from `index` in one knob, the smallest step first; between equal steps the
    /// knob that is cheapest to turn first (concurrency, then the token budget, … the nodes last).
    pub fn neighbours(&self, index: u64) -> Vec<Neighbour> {
        let digits = self.radix.digits(index);
        let sizes = self.sizes();
        let mut found = Vec::new();
        for at in (0..KNOBS.len()).rev() {
            for digit in (0..sizes[at]).filter(|d| *d != digits[at]) {
                let mut moved = digits;
                moved[at] = digit;
                found.push(Neighbour {
                    index: self.radix.index(moved),
                    knob: KNOBS[at],
                    steps: digit.abs_diff(digits[at]),
                });
            }
        }
        found.sort_by_key(|n| n.steps);
        found
    }
}

/// Drafts come from layers of the model; without such layers the knob is no dimension.
fn drafts(values: &Values<DraftChoice>, context: &Context<'_>) -> Vec<Option<Speculation>> {
    let of = |choice: &DraftChoice| choice.0.map(|drafts| Speculation::of(drafts, context.engine.accepted_tokens));
    match values.list() {
        Some(list) if context.model.architecture.mtp_layers > 0 => list.iter().map(of).collect(),
        _ => vec![None],
    }
}

fn draft_choice(speculation: &Option<Speculation>) -> DraftChoice {
    DraftChoice(speculation.as_ref().map(|s| s.draft_tokens))
}

/// A point one knob away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number.
    pub index: u64,
    /// The knob that differs.
    pub knob: &'static str,
    /// How many values away.
    pub steps: usize,
}

/// A knob's value as a user reads it: `concurrency 48`.
pub fn knob_value(deployment: &Deployment, knob: &str) -> String {
    match knob {
        "gpus" => format!("{} GPUs", deployment.gpus()),
        "weight_dtype" => format!("{} weights", deployment.weight_dtype),
        "kv_dtype" => format!("{} KV", deployment.kv_dtype),
        "prefill" => match PrefillChoice(deployment.prefill) {
            PrefillChoice(None) => "prefill together with decode".to_string(),
            pool => format!("prefill {pool}"),
        },
        "tp" => format!("tp {}", deployment.tp),
        "pp" => format!("pp {}", deployment.pp),
        "ep" => format!("ep {}", deployment.ep),
        "attention_dp" => format!("attention_dp {}", deployment.attention_dp),
        "context_parallel" => format!("context_parallel {}", deployment.context_parallel),
        "replicas" => format!("{} replicas", deployment.replicas),
        "draft_tokens" => match &deployment.speculation {
            None => "no draft tokens".to_string(),
            Some(speculation) => format!("{} draft tokens", speculation.draft_tokens),
        },
        "memory_fraction" => format!("memory fraction {}", deployment.memory_fraction),
        "max_num_seqs" => format!("max_num_seqs {}", deployment.max_num_seqs),
        "max_num_batched_tokens" => format!("max_num_batched_tokens {}", deployment.max_num_batched_tokens),
        _ => format!("concurrency {}", deployment.concurrency),
    }
}

#[cfg(test)]
pub(crate) mod tests;
