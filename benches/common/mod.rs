//! What both benches stand on: built-in documents loaded as the commands load them.

use inferasim::catalog::Document;
use inferasim::config::{Deployment, Legality};
use inferasim::cost::Calibration;
use inferasim::model::Model;
use inferasim::objective::Objective;
use inferasim::serve::Projector;
use inferasim::space::{Context, EngineLimits, Space, SpaceFile};
use inferasim::target::{EngineProfile, Target};

/// A model on MI355X at 1024/1024, and a space for it.
pub struct Setup {
    pub projector: Projector,
    pub space: Space,
    pub legality: Legality,
    pub objective: Objective,
}

impl Setup {
    pub fn new(model: &str, engine: &str, space: &str) -> Self {
        let (file, _) = SpaceFile::load(space).expect("built-in space");
        Self::with(model, engine, &file)
    }

    /// With a space spelt out.
    #[allow(dead_code)]
    pub fn of_text(model: &str, engine: &str, text: &str) -> Self {
        let document = Document { origin: "bench".into(), text: text.into() };
        Self::with(model, engine, &SpaceFile::from_document(&document).expect("a space"))
    }

    fn with(model: &str, engine: &str, file: &SpaceFile) -> Self {
        let target = Target::load("mi355x").expect("built-in target");
        let model = Model::load(model).expect("built-in model");
        let engine = EngineProfile::load(engine).expect("built-in engine");
        let calibration = Calibration::load("public").expect("built-in calibration");
        let workload = &target.defaults.workload;
        let projector = Projector::new(&model, &target, &engine, None, &calibration, workload).expect("known engine");
        let limits = EngineLimits {
            max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
            max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
            memory_fraction: projector.settings.memory_fraction,
            accepted_tokens: projector.accepted_tokens(),
        };
        let context = Context { model: &model, gpus_per_node: target.node.gpus, gpus: target.gpus(), engine: limits };
        let space = Space::new(file, &context).expect("countable space");
        let (objective, _) = Objective::load("chat").expect("built-in objective");
        Self { legality: Legality::new(&model, &target), projector, space, objective }
    }

    /// Deployments an engine starts and that fit at every load, each with its loads (concurrency, token budget).
    #[allow(dead_code)]
    pub fn layouts(&self) -> Vec<(Deployment, Vec<(u32, u32)>)> {
        let block = self.space.compiled_len();
        let (budgets, loads) = self.space.loads();
        (0..self.space.len() / block)
            .filter_map(|at| {
                let deployment = self.space.deployment(at * block);
                if !self.legality.layout_violations(&deployment, self.space.gpus(at * block)).is_empty() {
                    return None;
                }
                let compiled = self.projector.compile(&deployment).ok()?;
                let points = budgets.iter().flat_map(|budget| loads.iter().map(move |load| (*load, *budget)));
                let points: Vec<_> =
                    points.filter(|(load, budget)| compiled.evaluate(*load, *budget).is_ok()).collect();
                (!points.is_empty()).then_some((deployment, points))
            })
            .collect()
    }
}

/// CPU time of this process so far, all threads, s.
#[allow(dead_code)]
pub fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
