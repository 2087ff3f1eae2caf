//! Everything a search stands on, loaded and checked before any time is spent.

use super::Arguments;
use super::anchored::AnchoredProjector;
use crate::catalog::{self, Document, Kind};
use crate::config::Legality;
use crate::cost::Calibration;
use crate::model::Model;
use crate::objective::{Metric, Objective, Slo};
use crate::report::record::NamedDocument;
use crate::serve::Projector;
use crate::sim::slo::SloSet;
use crate::space::{Context, EngineLimits, Space, SpaceFile, Values};
use crate::target::load::check_workload;
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;
use crate::{Error, Result, yaml};

/// What was asked for.
pub struct Inputs {
    pub target: Target,
    pub target_document: NamedDocument,
    pub model: Model,
    pub engine_name: String,
    pub workload: Workload,
    pub objective: Objective,
    pub objective_document: NamedDocument,
    pub space: Space,
    pub space_document: NamedDocument,
    pub legality: Legality,
    pub projector: Projector,
    /// Limits that only a simulation can check.
    pub percentiles: SloSet,
}

impl Inputs {
    /// Loads what the flags name; what they leave open comes from the target.
    pub fn load(arguments: &Arguments) -> Result<Self> {
        let target_name = arguments.target.as_deref().unwrap_or_default();
        let document = catalog::open(Kind::Target, target_name)?;
        let mut target = Target::from_document(&document)?;
        let target_document = NamedDocument::new(target_name, &document);
        if let Some(nodes) = arguments.nodes {
            target.node.nodes = nodes;
        }
        let gpus = arguments.gpus.unwrap_or_else(|| target.gpus());
        let defaults = target.defaults.clone();
        let or = |flag: &Option<String>, default: &str| flag.clone().unwrap_or_else(|| default.to_string());

        let model = Model::load(&or(&arguments.model, &defaults.model))?;
        let workload = workload(arguments, &defaults.workload, &model)?;
        let engine_name = or(&arguments.engine, &defaults.engine);
        let engine = EngineProfile::load(&engine_name)?;
        let version = arguments.engine_version.as_deref();
        engine.check_version(version)?;
        let calibration = Calibration::load(&arguments.calibration)?;

        let objective_name = or(&arguments.objective, &defaults.objective);
        let (mut objective, document) = Objective::load(&objective_name)?;
        let objective_document = NamedDocument::new(&objective_name, &document);
        let limits = arguments.slo.iter().flat_map(|list| list.0.clone()).collect();
        objective.take_flags(limits, &target.name, target.price.is_some())?;
        let simulated: Vec<String> = arguments.slo.iter().flat_map(|list| list.1.clone()).collect();
        let percentiles = SloSet::parse(&simulated)?;
        screen(&mut objective, &percentiles);
        if target.price.is_none() {
            objective.require_price(&target.name)?;
        }

        let space_name = or(&arguments.space, &defaults.space);
        let (mut file, document) = SpaceFile::load(&space_name)?;
        let space_document = NamedDocument::new(&space_name, &document);
        override_knobs(&mut file, arguments, &document)?;
        let projector = Projector::new(&model, &target, &engine, version, &calibration, &workload)?;
        let limits = EngineLimits {
            max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
            max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
            memory_fraction: projector.settings.memory_fraction,
            accepted_tokens: projector.accepted_tokens(),
        };
        let context = Context { model: &model, gpus_per_node: target.node.gpus, gpus, engine: limits };
        let space = Space::new(&file, &context)?;
        let legality = Legality::new(&model, &target);
        Ok(Self {
            target,
            target_document,
            model,
            engine_name,
            workload,
            objective,
            objective_document,
            space,
            space_document,
            legality,
            projector,
            percentiles,
        })
    }

    /// A number that stands for everything the figures of a point depend on.
    pub fn fingerprint(&self, evaluator: &AnchoredProjector<'_>) -> String {
        let parts = (&self.objective, &self.space, &self.legality, &self.projector, evaluator.anchors());
        crate::search::journal::fingerprint(&format!("{parts:?}"))
    }

    /// Longest context a request reaches, tokens.
    pub fn max_model_len(&self) -> u32 {
        self.workload.isl.saturating_add(self.workload.osl)
    }
}

/// A percentile from the median up is at least the median, and mean TPOT and E2E lie close to theirs: what breaks the
/// limit in closed form already need not be simulated.
fn screen(objective: &mut Objective, percentiles: &SloSet) {
    let figures =
        [("ttft", Metric::TtftP50Ms), ("tpot", Metric::TpotMs), ("itl", Metric::TpotMs), ("e2e", Metric::E2eMs)];
    for (latency, metric) in figures {
        let high = |name: &str| name.ends_with("_p90_ms") || name.ends_with("_p99_ms");
        let limits = percentiles.on(latency).into_iter().filter(|(name, _)| high(name)).map(|(_, limit)| limit);
        let Some(limit) = limits.reduce(f64::min) else { continue };
        match objective.slos.iter_mut().find(|s| s.metric == metric) {
            Some(known) => known.limit = known.limit.min(limit),
            None => objective.slos.push(Slo { metric, limit }),
        }
    }
}

/// `--nodes` and `--gpus` replace the nodes of the space, `--concurrency` its loads.
fn override_knobs(file: &mut SpaceFile, arguments: &Arguments, document: &Document) -> Result<()> {
    if arguments.nodes.is_some() || arguments.gpus.is_some() {
        file.knobs.nodes = Values::Word("auto".into());
    }
    if arguments.concurrency.is_empty() {
        return Ok(());
    }
    let mut loads = arguments.concurrency.clone();
    loads.sort_unstable();
    loads.dedup();
    match loads.iter().find(|c| !(1..=10_000_000).contains(*c)) {
        Some(bad) => Err(Error::input(
            "--concurrency",
            format!("{bad} requests in flight"),
            format!("Give 1 to 10000000, or leave it to {}", document.origin),
        )),
        None => {
            file.knobs.concurrency = Values::List(loads);
            Ok(())
        }
    }
}

fn workload(arguments: &Arguments, default: &Workload, model: &Model) -> Result<Workload> {
    let workload = Workload {
        isl: arguments.isl.unwrap_or(default.isl),
        osl: arguments.osl.unwrap_or(default.osl),
        range_ratio: arguments.range_ratio.unwrap_or(default.range_ratio),
        prefix_hit_rate: arguments.prefix_hit_rate.unwrap_or(default.prefix_hit_rate),
        host_hit_share: arguments.host_hit_share.unwrap_or(default.host_hit_share),
        expert_imbalance: arguments.expert_imbalance.unwrap_or(default.expert_imbalance),
        prompts_per_client: default.prompts_per_client,
    };
    check(&workload, model)?;
    Ok(workload)
}

/// Refuses lengths and shares that no run has, and requests longer than the model takes; names the flag.
pub fn check(workload: &Workload, model: &Model) -> Result<()> {
    check_workload(workload, |key, value, (low, high), meaning| {
        if value >= low && value <= high {
            return Ok(());
        }
        let (low, high) = (yaml::number(low), yaml::number(high));
        Err(Error::input(
            format!("--{}", key.replace('_', "-")),
            yaml::number(value),
            format!("Give {meaning} between {low} and {high}"),
        ))
    })?;
    let (longest, context) = (u64::from(workload.isl) + u64::from(workload.osl), model.architecture.max_context);
    if longest > u64::from(context) {
        return Err(Error::input(
            format!("--isl {} --osl {}", workload.isl, workload.osl),
            format!("{longest} tokens, and {} takes {context}", model.architecture.name),
            "Shorten the prompts or the answers",
        ));
    }
    Ok(())
}
