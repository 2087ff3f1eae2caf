//! A loopback endpoint that answers chat completions with what a test scripts: sensible, nonsensical or broken.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is answered to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A streamed text that ends properly.
    Text(String),
    /// Streamed tool calls: name and arguments.
    Tools(Vec<(&'static str, Value)>),
    /// A streamed refusal.
    Refusal(&'static str),
    /// A streamed text that breaks off: the connection closes in the middle of the body.
    Half(String),
    /// The beginning of an answer, and then nothing for so long.
    Stalled(String, Duration),
    /// An error inside a stream.
    InBand(&'static str),
    /// A status with further header lines and a body.
    Status(u16, &'static str, &'static str),
    /// A body at once, not streamed.
    Whole(Value),
    /// The connection closes without a word.
    Drop,
    /// Nothing comes for this long, then the connection closes.
    Hang(Duration),
    /// Bytes that are no HTTP.
    Noise,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers request after request; `answer` is given its number, from 0, and the request.
    pub fn start(answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let number = {
                        let mut log = log.lock().unwrap();
                        log.push(request.clone());
                        log.len() - 1
                    };
                    let _ = write(stream, &answer(number, &request), request.body["stream"] == json!(true));
                });
            }
        });
        Self { url, asked }
    }

    /// Answers from a list; the last one again and again.
    pub fn scripted(answers: Vec<Answer>) -> Self {
        Self::start(move |at, _| answers[at.min(answers.len() - 1)].clone())
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_string();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            None => break,
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_string())),
        }
    }
    let length = headers.iter().find(|h| h.0 == "content-length").and_then(|h| h.1.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn event(delta: Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
}

fn write(mut stream: TcpStream, answer: &Answer, streamed: bool) -> std::io::Result<()> {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10 });
    let mut ending = format!("data: {}\n\n", json!({ "choices": [], "usage": usage }));
    ending.push_str("data: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let body = match answer {
        Answer::Text(text) if !streamed => {
            let whole = json!({
                "choices": [{ "message": { "content": text }, "finish_reason": "stop" }], "usage": usage,
            })
            .to_string();
            let length = whole.len();
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{whole}"
            );
        }
        Answer::Text(text) => {
            // In pieces that cut words and characters' neighbourhoods.
            let chars: Vec<char> = text.chars().collect();
            let mut body = event(json!({ "role": "assistant", "content": "" }), None);
            for piece in chars.chunks(7) {
                body.push_str(&event(json!({ "content": piece.iter().collect::<String>() }), None));
            }
            body + &event(json!({}), Some("stop")) + &ending
        }
        Answer::Tools(calls) => {
            let mut body = String::new();
            for (at, (name, arguments)) in calls.iter().enumerate() {
                let call = json!([{
                    "index": at, "id": format!("id{at}"), "type": "function",
                    "function": { "name": name, "arguments": arguments.to_string() },
                }]);
                body.push_str(&event(json!({ "tool_calls": call }), None));
            }
            body + &event(json!({}), Some("tool_calls")) + &ending
        }
        Answer::Refusal(text) => event(json!({ "refusal": text }), Some("stop")) + &ending,
        Answer::Half(text) => {
            let body = event(json!({ "content": text }), None);
            write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len() + 1000)?;
            return stream.flush();
        }
        Answer::Stalled(text, time) => {
            let body = event(json!({ "content": text }), None);
            write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len() + 1000)?;
            stream.flush()?;
            std::thread::sleep(*time);
            return Ok(());
        }
        Answer::InBand(message) => format!("data: {}\n\n", json!({ "error": { "message": message } })),
        Answer::Status(status, headers, body) => {
            let length = body.len();
            return write!(
                stream,
                "HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
            );
        }
        Answer::Whole(value) => {
            let whole = value.to_string();
            let length = whole.len();
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{whole}"
            );
        }
        Answer::Drop => return Ok(()),
        Answer::Hang(time) => {
            std::thread::sleep(*time);
            return Ok(());
        }
        Answer::Noise => return stream.write_all(b"\x00\xff\x16\x03 what is this"),
    };
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len())?;
    stream.flush()
}

/// A plan as a model writes it.
pub fn plan(candidates: Value) -> Answer {
    Answer::Text(json!({ "rationale": "as the hints say", "candidates": candidates, "done": false }).to_string())
}
