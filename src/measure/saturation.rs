//! Was the client itself the bottleneck?
//!
//! A probe task asks to be woken every 10 ms; how late it is, is how late any socket would have been served. Together
//! with the process's CPU time it says whether latencies are the server's or the client's.

use super::stats::Distribution;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Period of the probe.
const PERIOD: Duration = Duration::from_millis(10);
/// Lateness at p99 above which the client is flagged, in ms; the runtime's own timer resolution is 1 ms.
const LATE_MS: f64 = 10.0;
/// Share of the machine's cores above which the client is flagged.
const BUSY: f64 = 0.9;

/// The client during one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientLoad {
    /// Lateness of the probe in ms.
    pub wake_late_ms: Option<Distribution>,
    /// CPU seconds that the process used.
    pub cpu_s: f64,
    /// Cores kept busy, on average.
    pub cores_busy: f64,
    /// Cores that the process may use.
    pub cores: usize,
    /// Most requests in flight at once.
    pub max_in_flight: usize,
    /// Wall clock minus monotonic clock over the point, in ms: a step of the wall clock.
    pub clock_step_ms: f64,
    /// True when the client, not the server, may have set the latencies.
    pub saturated: bool,
}

/// Watches the client from its start to [`Watch::end`].
pub struct Watch {
    late_ms: Arc<Mutex<Vec<f64>>>,
    stop: Arc<AtomicBool>,
    began: Instant,
    wall: std::time::SystemTime,
    cpu: f64,
}

impl Watch {
    /// Starts the probe in the current runtime.
    pub fn start() -> Self {
        let (late_ms, stop) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
        let (out, end) = (late_ms.clone(), stop.clone());
        tokio::spawn(async move {
            while !end.load(Relaxed) {
                let due = Instant::now() + PERIOD;
                tokio::time::sleep_until(due.into()).await;
                let late = Instant::now().saturating_duration_since(due).as_secs_f64() * 1e3;
                if let Ok(mut all) = out.lock() {
                    all.push(late);
                }
            }
        });
        Self { late_ms, stop, began: Instant::now(), wall: std::time::SystemTime::now(), cpu: cpu_seconds() }
    }

    /// Ends the probe.
    pub fn end(self, max_in_flight: usize) -> ClientLoad {
        self.stop.store(true, Relaxed);
        let elapsed = self.began.elapsed().as_secs_f64();
        let wall = match self.wall.elapsed() {
            Ok(forward) => forward.as_secs_f64(),
            Err(back) => -back.duration().as_secs_f64(),
        };
        let cpu_s = cpu_seconds() - self.cpu;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let late = self.late_ms.lock().map(|v| v.clone()).unwrap_or_default();
        let wake_late_ms = Distribution::of("ms", late);
        let cores_busy = if elapsed > 0.0 { cpu_s / elapsed } else { 0.0 };
        let late = wake_late_ms.as_ref().is_some_and(|d| d.p99 > LATE_MS);
        ClientLoad {
            saturated: late || cores_busy > BUSY * cores as f64,
            wake_late_ms,
            cpu_s,
            cores_busy,
            cores,
            max_in_flight,
            clock_step_ms: (wall - elapsed) * 1e3,
        }
    }
}

fn cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Raises the limit of open files to what `connections` need, as far as the system lets the process.
pub fn allow_connections(connections: usize) -> crate::Result<()> {
    let need = connections as u64 + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= need) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum.map(|m| m.min(need)).or(Some(need)), maximum: limit.maximum };
    if limit.maximum.is_none_or(|m| m >= need) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    Err(crate::Error::input(
        format!("{connections} requests in flight"),
        format!("this process may open {} files", limit.maximum.unwrap_or_default()),
        format!("Raise the limit with ulimit -n {need}, or ask for fewer"),
    ))
}

/// Lets the sending threads go first on a busy machine; only the calling thread yields.
pub fn yield_to_senders() {
    let _ = rustix::process::nice(15); // refusal only costs a little precision
}
