//! A model on a machine with the space and objective of a bare run.

use inferasim::config::Legality;
use inferasim::cost::Calibration;
use inferasim::model::Model;
use inferasim::objective::{Objective, Slo};
use inferasim::search::Search;
use inferasim::serve::Projector;
use inferasim::space::{Context, EngineLimits, Space, SpaceFile};
use inferasim::target::{EngineProfile, Target};

pub struct World {
    pub space: Space,
    pub legality: Legality,
    pub objective: Objective,
    pub projector: Projector,
}

impl World {
    pub fn new(target: &str, model: &str, engine: &str, space: &str, objective: &str, slos: &str) -> Self {
        let target = Target::load(target).unwrap();
        let model = Model::load(model).unwrap();
        let engine = EngineProfile::load(engine).unwrap();
        let calibration = Calibration::load("public").unwrap();
        let projector =
            Projector::new(&model, &target, &engine, None, &calibration, &target.defaults.workload).unwrap();
        let (file, _) = SpaceFile::load(space).unwrap();
        let limits = EngineLimits {
            max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
            max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
            memory_fraction: projector.settings.memory_fraction,
            accepted_tokens: projector.accepted_tokens(),
        };
        let context = Context { model: &model, gpus_per_node: target.node.gpus, gpus: target.gpus(), engine: limits };
        let space = Space::new(&file, &context).unwrap();
        let (mut objective, _) = Objective::load(objective).unwrap();
        if !slos.is_empty() {
            objective.override_slos(Slo::parse_list(slos).unwrap());
        }
        Self { space, legality: Legality::new(&model, &target), objective, projector }
    }

    pub fn search(&self) -> Search<'_, Projector> {
        Search { space: &self.space, legality: &self.legality, objective: &self.objective, evaluator: &self.projector }
    }
}
