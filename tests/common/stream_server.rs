//! A loopback endpoint that does exactly what a test scripts, and logs when it wrote what.
//!
//! Each request gets a script: a response head, then bytes at set times after the request arrived. The log holds the
//! wall-clock time of every write, taken just before it, so that a client's stamps can be paired with the server's.

#![allow(dead_code)] // each test uses its own part

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// Position among all requests of this server, from 0.
    pub index: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.0 == name).map(|h| h.1.as_str())
    }
}

/// One thing that the server does.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends the head of a chunked response: status, content type, further header lines.
    Head(u16, &'static str, &'static str),
    /// Waits until this long after the request arrived.
    At(Duration),
    /// Sends bytes as one HTTP chunk, and logs the time.
    Send(Vec<u8>),
    /// Sends bytes as they are.
    Raw(Vec<u8>),
    /// Ends the chunked body and keeps the connection.
    End,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// What was served to one request; times in ns of the Unix epoch.
#[derive(Debug, Clone)]
pub struct Served {
    pub asked: Asked,
    pub received_unix_ns: u64,
    pub writes_unix_ns: Vec<u64>,
}

pub struct StreamServer {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<Served>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl StreamServer {
    /// Serves on a free port until dropped.
    pub fn start(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_on(0, script)
    }

    pub fn start_on(port: u16, script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let log = Arc::new(Mutex::new(vec![]));
        let (script, kept) = (Arc::new(script), log.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let counter = Arc::new(std::sync::atomic::AtomicUsize::new(0));
                let accept = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        stream.set_nodelay(true).unwrap();
                        let (script, log, counter) = (script.clone(), kept.clone(), counter.clone());
                        tokio::spawn(async move {
                            let _ = serve(stream, script.as_ref(), &log, &counter).await;
                        });
                    }
                };
                tokio::select! { () = accept => {}, _ = stopped => {} }
            });
        });
        Self { address: told.recv().unwrap(), log, stop: Some(stop) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything served so far.
    pub fn log(&self) -> Vec<Served> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

/// The wall clock, from one reading plus monotonic time, as the client does it.
pub fn unix_ns() -> u64 {
    static ZERO: std::sync::OnceLock<(Instant, u64)> = std::sync::OnceLock::new();
    let (instant, unix) = ZERO.get_or_init(|| {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        (Instant::now(), unix.as_nanos() as u64)
    });
    unix + instant.elapsed().as_nanos() as u64
}

async fn serve(
    mut stream: TcpStream,
    script: &(dyn Fn(&Asked) -> Vec<Step> + Send + Sync),
    log: &Mutex<Vec<Served>>,
    counter: &std::sync::atomic::AtomicUsize,
) -> std::io::Result<()> {
    let mut buffer = vec![];
    loop {
        let Some(mut asked) = read_request(&mut stream, &mut buffer).await? else { return Ok(()) };
        asked.index = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (began, received_unix_ns) = (Instant::now(), unix_ns());
        let mut writes_unix_ns = vec![];
        let mut outcome = Ok(true);
        for step in script(&asked) {
            outcome = act(&mut stream, step, began, &mut writes_unix_ns).await;
            if !matches!(outcome, Ok(true)) {
                break;
            }
        }
        log.lock().unwrap().push(Served { asked, received_unix_ns, writes_unix_ns });
        if !outcome? {
            return Ok(());
        }
    }
}

/// False when the connection is over.
async fn act(stream: &mut TcpStream, step: Step, began: Instant, writes: &mut Vec<u64>) -> std::io::Result<bool> {
    match step {
        Step::Head(status, kind, more) => {
            let head = format!(
                "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n{more}\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
        }
        Step::At(after) => tokio::time::sleep_until((began + after).into()).await,
        Step::Send(bytes) => {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(&bytes);
            chunk.extend_from_slice(b"\r\n");
            writes.push(unix_ns());
            stream.write_all(&chunk).await?;
        }
        Step::Raw(bytes) => stream.write_all(&bytes).await?,
        Step::End => stream.write_all(b"0\r\n\r\n").await?,
        Step::Close => return stream.shutdown().await.map(|()| false),
        Step::Reset => {
            stream.set_zero_linger()?;
            return Ok(false);
        }
    }
    Ok(true)
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Asked>> {
    let mut part = [0u8; 16 << 10];
    loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = head.lines();
            let mut first = lines.next().unwrap_or_default().split(' ');
            let headers: Vec<(String, String)> = lines
                .filter_map(|l| l.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()))
                .collect();
            let length = headers.iter().find(|h| h.0 == "content-length").map_or(0, |h| h.1.parse().unwrap_or(0));
            if buffer.len() >= end + 4 + length {
                let body = serde_json::from_slice(&buffer[end + 4..end + 4 + length]).unwrap_or(Value::Null);
                buffer.drain(..end + 4 + length);
                let method = first.next().unwrap_or_default().to_string();
                let path = first.next().unwrap_or_default().to_string();
                return Ok(Some(Asked { method, path, headers, body, index: 0 }));
            }
        }
        match stream.read(&mut part).await? {
            0 => return Ok(None),
            n => buffer.extend_from_slice(&part[..n]),
        }
    }
}

pub const STREAM: Step = Step::Head(200, "text/event-stream", "");

/// One event with this data.
pub fn event(data: &Value) -> Step {
    Step::Send(format!("data: {data}\n\n").into_bytes())
}

/// A chunk whose delta is this.
pub fn delta(delta: Value) -> Step {
    event(&json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

/// The last chunk, the usage chunk, `[DONE]`, and the end of the body.
pub fn ending(prompt_tokens: u64, completion_tokens: u64) -> Vec<Step> {
    vec![
        event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})),
        event(&json!({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens}})),
        Step::Send(b"data: [DONE]\n\n".to_vec()),
        Step::End,
    ]
}

/// Known emission times: the first token after `first`, then one every `gap`, `tokens` in all.
pub fn steady(first: Duration, gap: Duration, tokens: usize, prompt_tokens: u64) -> Vec<Step> {
    let mut steps = vec![STREAM];
    for i in 0..tokens {
        steps.push(Step::At(first + gap * i as u32));
        steps.push(delta(json!({"content": " time"})));
    }
    steps.extend(ending(prompt_tokens, tokens as u64));
    steps
}

/// An HTTP error with a JSON message.
pub fn refusal(status: u16, message: &str, headers: &'static str) -> Vec<Step> {
    let body = json!({"error": {"message": message}}).to_string();
    vec![Step::Head(status, "application/json", headers), Step::Send(body.into_bytes()), Step::End]
}
