//! One load level: send, collect, return every record.
//!
//! Sending tasks only stamp and copy; a thread beside them parses, counts tokens and writes records.

use super::assemble::{Asked, Assembler, CountBy, Ended};
use super::dataset::Item;
use super::endpoint::{ApiKey, Endpoint};
use super::http::{Connection, Connector, Fault, Head, Limits, Receiver};
use super::load::Load;
use super::output::RecordFile;
use super::prompt::Tokenizer;
use super::record::RequestRecord;
use super::saturation::{ClientLoad, Watch, yield_to_senders};
use crate::{Error, Result};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::watch;

/// Bytes that one stream buffers before the parsing thread gets them.
const SEGMENT: usize = 64 << 10;

/// What all points of a run share.
pub struct Client {
    /// Where to send.
    pub endpoint: Endpoint,
    /// Opens connections; holds the run's clock.
    pub connector: Connector,
    /// Key of the endpoint.
    pub key: Option<ApiKey>,
    /// Limits of every exchange.
    pub limits: Limits,
    /// Times a request is sent again that 429 or 503 turned away.
    pub retries: u32,
    /// Turns true when the run is to stop.
    pub cancel: watch::Receiver<bool>,
    /// Wall clock at the zero of the run's clock, in ns of the Unix epoch.
    pub unix_ns: u64,
    /// Counts tokens of prompts and answers.
    pub tokenizer: Arc<Tokenizer>,
    /// Whose counts the metrics use.
    pub count_by: CountBy,
}

/// One load level, ready to run.
pub struct PointPlan {
    /// `aa-1k-c4`.
    pub name: String,
    /// When to send.
    pub load: Load,
    /// What to send, in order.
    pub items: Vec<Item>,
    /// The bodies, one per item.
    pub bodies: Vec<Bytes>,
    /// Intended starts of an open loop, in ns from the point's start.
    pub schedule_ns: Option<Vec<u64>>,
    /// No request starts after this.
    pub stop_after: Option<Duration>,
    /// Most requests in flight in an open loop.
    pub max_in_flight: usize,
}

/// What was measured.
pub struct PointResult {
    /// Every request that was started, in order of position.
    pub records: Vec<RequestRecord>,
    /// The client's own state.
    pub client: ClientLoad,
    /// Requests that never started, because the run was stopped.
    pub not_sent: usize,
}

enum Message {
    Head(usize, u64, Head),
    Bytes(usize, Vec<(u64, u32)>, Vec<u8>),
    /// What arrived so far turned the request away; it is sent again.
    TurnedAway(usize),
    End(usize, Ended),
}

struct Shared {
    client: Arc<Client>,
    plan: Arc<PointPlan>,
    out: mpsc::Sender<Message>,
    idle: Mutex<Vec<Connection>>,
    next: AtomicUsize,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
    /// Stop starting requests.
    deadline_ns: Option<u64>,
    /// Set by the parsing thread when a record could not be written.
    broken: Arc<std::sync::atomic::AtomicBool>,
    run_id: u64,
}

/// Runs one point. `file` receives a line per request.
pub async fn run(client: Arc<Client>, plan: Arc<PointPlan>, file: Option<RecordFile>) -> Result<PointResult> {
    let (out, inbox) = mpsc::channel();
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let began_ns = client.connector.now_ns();
    let run_id = client.unix_ns ^ began_ns;
    let collector = {
        let (client, plan, broken) = (client.clone(), plan.clone(), broken.clone());
        std::thread::spawn(move || collect(&client, &plan, inbox, file, &broken, run_id))
    };
    let shared = Arc::new(Shared {
        deadline_ns: plan.stop_after.map(|d| began_ns + d.as_nanos() as u64),
        run_id,
        client,
        plan: plan.clone(),
        out,
        idle: Mutex::new(vec![]),
        next: 0.into(),
        in_flight: 0.into(),
        max_in_flight: 0.into(),
        broken,
    });
    let watch = Watch::start();
    match plan.load {
        Load::Closed { concurrency, ramp_s } => closed(&shared, concurrency, ramp_s).await,
        Load::Open { .. } | Load::Trace { .. } => open(&shared, began_ns).await,
    }
    let client_load = watch.end(shared.max_in_flight.load(Relaxed));
    let sent = shared.next.load(Relaxed).min(plan.items.len());
    drop(shared);
    let records =
        collector.join().map_err(|_| Error::input("parsing thread", "it panicked", "Please report this"))??;
    Ok(PointResult { not_sent: plan.items.len() - sent, records, client: client_load })
}

async fn closed(shared: &Arc<Shared>, concurrency: usize, ramp_s: f64) {
    let clients = concurrency.min(shared.plan.items.len());
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..clients {
        let shared = shared.clone();
        tasks.spawn(async move {
            if ramp_s > 0.0 {
                shared.sleep(Duration::from_secs_f64(ramp_s * i as f64 / clients as f64)).await;
            }
            while let Some(index) = shared.claim() {
                let now = shared.client.connector.now_ns();
                shared.send(index, now).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn open(shared: &Arc<Shared>, began_ns: u64) {
    let slots = Arc::new(tokio::sync::Semaphore::new(shared.plan.max_in_flight));
    let mut tasks = tokio::task::JoinSet::new();
    for at in shared.plan.schedule_ns.clone().unwrap_or_default() {
        let due_ns = began_ns + at;
        let wait = due_ns.saturating_sub(shared.client.connector.now_ns());
        if wait > 0 {
            shared.sleep(Duration::from_nanos(wait)).await;
        }
        let Some(index) = shared.claim() else { break };
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let shared = shared.clone();
        tasks.spawn(async move {
            shared.send(index, due_ns).await;
            drop(slot);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

impl Shared {
    fn stopped(&self) -> bool {
        *self.client.cancel.borrow()
            || self.broken.load(Relaxed)
            || self.deadline_ns.is_some_and(|d| self.client.connector.now_ns() >= d)
    }

    /// The next request to send; none when all are sent or the run is stopping.
    fn claim(&self) -> Option<usize> {
        if self.stopped() {
            return None;
        }
        let index = self.next.fetch_add(1, Relaxed);
        (index < self.plan.items.len()).then_some(index)
    }

    /// Sleeps, unless the run is stopped.
    async fn sleep(&self, time: Duration) {
        let mut cancel = self.client.cancel.clone();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = cancel.wait_for(|c| *c) => {}
        }
    }

    async fn send(&self, index: usize, scheduled_ns: u64) {
        let now = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.max_in_flight.fetch_max(now, Relaxed);
        let start_ns = self.client.connector.now_ns();
        let (mut connect_ms, mut turned_away) = (None, None);
        let mut cancel = self.client.cancel.clone();
        let (fault, cancelled) = tokio::select! {
            outcome = self.until_admitted(index, start_ns, &mut connect_ms, &mut turned_away) => (outcome.err(), false),
            _ = cancel.wait_for(|c| *c) => (None, true),
        };
        self.in_flight.fetch_sub(1, Relaxed);
        let end_ns = self.client.connector.now_ns();
        let ended = Ended { scheduled_ns, start_ns, end_ns, connect_ms, turned_away, fault, cancelled };
        let _ = self.out.send(Message::End(index, ended));
    }

    /// Sends the request, and again while the endpoint turns it away and tries and time are left.
    async fn until_admitted(
        &self,
        index: usize,
        start_ns: u64,
        connect_ms: &mut Option<f64>,
        turned_away: &mut Option<(u32, u64)>,
    ) -> std::result::Result<(), Fault> {
        for tries in 0.. {
            let head = self.exchange(index, connect_ms).await?;
            if !matches!(head.status, 429 | 503) || tries >= self.client.retries {
                break;
            }
            let wait = pause(&head, tries);
            let clock = &self.client.connector;
            if clock.now_ns() + wait.as_nanos() as u64 > start_ns + self.client.limits.total.as_nanos() as u64 {
                break;
            }
            let _ = self.out.send(Message::TurnedAway(index));
            tokio::time::sleep(wait).await;
            *turned_away = Some((tries + 1, clock.now_ns()));
        }
        Ok(())
    }

    async fn exchange(&self, index: usize, connect_ms: &mut Option<f64>) -> std::result::Result<Head, Fault> {
        loop {
            let kept = self.idle.lock().ok().and_then(|mut idle| idle.pop());
            let mut connection = match kept {
                Some(mut kept) => {
                    if !kept.ready().await {
                        continue;
                    }
                    kept
                }
                None => {
                    let mut opened = self.client.connector.connect(&self.client.endpoint).await?;
                    *connect_ms = Some(opened.connect_ms);
                    if !opened.ready().await {
                        return Err(Fault::Broken("the server closed the connection at once".into()));
                    }
                    opened
                }
            };
            let mut buffer = Buffer { index, out: &self.out, stamps: vec![], bytes: vec![], head: None };
            let outcome = connection.exchange(self.request(index)?, self.client.limits, &mut buffer).await;
            buffer.flush();
            match outcome {
                Ok(()) => {
                    if let Ok(mut idle) = self.idle.lock() {
                        idle.push(connection);
                    }
                    return Ok(buffer.head.take().unwrap_or_default());
                }
                // The server gave up the kept-alive connection while the request was on its way.
                Err(Fault::Broken(_)) if connection.used > 1 && buffer.head.is_none() => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    fn request(&self, index: usize) -> std::result::Result<Request<Full<Bytes>>, Fault> {
        let client = &self.client;
        post(&client.endpoint, client.key.as_ref(), &request_id(self.run_id, index))
            .body(Full::new(self.plan.bodies[index].clone()))
            .map_err(|e| Fault::Protocol(e.to_string()))
    }
}

/// The request without its body.
pub fn post(endpoint: &Endpoint, key: Option<&ApiKey>, request_id: &str) -> hyper::http::request::Builder {
    let mut builder = Request::post(&endpoint.path)
        .header("host", endpoint.authority())
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .header("user-agent", concat!("inferasim/", env!("CARGO_PKG_VERSION")))
        .header("x-request-id", request_id);
    if let Some(key) = key {
        builder = builder.header("authorization", key.header());
    }
    builder
}

/// Before a request that was turned away is sent again: what the server asked for, else 50 ms, doubled each time to 5 s.
fn pause(head: &Head, tries: u32) -> Duration {
    let backed_off = (0.05 * f64::from(1u32 << tries.min(10))).min(5.0);
    Duration::from_secs_f64(head.retry_after_s.unwrap_or(backed_off).clamp(0.0, 1e6))
}

fn request_id(run: u64, index: usize) -> String {
    format!("inferasim-{run:016x}-{index:06}")
}

/// Copies what arrives, with its time, until a segment is full.
struct Buffer<'a> {
    index: usize,
    out: &'a mpsc::Sender<Message>,
    stamps: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl Buffer<'_> {
    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            let (stamps, bytes) = (std::mem::take(&mut self.stamps), std::mem::take(&mut self.bytes));
            let _ = self.out.send(Message::Bytes(self.index, stamps, bytes));
        }
    }
}

impl Drop for Buffer<'_> {
    /// A cancelled exchange keeps what had arrived.
    fn drop(&mut self) {
        self.flush();
    }
}

impl Receiver for Buffer<'_> {
    fn head(&mut self, at_ns: u64, head: Head) {
        self.head = Some(head.clone());
        let _ = self.out.send(Message::Head(self.index, at_ns, head));
    }

    fn bytes(&mut self, at_ns: u64, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len() as u32;
        match self.stamps.last_mut() {
            Some(last) if last.0 == at_ns => last.1 = end,
            _ => self.stamps.push((at_ns, end)),
        }
        let done = bytes.trim_ascii_end().ends_with(b"[DONE]");
        if self.bytes.len() >= SEGMENT {
            self.flush();
        }
        done
    }
}

fn collect(
    client: &Client,
    plan: &PointPlan,
    inbox: mpsc::Receiver<Message>,
    mut file: Option<RecordFile>,
    broken: &std::sync::atomic::AtomicBool,
    run_id: u64,
) -> Result<Vec<RequestRecord>> {
    yield_to_senders();
    let mut open: HashMap<usize, Assembler> = HashMap::new();
    let mut records = vec![];
    let mut failed = None;
    for message in inbox {
        match message {
            Message::Head(index, at, head) => open.entry(index).or_default().head(at, head),
            Message::Bytes(index, stamps, bytes) => {
                let assembler = open.entry(index).or_default();
                let mut from = 0;
                for (at, end) in stamps {
                    assembler.bytes(at, &bytes[from..end as usize]);
                    from = end as usize;
                }
            }
            Message::TurnedAway(index) => drop(open.remove(&index)),
            Message::End(index, ended) => {
                let item = &plan.items[index];
                let asked = Asked {
                    point: plan.name.clone(),
                    index,
                    request_id: request_id(run_id, index),
                    prompt_tokens: Some(item.prompt_tokens),
                    osl: item.osl,
                };
                let assembler = open.remove(&index).unwrap_or_default();
                let mut record =
                    assembler.finish(&asked, &ended, client.count_by, Some(&client.tokenizer), client.unix_ns);
                if let (Some(key), Some(failure)) = (&client.key, &mut record.failure) {
                    failure.message = key.redact(&failure.message); // servers repeat what they refuse
                }
                if failed.is_none()
                    && let Some(f) = &mut file
                    && let Err(e) = f.append(&record)
                {
                    broken.store(true, Relaxed);
                    failed = Some(e);
                }
                records.push(record);
            }
        }
    }
    match failed {
        Some(e) => Err(e),
        None => {
            records.sort_by_key(|r| r.index);
            Ok(records)
        }
    }
}
