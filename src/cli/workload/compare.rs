//! `inferasim workload compare`: the projection of a probed target against runs on the same device.

use super::Timing;
use clap::Args;

/// Project the decoder on a probed target, run it on the same device, and compare
///
/// Without --target the device is probed in turn with the runs, a round of each, so that what other work takes from it
/// counts on both sides. Exit codes: 0 every figure is within the limit, 1 one is not, 2 an error in input.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Target that `inferasim workload probe` wrote for this device [default: probe it in turn with the runs]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["threads", "clock"])]
    target: Option<String>,
    #[command(flatten)]
    timing: Timing,
    /// Configuration or triage recipe, YAML; its model is compared [default: a small decoder]
    #[arg(long, value_name = "FILE")]
    recipe: Option<String>,
    /// Shapes: batch x prompt x generated tokens
    #[arg(long, value_delimiter = ',', value_parser = shape, default_value = "1x64x16,4x128x32,2x256x16,8x64x16")]
    shapes: Vec<[usize; 3]>,
    /// Rounds over all shapes; the medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Largest error of a prefill or decode latency, %
    #[arg(long, default_value_t = 25.0)]
    within: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn shape(text: &str) -> std::result::Result<[usize; 3], String> {
    let parts: Vec<usize> = text.split('x').filter_map(|part| part.parse().ok()).collect();
    match <[usize; 3]>::try_from(parts) {
        Ok(shape) if shape.iter().all(|n| (1..=100_000).contains(n)) && shape[2] >= 2 => Ok(shape),
        _ => Err("write batch x prompt x tokens, e.g. 4x128x32, with at least two tokens".into()),
    }
}

/// Without the framework there is nothing to run.
#[cfg(not(feature = "workload"))]
pub fn run(_: &Arguments) -> crate::Result<u8> {
    Err(super::not_built("compare"))
}

#[cfg(feature = "workload")]
pub use built::run;

#[cfg(feature = "workload")]
mod built {
    use super::Arguments;
    use crate::catalog::Document;
    use crate::config::Deployment;
    use crate::cost::{Calibration, StepCost};
    use crate::error::exit;
    use crate::inference::config::Request;
    use crate::inference::device::{self, Use};
    use crate::inference::latency::median;
    use crate::inference::samples::Samples;
    use crate::inference::session::Rounds;
    use crate::inference::target_file::{Facts, engine_profile, target_of};
    use crate::inference::{Clock, Config, Device, Dtype, Mode, preset, triage::document};
    use crate::serve::Projector;
    use crate::source::{Origin, Sourced};
    use crate::target::{EngineProfile, Kernels, Target};
    use crate::{Error, Result, yaml};
    use serde::Serialize;

    /// One latency, projected and measured.
    #[derive(Debug, Serialize)]
    struct Row {
        batch_size: usize,
        prompt_len: usize,
        generate_tokens: usize,
        figure: &'static str,
        projected_ms: f64,
        measured_ms: f64,
        error_pct: f64,
    }

    /// What a comparison runs and projects on.
    struct Setup {
        config: Config,
        usage: Use,
        /// A probed target; `None` where the device is probed in turn with the runs.
        target: Option<Target>,
    }

    /// Projects, runs, prints.
    pub fn run(arguments: &Arguments) -> Result<u8> {
        let Setup { config, usage, target } = match &arguments.target {
            Some(file) => on_target(arguments, file)?,
            None => Setup {
                config: Config { mode: Mode::OfflineBatch, ..recipe(arguments)? },
                usage: Use { threads: arguments.timing.threads.map(usize::from), clock: arguments.timing.clock },
                target: None,
            },
        };
        let configs: Vec<Config> = arguments.shapes.iter().map(|shape| shaped(&config, *shape)).collect();
        let rounds = usize::from(arguments.rounds);
        let said = move |round: usize| eprintln!("round {round} of {rounds}");
        let measured = device::run(config.device, usage, Rounds { configs, rounds, probes: target.is_none(), said })?;
        let target = match (target, &measured.samples) {
            (Some(target), _) => target,
            (None, Some(samples)) => probed(samples)?,
            (None, None) => return Err(Error::input("--shapes", "no shape", "Give at least one")),
        };
        let kernels = kernels_of(&target, "this device")?;
        let config = Config { device: Device::of_name(&kernels.device), ..config };
        let step = step_cost(&config, &target)?;
        let mut rows = Vec::new();
        for ([batch, prompt, tokens], times) in arguments.shapes.iter().zip(measured.times) {
            let context = *prompt as f64 + *tokens as f64 / 2.0;
            let prefill = step.prefill_batch(*batch as f64, *prompt as f64);
            let decode = step.decode(*batch as f64, context, 1.0).total();
            for (figure, projected_ms, times) in
                [("prefill", prefill, &times.prefill_ms), ("decode", decode, &times.decode_ms)]
            {
                let measured_ms = median(times).unwrap_or_default();
                rows.push(Row {
                    batch_size: *batch,
                    prompt_len: *prompt,
                    generate_tokens: *tokens,
                    figure,
                    projected_ms,
                    measured_ms,
                    error_pct: 100.0 * (projected_ms / measured_ms - 1.0),
                });
            }
        }
        let within = rows.iter().all(|row| row.error_pct.abs() <= arguments.within);
        print(arguments, kernels, &config, &rows, within)?;
        Ok(if within { exit::ANSWER } else { exit::DIFFERS })
    }

    fn recipe(arguments: &Arguments) -> Result<Config> {
        match &arguments.recipe {
            Some(path) => document::config_of(&document::open(path)?),
            None => Ok(Config::default()),
        }
    }

    fn kernels_of<'a>(target: &'a Target, name: &str) -> Result<&'a Kernels> {
        target.kernels.as_ref().ok_or_else(|| {
            Error::input(
                name,
                "holds no timings of a device of its own",
                "Give a file that `inferasim workload probe` wrote, or leave --target out",
            )
        })
    }

    /// A target that was probed before: its device, format, threads and clock are run with.
    fn on_target(arguments: &Arguments, file: &str) -> Result<Setup> {
        let target = Target::load(file)?;
        let kernels = kernels_of(&target, file)?;
        let mut config = recipe(arguments)?;
        let probed = Dtype::of_word(&kernels.dtype).unwrap_or(config.dtype);
        let held = |dtype: Dtype| dtype.held_on(&kernels.device);
        if arguments.recipe.is_some() && held(config.dtype) != held(probed) {
            return Err(Error::input(
                format!("dtype: {}", config.dtype.word()),
                format!("the target was probed in {}", kernels.dtype),
                "Probe it in the recipe's format, or change the recipe",
            ));
        }
        if arguments.recipe.is_none() {
            config.dtype = probed;
        }
        config.device = Device::of_name(&kernels.device);
        config.mode = Mode::OfflineBatch;
        let usage = Use {
            threads: kernels.threads.map(|t| t as usize),
            clock: if kernels.clock == Clock::Cpu.word() { Clock::Cpu } else { Clock::Wall },
        };
        Ok(Setup { config, usage, target: Some(target) })
    }

    /// Timings of this very comparison as a target.
    fn probed(samples: &Samples) -> Result<Target> {
        let memory_gib = Sourced { value: 1.0, origin: Origin::Assumed, source: "no latency depends on it".into() };
        target_of(
            samples,
            &Facts {
                name: "local".into(),
                memory_gib,
                engine: "local".into(),
                model: "local".into(),
                date: crate::report::time::utc_now().chars().take(10).collect(),
            },
        )
    }

    fn shaped(config: &Config, [batch_size, prompt_len, generate_tokens]: [usize; 3]) -> Config {
        Config { request: Request { batch_size, prompt_len, generate_tokens }, ..config.clone() }
    }

    fn step_cost(config: &Config, target: &Target) -> Result<StepCost> {
        let model = preset::model_of(config)?;
        let held = config.dtype.held_on(config.device.kind());
        let document = Document { origin: "engine of the workload".into(), text: engine_profile(held) };
        let engine: EngineProfile = yaml::parse(&document)?;
        let calibration = Calibration::load("public")?;
        let projector = Projector::new(&model, target, &engine, None, &calibration, &target.defaults.workload)?;
        let deployment = Deployment {
            tp: 1,
            ep: 1,
            attention_dp: 1,
            context_parallel: 1,
            pp: 1,
            replicas: 1,
            concurrency: 1,
            weight_dtype: held.weight_format().to_string(),
            kv_dtype: held.kv_format(),
            max_num_batched_tokens: projector.settings.max_num_batched_tokens(&target.gpu),
            max_num_seqs: projector.settings.max_num_seqs(&target.gpu),
            memory_fraction: projector.settings.memory_fraction,
            speculation: None,
            prefill: None,
        };
        let compiled = projector.compile(&deployment);
        compiled.map(|c| c.step).map_err(|refusal| Error::input("compare", format!("{refusal:?}"), ""))
    }

    fn print(arguments: &Arguments, kernels: &Kernels, config: &Config, rows: &[Row], within: bool) -> Result<()> {
        let worst = rows.iter().map(|r| r.error_pct.abs()).fold(0.0, f64::max);
        if arguments.json {
            return super::super::print_json(&serde_json::json!({
                "schema": "inferasim.workload_comparison/1", "target": arguments.target, "probed": kernels.probed,
                "model": config.model, "dtype": config.dtype, "computed_in": config.dtype.held_on(&kernels.device), "rounds": arguments.rounds,
                "within_pct": arguments.within, "worst_pct": worst, "passed": within, "rows": rows,
            }));
        }
        let turns = if arguments.target.is_none() { ", in turn with the runs" } else { "" };
        println!("{}{turns}", kernels.probed);
        println!(
            "{:<16} {:<8} {:>14} {:>14} {:>9}",
            "batch x prompt x G", "", "projected, ms", "measured, ms", "error"
        );
        for row in rows {
            println!(
                "{:<18} {:<8} {:>12.2} {:>14.2} {:>+8.1} %",
                format!("{}x{}x{}", row.batch_size, row.prompt_len, row.generate_tokens),
                row.figure,
                row.projected_ms,
                row.measured_ms,
                row.error_pct
            );
        }
        let verdict = if within { "within" } else { "NOT within" };
        println!(
            "largest error {worst:.1} %: {verdict} {} %; medians of {} rounds",
            arguments.within, arguments.rounds
        );
        Ok(())
    }
}
