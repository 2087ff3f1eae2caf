//! Which scheduler, with how many KV blocks, does a projected deployment run? The engine's defaults and the memory plan.

use super::projected::ProjectedStep;
use super::scenario::EngineConfig;
use super::step_time::StepTime;
use crate::config::{Deployment, acceptance};
use crate::memory::MemoryPlan;
use crate::serve::scheduler::{KvGroup, SchedulerConfig, SglangConfig, VllmRules};
use crate::serve::{CompiledDeployment, Projector, Refusal};
use crate::target::EngineFamily;
use std::sync::Arc;

/// One instance of a deployment, ready to be simulated.
///
/// Attention-DP groups are one scheduler with their limits and caches together.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The scheduler and its limits.
    pub engine: EngineConfig,
    /// Probability that a draft token is accepted when those before it were; 0 without drafts.
    pub draft_acceptance: f64,
    /// Memory of the fullest rank.
    pub plan: MemoryPlan,
    replicas: u32,
    compiled: Arc<CompiledDeployment>,
}

impl Instance {
    /// Sets up an instance for requests of at most `longest` tokens.
    ///
    /// # Errors
    /// No figures for it, or one request of the workload's longest length does not fit.
    pub fn new(projector: &Projector, deployment: &Deployment, longest: u32) -> Result<Self, Refusal> {
        let compiled = projector.compile(deployment)?;
        let plan = compiled.plan(deployment.concurrency, deployment.max_num_batched_tokens);
        if !plan.fits() {
            return Err(Refusal::DoesNotFit(Box::new(plan)));
        }
        let drafts = deployment.speculation.as_ref();
        if drafts.is_some() && projector.settings.family == EngineFamily::Sglang {
            return Err(Refusal::NoModel("drafts are not modelled in SGLang's scheduler".into()));
        }
        let groups = deployment.attention_dp.max(1);
        let budget = deployment.max_num_batched_tokens.saturating_mul(groups);
        let sequences = deployment.max_num_seqs.saturating_mul(groups);
        let pool = compiled.memory.block_pool(plan.kv_available.0);
        let blocks = pool.blocks.min(1 << 28) as u32;
        let engine = match projector.settings.family {
            EngineFamily::Sglang => EngineConfig::Sglang(SglangConfig {
                chunked_prefill_size: budget,
                max_prefill_tokens: budget.max(16_384),
                max_running_requests: sequences,
                context_length: longest,
                max_total_tokens: pool.blocks.saturating_mul(u64::from(pool.block_tokens)),
                page_size: pool.block_tokens.max(1),
                ..SglangConfig::default()
            }),
            EngineFamily::Vllm | EngineFamily::Trtllm => EngineConfig::Vllm(
                SchedulerConfig {
                    max_num_batched_tokens: budget,
                    max_num_seqs: sequences,
                    max_model_len: longest,
                    block_size: pool.block_tokens.max(1),
                    num_blocks: blocks.saturating_add(1),
                    speculative_tokens: drafts.map_or(0, |s| s.draft_tokens),
                    groups: pool.tables.iter().map(|window| KvGroup { window: *window }).collect(),
                    rules: rules(projector),
                    ..SchedulerConfig::default()
                }
                .resolve(drafts.is_some()),
            ),
        };
        let draft_acceptance = drafts.map_or(0.0, |s| acceptance(s.draft_tokens, s.tokens_per_step));
        Ok(Self { engine, draft_acceptance, plan, replicas: deployment.replicas, compiled: Arc::new(compiled) })
    }

    /// Its step times under a closed loop of `clients` on this instance, or under another load.
    pub fn step_time(&self, clients: Option<f64>) -> Box<dyn StepTime> {
        Box::new(ProjectedStep::new(self.compiled.clone(), clients, self.replicas))
    }

    /// KV bytes of one more token of context, all ranks together.
    pub fn kv_bytes_per_token(&self, deployment: &Deployment) -> f64 {
        self.plan.kv_bytes_per_token.0 * f64::from(deployment.attention_tp() * deployment.pp)
    }

    /// The deployment as the closed form sees it.
    pub fn compiled(&self) -> &CompiledDeployment {
        &self.compiled
    }
}

/// The rules of the release asked for; the newest known where that says nothing about vLLM's.
fn rules(projector: &Projector) -> VllmRules {
    let asked = projector.engine_version.as_deref().filter(|_| projector.engine.name == "vllm");
    asked.and_then(|version| VllmRules::of_version(version).ok()).unwrap_or_default()
}
