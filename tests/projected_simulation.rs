//! The simulator on the projector's step cost: equal to single steps, and to the closed form where that may be asked.

use inferasim::config::Deployment;
use inferasim::cost::Calibration;
use inferasim::model::Model;
use inferasim::serve::{Evaluation, Projector};
use inferasim::sim::deployment::Instance;
use inferasim::sim::distribution::{Gaps, Lengths};
use inferasim::sim::fleet::{Observer, Unobserved};
use inferasim::sim::load::{Arrivals, LengthSource, LoadSpec};
use inferasim::sim::report::Report;
use inferasim::sim::request_log::RequestRecord;
use inferasim::sim::scenario::Scenario;
use inferasim::sim::simulate;
use inferasim::target::{EngineProfile, Target};
use inferasim::workload::Workload;

struct Case {
    projector: Projector,
    deployment: Deployment,
}

/// Lengths uniform on [0.8 · nominal, nominal], as the public closed-loop benchmarks draw them.
const RATIO: f64 = 0.8;

fn case(target: &str, model: &str, engine: &str, tp: u32, concurrency: u32, lengths: (u32, u32)) -> Case {
    let model = Model::load(model).unwrap();
    let target = Target::load(target).unwrap();
    let engine = EngineProfile::load(engine).unwrap();
    let calibration = Calibration::load("public").unwrap();
    let workload = Workload { range_ratio: RATIO, ..Workload::constant(lengths.0, lengths.1) };
    let projector = Projector::new(&model, &target, &engine, None, &calibration, &workload).unwrap();
    let deployment = Deployment {
        tp,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency,
        weight_dtype: model.checkpoints[0].dtype.clone(),
        kv_dtype: projector.settings.default_kv_dtype(target.gpu.family),
        max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
        max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
        memory_fraction: projector.settings.memory_fraction,
        speculation: None,
        prefill: None,
    };
    Case { projector, deployment }
}

impl Case {
    fn instance(&self) -> Instance {
        Instance::new(&self.projector, &self.deployment, 131_072).unwrap()
    }

    fn closed_form(&self) -> Evaluation {
        self.projector.evaluate(&self.deployment).unwrap()
    }

    fn load(&self, arrivals: Arrivals, requests: u64) -> LoadSpec {
        let w = &self.projector.workload;
        let lengths = LengthSource::Laws(Lengths::ratio(w.isl, RATIO), Lengths::ratio(w.osl, RATIO));
        LoadSpec { arrivals, lengths, requests, prefix: None, sessions: None, priorities: Vec::new(), seed: 3 }
    }

    fn closed_loop(&self) -> Report {
        let clients = self.deployment.concurrency;
        let arrivals = Arrivals::Closed { clients, think_s: 0.0, think: Gaps::Constant };
        let instance = self.instance();
        let scenario = Scenario::new(instance.engine.clone(), self.load(arrivals, 10 * u64::from(clients)));
        let report = simulate(&scenario, instance.step_time(Some(f64::from(clients))), &mut Unobserved).unwrap();
        assert!(report.checks.hold());
        report
    }
}

#[test]
fn closed_loop_means_are_those_of_the_closed_form() {
    // One instance, answers that end apart (ratio 0.8), everything resident: what the closed form assumes.
    let cases = [
        case("mi355x", "gpt-oss-120b", "vllm", 1, 1, (1024, 1024)),
        case("mi355x", "gpt-oss-120b", "vllm", 1, 8, (1024, 1024)),
        case("mi355x", "gpt-oss-120b", "vllm", 1, 64, (1024, 1024)),
        case("h100", "llama-3.3-70b", "vllm", 4, 32, (1024, 1024)),
        case("mi355x", "deepseek-r1", "atom", 8, 16, (8192, 1024)),
        case("b200", "llama-3.3-70b", "trtllm", 2, 32, (1024, 1024)),
        case("mi355x", "qwen3-next-80b-a3b", "vllm", 2, 32, (1024, 1024)),
    ];
    for c in cases {
        let (said, seen) = (c.closed_form().metrics, c.closed_loop());
        let name = format!("{} on {}, {}", c.projector.model.architecture.name, c.projector.target.name, c.deployment);
        let near = |figure: &str, said: f64, seen: f64| {
            assert!((seen / said - 1.0).abs() < 0.03, "{name}: {figure} {seen} simulated, {said} in closed form");
        };
        near("TPOT", said.tpot_ms, seen.tpot_ms.mean);
        near("E2E", said.e2e_ms, seen.e2e_ms.mean);
        near("output rate", said.output_tok_s, seen.output_tok_s);
        // The closed form lets prompts of the first wave end one by one; in an engine they end with their steps. The
        // means agree where all of them fit into one.
        let wave = said.running * c.projector.workload.mean_isl();
        if wave <= f64::from(c.deployment.max_num_batched_tokens) {
            near("TTFT", said.ttft_ms, seen.ttft_ms.mean);
        }
    }
}

#[derive(Default)]
struct Keep(Vec<RequestRecord>);

impl Observer for Keep {
    fn request(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

#[test]
fn runs_of_steps_end_at_the_instant_of_single_steps() {
    for (engine, model, tp) in [("vllm", "gpt-oss-120b", 1), ("sglang", "llama-3.3-70b", 2)] {
        let c = case("mi355x", model, engine, tp, 16, (700, 300));
        let instance = c.instance();
        let arrivals = Arrivals::Open { rate: 4.0, gaps: Gaps::Exponential };
        let mut scenario = Scenario::new(instance.engine.clone(), c.load(arrivals, 200));
        let mut records = Vec::new();
        for one_by_one in [false, true] {
            scenario.one_by_one = one_by_one;
            let mut keep = Keep::default();
            let report = simulate(&scenario, instance.step_time(None), &mut keep).unwrap();
            assert!(report.checks.hold(), "{engine}: {:?}", report.checks);
            records.push((format!("{:?}", keep.0), report.engines[0].steps));
        }
        assert!(records[0] == records[1], "{engine}");
        assert!(records[0].1 > 1_000, "{engine}: {} steps", records[0].1);
    }
}

#[test]
fn an_idle_engine_answers_in_the_time_of_one_client() {
    // A request every hundred seconds meets an idle engine: what the closed form says of one client, the first wave apart.
    let c = case("mi355x", "gpt-oss-120b", "vllm", 1, 1, (1024, 256));
    let instance = c.instance();
    let arrivals = Arrivals::Open { rate: 0.01, gaps: Gaps::Constant };
    let scenario = Scenario::new(instance.engine.clone(), c.load(arrivals, 50));
    let report = simulate(&scenario, instance.step_time(None), &mut Unobserved).unwrap();
    let said = c.closed_form().metrics;
    assert!((report.tpot_ms.mean / said.tpot_ms - 1.0).abs() < 0.01, "{} {}", report.tpot_ms.mean, said.tpot_ms);
    assert!((report.ttft_ms.mean / said.ttft_ms - 1.0).abs() < 0.05, "{} {}", report.ttft_ms.mean, said.ttft_ms);
}
