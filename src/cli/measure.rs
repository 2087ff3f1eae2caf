//! `inferasim measure`: load an OpenAI-compatible endpoint and report what it did.

use crate::measure::assemble::CountBy;
use crate::measure::campaign;
use crate::measure::dataset;
use crate::measure::endpoint::{ApiKey, Endpoint};
use crate::measure::http::Limits;
use crate::measure::load::{Arrival, Load};
use crate::measure::options::{Options, Prompts};
use crate::measure::output;
use crate::measure::prompt::Tokenizer;
use crate::measure::run_document::Summary;
use crate::measure::shape::Shape;
use crate::measure::summary::SLO_NAMES;
use crate::{Error, Result, catalog, error::exit};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod print;
mod shortlist;

/// Measure an OpenAI-compatible endpoint: TTFT, TPOT, throughput, errors
#[derive(Debug, Args)]
pub struct Measure {
    /// Base URL, http://127.0.0.1:8000; a trailing /v1 is fine
    #[arg(long)]
    url: Option<String>,
    /// Name of the served model
    #[arg(long)]
    model: Option<String>,
    /// Path of the API
    #[arg(long, default_value = "/v1/chat/completions")]
    endpoint: String,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    /// Load a server beyond this machine
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    campaign: shortlist::ShortlistArgs,

    /// Named shapes: aa-1k, aa-10k, aa-100k
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["isl", "osl", "dataset"])]
    shape: Vec<String>,
    /// Prompt tokens (o200k_base)
    #[arg(long, requires = "osl")]
    isl: Option<f64>,
    /// Answer tokens
    #[arg(long, requires = "isl")]
    osl: Option<f64>,
    /// Standard deviation of the prompt tokens
    #[arg(long, default_value_t = 0.0, requires = "isl")]
    isl_stddev: f64,
    /// Standard deviation of the answer tokens
    #[arg(long, default_value_t = 0.0, requires = "isl")]
    osl_stddev: f64,
    /// Lengths uniform on [ratio * length, length]
    #[arg(long, default_value_t = 1.0, requires = "isl")]
    range_ratio: f64,
    /// Replay a JSONL of {"text_input", "output_length"} rows, the same for every endpoint
    #[arg(long, value_name = "FILE", conflicts_with = "isl")]
    dataset: Option<PathBuf>,
    /// Write the shape's prompts as a dataset and send nothing
    #[arg(long, value_name = "FILE", conflicts_with = "dataset")]
    write_dataset: Option<PathBuf>,

    /// Closed loop: clients, one point each
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["rate", "trace"])]
    concurrency: Vec<usize>,
    /// Seconds over which the clients of a closed loop start
    #[arg(long, default_value_t = 0.0, conflicts_with_all = ["rate", "trace"])]
    ramp: f64,
    /// Open loop: requests per second, one point each
    #[arg(long, value_delimiter = ',', conflicts_with = "trace")]
    rate: Vec<f64>,
    /// Arrivals of the open loop
    #[arg(long, value_enum, default_value = "poisson", requires = "rate")]
    arrival: Arrival,
    /// Shape of gamma arrivals; below 1 is burstier than Poisson
    #[arg(long, default_value_t = 1.0, requires = "rate")]
    burstiness: f64,
    /// Open loop at the dataset's timestamps
    #[arg(long, requires = "dataset")]
    trace: bool,
    /// Play a trace this many times as fast
    #[arg(long, default_value_t = 1.0, requires = "trace")]
    trace_speed: f64,
    /// Requests per point [default: 10 per client; 100 in an open loop; all rows of a dataset]
    #[arg(long)]
    requests: Option<usize>,
    /// Start no request of a point after this many seconds
    #[arg(long, value_name = "SECONDS")]
    stop_after: Option<f64>,
    /// Most requests in flight in an open loop
    #[arg(long, default_value_t = 4096)]
    max_in_flight: usize,
    /// Longest request in seconds
    #[arg(long, default_value_t = 600.0)]
    timeout: f64,
    /// Longest silence within a request in seconds
    #[arg(long, default_value_t = 120.0)]
    idle_timeout: f64,

    /// Send a request that 429 or 503 turned away again, at most so many times: after its Retry-After, else after 50 ms,
    /// doubled each time up to 5 s. TTFT and latency count from the first try
    #[arg(long, default_value_t = 0)]
    retries: u32,

    /// Seed of prompts and arrivals [default: the clock, so that no run repeats another's prompts]
    #[arg(long)]
    seed: Option<u64>,
    /// Send neither min_tokens nor ignore_eos: the answer length is a cap
    #[arg(long)]
    no_min_tokens: bool,
    /// Field of the answer length (OpenAI's newer models: max_completion_tokens)
    #[arg(long, default_value = "max_tokens")]
    length_field: String,
    /// Ask for usage on every chunk (vLLM, SGLang)
    #[arg(long)]
    usage_per_chunk: bool,
    /// Further field of the body, KEY=JSON; repeatable
    #[arg(long, value_name = "KEY=JSON")]
    extra: Vec<String>,
    /// Whose token counts the metrics use
    #[arg(long, value_enum, default_value = "server")]
    count_by: CountBy,
    /// Whether the model reasons before it answers [default: known by its name]
    #[arg(long, value_name = "BOOL")]
    reasons: Option<bool>,
    /// Limits for goodput, ttft_ms=300,tpot_ms=20
    #[arg(long, value_delimiter = ',', value_name = "NAME=MS")]
    slo: Vec<String>,

    /// Send no discarded request per shape first
    #[arg(long)]
    no_prewarm: bool,
    /// Discarded requests at the first load level [default: one per client, at most 16]
    #[arg(long)]
    burn_in: Option<usize>,
    /// Pause in seconds after pre-warm, burn-in and each point
    #[arg(long, default_value_t = 1.0)]
    settle: f64,
    /// URL of the server's /metrics, or off [default: at the endpoint's host]
    #[arg(long)]
    metrics: Option<String>,

    /// Folder for summary.json and each point's requests.jsonl and profile_export_aiperf.json
    #[arg(long)]
    out: Option<PathBuf>,
    /// Replace an earlier result in --out
    #[arg(long)]
    overwrite: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Print what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub fn run(args: Measure) -> Result<u8> {
    let tokenizer = Arc::new(Tokenizer::load()?);
    let seed = args.seed.unwrap_or_else(clock_seed);
    if args.campaign.given() {
        return shortlist::run(&args, &tokenizer, seed);
    }
    let prompts = prompts(&args, seed, &tokenizer)?;
    if let Some(file) = &args.write_dataset {
        return write_dataset(&args, file, &prompts, seed);
    }
    let options = options(&args, prompts, seed)?;
    if args.dry_run {
        return print::dry_run(&options, args.json);
    }
    options.endpoint.allow_load(args.yes)?;
    if let Some(out) = &args.out {
        output::prepare(out, args.overwrite)?;
    }
    let summary = campaign::run(options, tokenizer, |step| eprintln!("{step}"))?;
    print::summary(&summary, args.json, args.out.as_deref())?;
    finished(&summary, args.out.as_deref())
}

fn finished(summary: &Summary, out: Option<&std::path::Path>) -> Result<u8> {
    if summary.complete || !summary.timeline.iter().any(|s| s.what == campaign::INTERRUPTED) {
        return Ok(exit::ANSWER);
    }
    let kept = out.map_or("nothing was written, for want of --out".into(), |o| {
        format!("what was measured is in {} and marked incomplete", o.display())
    });
    Err(Error::input("measure", format!("interrupted; {kept}"), "Run it again for a whole result"))
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & ((1 << 53) - 1) // exact in every JSON reader
}

fn prompts(args: &Measure, seed: u64, tokenizer: &Tokenizer) -> Result<Vec<Prompts>> {
    if let Some(file) = &args.dataset {
        let items = dataset::read(file, seed, tokenizer)?;
        if let Some(wanted) = args.requests.filter(|n| *n > items.len()) {
            return Err(Error::input(
                format!("--requests {wanted}"),
                format!("the dataset has {} rows", items.len()),
                "A row sent twice is answered by the prefix cache; write a longer dataset",
            ));
        }
        let mean = |f: &dyn Fn(&dataset::Item) -> f64| items.iter().map(f).sum::<f64>() / items.len() as f64;
        let (isl, osl) = (mean(&|i| i.prompt_tokens as f64), mean(&|i| f64::from(i.osl)));
        let name = file.file_stem().map_or("dataset".into(), |s| s.to_string_lossy().replace(['/', ' '], "-"));
        let shape = Shape { name, ..Shape::free(isl.max(1.0), osl, 0.0, 0.0, 1.0)? };
        return Ok(vec![Prompts::Replay(shape, Arc::new(items))]);
    }
    if let Some((isl, osl)) = args.isl.zip(args.osl) {
        let shape = Shape::free(isl, osl, args.isl_stddev, args.osl_stddev, args.range_ratio)?;
        return Ok(vec![Prompts::Synthetic(shape)]);
    }
    if args.shape.is_empty() {
        return Err(Error::input("measure", "no shape given", "Add --shape aa-1k, or --isl and --osl, or --dataset"));
    }
    args.shape.iter().map(|name| Shape::named(name).map(Prompts::Synthetic)).collect()
}

fn write_dataset(args: &Measure, file: &std::path::Path, prompts: &[Prompts], seed: u64) -> Result<u8> {
    let [Prompts::Synthetic(shape)] = prompts else {
        return Err(Error::input("--write-dataset", "more than one shape", "Give one"));
    };
    let count = args.requests.unwrap_or(100);
    dataset::write(file, &dataset::synthetic(shape, count, seed, 0)?)?;
    println!("{}: {count} rows of shape {}, seed {seed}", file.display(), shape.name);
    Ok(exit::ANSWER)
}

fn loads(args: &Measure) -> Result<Vec<Load>> {
    let loads: Vec<Load> = if args.trace {
        vec![Load::Trace { speed: args.trace_speed }]
    } else if !args.rate.is_empty() {
        let open = |&rate| Load::Open { rate, arrival: args.arrival, burstiness: args.burstiness };
        args.rate.iter().map(open).collect()
    } else if !args.concurrency.is_empty() {
        args.concurrency.iter().map(|&concurrency| Load::Closed { concurrency, ramp_s: args.ramp }).collect()
    } else {
        vec![Load::Closed { concurrency: 1, ramp_s: args.ramp }]
    };
    if args.burstiness != 1.0 && args.arrival != Arrival::Gamma {
        return Err(Error::input("--burstiness", "only gamma arrivals have one", "Add --arrival gamma"));
    }
    let names: std::collections::BTreeSet<String> = loads.iter().map(Load::name).collect();
    if names.len() < loads.len() {
        return Err(Error::input("--concurrency or --rate", "a level is given twice", "Name each level once"));
    }
    loads.iter().try_for_each(Load::check)?;
    Ok(loads)
}

fn seconds(flag: &str, value: f64, least: f64) -> Result<Duration> {
    if (least..=1e6).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(Error::input(format!("{flag} {value}"), "not a usable number of seconds", format!("Give {least} to 1000000")))
}

fn options(args: &Measure, prompts: Vec<Prompts>, seed: u64) -> Result<Options> {
    let need = |flag: &str, value: &Option<String>| {
        value.clone().filter(|v| !v.is_empty()).ok_or_else(|| Error::input("measure", format!("no {flag}"), "Add it"))
    };
    let url = match (&args.url, args.campaign.given()) {
        (None, true) => shortlist::DEFAULT_URL.to_string(),
        (url, _) => need("--url", url)?,
    };
    let endpoint = Endpoint::parse(&url, &args.endpoint)?;
    let metrics = match args.metrics.as_deref() {
        Some("off") => None,
        Some(url) => Some(metrics_url(url)?),
        None => Some(endpoint.sibling("/metrics")),
    };
    if args.requests == Some(0) || args.max_in_flight == 0 {
        return Err(Error::input("--requests or --max-in-flight", "0 measures nothing", "Give at least 1"));
    }
    let loads = loads(args)?;
    let clients = loads.first().and_then(Load::concurrency).unwrap_or(1);
    let key = match &args.api_key_env {
        None => None,
        Some(variable) if args.dry_run => ApiKey::from_env(variable).ok().map(|k| (variable.clone(), k)),
        Some(variable) => Some((variable.clone(), ApiKey::from_env(variable)?)),
    };
    Ok(Options {
        endpoint,
        model: if args.campaign.given() { String::new() } else { need("--model", &args.model)? },
        key,
        prompts,
        loads,
        requests: args.requests,
        stop_after: args.stop_after.map(|s| seconds("--stop-after", s, 0.001)).transpose()?,
        max_in_flight: args.max_in_flight,
        limits: Limits {
            idle: seconds("--idle-timeout", args.idle_timeout, 0.001)?,
            total: seconds("--timeout", args.timeout, 0.001)?,
        },
        retries: args.retries,
        seed,
        enforce_length: !args.no_min_tokens,
        usage_per_chunk: args.usage_per_chunk,
        length_field: args.length_field.clone(),
        extra: extra(&args.extra)?,
        count_by: args.count_by,
        slo: slo(&args.slo)?,
        reasons: args.reasons,
        prewarm: !args.no_prewarm,
        burn_in: args.burn_in.unwrap_or(clients.min(16)),
        settle: seconds("--settle", args.settle, 0.0)?,
        metrics,
        out: args.out.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    })
}

fn metrics_url(url: &str) -> Result<Endpoint> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/metrics" } else { path };
    Endpoint::parse(&format!("{scheme}://{host}"), path)
        .map_err(|e| Error::input(format!("--metrics {url}"), e.found, "Write http://127.0.0.1:8000/metrics, or off"))
}

fn extra(given: &[String]) -> Result<Map<String, Value>> {
    let mut all = Map::new();
    for pair in given {
        let wrong =
            |found: &str| Error::input(format!("--extra {pair}"), found, "Write KEY=JSON, top_k=1 or stop=[\"a\"]");
        let (key, value) = pair.split_once('=').filter(|(k, _)| !k.is_empty()).ok_or_else(|| wrong("no KEY="))?;
        if ["stream", "messages", "prompt", "model"].contains(&key) {
            return Err(wrong("this field is the measurement's own"));
        }
        all.insert(key.into(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)));
    }
    Ok(all)
}

fn slo(given: &[String]) -> Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for pair in given {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !SLO_NAMES.contains(&name) {
            let near = catalog::nearest(name, &SLO_NAMES).map(|n| format!(" Did you mean {n}?")).unwrap_or_default();
            let known = SLO_NAMES.join(", ");
            return Err(Error::input(format!("--slo {pair}"), "no such SLO", format!("Known: {known}.{near}")));
        }
        match value.parse::<f64>() {
            Ok(v) if v > 0.0 && v.is_finite() => all.insert(name.into(), v),
            _ => return Err(Error::input(format!("--slo {pair}"), "not a number of ms above 0", "Write ttft_ms=300")),
        };
    }
    Ok(all)
}
