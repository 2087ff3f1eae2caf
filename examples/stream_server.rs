//! An endpoint with known emission times, to check any load generator against.
//!
//! `cargo run --release --example stream_server -- 8100 200 20 50 log.jsonl`: on port 8100, the first token 200 ms after
//! a request, one every 20 ms, 50 tokens. Ends when its standard input closes, and writes each request's write times to
//! the log. Without a log it serves until it is killed, as an engine does: `/health` and `/v1/models` answer too.

#[path = "../tests/common/stream_server.rs"]
mod stream_server;

use serde_json::json;
use std::io::{Read, Write};
use std::time::Duration;
use stream_server::{Asked, Step, StreamServer, refusal, steady};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, first, gap, tokens, log @ ..] = args.as_slice() else {
        return Err("usage: stream_server PORT FIRST_MS GAP_MS TOKENS [LOG.jsonl]".into());
    };
    let (first, gap) = (Duration::from_millis(first.parse()?), Duration::from_millis(gap.parse()?));
    let tokens: usize = tokens.parse()?;
    let document = |body: serde_json::Value| {
        vec![Step::Head(200, "application/json", ""), Step::Send(body.to_string().into_bytes()), Step::End]
    };
    let server = StreamServer::start_on(port.parse()?, move |asked: &Asked| match asked.path.as_str() {
        "/v1/chat/completions" => steady(first, gap, tokens, 100),
        "/health" => document(json!({"status": "ok"})),
        "/v1/models" => document(json!({"object": "list", "data": [{"id": "any", "object": "model"}]})),
        _ => refusal(404, "no such path", ""),
    });
    eprintln!("{}: ready", server.url());
    let Some(log) = log.first() else {
        loop {
            std::thread::park();
        }
    };
    std::io::stdin().read_to_end(&mut vec![])?;
    let mut file = std::io::BufWriter::new(std::fs::File::create(log)?);
    for served in server.log() {
        let line = json!({"request_id": served.asked.header("x-request-id"),
            "received_unix_ns": served.received_unix_ns, "writes_unix_ns": served.writes_unix_ns});
        writeln!(file, "{line}")?;
    }
    Ok(())
}
