//! `inferasim show target`: every figure of a machine with its origin and source.

use crate::catalog::{self, Kind};
use crate::error::exit;
use crate::report::terminal::table::Table;
use crate::source::Sourced;
use crate::target::{Target, Topology};
use crate::{Result, error::Error};
use clap::Args;

/// Arguments of `inferasim show target`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A built-in target or a YAML file
    #[arg(value_name = "NAME_OR_FILE")]
    target: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Loads and prints the target.
pub fn run(arguments: Arguments) -> Result<u8> {
    let document = catalog::open(Kind::Target, &arguments.target)?;
    let target = Target::from_document(&document)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&target)
            .map_err(|e| Error::input(&document.origin, format!("cannot be written as JSON: {e}"), ""))?;
        println!("{text}");
        return Ok(exit::ANSWER);
    }
    let node = &target.node;
    let wiring = match node.topology {
        Topology::Mesh => "point-to-point links between all pairs",
        Topology::Switched => "switched",
    };
    println!("{}: {} ({})", target.name, target.gpu.name, document.origin);
    println!(
        "{} node{} of {} GPUs, scale-up domain of {}, {wiring}",
        node.nodes,
        if node.nodes == 1 { "" } else { "s" },
        node.gpus,
        node.scaleup_world
    );
    let d = &target.defaults;
    println!(
        "defaults: {} on {}, {} / {} tokens, space {}, objective {}\n",
        d.model, d.engine, d.workload.isl, d.workload.osl, d.space, d.objective
    );
    figures(&target).lines().iter().for_each(|line| println!("{}", line.trim_end()));
    Ok(exit::ANSWER)
}

fn figures(target: &Target) -> Table {
    let mut table =
        Table::new(&[("figure", false), ("value", true), ("unit", false), ("origin", false), ("source", false)]);
    let mut add = |name: &str, unit: &str, value: String, figure_origin: String, source: &str| {
        table.row(vec![name.to_string(), value, unit.to_string(), figure_origin, source.to_string()]);
    };
    let gpu = &target.gpu;
    let mut number = |name: &str, unit: &str, f: &Sourced<f64>| {
        add(name, unit, f.value.to_string(), f.origin.to_string(), &f.source);
    };
    number("bf16 peak", "TFLOP/s", &gpu.bf16_tflops);
    number("fp8 peak", "TFLOP/s", &gpu.fp8_tflops);
    if let Some(fp4) = &gpu.fp4_tflops {
        number("fp4 peak", "TFLOP/s", fp4);
    }
    number("memory", "GiB", &gpu.hbm_gib);
    number("bandwidth", "TB/s", &gpu.hbm_tb_s);
    number("scale-up", "GB/s", &target.node.scaleup_gb_s);
    number("scale-out", "GB/s", &target.node.scaleout_gb_s);
    if let Some(price) = &target.price {
        number("price", "$/GPU/h", &price.usd_per_gpu_hour);
    }
    let units = &gpu.compute_units;
    add("compute units", "", units.value.to_string(), units.origin.to_string(), &units.source);
    table
}
