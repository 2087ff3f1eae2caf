//! A whole search led by a scripted endpoint: what the model is told, and what becomes of good, bad and no answers.

use crate::server::{Answer, Asked, Server, plan};
use crate::world::World;
use inferasim::planner::{Briefing, Budget, End, Endpoint, Limits, Live, Parts, Replay, Session, Transcript};
use inferasim::search::Evaluator;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMITS: Limits = Limits { calls: 20, tokens: 1_000_000, usd: None, usd_per_m: None };

fn world() -> World {
    World::new("mi355x", "gpt-oss-120b", "vllm", "quick", "default", "ttft_ms=500")
}

fn parts<'a>(url: &str, limits: Limits, transcript: Transcript) -> Parts<'a> {
    let endpoint = Endpoint { url: url.into(), key: Some("hunter2-secret".into()), timeout: Duration::from_secs(2) };
    Parts {
        model: "scripted".into(),
        seed: 1,
        briefing: Briefing { model: "a model".into(), ..Briefing::default() },
        channel: Box::new(Live::new(&endpoint, Box::new(|| false)).unwrap()),
        transcript,
        budget: Budget::new(limits),
        interrupted: Box::new(|| false),
    }
}

/// Runs a session to its end, as the search's loop would.
fn run<E: Evaluator>(session: &mut Session<'_, E>) {
    for _ in 0..200 {
        let points = session.ask(16);
        if points.is_empty() {
            return;
        }
        for point in points {
            session.tell(point, None);
        }
    }
    panic!("it never ends");
}

fn ended(answers: Vec<Answer>) -> (End, usize, Server) {
    let world = world();
    let server = Server::scripted(answers);
    let search = world.search();
    let mut session = Session::new(&search, parts(&server.url, LIMITS, Transcript::none()));
    run(&mut session);
    let proposed = session.proposed();
    (session.ended().cloned().unwrap(), proposed, server)
}

fn user(asked: &Asked) -> String {
    asked.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_string()
}

#[test]
fn a_model_is_told_the_task_and_its_candidates_are_evaluated() {
    let good = plan(json!([{ "settings": { "tp": 1, "concurrency": 512 }, "why": "more load", "expects": 9000 }]));
    let done = Answer::Text("{\"rationale\": \"found\", \"candidates\": [], \"done\": true}".into());
    let (end, proposed, server) = ended(vec![good, done]);
    assert_eq!((end, proposed), (End::Done, 1));
    let asked = server.asked();
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert!(asked[0].headers.contains(&("authorization".into(), "Bearer hunter2-secret".into())));
    let system = asked[0].body["messages"][0]["content"].as_str().unwrap();
    for part in
        ["maximise tok_s_per_gpu under ttft_ms <= 500", "- tp: 1, 2, 4 or 8", "- concurrency: 1, 4, 16", "a model"]
    {
        assert!(system.contains(part), "{part} not in {system}");
    }
    let first = user(&asked[0]);
    assert!(first.contains("Round 1.") && first.contains("Best so far: tp=") && first.contains("Set "), "{first}");
    let second = user(&asked[1]);
    assert!(second.contains("tp=1 concurrency=512 (expected 9000): "), "{second}");
}

#[test]
fn tools_are_answered_and_what_they_evaluate_counts() {
    let calls = Answer::Tools(vec![
        ("evaluate", json!({ "settings": { "tp": 8, "concurrency": 16 } })),
        ("explain", json!({ "settings": { "tp": 4, "concurrency": 4 } })),
        ("legal_values", json!({ "knob": "tp" })),
        ("best", json!({ "n": 2 })),
        ("history", json!({})),
        ("reboot", json!({})),
        ("evaluate", json!({ "settings": { "tp": 3 } })),
    ]);
    let done = Answer::Text("{\"candidates\": [], \"done\": true}".into());
    let (end, proposed, server) = ended(vec![calls, done]);
    assert_eq!((end, proposed), (End::Done, 2));
    let messages = server.asked()[1].body["messages"].as_array().unwrap().clone();
    let told: Vec<&str> =
        messages.iter().filter(|m| m["role"] == "tool").map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(told.len(), 7);
    assert!(told[0].starts_with("tp=8 concurrency=16: tok_s_per_gpu "), "{}", told[0]);
    assert!(told[1].contains("TPOT in ms: GEMM "), "{}", told[1]);
    assert_eq!(told[2], "tp: 1, 2, 4 or 8");
    assert!(told[5].contains("There is no tool `reboot`"));
    assert_eq!(told[6], "Not evaluated: `tp` cannot be 3. Use 1, 2, 4 or 8.");
}

#[test]
fn what_is_wrong_with_an_answer_is_said_and_the_rest_is_taken() {
    let mixed = plan(json!([
        { "settings": { "tp": "4", "concurrency": 256.0 } },
        { "settings": { "tp": 5 } },
        { "settings": { "concurency": 64 } },
        { "settings": { "pp": 2 } },
        { "settings": [1, 2] },
        "tp 8",
        { "settings": { "tp": 4, "concurrency": 256 } },
    ]));
    let done = Answer::Text("{\"candidates\": [], \"done\": true}".into());
    let (_, proposed, server) = ended(vec![mixed, done]);
    assert_eq!(proposed, 1);
    let told = user(&server.asked()[1]);
    for part in [
        "Candidate 2: `tp` cannot be 5. Use 1, 2, 4 or 8.",
        "Candidate 3: there is no knob `concurency`. Did you mean `concurrency`?",
        "Candidate 4: `pp` is fixed at 1 in this space, not 2. Leave it out.",
        "Candidate 5: `settings` is [1,2], not an object of knobs.",
        "Candidate 6: \"tp 8\" is no object.",
        "Candidate 7 is the same as one before it.",
    ] {
        assert!(told.contains(part), "{part} not in {told}");
    }
}

#[test]
fn nonsense_in_a_row_ends_the_models_part() {
    for nonsense in ["", "I am a teapot.", "{{{{", "[1, 2, 3]", "{\"candidates\": \"all of them\"}", "\u{0}\u{ffff}"] {
        let (end, proposed, server) = ended(vec![Answer::Text(nonsense.into())]);
        assert!(matches!(end, End::Barren(_)), "{nonsense}: {end}");
        assert_eq!((proposed, server.asked().len()), (0, 3), "{nonsense}");
    }
    let (end, ..) = ended(vec![Answer::Refusal("I cannot help with that.")]);
    assert!(end.to_string().contains("You refused"), "{end}");
}

#[test]
fn a_model_that_repeats_itself_is_moved_then_given_up() {
    let same = plan(json!([{ "settings": { "tp": 1, "concurrency": 512 } }]));
    let (end, proposed, server) = ended(vec![same]);
    assert_eq!(proposed, 1);
    assert!(matches!(&end, End::Barren(last) if last.starts_with("Tried before: tp=1")), "{end}");
    let temperatures: Vec<f64> = server.asked().iter().map(|a| a.body["temperature"].as_f64().unwrap()).collect();
    assert_eq!(temperatures, [0.0, 0.0, 0.7, 0.7]);
}

#[test]
fn rounds_without_a_better_point_end_the_search() {
    // Each round another point, none better than what the seeds found.
    let server =
        Server::start(|at, _| plan(json!([{ "settings": { "tp": 8, "concurrency": ([1, 4, 16, 64, 128][at % 5]) } }])));
    let world = world();
    let search = world.search();
    let mut session = Session::new(&search, parts(&server.url, LIMITS, Transcript::none()));
    run(&mut session);
    assert!(matches!(session.ended(), Some(End::Plateau | End::Barren(_))), "{:?}", session.ended());
}

#[test]
fn a_busy_endpoint_is_waited_for_as_long_as_it_asks() {
    let done = Answer::Text("{\"candidates\": [], \"done\": true}".into());
    let began = Instant::now();
    let (end, _, server) =
        ended(vec![Answer::Status(429, "retry-after: 1\r\n", "{\"error\":{\"message\":\"slow\"}}"), done.clone()]);
    assert_eq!((end, server.asked().len()), (End::Done, 2));
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let (end, _, server) = ended(vec![Answer::Status(429, "retry-after: 3600\r\n", "{}"), done.clone()]);
    assert!(matches!(&end, End::Unreachable(why) if why.contains("3600 s")), "{end}");
    assert_eq!(server.asked().len(), 1);
    let (end, _, server) = ended(vec![Answer::Status(503, "", "loading"), Answer::Status(500, "", "oops"), done]);
    assert_eq!((end, server.asked().len()), (End::Done, 3));
}

#[test]
fn a_broken_endpoint_is_tried_again_then_given_up() {
    for broken in [Answer::Drop, Answer::Noise, Answer::InBand("out of memory"), Answer::Status(502, "", "<html>")] {
        let (end, _, server) = ended(vec![broken.clone()]);
        assert!(matches!(end, End::Unreachable(_)), "{broken:?}: {end}");
        assert_eq!(server.asked().len(), 4, "{broken:?}");
    }
    let (end, _, server) = ended(vec![Answer::Status(401, "", "{\"error\":{\"message\":\"wrong key\"}}")]);
    assert!(matches!(&end, End::Refused(why) if why.contains("wrong key")), "{end}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn silence_ends_in_time() {
    let began = Instant::now();
    let (end, ..) = ended(vec![Answer::Hang(Duration::from_secs(30))]);
    assert!(matches!(&end, End::Unreachable(why) if why.contains("2 s")), "{end}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn half_an_answer_gives_the_candidates_it_holds() {
    let half = "{\"rationale\": \"go\", \"candidates\": [{\"settings\": {\"tp\": 1, \"concurrency\": 512}}, {\"settings\": {\"tp";
    let done = Answer::Text("{\"candidates\": [], \"done\": true}".into());
    let (_, proposed, server) = ended(vec![Answer::Half(half.into()), done]);
    assert_eq!(proposed, 1);
    assert!(user(&server.asked()[1]).contains("was cut off"));
}

#[test]
fn what_has_come_of_an_answer_that_takes_too_long_is_taken() {
    let half = "{\"rationale\": \"go\", \"candidates\": [{\"settings\": {\"tp\": 1, \"concurrency\": 512}}, {\"settings\": {\"tp";
    let done = Answer::Text("{\"candidates\": [], \"done\": true}".into());
    let (_, proposed, server) = ended(vec![Answer::Stalled(half.into(), Duration::from_secs(30)), done]);
    assert_eq!(proposed, 1);
    assert!(user(&server.asked()[1]).contains("was cut off"));
}

#[test]
fn what_a_server_does_not_take_is_left_out() {
    let server = Server::start(|_, asked| {
        let has = |key: &str| !asked.body[key].is_null();
        if has("response_format") {
            Answer::Status(400, "", "{\"error\":{\"message\":\"response_format is not supported\"}}")
        } else if has("tools") {
            Answer::Status(400, "", "{\"error\":{\"message\":\"tools need --enable-auto-tool-choice\"}}")
        } else if has("stream_options") {
            Answer::Status(422, "", "{\"error\":{\"message\":\"Extra inputs: stream_options\"}}")
        } else if asked.body["stream"] == json!(true) {
            Answer::Status(400, "", "{\"error\":{\"message\":\"stream is not supported\"}}")
        } else {
            Answer::Text("{\"candidates\": [], \"done\": true}".into())
        }
    });
    let world = world();
    let search = world.search();
    let mut session = Session::new(&search, parts(&server.url, LIMITS, Transcript::none()));
    run(&mut session);
    assert_eq!((session.ended(), server.asked().len()), (Some(&End::Done), 5));
}

#[test]
fn budgets_hold() {
    let spent = |limits: Limits| {
        let world = world();
        let server = Server::start(|at, _| {
            plan(
                json!([{ "settings": { "tp": ([1, 2, 4, 8][at % 4]), "concurrency": ([512, 256, 128, 64, 16][at % 5]) } }]),
            )
        });
        let search = world.search();
        let mut session = Session::new(&search, parts(&server.url, limits, Transcript::none()));
        run(&mut session);
        (session.ended().cloned().unwrap(), server.asked().len(), session.budget().spent)
    };
    let (end, asked, _) = spent(Limits { calls: 2, ..LIMITS });
    assert_eq!((end, asked), (End::Budget("the budget of 2 calls is spent".into()), 2));
    let (end, asked, _) = spent(Limits { tokens: 100, ..LIMITS });
    assert!(matches!(end, End::Budget(why) if why.contains("100 tokens")));
    assert_eq!(asked, 0, "the first call would pass it");
    let (_, asked, spent) = spent(Limits { usd: Some(0.05), usd_per_m: Some((10.0, 10.0)), ..LIMITS });
    // 100 tokens read and 10 written a call at $10 per million.
    assert!((spent.usd.unwrap() - 0.0011 * asked as f64).abs() < 1e-9);
}

#[test]
fn a_transcript_replays_without_a_network_and_holds_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("planner.jsonl");
    let world = world();
    let search = world.search();
    let server = Server::scripted(vec![
        Answer::Status(503, "", "hunter2-secret is the key you sent"),
        plan(json!([{ "settings": { "tp": 1, "concurrency": 512 }, "why": "hunter2-secret" }])),
        Answer::Tools(vec![("best", json!({}))]),
        Answer::Text("{\"candidates\": [], \"done\": true}".into()),
    ]);
    let transcript = Transcript::create(&path, Some("hunter2-secret".into())).unwrap();
    let mut live = Session::new(&search, parts(&server.url, LIMITS, transcript));
    run(&mut live);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && text.contains("[key]"), "{text}");
    for line in text.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["kind"].is_string());
    }
    let replayed = |path: &Path| {
        let mut parts = parts("http://127.0.0.1:9/v1", LIMITS, Transcript::none());
        parts.channel = Box::new(Replay::open(path).unwrap());
        let mut session = Session::new(&search, parts);
        run(&mut session);
        let points: Vec<u64> = session.history().entries().iter().map(|e| e.index).collect();
        (session.ended().cloned(), points, session.remarks())
    };
    let (end, points, remarks) = replayed(&path);
    assert_eq!(end, Some(End::Done));
    assert_eq!(points, live.history().entries().iter().map(|e| e.index).collect::<Vec<_>>());
    assert_eq!(remarks, Vec::<String>::new());
    // Torn by a crash: what is left is replayed, and then the transcript ends.
    std::fs::write(&path, &text[..text.len() * 2 / 3]).unwrap();
    let (end, ..) = replayed(&path);
    assert!(matches!(end, Some(End::Exhausted | End::Done)), "{end:?}");
}

#[test]
fn files_that_are_no_transcript_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Replay::open(&path).unwrap_err().to_string()
    };
    assert!(refused("").contains("holds no answer"));
    assert!(refused("{\"kind\":\"start\"}\n").contains("holds no answer"));
    assert!(refused("nonsense\n{}\n").contains("x.jsonl:1"));
    assert!(refused("{\"a\":1}\n\n{}\n").contains("x.jsonl:1: no `kind`"));
    assert!(refused("{\"kind\":\"reply\",\"reply\":7}\n\n").contains("x.jsonl:1"));
    assert!(Replay::open(&folder.path().join("absent")).is_err());
}

#[test]
fn a_server_that_does_not_stream_is_asked_not_to() {
    let whole = json!({ "choices": [{ "message": { "content": "{\"done\": true}" }, "finish_reason": "stop" }] });
    let (end, _, server) = ended(vec![Answer::Whole(whole)]);
    assert_eq!(end, End::Done);
    let streamed: Vec<bool> = server.asked().iter().map(|a| a.body["stream"] == json!(true)).collect();
    assert_eq!(streamed, [true, false]);
}
