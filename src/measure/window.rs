//! Which part of a point was steady?
//!
//! A closed loop starts all clients at once and drains at its end; both bias means. The window opens when as many
//! requests have ended as there are clients (the first wave is over) and closes when the last request starts. An open
//! loop's window leaves out the first and the last tenth of the schedule. Latencies in the window are those of ok
//! requests that started in it; tokens are counted by the content chunks that arrived in it.

use super::load::Load;
use super::record::{Population, RequestRecord};
use super::stats::Distribution;
use serde::{Deserialize, Serialize};

/// The steady part of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// From the point's first start to the opening, in seconds.
    pub from_s: f64,
    /// From the point's first start to the close, in seconds.
    pub to_s: f64,
    /// Ok requests that started in it.
    pub requests: usize,
    #[allow(missing_docs)]
    pub ttft_ms: Option<Distribution>,
    #[allow(missing_docs)]
    pub tpot_ms: Option<Distribution>,
    #[allow(missing_docs)]
    pub latency_ms: Option<Distribution>,
    /// Output tokens that arrived in it, per second.
    pub output_tok_s: f64,
    /// Ok requests that ended in it, per second.
    pub requests_s: f64,
    /// Mean requests in flight.
    pub concurrency: f64,
}

/// The steady window, or why there is none.
pub fn steady(records: &[RequestRecord], load: &Load) -> Result<SteadyState, String> {
    let started = records.iter().map(|r| r.start_unix_ns);
    let (Some(first), Some(last)) = (started.clone().min(), started.max()) else {
        return Err("no request was started".into());
    };
    let (from, to) = match load {
        Load::Closed { concurrency, .. } => {
            let mut ends: Vec<u64> = records.iter().map(|r| r.end_unix_ns).collect();
            ends.sort_unstable();
            match ends.get(concurrency - 1) {
                Some(from) if ends.len() >= 3 * concurrency => (*from, last),
                _ => return Err(format!("fewer than three requests per client ({} for {concurrency})", ends.len())),
            }
        }
        _ => (first + (last - first) / 10, last - (last - first) / 10),
    };
    if to <= from {
        return Err("the last request started before the first wave ended".into());
    }
    let seconds = (to - from) as f64 / 1e9;
    let inside = |ns: u64| ns >= from && ns < to;
    let ok = || records.iter().filter(|r| r.population == Population::Ok);
    let within: Vec<&RequestRecord> = ok().filter(|r| inside(r.start_unix_ns)).collect();
    let mut tokens = 0.0;
    for r in ok() {
        let arrived = r.chunk_ms.iter().filter(|ms| inside(r.start_unix_ns + (**ms * 1e6) as u64)).count();
        tokens += r.osl.unwrap_or(0) as f64 * arrived as f64 / r.chunks.max(1) as f64;
    }
    let overlap = |r: &RequestRecord| r.end_unix_ns.min(to).saturating_sub(r.start_unix_ns.max(from)) as f64 / 1e9;
    Ok(SteadyState {
        from_s: (from - first) as f64 / 1e9,
        to_s: (to - first) as f64 / 1e9,
        requests: within.len(),
        ttft_ms: Distribution::of("ms", within.iter().filter_map(|r| r.ttft_ms)),
        tpot_ms: Distribution::of("ms", within.iter().filter_map(|r| r.tpot_ms)),
        latency_ms: Distribution::of("ms", within.iter().filter_map(|r| r.latency_ms)),
        output_tok_s: tokens / seconds,
        requests_s: ok().filter(|r| inside(r.end_unix_ns)).count() as f64 / seconds,
        concurrency: records.iter().map(overlap).sum::<f64>() / seconds,
    })
}
