//! An endpoint with known emission times, to check any load generator against.
//!
//! `cargo run --release --example stream_server -- 8100 200 20 50 log.jsonl`: on port 8100, the first token 200 ms after
//! a request, one every 20 ms, 50 tokens. Each request's write times are appended to the log when its stream has ended.
//! Ends when its standard input closes.

#[path = "../tests/common/stream_server.rs"]
mod stream_server;

use std::io::{Read, Write};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, first, gap, tokens, log] = args.as_slice() else {
        return Err("usage: stream_server PORT FIRST_MS GAP_MS TOKENS LOG.jsonl".into());
    };
    let (first, gap) = (Duration::from_millis(first.parse()?), Duration::from_millis(gap.parse()?));
    let tokens: usize = tokens.parse()?;
    let server = stream_server::StreamServer::start_on(port.parse()?, move |asked| match asked.path.as_str() {
        "/v1/chat/completions" => stream_server::steady(first, gap, tokens, 100),
        _ => stream_server::refusal(404, "no such path", ""),
    });
    eprintln!("{}: ready", server.url());
    std::io::stdin().read_to_end(&mut vec![])?;
    let mut file = std::io::BufWriter::new(std::fs::File::create(log)?);
    for served in server.log() {
        let line = serde_json::json!({"request_id": served.asked.header("x-request-id"),
            "received_unix_ns": served.received_unix_ns, "writes_unix_ns": served.writes_unix_ns});
        writeln!(file, "{line}")?;
    }
    Ok(())
}
