//! A journal that survives kill -9, engines started and stopped, faults kept apart.

use crate::aid::*;
use crate::stream_server::{StreamServer, steady};
use std::time::{Duration, Instant};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    let server = StreamServer::start(|_| steady(ms(30), ms(5), 8, 100));
    let folder = tempfile::tempdir().unwrap();
    let file = write_shortlist(folder.path(), &[entry(1, "")]);
    let out = folder.path().join("out");
    let words = format!(
        "measure --shortlist {} --url {} --out {} --concurrency 1,2,4 --requests 24 {QUICK}",
        file.display(),
        server.url(),
        out.display()
    );
    let point = |c: u32| out.join(format!("01-m-vllm-tp1-c2/c{c}/result.json"));
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("inferasim"))
        .args(words.split_whitespace())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !point(1).exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(ms(5));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert!(!point(4).exists(), "the test must kill before the end");
    let first = std::fs::read(point(1)).unwrap();
    // A kill in the middle of a journal line.
    let journal = out.join("journal.jsonl");
    let mut text = std::fs::read(&journal).unwrap();
    text.extend_from_slice(b"{\"unix_s\":17,\"step\":\"star");
    std::fs::write(&journal, text).unwrap();

    inferasim(&words).assert().code(0);
    assert_eq!(std::fs::read(point(1)).unwrap(), first, "a whole point is not measured again");
    for c in [2, 4] {
        assert_eq!(read_json(&point(c))["summary"]["points"][0]["load"]["concurrency"], c);
    }
    let anchors = std::fs::read_dir(out.join("anchors")).unwrap().count();
    assert_eq!(anchors, 3);
    let anchor = read_json(&out.join("anchors/01-m-vllm-tp1-c2-c4.json"));
    assert_eq!(anchor["regime"]["gpu"], "MI355X");
    assert_eq!(anchor["layout"]["tp"], 1);
    assert_eq!(anchor["prefix_caching"], false);
    let tpot = anchor["measured"]["tpot_ms"].as_f64().unwrap();
    assert!((4.0..15.0).contains(&tpot), "{tpot}: one token every 5 ms");

    let again = inferasim(&words).arg("--json").assert().code(0).get_output().stdout.clone();
    let again: serde_json::Value = serde_json::from_slice(&again).unwrap();
    assert_eq!((again["measured"].as_u64(), again["measured_before"].as_u64()), (Some(0), Some(3)));
    // No prompt was sent twice, in spite of the kill.
    let mut prompts: Vec<String> =
        server.log().iter().filter_map(|s| s.asked.body["messages"][0]["content"].as_str().map(String::from)).collect();
    let sent = prompts.len();
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), sent);

    let other = words.replace("--requests 24", "--requests 25");
    let refused = inferasim(&other).assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&refused).contains("holds a campaign of other deployments or settings"));
}

#[test]
fn engines_are_started_by_their_launch_command_and_stopped() {
    let (program, port) = (server_program(), free_port());
    let folder = tempfile::tempdir().unwrap();
    let launch = format!("{} {port} 20 4 8", program.display());
    let entries = [entry(1, &launch), entry(2, "echo no GPU here >&2; exit 3"), entry(4, &launch)];
    let file = write_shortlist(folder.path(), &entries);
    let out = folder.path().join("out");
    let words = format!(
        "measure --shortlist {} --url http://127.0.0.1:{port} --out {} --launch --start-timeout 30 {QUICK}",
        file.display(),
        out.display()
    );
    let output = inferasim(&words).assert().code(1).get_output().stdout.clone();
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("the engine ended with code 3: no GPU here"), "{output}");
    let result = read_json(&out.join("04-m-vllm-tp4-c2/c2/result.json"));
    assert_eq!(
        (result["launched"].as_bool(), result["anchor"]["launch"].as_str()),
        (Some(true), Some(launch.as_str()))
    );
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "the engine was stopped");

    // Something else on the port is not mistaken for the engine.
    let _other = StreamServer::start_on(port, |_| steady(ms(0), ms(0), 8, 100));
    let words = words.replace("--launch", "--launch --overwrite");
    let refused = inferasim(&words).assert().code(2).get_output().stderr.clone();
    assert!(
        String::from_utf8_lossy(&refused).contains("no answer")
            || String::from_utf8_lossy(&refused).contains("answers at")
    );
}

#[test]
fn bad_campaigns_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_shortlist(folder.path(), &[entry(1, ""), entry(2, "")]);
    let (file, out) = (file.display(), folder.path().join("out"));
    let refused = |words: &str| {
        let words = words.replace("OUT", &out.display().to_string());
        let output = inferasim(&words).assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&format!("measure --shortlist {file} --out OUT")).contains("2 entries and one endpoint"));
    assert!(refused(&format!("measure --shortlist {file} --out OUT --entry 3")).contains("Ranks: 1, 2"));
    assert!(refused(&format!("measure --shortlist {file}")).contains("--out"));
    assert!(refused(&format!("measure --shortlist {file} --isl 4 --osl 4 --out OUT")).contains("cannot be used with"));
    assert!(refused("measure --shortlist nowhere.json --out OUT").contains("cannot be read"));
    assert!(
        refused(&format!("measure --shortlist {file} --entry 1 --url http://example.com --out OUT")).contains("--yes")
    );
    assert!(!out.exists());
    let plan = inferasim(&format!("measure --shortlist {file} --launch --dry-run --out {}", out.display()));
    let plan = {
        let mut p = plan;
        p.assert().code(0).get_output().stdout.clone()
    };
    assert!(String::from_utf8(plan).unwrap().contains("point 02-m-vllm-tp2-c2/c2: 6 requests"));
    assert!(!out.exists());
}
