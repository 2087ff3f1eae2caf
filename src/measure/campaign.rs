//! The sequence of a run: pre-warm each shape, burn in and discard, then the points with pauses between.
//!
//! Every step is logged in the summary's `timeline`. Nothing beyond this machine is loaded without the user's word,
//! and an endpoint that would refuse every request is found out by the pre-warm, before the load.

use super::dataset::{self, Item};
use super::diagnose::refuse_if_hopeless;
use super::http::{Connector, fetch};
use super::load::Load;
use super::options::{Options, Prompts};
use super::output::{self, RecordFile};
use super::point::{self, Client, PointPlan, PointResult};
use super::prompt::Tokenizer;
use super::record::Population;
use super::run_document::{Step, Summary};
use super::saturation::allow_connections;
use super::scrape::{Peaks, Scrape, delta};
use super::shape::Shape;
use super::summary::{DEFINITIONS, Point, SUMMARY_SCHEMA, summarise};
use super::{aiperf, warnings};
use crate::{Error, Result};
use hyper::body::Bytes;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// The timeline's entry for Ctrl-C.
pub const INTERRUPTED: &str = "interrupted";

struct Run {
    options: Options,
    client: Arc<Client>,
    enforce: bool,
    began: Instant,
    timeline: Vec<Step>,
}

/// Runs everything; the summary is complete unless the run was interrupted. An endpoint that answered nothing is an
/// error that says why.
pub fn run(options: Options, tokenizer: Arc<Tokenizer>, progress: impl Fn(&str)) -> Result<Summary> {
    let in_flight = |l: &Load| l.concurrency().unwrap_or(options.max_in_flight);
    allow_connections(options.loads.iter().map(in_flight).max().unwrap_or(1))?;
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out).map_err(|e| Error::input(out.display().to_string(), e.to_string(), ""))?;
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores - 1).clamp(1, 16))
        .enable_all()
        .build()
        .map_err(|e| Error::input("starting the client", e.to_string(), ""))?;
    runtime.block_on(sequence(options, tokenizer, &progress))
}

async fn sequence(options: Options, tokenizer: Arc<Tokenizer>, progress: &dyn Fn(&str)) -> Result<Summary> {
    let (stop, cancel) = watch::channel(false);
    tokio::spawn(async move {
        stopped_by_user().await;
        let _ = stop.send(true);
        std::future::pending::<()>().await; // the sender lives as long as the run
    });
    let began = Instant::now();
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let client = Arc::new(Client {
        connector: Connector::new(&options.endpoint, began, Duration::from_secs(10))?,
        endpoint: options.endpoint.clone(),
        key: options.key.as_ref().map(|(_, key)| key.clone()),
        limits: options.limits,
        retries: options.retries,
        cancel,
        unix_ns: unix.as_nanos() as u64,
        tokenizer,
        count_by: options.count_by,
    });
    let mut run = Run { enforce: options.enforce_length, client, began, timeline: vec![], options };
    run.prewarm(progress).await?;
    run.burn_in(progress).await?;
    let mut points = vec![];
    let names = run.options.points().len();
    for i in 0..names {
        if run.cancelled() {
            break;
        }
        points.push(run.point(i, progress).await?);
        run.write(&points, names)?;
        if i + 1 < names {
            run.settle().await;
        }
    }
    if run.cancelled() {
        run.log(INTERRUPTED.into(), progress);
    }
    let summary = run.summary(&points, names);
    run.write(&points, names)?;
    Ok(summary)
}

/// Returns at Ctrl-C, or at the signal that ends a job.
pub(super) async fn stopped_by_user() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return,
            _ = terminate.recv() => return,
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

impl Run {
    fn log(&mut self, what: String, progress: &dyn Fn(&str)) {
        progress(&what);
        self.timeline.push(Step { at_s: self.began.elapsed().as_secs_f64(), what });
    }

    fn cancelled(&self) -> bool {
        *self.client.cancel.borrow()
    }

    async fn settle(&mut self) {
        if self.options.settle.is_zero() {
            return;
        }
        let mut cancel = self.client.cancel.clone();
        tokio::select! {
            () = tokio::time::sleep(self.options.settle) => {}
            _ = cancel.wait_for(|c| *c) => {}
        }
        let what = format!("settled for {:?}", self.options.settle);
        self.timeline.push(Step { at_s: self.began.elapsed().as_secs_f64(), what });
    }

    /// One request per shape at its own lengths. Finds out whether the endpoint answers and takes `min_tokens`.
    async fn prewarm(&mut self, progress: &dyn Fn(&str)) -> Result<()> {
        if !self.options.prewarm {
            return Ok(());
        }
        for prompts in self.options.prompts.clone() {
            let items = self.items(&prompts, 1, 1 << 20)?;
            let name = prompts.shape().name.clone();
            let mut tries = 0;
            loop {
                tries += 1;
                let record = self.discard(&name, items.clone(), 1).await?;
                let Some(record) = record.records.into_iter().next().filter(|_| !self.cancelled()) else { break };
                let outcome = match &record.failure {
                    None => "ok".to_string(),
                    Some(f) => f.message.clone(),
                };
                self.log(format!("pre-warm {name}: {outcome} (discarded)"), progress);
                match record.http_status {
                    Some(400 | 422) if self.enforce => {
                        self.enforce = false;
                        self.log("min_tokens and ignore_eos refused: the length is a cap".into(), progress);
                    }
                    Some(429 | 503) if tries == 1 => {
                        let most = self.options.limits.idle.min(self.options.limits.total).as_secs_f64().min(60.0);
                        let wait = record.retry_after_s.unwrap_or(1.0).clamp(0.0, most);
                        self.log(format!("pre-warm {name}: waits {wait:.1} s as the endpoint asks"), progress);
                        let mut cancel = self.client.cancel.clone();
                        tokio::select! {
                            () = tokio::time::sleep(Duration::from_secs_f64(wait)) => {}
                            _ = cancel.wait_for(|c| *c) => {}
                        }
                    }
                    _ => {
                        refuse_if_hopeless(&self.client, &self.options, &record).await?;
                        break;
                    }
                }
            }
        }
        self.settle().await;
        Ok(())
    }

    async fn burn_in(&mut self, progress: &dyn Fn(&str)) -> Result<()> {
        let (n, Some(prompts)) = (self.options.burn_in, self.options.prompts.first().cloned()) else { return Ok(()) };
        if n == 0 || self.cancelled() {
            return Ok(());
        }
        let width = self.options.loads[0].concurrency().unwrap_or(n).min(n);
        let items = self.items(&prompts, n, 1 << 21)?;
        let result = self.discard("burn-in", items, width).await?;
        let ok = result.records.iter().filter(|r| r.population == Population::Ok).count();
        self.log(format!("burn-in of {n} requests, {width} at once: {ok} ok (discarded)"), progress);
        self.settle().await;
        Ok(())
    }

    async fn discard(&self, name: &str, items: Vec<Item>, width: usize) -> Result<PointResult> {
        let load = Load::Closed { concurrency: width, ramp_s: 0.0 };
        let plan = self.plan(name.into(), load, items, None)?;
        point::run(self.client.clone(), Arc::new(plan), None).await
    }

    fn items(&self, prompts: &Prompts, count: usize, stream: u64) -> Result<Vec<Item>> {
        match prompts {
            Prompts::Synthetic(shape) => dataset::synthetic(shape, count, self.options.seed, stream),
            Prompts::Replay(shape, rows) if stream >= 1 << 20 => {
                // Warming with the dataset's own rows would leave them in the prefix cache.
                let row = &rows[0];
                let like = Shape::free(row.prompt_tokens.max(1) as f64, f64::from(row.osl), 0.0, 0.0, 1.0)?;
                dataset::synthetic(&Shape { name: shape.name.clone(), ..like }, count, self.options.seed, stream)
            }
            Prompts::Replay(_, rows) => Ok(rows.iter().take(count).cloned().collect()),
        }
    }

    fn plan(&self, name: String, load: Load, items: Vec<Item>, stop_after: Option<Duration>) -> Result<PointPlan> {
        let body = |i: &Item| Bytes::from(self.options.body(&i.text, i.osl, self.enforce).to_string());
        let bodies = items.iter().map(body).collect();
        let timestamps: Vec<Option<f64>> = items.iter().map(|i| i.at_ms).collect();
        let schedule_ns = load.schedule_ns(items.len(), self.options.seed, &timestamps)?;
        let max_in_flight = self.options.max_in_flight;
        // The text lives on in the body.
        let items = items.into_iter().map(|i| Item { text: String::new(), ..i }).collect();
        Ok(PointPlan { name, load, items, bodies, schedule_ns, stop_after, max_in_flight })
    }

    async fn point(&mut self, index: usize, progress: &dyn Fn(&str)) -> Result<Point> {
        let (name, prompts, load, count) = self.options.points().swap_remove(index);
        let (prompts, load) = (prompts.clone(), load.clone());
        let items = self.items(&prompts, count, index as u64)?;
        let plan = Arc::new(self.plan(name.clone(), load.clone(), items, self.options.stop_after)?);
        let file = match &self.options.out {
            Some(out) => {
                let folder = out.join(&name);
                std::fs::create_dir_all(&folder)
                    .map_err(|e| Error::input(folder.display().to_string(), e.to_string(), ""))?;
                Some(RecordFile::create(folder.join(output::REQUESTS))?)
            }
            None => None,
        };
        self.log(format!("{name}: {count} requests"), progress);
        let before = self.scrape().await;
        let peaks = Arc::new(Mutex::new(Peaks::default()));
        let sampler = self.sample(before.is_some(), peaks.clone());
        let result = point::run(self.client.clone(), plan.clone(), file).await;
        sampler.abort();
        let result = result?;
        let after = self.scrape().await;
        let mut point = summarise(
            &name,
            prompts.shape(),
            &load,
            &result.records,
            result.not_sent,
            &self.options.slo,
            result.client,
        );
        let peaks = peaks.lock().map(|p| *p).unwrap_or_default();
        point.server = before.zip(after).map(|(before, after)| delta(&before, &after, peaks));
        let context = warnings::Context {
            model: &self.options.model,
            reasons: self.options.reasons,
            fresh_prompts: matches!(prompts, Prompts::Synthetic(_)),
            length_enforced: self.enforce,
        };
        point.warnings = warnings::of(&point, &plan, &result.records, &context);
        if let Some(out) = &self.options.out {
            let config = json!({"models": {"items": [{"name": self.options.model}]},
                "endpoint": {"urls": [self.options.endpoint.to_string()], "streaming": true},
                "load": load, "shape": prompts.shape()});
            let document = aiperf::document(&point, &result.records, config, &self.options.command, self.options.seed);
            output::write_json(&out.join(&name).join(output::AIPERF), &document)?;
        }
        if point.requests.ok == 0
            && !self.cancelled()
            && let Some(record) = result.records.first()
        {
            refuse_if_hopeless(&self.client, &self.options, record).await?;
            let first = point.requests.first_failure.clone().unwrap_or_default();
            return Err(Error::input(
                format!("{name} at {}", self.options.endpoint),
                format!("none of {} requests was answered; the first: {first}", point.requests.sent),
                "Look at what the endpoint says, and try a single request",
            ));
        }
        let r = &point.requests;
        self.log(format!("{name}: {} ok, {} failed, {} incomplete", r.ok, r.failed, r.incomplete), progress);
        Ok(point)
    }

    async fn scrape(&self) -> Option<Scrape> {
        let from = self.options.metrics.as_ref()?;
        let (status, body) = fetch(&self.client.connector, from, None, Duration::from_secs(5)).await.ok()?;
        let scrape = Scrape::parse(&String::from_utf8_lossy(&body));
        (status == 200 && scrape.is_known_engine()).then_some(scrape)
    }

    /// Watches the gauges every other second while the point runs.
    fn sample(&self, on: bool, peaks: Arc<Mutex<Peaks>>) -> tokio::task::JoinHandle<()> {
        let (client, from) = (self.client.clone(), self.options.metrics.clone().filter(|_| on));
        tokio::spawn(async move {
            let Some(from) = from else { return };
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                if let Ok((200, body)) = fetch(&client.connector, &from, None, Duration::from_secs(5)).await
                    && let Ok(mut peaks) = peaks.lock()
                {
                    peaks.see(&Scrape::parse(&String::from_utf8_lossy(&body)));
                }
            }
        })
    }

    fn summary(&self, points: &[Point], planned: usize) -> Summary {
        let o = &self.options;
        let mut request = o.body("<prompt>", 0, self.enforce);
        for length in [o.length_field.as_str(), "min_tokens"] {
            if let Some(value) = request.get_mut(length) {
                *value = json!("<osl>");
            }
        }
        Summary {
            schema: SUMMARY_SCHEMA.into(),
            inferasim: env!("CARGO_PKG_VERSION").into(),
            complete: points.len() == planned && points.iter().all(|p| p.complete),
            url: o.endpoint.to_string(),
            model: o.model.clone(),
            api_key_env: o.key.as_ref().map(|(variable, _)| variable.clone()),
            request,
            output_length: if self.enforce { "exact" } else { "cap" }.into(),
            prompts: match o.prompts.first() {
                Some(Prompts::Replay(..)) => "replay",
                _ => "synthetic",
            }
            .into(),
            seed: o.seed,
            command: o.command.clone(),
            tokenizer: "o200k_base".into(),
            definitions: DEFINITIONS.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            timeline: self.timeline.clone(),
            points: points.to_vec(),
        }
    }

    fn write(&self, points: &[Point], planned: usize) -> Result<()> {
        match &self.options.out {
            Some(out) => output::write_json(&out.join(output::SUMMARY), &self.summary(points, planned)),
            None => Ok(()),
        }
    }
}
