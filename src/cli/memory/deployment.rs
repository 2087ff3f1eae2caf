//! `inferasim memory --target … --model …`: one deployment's budget, line by line.

use crate::config::{Deployment, Legality};
use crate::error::exit;
use crate::memory::{MemoryModel, MemoryPlan};
use crate::model::{KvFormat, Model};
use crate::report::terminal::table::{WIDTH, wrap};
use crate::target::{EngineProfile, EngineSettings, Target};
use crate::units::Bytes;
use crate::{Error, Result};
use clap::Args;

/// The deployment.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Target: a name or a file.
    #[arg(long, required_unless_present = "cases")]
    target: Option<String>,
    /// Model: a name or a file; the target's default where absent.
    #[arg(long)]
    model: Option<String>,
    /// Engine: a name or a file; the target's default where absent.
    #[arg(long)]
    engine: Option<String>,
    /// Engine version; the newest known where absent.
    #[arg(long)]
    engine_version: Option<String>,
    /// Ranks of one pipeline stage.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=4096))]
    tp: u32,
    /// Expert groups inside the stage.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=4096))]
    ep: u32,
    /// Attention-data-parallel groups inside the stage.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=4096))]
    attention_dp: u32,
    /// Ranks that each hold a part of a sequence's KV cache in decode instead of a copy (vLLM).
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=4096))]
    context_parallel: u32,
    /// Pipeline stages.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pp: u32,
    /// KV cache format: bf16 or fp8; the engine's choice where absent.
    #[arg(long)]
    kv_dtype: Option<String>,
    /// Precision of the checkpoint, as the model's preset names it.
    #[arg(long)]
    weight_dtype: Option<String>,
    /// Longest request in tokens; the model's limit where absent.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    max_model_len: Option<u32>,
    /// Token budget of a step; the engine's default where absent.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_num_batched_tokens: Option<u32>,
    /// Limit on running sequences; the engine's default where absent.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    max_num_seqs: Option<u32>,
    /// Memory fraction, by the engine's own meaning of it; its default where absent.
    #[arg(long, allow_negative_numbers = true)]
    memory_fraction: Option<f64>,
}

/// Prints the budget.
pub fn run(args: &Arguments, json: bool) -> Result<u8> {
    let target = Target::load(args.target.as_deref().unwrap_or_default())?;
    let model = Model::load(args.model.as_deref().unwrap_or(&target.defaults.model))?;
    let profile = EngineProfile::load(args.engine.as_deref().unwrap_or(&target.defaults.engine))?;
    profile.check_version(args.engine_version.as_deref())?;
    let engine = profile.settings(args.engine_version.as_deref());
    let checkpoint = match &args.weight_dtype {
        None => &model.checkpoints[0],
        Some(dtype) => model.checkpoint(dtype).ok_or_else(|| {
            let known: Vec<&str> = model.checkpoints.iter().map(|c| c.dtype.as_str()).collect();
            Error::input(
                format!("--weight-dtype {dtype}"),
                format!("{} has no such checkpoint", model.architecture.name),
                format!("Known: {}", known.join(", ")),
            )
        })?,
    };
    let deployment = deployment(args, &target, &engine, &checkpoint.dtype)?;
    let legality = Legality::new(&model, &target);
    legality.require(&deployment, target.gpus())?;
    let longest = args.max_model_len.unwrap_or(model.architecture.max_context);
    let compiled = MemoryModel::compile(&model.architecture, &checkpoint.formats, &target.gpu, &engine, &deployment);
    let plan_of = |m: &MemoryModel| {
        let (batch, longest) = (f64::from(deployment.max_num_batched_tokens), f64::from(longest));
        m.plan(batch, longest, longest, f64::from(deployment.max_num_seqs))
    };
    let plan = plan_of(&compiled);
    let binds = binds(&plan);
    // The next width that the rules allow and that fits.
    let wider = || {
        let widths = std::iter::successors(Some(deployment.tp * 2), |tp| Some(tp * 2));
        widths.take_while(|tp| tp * deployment.pp <= target.gpus()).find(|tp| {
            let wide = Deployment { tp: *tp, ..deployment.clone() };
            let formats = &checkpoint.formats;
            legality.violations(&wide, target.gpus()).is_empty()
                && plan_of(&MemoryModel::compile(&model.architecture, formats, &target.gpu, &engine, &wide)).fits()
        })
    };
    let repair = (!plan.fits()).then(|| repair(&compiled, &plan, &deployment, longest, wider()));
    if json {
        let document = serde_json::json!({
            "target": target.name, "model": model.architecture.name, "engine": profile.name, "note": profile.note,
            "deployment": deployment, "max_model_len": longest, "memory": plan, "fits": plan.fits(),
            "binds": binds, "nearest_change": repair,
        });
        println!("{document:#}");
    } else {
        println!(
            "{} on {}, {}: tp {} ep {} attention-dp {} pp {}, {} weights, {} KV",
            model.architecture.name,
            target.gpu.name,
            profile.title,
            deployment.tp,
            deployment.ep,
            deployment.attention_dp,
            deployment.pp,
            deployment.weight_dtype,
            deployment.kv_dtype
        );
        print_plan(&plan, &engine, longest, &deployment, binds);
        if let Some(repair) = &repair {
            println!("does not fit:");
            wrap(repair, WIDTH - 2).iter().for_each(|line| println!("  {line}"));
        }
        if !profile.note.is_empty() {
            wrap(&format!("note: {}", profile.note), WIDTH).iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(if plan.fits() { exit::ANSWER } else { exit::INFEASIBLE })
}

fn deployment(args: &Arguments, target: &Target, engine: &EngineSettings, dtype: &str) -> Result<Deployment> {
    let kv_dtype = match args.kv_dtype.as_deref() {
        None => engine.default_kv_dtype(target.gpu.family),
        Some("bf16") => KvFormat::Bf16,
        Some("fp8") => KvFormat::Fp8,
        Some(other) => return Err(Error::input(format!("--kv-dtype {other}"), "not a KV format", "Use bf16 or fp8")),
    };
    let memory_fraction = args.memory_fraction.unwrap_or(engine.memory_fraction);
    if !(memory_fraction > 0.0 && memory_fraction <= 1.0) {
        return Err(Error::input(
            format!("--memory-fraction {memory_fraction}"),
            "outside 0 to 1",
            "Give a share such as 0.9",
        ));
    }
    Ok(Deployment {
        tp: args.tp,
        ep: args.ep,
        attention_dp: args.attention_dp,
        context_parallel: args.context_parallel,
        pp: args.pp,
        replicas: 1,
        concurrency: 1,
        weight_dtype: dtype.to_string(),
        kv_dtype,
        max_num_batched_tokens: args.max_num_batched_tokens.unwrap_or(engine.max_num_batched_tokens(&target.gpu)),
        max_num_seqs: args.max_num_seqs.unwrap_or(engine.max_num_seqs(&target.gpu)),
        memory_fraction,
        speculation: None,
        prefill: None,
    })
}

/// The largest line of the budget apart from the KV cache.
fn binds(plan: &MemoryPlan) -> &'static str {
    let lines = [
        ("weights", plan.weights.0),
        ("activation", plan.activation.0),
        ("engine reserve", plan.engine_reserve.0),
        ("graphs", plan.graphs.0),
        ("state", plan.state.0),
        ("KV cache", plan.kv_available.0),
    ];
    let largest = lines.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map_or("weights", |l| l.0)
}

/// The nearest change that would fit.
fn repair(model: &MemoryModel, plan: &MemoryPlan, d: &Deployment, longest: u32, wider: Option<u32>) -> String {
    let batch = f64::from(d.max_num_batched_tokens);
    if plan.kv_available.0 > 0.0 {
        let fits = model.longest(plan.kv_available.0, batch);
        if fits >= 1.0 {
            return format!(
                "one request of {longest} tokens needs {}, {} are left; use --max-model-len {fits:.0}",
                plan.kv_bytes_per_request, plan.kv_available
            );
        }
    }
    let over = plan.kv_bytes_per_request.0.min(plan.total.0) - plan.kv_available.0;
    if plan.activation.0 > over {
        return format!(
            "over by {}; the activation takes {}: lower --max-num-batched-tokens or --max-num-seqs",
            Bytes(over),
            plan.activation
        );
    }
    let split = match wider {
        Some(tp) => format!("--tp {tp} fits"),
        None => "no tensor-parallel width on this target fits; take a smaller weight format or more stages".into(),
    };
    format!("over by {}, the weights take {} of {} a rank; {split}", Bytes(over), plan.weights, plan.total)
}

fn print_plan(plan: &MemoryPlan, engine: &EngineSettings, longest: u32, d: &Deployment, binds: &str) {
    let graphs = if engine.graphs_in_budget { "counted in the budget" } else { "outside the budget" };
    let lines = [
        ("usable memory of the GPU", plan.total, String::new()),
        ("asked by the engine", plan.budget, format!("memory fraction {}", d.memory_fraction)),
        ("weights", plan.weights, String::new()),
        ("engine reserve (non-torch)", plan.engine_reserve, "0.2 to 5 GiB in public logs".into()),
        ("activation", plan.activation, format!("{} tokens, {} sequences", d.max_num_batched_tokens, d.max_num_seqs)),
        ("graphs", plan.graphs, format!("{graphs}; 0.09 to 2.4 GiB in public logs")),
        ("state", plan.state, String::new()),
        ("KV cache", plan.kv_available, String::new()),
    ];
    for (name, bytes, remark) in lines {
        let mark = if name == binds { " <- largest" } else { "" };
        println!("{}", format!("  {name:<28} {:>12}  {remark}{mark}", bytes.to_string()).trim_end());
    }
    println!("  KV per token of context      {:>10.0} B", plan.kv_bytes_per_token.0);
    println!("  KV of one longest request    {:>12}  {longest} tokens", plan.kv_bytes_per_request.to_string());
    println!("  KV tokens                    {:>12.0}  at {longest} tokens a request", plan.kv_tokens);
    println!("  maximum concurrency          {:>12.2}", plan.max_concurrency);
}
