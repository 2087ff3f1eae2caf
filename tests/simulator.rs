//! The simulator against the real scheduler's traces, textbook queues and its own laws.

mod common;

use common::data;
use inferasim::serve::scheduler::{KvGroup, Policy, SchedulerConfig, SglangConfig};
use inferasim::sim::check_trace::{Comparison, TraceFile};
use inferasim::sim::distribution::{Gaps, Lengths};
use inferasim::sim::fleet::{Observer, Unobserved};
use inferasim::sim::load::{Arrivals, LengthSource, LoadSpec, PrefixPool, Sessions};
use inferasim::sim::report::Report;
use inferasim::sim::request_log::RequestRecord;
use inferasim::sim::router::RouterPolicy;
use inferasim::sim::scenario::{Disaggregation, EngineConfig, Outage, Scenario};
use inferasim::sim::simulate;
use inferasim::sim::step_time::{AffineStep, ConstantStep, ExponentialStep, StepTime};

fn open(rate: f64, prompt: Lengths, output: Lengths, requests: u64) -> LoadSpec {
    LoadSpec {
        arrivals: Arrivals::Open { rate, gaps: Gaps::Exponential },
        lengths: LengthSource::Laws(prompt, output),
        requests,
        prefix: None,
        sessions: None,
        priorities: Vec::new(),
        seed: 11,
    }
}

fn closed(clients: u32, think_s: f64, prompt: u32, output: u32, requests: u64) -> LoadSpec {
    let lengths = LengthSource::Laws(Lengths::Fixed(prompt), Lengths::Fixed(output));
    let arrivals = Arrivals::Closed { clients, think_s, think: Gaps::Exponential };
    LoadSpec { arrivals, lengths, ..open(1.0, Lengths::Fixed(1), Lengths::Fixed(1), requests) }
}

/// One request at a time, no prefix cache.
fn single_server() -> EngineConfig {
    EngineConfig::Vllm(SchedulerConfig { max_num_seqs: 1, enable_prefix_caching: false, ..SchedulerConfig::default() })
}

fn run(scenario: &Scenario, step_time: impl StepTime + 'static) -> Report {
    let report = simulate(scenario, Box::new(step_time), &mut Unobserved).unwrap();
    assert!(report.checks.hold(), "{:?}", report.checks);
    report
}

#[test]
fn every_step_of_the_real_scheduler_is_repeated() {
    let Some(folder) = data("golden") else { return };
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let outcome = TraceFile::read(&path).unwrap().check().unwrap();
            assert!(matches!(outcome, Comparison::Equal { .. }), "{}: {outcome:?}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// Twenty prompt tokens, a budget of sixteen, two answer tokens, nine usable blocks: worked out by hand.
const BY_HAND: &str = r#"{"schema":"inferasim-vllm-sched-golden/1","vllm_version":"0.33.0",
"config":{"max_num_batched_tokens":16,"max_num_seqs":4,"max_model_len":64,"block_size":16,"num_gpu_blocks":10,
"enable_prefix_caching":false,"enable_chunked_prefill":true,"policy":"fcfs","scheduler_reserve_full_isl":true},
"requests":[{"i":0,"id":"r000","arrival_step":1,"arrival_time":1.0,"priority":0,"prompt":[[5,20]],"max_tokens":2,
"stop_at":null,"abort_step":null}],
"steps":[{"t":1,"s":[[0,16,0,0,[1]]],"free_s":8,"o":[],"free":8,"run":[0],"wait":[]},
{"t":2,"s":[[0,4,2,16,[2]]],"free_s":7,"o":[[0,1]],"free":7,"run":[0],"wait":[]},
{"t":3,"s":[[0,1,2,20,[]]],"free_s":7,"f":[0],"o":[[0,1]],"free":9,"run":[],"wait":[]},
{"t":4,"s":[],"free_s":9,"o":[],"free":9,"run":[],"wait":[]}]}"#;

#[test]
fn a_trace_worked_out_by_hand_is_repeated_and_a_wrong_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        let path = folder.path().join("trace.json");
        std::fs::write(&path, text).unwrap();
        TraceFile::read(&path).and_then(|t| t.check())
    };
    assert_eq!(check(BY_HAND).unwrap(), Comparison::Equal { steps: 4 });
    let wrong = check(&BY_HAND.replace("\"free_s\":7", "\"free_s\":6")).unwrap();
    assert!(matches!(wrong, Comparison::Differs { step: 1, .. }), "{wrong:?}");
    assert!(check(&BY_HAND.replace("golden/1", "golden/9")).is_err());
    assert!(check(&BY_HAND[..200]).is_err());
}

#[test]
fn waits_are_those_of_the_textbook_queues() {
    // Service 20 ms, load 0.5. Pollaczek–Khinchine: Wq = λ·E[S²]/(2(1−ρ)): 10 ms constant, 20 ms exponential,
    // 12.5 ms for 10 or 30 ms with equal probability.
    let load = |osl: Lengths| open(25.0, Lengths::Fixed(1), osl, 200_000);
    let scenario = |osl: Lengths| Scenario::new(single_server(), load(osl));
    let constant = run(&scenario(Lengths::Fixed(1)), ConstantStep { seconds: 0.02 });
    assert!((constant.queue_ms.mean / 10.0 - 1.0).abs() < 0.02, "{}", constant.queue_ms.mean);
    let exponential = run(&scenario(Lengths::Fixed(1)), ExponentialStep::new(0.02, 3));
    assert!((exponential.queue_ms.mean / 20.0 - 1.0).abs() < 0.03, "{}", exponential.queue_ms.mean);
    // E2E is exponential with mean 40 ms: median 27.73 ms, 99th percentile 184.2 ms.
    assert!((exponential.e2e_ms.p50 / 27.73 - 1.0).abs() < 0.03, "{}", exponential.e2e_ms.p50);
    assert!((exponential.e2e_ms.p99 / 184.2 - 1.0).abs() < 0.05, "{}", exponential.e2e_ms.p99);
    let two = run(&scenario(Lengths::Choice(vec![(1, 0.5), (3, 1.0)])), ConstantStep { seconds: 0.01 });
    assert!((two.queue_ms.mean / 12.5 - 1.0).abs() < 0.02, "{}", two.queue_ms.mean);
}

#[test]
fn several_servers_wait_as_erlang_says() {
    // Erlang C, two servers at load 0.8: a share of 0.7111 waits, 35.56 ms on average. Erlang B, four slots and 2
    // Erlang: 0.09524 blocked.
    let load = open(80.0, Lengths::Fixed(1), Lengths::Fixed(1), 200_000);
    let mut scenario = Scenario { replicas: 2, router: RouterPolicy::Central, ..Scenario::new(single_server(), load) };
    let report = run(&scenario, ExponentialStep::new(0.02, 5));
    assert!((report.waited_share / 0.7111 - 1.0).abs() < 0.02, "{}", report.waited_share);
    assert!((report.queue_ms.mean / 35.56 - 1.0).abs() < 0.06, "{}", report.queue_ms.mean);
    scenario.replicas = 4;
    scenario.queue_limit = Some(0);
    scenario.load = open(40.0, Lengths::Fixed(1), Lengths::Geometric(50.0), 100_000);
    let report = run(&scenario, ConstantStep { seconds: 0.001 });
    let blocked = report.refused.queue_full as f64 / report.sent as f64;
    assert!((blocked / 0.09524 - 1.0).abs() < 0.04, "{blocked}");
}

#[test]
fn a_closed_loop_matches_mean_value_analysis() {
    // Sixteen users who think 1 s, exponential service of 20 ms: R and X by the exact recursion.
    let (service, think) = (0.02, 1.0);
    let (mut queue, mut response, mut rate) = (0.0, 0.0, 0.0);
    for users in 1..=16 {
        response = service * (1.0 + queue);
        rate = f64::from(users) / (think + response);
        queue = rate * response;
    }
    let load = closed(16, think, 1, 1, 200_000);
    let report = run(&Scenario::new(single_server(), load), ExponentialStep::new(service, 9));
    assert!((report.achieved_rate / rate - 1.0).abs() < 0.01, "{} {rate}", report.achieved_rate);
    assert!((report.e2e_ms.mean / 1e3 / response - 1.0).abs() < 0.01, "{} {response}", report.e2e_ms.mean);
}

#[test]
fn prompts_take_as_many_steps_as_the_budget_says() {
    for (budget, prompt, steps) in [(512, 512, 1), (512, 513, 2), (512, 8193, 17), (2048, 4096, 2), (8192, 8193, 2)] {
        let config = SchedulerConfig { max_num_batched_tokens: budget, ..SchedulerConfig::default() }.resolve(false);
        let scenario = Scenario::new(EngineConfig::Vllm(config), closed(1, 0.0, prompt, 1, 1));
        let report = run(&scenario, ConstantStep { seconds: 0.01 });
        assert_eq!(report.engines[0].steps, steps);
        assert!((report.ttft_ms.mean - 10.0 * steps as f64).abs() < 1e-9);
    }
}

#[test]
fn steady_decoding_is_concurrency_over_step_time() {
    // Prompts of one token, so that every step has 64 tokens: 8 ms + 64 · 0.05 ms.
    let step =
        AffineStep { base_s: 0.008, per_decode_token_s: 5e-5, per_prefill_token_s: 5e-5, ..AffineStep::default() };
    let scenario = Scenario::new(EngineConfig::Vllm(SchedulerConfig::default()), closed(64, 0.0, 1, 128, 640));
    let report = run(&scenario, step);
    assert!((report.tpot_ms.mean - 11.2).abs() < 1e-6);
    assert!((report.output_tok_s / (64.0 / 0.0112) - 1.0).abs() < 1e-6);
}

#[test]
fn the_oracle_file_agrees() {
    let Some(path) = data("oracles.json") else { return };
    let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let seeds = 6;
    let requests = if cfg!(debug_assertions) { 20_000 } else { 400_000 };
    let mut checked = 0;
    for case in cases.as_array().unwrap() {
        let (name, setup, expect) = (case["name"].as_str().unwrap(), &case["setup"], &case["expect"]);
        let number = |key: &str| setup[key].as_f64().unwrap_or(0.0);
        let one = Lengths::Fixed(1);
        let rate = number("lambda_rps");
        let mut scenario = Scenario::new(single_server(), open(rate, one.clone(), one.clone(), requests));
        let mut exponential = true;
        match name {
            "M/D/1" => exponential = false,
            "M/M/1" => {}
            "M/G/1-PK-2pt" => {
                let osl = Lengths::Choice(vec![(1, 0.5), (3, 1.0)]);
                scenario.load = open(rate, one, osl, requests);
                exponential = false;
            }
            "M/M/c" | "M/G/c/c Erlang-B" => {
                scenario.replicas = number("c") as u32;
                scenario.router = RouterPolicy::Central;
                if name != "M/M/c" {
                    scenario.load = open(number("offered") / 0.02, one.clone(), one, requests);
                    scenario.queue_limit = Some(0);
                }
            }
            "closed MVA (machine repairman)" => {
                scenario.load = closed(number("N") as u32, number("Z_s"), 1, 1, requests);
            }
            "chunked prefill steps" => {
                let budget = number("max_num_batched_tokens") as u32;
                let config = SchedulerConfig { max_num_batched_tokens: budget, ..SchedulerConfig::default() };
                let load = closed(1, 0.0, number("isl") as u32, 1, 1);
                let scenario = Scenario::new(EngineConfig::Vllm(config.resolve(false)), load);
                let report = run(&scenario, ConstantStep { seconds: 0.01 });
                assert_eq!(Some(report.engines[0].steps), expect["n_prefill_steps"].as_u64(), "{name} {setup}");
                assert!((report.ttft_ms.mean - 10.0 * report.engines[0].steps as f64).abs() < 1e-9);
                checked += 1;
                continue;
            }
            "closed-loop steady decode" => {
                let clients = number("concurrency") as u32;
                let (base_s, per_token) = (number("a"), number("b"));
                let step = AffineStep {
                    base_s,
                    per_decode_token_s: per_token,
                    per_prefill_token_s: per_token,
                    ..AffineStep::default()
                };
                let load = closed(clients, 0.0, number("isl") as u32, number("osl") as u32, 10 * u64::from(clients));
                let report = run(&Scenario::new(EngineConfig::Vllm(SchedulerConfig::default()), load), step);
                let wanted = |key: &str| expect[key].as_f64().unwrap();
                assert!((report.tpot_ms.mean / 1e3 / wanted("tpot_s") - 1.0).abs() < 1e-6, "{setup}");
                assert!((report.output_tok_s / wanted("tput_tok_s") - 1.0).abs() < 1e-6, "{setup}");
                checked += 1;
                continue;
            }
            unknown => panic!("the oracle file has a case `{unknown}` that no test covers"),
        }
        let service = if name == "M/G/1-PK-2pt" { 0.01 } else { 0.02 };
        let reports: Vec<Report> = (1..=seeds)
            .map(|seed| {
                scenario.load.seed = seed;
                if exponential {
                    run(&scenario, ExponentialStep::new(service, seed))
                } else {
                    run(&scenario, ConstantStep { seconds: service })
                }
            })
            .collect();
        let compare = |key: &str, value: &dyn Fn(&Report) -> f64| {
            let Some(wanted) = expect[key].as_f64() else { return };
            let values: Vec<f64> = reports.iter().map(value).collect();
            let mean = values.iter().sum::<f64>() / seeds as f64;
            let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64;
            // Student's t of five degrees of freedom puts 3 sigma (0.27 % two-sided) at 5.5 standard errors.
            let allowed = (0.01 * wanted).max(5.5 * (spread / seeds as f64).sqrt());
            assert!((mean - wanted).abs() <= allowed, "{name} {setup} {key}: {mean} for {wanted} ± {allowed}");
        };
        compare("Wq_s", &|r| r.queue_ms.mean / 1e3);
        compare("W_s", &|r| r.e2e_ms.mean / 1e3);
        compare("W_p50", &|r| r.e2e_ms.p50 / 1e3);
        compare("W_p99", &|r| r.e2e_ms.p99 / 1e3);
        compare("Lq", &|r| r.mean_present - r.utilisation);
        compare("L", &|r| r.mean_present);
        compare("util", &|r| r.utilisation);
        compare("P_wait", &|r| r.waited_share);
        compare("P_block", &|r| r.refused.queue_full as f64 / r.sent as f64);
        compare("X_rps", &|r| r.achieved_rate);
        compare("R_s", &|r| r.e2e_ms.mean / 1e3);
        compare("Q", &|r| r.mean_present);
        checked += 1;
    }
    assert_eq!(checked, cases.as_array().unwrap().len());
}

#[derive(Default)]
struct Keep(Vec<RequestRecord>);

impl Observer for Keep {
    fn request(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

fn step() -> AffineStep {
    AffineStep { base_s: 0.006, per_decode_token_s: 4e-5, per_context_token_s: 3e-9, per_prefill_token_s: 3e-5 }
}

/// Scenarios that between them use every part of the simulator.
fn varied() -> Vec<(&'static str, Scenario)> {
    let mixed = || {
        let prompt = Lengths::LogNormal { mean: 400.0, sigma: 0.8 };
        let mut load = open(20.0, prompt, Lengths::Uniform(1, 200), 600);
        load.prefix = Some(PrefixPool { prefixes: 8, tokens: 200, exponent: 1.0 });
        load
    };
    let tight =
        || SchedulerConfig { num_blocks: 400, max_model_len: 8192, ..SchedulerConfig::default() }.resolve(false);
    let vllm = |config: SchedulerConfig| Scenario::new(EngineConfig::Vllm(config), mixed());
    let fleet = |router| Scenario { replicas: 3, router, ..vllm(tight()) };
    let mut talk = mixed();
    talk.sessions = Some(Sessions { turns: 4, think_s: 2.0 });
    let hybrid = || SchedulerConfig {
        groups: vec![KvGroup { window: None }, KvGroup { window: Some(128) }],
        num_blocks: 900,
        ..tight()
    };
    let split =
        Disaggregation { prefill_replicas: 1, kv_bytes_per_token: 131_072.0, link_bytes_per_s: 5e10, latency_s: 1e-3 };
    let outages = vec![
        Outage { replica: 1, from_s: 0.0, until_s: Some(3.0) },
        Outage { replica: 0, from_s: 8.0, until_s: Some(12.0) },
    ];
    let sglang = SglangConfig { max_total_tokens: 9000, ..SglangConfig::default() };
    let uncached = SchedulerConfig { enable_prefix_caching: false, ..tight() };
    vec![
        ("roomy", vllm(SchedulerConfig::default())),
        ("tight", vllm(tight())),
        ("tight, no prefix cache", vllm(uncached)),
        ("no reserve", vllm(SchedulerConfig { reserve_full_prompt: false, ..tight() })),
        (
            "priority",
            Scenario {
                load: LoadSpec { priorities: vec![(0, 0.3), (5, 1.0)], ..mixed() },
                ..vllm(SchedulerConfig { policy: Policy::Priority, max_num_seqs: 6, ..tight() })
            },
        ),
        ("few sequences", vllm(SchedulerConfig { max_num_seqs: 6, ..SchedulerConfig::default() })),
        ("hybrid", vllm(hybrid())),
        ("window only", vllm(SchedulerConfig { groups: vec![KvGroup { window: Some(100) }], ..tight() })),
        (
            "host tier",
            Scenario { host_seconds_per_token: 2e-6, ..vllm(SchedulerConfig { host_blocks: 3000, ..tight() }) },
        ),
        ("async", vllm(SchedulerConfig { async_scheduling: true, ..tight() }.resolve(false))),
        ("async hybrid", vllm(SchedulerConfig { async_scheduling: true, ..hybrid() }.resolve(false))),
        (
            "drafts",
            Scenario {
                draft_acceptance: 0.6,
                ..vllm(SchedulerConfig { speculative_tokens: 3, ..tight() }.resolve(true))
            },
        ),
        ("sessions", Scenario { load: talk, ..fleet(RouterPolicy::PrefixHash { tokens: 64 }) }),
        ("kv overlap", fleet(RouterPolicy::KvOverlap { weight: 1.0 })),
        ("power of two", fleet(RouterPolicy::PowerOfTwo)),
        ("least loaded", fleet(RouterPolicy::LeastLoaded)),
        ("central", fleet(RouterPolicy::Central)),
        ("split", Scenario { disaggregation: Some(split), ..fleet(RouterPolicy::LeastLoaded) }),
        ("outages", Scenario { outages, ..fleet(RouterPolicy::RoundRobin) }),
        ("closed", Scenario { load: closed(12, 0.0, 700, 90, 300), ..vllm(tight()) }),
        ("sglang", Scenario::new(EngineConfig::Sglang(sglang.clone()), mixed())),
        ("sglang pages", Scenario::new(EngineConfig::Sglang(SglangConfig { page_size: 64, ..sglang }), mixed())),
    ]
}

#[test]
fn runs_of_steps_end_at_the_instant_of_single_steps() {
    for (name, mut scenario) in varied() {
        let mut records = Vec::new();
        for one_by_one in [false, true] {
            scenario.one_by_one = one_by_one;
            let mut keep = Keep::default();
            let report = simulate(&scenario, Box::new(step()), &mut keep).unwrap();
            assert!(report.checks.hold(), "{name} {one_by_one}: {:?}", report.checks);
            assert_eq!(report.finished + report.refused.total(), report.sent, "{name}");
            let engines = report.engines.iter().map(|e| (e.steps, e.preemptions, e.evictions, e.decode_tokens));
            records.push((format!("{:?}", keep.0), report.itl_ms, engines.collect::<Vec<_>>()));
        }
        assert!(records[0].0 == records[1].0, "{name}: request records differ");
        assert_eq!(records[0].1, records[1].1, "{name}");
        if !name.contains("async") {
            assert_eq!(records[0].2, records[1].2, "{name}");
        }
    }
}

#[test]
fn leaving_private_blocks_unhashed_changes_nothing() {
    // A pool of one-token prefixes, each used once at most, makes every block hashed; without a pool none is, unless
    // its request is preempted. Prompts are one token longer in the second load, so that both hold the same tokens.
    let config =
        SchedulerConfig { reserve_full_prompt: false, num_blocks: 300, max_model_len: 4096, ..Default::default() };
    let run_with = |prefix: Option<PrefixPool>, prompt: u32| {
        let lengths = Lengths::Uniform(prompt, prompt + 300);
        let mut load = open(25.0, lengths, Lengths::Uniform(50, 250), 400);
        load.prefix = prefix;
        let mut keep = Keep::default();
        let scenario = Scenario::new(EngineConfig::Vllm(config.clone().resolve(false)), load);
        let report = simulate(&scenario, Box::new(step()), &mut keep).unwrap();
        assert!(report.engines[0].preemptions > 10 && report.checks.hold());
        (format!("{:?}", keep.0), report.engines[0].evictions, report.engines[0].prefix_hit_rate.to_bits())
    };
    let pool = PrefixPool { prefixes: 1000, tokens: 1, exponent: 0.0 };
    assert!(run_with(Some(pool), 100) == run_with(None, 101));
}

#[test]
fn pressure_is_where_it_was_meant_to_be() {
    let all = varied();
    let report = |wanted: &str| {
        let (_, scenario) = all.iter().find(|(name, _)| *name == wanted).unwrap();
        run(scenario, step())
    };
    for name in ["no reserve", "sglang"] {
        assert!(report(name).engines[0].preemptions > 0, "{name}");
    }
    assert!(report("tight").engines[0].evictions > 0);
    assert!(report("tight").engines[0].prefix_hit_rate > 0.1);
    // The host tier finds again what the device evicted, so that less is computed.
    assert!(report("host tier").engines[0].prefill_tokens < report("tight").engines[0].prefill_tokens);
    assert!(report("outages").restarts > 0);
    assert!(report("sessions").engines.iter().all(|e| e.finished > 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let (_, mut scenario) = varied().into_iter().find(|(name, _)| *name == "kv overlap").unwrap();
    let json = |scenario: &Scenario| serde_json::to_string(&run(scenario, step())).unwrap();
    let first = json(&scenario);
    assert_eq!(first, json(&scenario));
    scenario.load.seed += 1;
    assert_ne!(first, json(&scenario));
}

#[test]
fn priorities_wait_as_cobham_says() {
    // Two classes at one server without preemption (Cobham 1954): mean residual work W0 = λ·E[S²]/2 = 40 · 0.02²/2 =
    // 8 ms of service of 20 ms; the first class waits W0/(1 − ρ1), the second W0/((1 − ρ1)(1 − ρ)); ρ1 = 0.24, ρ = 0.8.
    let load =
        LoadSpec { priorities: vec![(1, 0.3), (7, 1.0)], ..open(40.0, Lengths::Fixed(1), Lengths::Fixed(1), 100_000) };
    let mut engine = single_server();
    engine.serve_by_priority().unwrap();
    let mut keep = Keep::default();
    simulate(&Scenario::new(engine, load), Box::new(ConstantStep { seconds: 0.02 }), &mut keep).unwrap();
    let wait = |priority: i64| {
        let waits: Vec<f64> = keep.0.iter().filter(|r| r.priority == priority).map(|r| r.queue_s * 1e3).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    let (first, second) = (8.0 / 0.76, 8.0 / (0.76 * 0.2));
    assert!((wait(1) / first - 1.0).abs() < 0.03, "{} {first}", wait(1));
    assert!((wait(7) / second - 1.0).abs() < 0.05, "{} {second}", wait(7));
}

#[test]
fn what_never_fits_is_refused_and_counted() {
    let config = SchedulerConfig { num_blocks: 9, max_model_len: 256, ..SchedulerConfig::default() };
    let osl = Lengths::Fixed(8);
    let lengths = Lengths::Choice(vec![(100, 1.0 / 3.0), (200, 2.0 / 3.0), (300, 1.0)]);
    let scenario = Scenario::new(EngineConfig::Vllm(config), open(5.0, lengths, osl, 300));
    let report = run(&scenario, ConstantStep { seconds: 0.01 });
    assert!(report.refused.too_big_for_cache > 50 && report.refused.too_long > 50, "{:?}", report.refused);
    assert_eq!(report.finished + report.refused.total(), 300);
}

#[test]
fn overload_is_named_and_ends() {
    let load = |rate| open(rate, Lengths::Fixed(1), Lengths::Fixed(1), 5000);
    let report = |rate| run(&Scenario::new(single_server(), load(rate)), ConstantStep { seconds: 0.02 });
    assert!(report(100.0).saturated); // twice what one server can do
    assert!(!report(25.0).saturated);
    let mut endless = Scenario::new(single_server(), load(100.0));
    endless.max_steps = 2000;
    assert!(simulate(&endless, Box::new(ConstantStep { seconds: 0.02 }), &mut Unobserved).unwrap().limit_reached);
}

#[test]
fn a_fleet_without_replicas_leaves_requests_unserved() {
    let load = open(5.0, Lengths::Fixed(10), Lengths::Fixed(10), 50);
    let outages = (0..2).map(|replica| Outage { replica, from_s: 2.0, until_s: None }).collect();
    let engine = EngineConfig::Vllm(SchedulerConfig::default());
    let scenario = Scenario { replicas: 2, outages, ..Scenario::new(engine, load) };
    let report = run(&scenario, ConstantStep { seconds: 0.01 });
    assert!(report.refused.unserved > 0);
    assert_eq!(report.finished + report.refused.unserved, 50);
}
