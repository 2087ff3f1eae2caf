//! One broken rule of a deployment: what was found, what to do, and a short name to count it under.

use std::fmt;

/// A rule that a deployment breaks. Displayed as what was found; [`Violation::repair`] says what to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    /// The prefill pool breaks a rule.
    InPrefillPool(Box<Violation>),
    /// A count is zero.
    Zero {
        /// The knob.
        knob: &'static str,
    },
    /// More ranks in one tensor-parallel group than the scale-up domain joins.
    BeyondScaleUp {
        /// Tensor-parallel ranks.
        tp: u32,
        /// GPUs of the domain.
        world: u32,
    },
    /// More GPUs than there are.
    TooManyGpus {
        /// What the deployment uses.
        wanted: u64,
        /// What is there.
        gpus: u32,
    },
    /// Attention heads cannot be shared evenly.
    Heads {
        /// Ranks that share them.
        attention_tp: u32,
        /// Attention-DP groups; 1 where the whole stage shares the heads.
        attention_dp: u32,
        /// Heads.
        heads: u32,
        /// Widths that work.
        allowed: Vec<u32>,
    },
    /// KV heads can be neither shared evenly nor replicated evenly.
    KvHeads {
        /// Ranks that share them.
        attention_tp: u32,
        /// KV heads.
        kv_heads: u32,
        /// Widths that work.
        allowed: Vec<u32>,
    },
    /// Attention-DP does not divide the stage.
    AttentionDp {
        /// Groups.
        attention_dp: u32,
        /// Ranks.
        tp: u32,
    },
    /// Decode context parallelism over ranks that hold no copies of each other's KV cache.
    ContextParallel {
        /// Ranks a sequence's cache is spread over.
        ranks: u32,
        /// Ranks with the same KV heads.
        copies: u32,
    },
    /// Expert parallelism on a model without experts.
    NoExperts {
        /// Groups.
        ep: u32,
    },
    /// Expert groups do not divide the stage.
    ExpertRanks {
        /// Groups.
        ep: u32,
        /// Ranks.
        tp: u32,
    },
    /// Expert groups do not divide the experts.
    Experts {
        /// Groups.
        ep: u32,
        /// Routed experts.
        experts: u32,
    },
    /// A matrix cannot be cut into equal shards, or the shards do not hold whole scale blocks.
    Inter {
        /// Which matrices.
        of: &'static str,
        /// Ranks that share them.
        ranks: u32,
        /// Their intermediate size.
        inter: u32,
        /// Weights a shard must hold a multiple of.
        block: u32,
    },
    /// More pipeline stages than layers.
    Stages {
        /// Stages.
        pp: u32,
        /// Layers.
        layers: u32,
    },
    /// Some replicas would never see a request.
    IdleReplicas {
        /// Requests in flight.
        concurrency: u32,
        /// Replicas.
        replicas: u32,
    },
    /// The model is not published in this precision.
    NoCheckpoint {
        /// The precision asked for.
        dtype: String,
        /// Those published.
        known: Vec<String>,
    },
    /// The GPU has no kernels for the checkpoint's formats.
    NoKernels {
        /// The precision asked for.
        dtype: String,
        /// Those that run.
        known: Vec<String>,
    },
    /// The memory fraction is not a share.
    MemoryFraction {
        /// What was asked for.
        fraction: f64,
    },
    /// Tokens per step outside [1, draft tokens + 1].
    Speculation {
        /// Draft tokens.
        draft_tokens: u32,
        /// Tokens per step.
        tokens_per_step: f64,
    },
}

impl Violation {
    /// A short stable name to count violations under.
    pub fn reason(&self) -> &'static str {
        match self {
            Violation::InPrefillPool(inner) => inner.reason(),
            Violation::Zero { .. } => "a count is zero",
            Violation::BeyondScaleUp { .. } => "tp exceeds the scale-up domain",
            Violation::TooManyGpus { .. } => "more GPUs than there are",
            Violation::Heads { .. } => "tp does not divide the attention heads",
            Violation::KvHeads { .. } => "tp fits neither way on the KV heads",
            Violation::AttentionDp { .. } => "attention_dp does not divide tp",
            Violation::ContextParallel { .. } => "context_parallel does not divide the copies of the KV cache",
            Violation::NoExperts { .. } => "ep on a model without experts",
            Violation::ExpertRanks { .. } => "ep does not divide tp",
            Violation::Experts { .. } => "ep does not divide the experts",
            Violation::Inter { .. } => "tp does not divide the feed-forward size",
            Violation::Stages { .. } => "more pipeline stages than layers",
            Violation::IdleReplicas { .. } => "fewer requests than replicas",
            Violation::NoCheckpoint { .. } => "no checkpoint in this precision",
            Violation::NoKernels { .. } => "no kernels for this precision on the GPU",
            Violation::MemoryFraction { .. } => "memory fraction out of range",
            Violation::Speculation { .. } => "tokens per step out of range",
        }
    }

    /// What to do.
    pub fn repair(&self) -> String {
        match self {
            Violation::InPrefillPool(inner) => inner.repair(),
            Violation::Zero { knob } => format!("Give {knob} 1 or more."),
            Violation::BeyondScaleUp { world, .. } => format!("Use tp {world} or less, and pp beyond it."),
            Violation::TooManyGpus { gpus, .. } => format!("Keep tp·pp·replicas at {gpus} or less."),
            Violation::Heads { allowed, .. } | Violation::KvHeads { allowed, .. } => {
                format!("Use {}.", listed(allowed))
            }
            Violation::AttentionDp { tp, .. } => format!("Use {}.", listed(&divisors(*tp, *tp))),
            Violation::ContextParallel { copies, .. } => format!("Use {}.", listed(&divisors(*copies, *copies))),
            Violation::NoExperts { .. } => "Use ep 1.".to_string(),
            Violation::ExpertRanks { tp, .. } => format!("Use {}.", listed(&divisors(*tp, *tp))),
            Violation::Experts { ep, experts } => format!("Use {}.", listed(&divisors(*experts, (*ep).max(8)))),
            Violation::Inter { inter, block, ranks, .. } => {
                format!("Use {} ranks.", listed(&divisors(inter / block.max(&1), (*ranks).max(8))))
            }
            Violation::Stages { layers, .. } => format!("Use pp {layers} or less."),
            Violation::IdleReplicas { concurrency, .. } => {
                let replicas =
                    if *concurrency == 1 { "1 replica" } else { &format!("{concurrency} replicas or fewer") };
                format!("Use {replicas}, or a higher concurrency.")
            }
            Violation::NoCheckpoint { known, .. } => format!("Published: {}.", known.join(", ")),
            Violation::NoKernels { known, .. } => format!("Use {}.", known.join(", ")),
            Violation::MemoryFraction { .. } => "Give a share above 0 and up to 1.".to_string(),
            Violation::Speculation { draft_tokens, .. } => {
                format!("Give tokens per step between 1 and {}.", draft_tokens + 1)
            }
        }
    }

    /// Names the model where the rule is about its shape.
    pub(super) fn is_about_the_model(&self) -> bool {
        if let Violation::InPrefillPool(inner) = self {
            return inner.is_about_the_model();
        }
        matches!(
            self,
            Violation::Heads { .. }
                | Violation::KvHeads { .. }
                | Violation::ContextParallel { .. }
                | Violation::NoExperts { .. }
                | Violation::Experts { .. }
                | Violation::Inter { .. }
                | Violation::Stages { .. }
                | Violation::NoCheckpoint { .. }
                | Violation::NoKernels { .. }
        )
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::InPrefillPool(inner) => write!(f, "prefill pool: {inner}"),
            Violation::Zero { knob } => write!(f, "{knob} is 0"),
            Violation::BeyondScaleUp { tp, world } => {
                write!(f, "tp {tp} is wider than the scale-up domain of {world} GPUs")
            }
            Violation::TooManyGpus { wanted, gpus } => write!(f, "needs {wanted} GPUs, there are {gpus}"),
            Violation::Heads { attention_tp, attention_dp: 1, heads, .. } => {
                write!(f, "tp {attention_tp} does not divide {heads} attention heads")
            }
            Violation::Heads { attention_tp, attention_dp, heads, .. } => write!(
                f,
                "attention_dp {attention_dp} leaves {attention_tp} ranks, which do not divide {heads} attention heads"
            ),
            Violation::KvHeads { attention_tp, kv_heads, .. } => {
                write!(f, "{attention_tp} attention ranks can neither share nor replicate {kv_heads} KV heads evenly")
            }
            Violation::AttentionDp { attention_dp, tp } => {
                write!(f, "attention_dp {attention_dp} does not divide tp {tp}")
            }
            Violation::ContextParallel { ranks, copies: 1 } => {
                write!(f, "context_parallel {ranks}, but no two ranks hold the same KV heads")
            }
            Violation::ContextParallel { ranks, copies } => {
                write!(f, "context_parallel {ranks} does not divide the {copies} ranks that hold the same KV heads")
            }
            Violation::NoExperts { ep } => write!(f, "ep {ep}, but the model has no routed experts"),
            Violation::ExpertRanks { ep, tp } => write!(f, "ep {ep} does not divide tp {tp}"),
            Violation::Experts { ep, experts } => write!(f, "ep {ep} does not divide {experts} experts"),
            Violation::Inter { of, ranks, inter, block: 1 } => {
                write!(f, "{ranks} ranks do not divide the {of} size of {inter}")
            }
            Violation::Inter { of, ranks, inter, block } => write!(
                f,
                "{ranks} ranks cut the {of} size of {inter} into shards that are no multiple of the {block}-wide scale \
                 blocks"
            ),
            Violation::Stages { pp, layers } => write!(f, "pp {pp} exceeds {layers} layers"),
            Violation::IdleReplicas { concurrency, replicas } => {
                write!(f, "concurrency {concurrency} leaves some of {replicas} replicas idle")
            }
            Violation::NoCheckpoint { dtype, .. } => write!(f, "no checkpoint in {dtype}"),
            Violation::NoKernels { dtype, .. } => write!(f, "no kernels for its {dtype} checkpoint on this GPU"),
            Violation::MemoryFraction { fraction } => write!(f, "memory fraction {fraction}"),
            Violation::Speculation { draft_tokens, tokens_per_step } => {
                write!(f, "{tokens_per_step} tokens per step with {draft_tokens} draft tokens")
            }
        }
    }
}

/// Divisors of `n` up to `limit`.
pub(super) fn divisors(n: u32, limit: u32) -> Vec<u32> {
    (1..=limit.min(n).min(4096)).filter(|d| n.is_multiple_of(*d)).collect()
}

/// `1, 2, 4 or 8`.
fn listed(numbers: &[u32]) -> String {
    match numbers {
        [] => "another value".to_string(),
        [one] => one.to_string(),
        [head @ .., last] => {
            let head: Vec<String> = head.iter().map(u32::to_string).collect();
            format!("{} or {last}", head.join(", "))
        }
    }
}
