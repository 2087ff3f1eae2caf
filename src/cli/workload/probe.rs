//! `inferasim workload probe`: what the projector needs to know about this machine's own device.

use super::Timing;
use crate::inference::{Device, Dtype};
use clap::Args;
use std::path::PathBuf;

/// Time this device's copies, products, attention and small kernels; write a target the projector reads
///
/// The folder gets `target.yaml`, which names the `engine.yaml` (the workload's loop) and `model.yaml` (the default
/// decoder) beside it, and `samples.json` (every timing).
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the files
    #[arg(long, default_value = "local", value_name = "DIR")]
    out: PathBuf,
    /// Name of the target
    #[arg(long, default_value = "local")]
    name: String,
    /// Device: auto, cpu, cuda, rocm
    #[arg(long, default_value = "auto", value_parser = device)]
    device: Device,
    /// Number format: bfloat16, float16, float32 (a CPU computes each in float32)
    #[arg(long, default_value = "bfloat16", value_parser = dtype)]
    dtype: Dtype,
    /// Rounds over all shapes; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Memory of the device, GiB [default: the machine's, on the CPU]
    #[arg(long, value_name = "GIB")]
    memory_gib: Option<f64>,
    #[command(flatten)]
    timing: Timing,
}

fn device(text: &str) -> std::result::Result<Device, String> {
    match text {
        "auto" => Ok(Device::Auto),
        "cpu" => Ok(Device::Cpu),
        "cuda" => Ok(Device::Cuda),
        "rocm" => Ok(Device::Rocm),
        _ => Err("use auto, cpu, cuda or rocm".into()),
    }
}

fn dtype(text: &str) -> std::result::Result<Dtype, String> {
    Dtype::of_word(text).ok_or_else(|| "use bfloat16, float16 or float32".to_string())
}

/// Without the framework there is nothing to time.
#[cfg(not(feature = "workload"))]
pub fn run(_: &Arguments) -> crate::Result<u8> {
    Err(super::not_built("probe"))
}

#[cfg(feature = "workload")]
pub use built::run;

#[cfg(feature = "workload")]
mod built {
    use super::Arguments;
    use crate::error::exit;
    use crate::inference::device::{self, Use};
    use crate::inference::probe::Probe;
    use crate::inference::samples::Samples;
    use crate::inference::target_file::{Facts, engine_profile, target_of};
    use crate::inference::{Config, Device};
    use crate::source::{Origin, Sourced};
    use crate::target::Target;
    use crate::{Error, Result};
    use std::path::Path;

    /// Times the device and writes the files.
    pub fn run(arguments: &Arguments) -> Result<u8> {
        let dtype = arguments.dtype;
        std::fs::create_dir_all(&arguments.out).map_err(|e| unwritable(&arguments.out, &e))?;
        let usage = Use { threads: arguments.timing.threads.map(usize::from), clock: arguments.timing.clock };
        let rounds = usize::from(arguments.rounds);
        let said = move |round: usize| eprintln!("round {round} of {rounds}");
        let samples = device::run(arguments.device, usage, Probe { dtype, rounds, said })?;
        let (engine, model) = (arguments.out.join("engine.yaml"), arguments.out.join("model.yaml"));
        let facts = Facts {
            name: arguments.name.clone(),
            memory_gib: memory(arguments.memory_gib, &samples.device)?,
            engine: engine.display().to_string(),
            model: model.display().to_string(),
            date: crate::report::time::utc_now().chars().take(10).collect(),
        };
        let target = target_of(&samples, &facts)?;
        let text = |e: serde_yaml::Error| Error::input("target.yaml", format!("cannot be written: {e}"), "");
        let json =
            serde_json::to_string_pretty(&samples).map_err(|e| Error::input("samples.json", e.to_string(), ""))?;
        write(&engine, &engine_profile(samples.held))?;
        let decoder = Config { device: Device::of_name(&samples.device), dtype, ..Config::default() };
        write(&model, &super::super::model::text(&decoder)?)?;
        write(&arguments.out.join("samples.json"), &(json + "\n"))?;
        let path = arguments.out.join("target.yaml");
        write(&path, &serde_yaml::to_string(&target).map_err(text)?)?;
        print(&samples, &target, &path);
        Ok(exit::ANSWER)
    }

    fn unwritable(path: &Path, error: &std::io::Error) -> Error {
        Error::input(path.display().to_string(), format!("cannot be written: {error}"), "Choose another --out")
    }

    fn write(path: &Path, text: &str) -> Result<()> {
        std::fs::write(path, text).map_err(|e| unwritable(path, &e))
    }

    fn memory(stated: Option<f64>, device: &str) -> Result<Sourced<f64>> {
        if let Some(value) = stated {
            return Ok(Sourced { value, origin: Origin::Vendor, source: "--memory-gib".into() });
        }
        let kib = std::fs::read_to_string("/proc/meminfo").ok().filter(|_| device == "cpu").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().to_string();
            line.strip_suffix("kB")?.trim().parse::<f64>().ok()
        });
        let known = kib.map(|kib| (100.0 * kib / 1_048_576.0).round() / 100.0);
        let value = known.ok_or_else(|| {
            Error::input("probe", format!("the memory of {device} is not known"), "Say it with --memory-gib")
        })?;
        Ok(Sourced { value, origin: Origin::Measured, source: "MemTotal of /proc/meminfo".into() })
    }

    fn print(samples: &Samples, target: &Target, path: &Path) {
        let threads = samples.threads.map_or(String::new(), |t| format!(", {t} threads"));
        println!(
            "{}{threads}, {} computed in {}, {} clock",
            samples.device,
            samples.dtype.word(),
            samples.held.word(),
            samples.clock
        );
        println!("fastest stream    {:>10.2} GB/s", samples.bandwidth() / 1e3);
        println!("fastest product   {:>10.2} GFLOP/s", samples.peak() / 1e3);
        if let Some(kernels) = &target.kernels {
            println!("{:<18} {:>8} {:>12} {:>14}", "closed form", "timings", "floor, µs", "median error");
            let curves = [
                ("products", Some(&kernels.gemm)),
                ("decode attention", Some(&kernels.decode_attention)),
                ("prefill attention", Some(&kernels.prefill_attention)),
                ("experts", kernels.moe.as_ref()),
            ];
            for (name, curve) in curves {
                if let Some((curve, fit)) = curve.and_then(|c| Some((c, c.fit?))) {
                    println!("{name:<18} {:>8} {:>12.1} {:>12.1} %", fit.points, curve.floor_us, fit.median_pct);
                }
            }
        }
        println!("Written {}; `inferasim project --target {}` reads it", path.display(), path.display());
    }
}
