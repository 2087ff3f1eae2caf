//! `inferasim list`: what is built in, one line each with its key figures.

use crate::Result;
use crate::catalog::{self, Kind};
use crate::error::exit;
use crate::model::Model;
use crate::objective::Objective;
use crate::report::terminal::table::Table;
use crate::space::SpaceFile;
use crate::target::{EngineProfile, Target};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

/// List what is built in, one line each.
#[derive(Debug, Args)]
pub struct List {
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Targets,
    Models,
    Engines,
    Spaces,
    Objectives,
}

/// Column heads with right alignment, and the rows.
type Listing = (&'static [(&'static str, bool)], Vec<Vec<String>>);

/// Runs `inferasim list`.
pub fn run(list: List) -> Result<u8> {
    let (head, rows) = match list.what {
        What::Targets => targets()?,
        What::Models => models()?,
        What::Engines => engines()?,
        What::Spaces => spaces()?,
        What::Objectives => objectives()?,
    };
    if list.json {
        let object = |row: &Vec<String>| -> Value {
            head.iter()
                .zip(row)
                .map(|((name, _), cell)| (name.to_string(), json!(cell)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        println!("{:#}", Value::Array(rows.iter().map(object).collect()));
        return Ok(exit::ANSWER);
    }
    let mut table = Table::new(head);
    rows.into_iter().for_each(|row| table.row(row));
    table.lines().iter().for_each(|line| println!("{}", line.trim_end()));
    Ok(exit::ANSWER)
}

fn targets() -> Result<Listing> {
    let row = |name: &str| {
        let t = Target::load(name)?;
        let price = t.price.as_ref().map_or("-".to_string(), |p| format!("{:.2}", p.usd_per_gpu_hour.value));
        let fp4 = t.gpu.fp4_tflops.as_ref().map_or("-".to_string(), |f| f.value.to_string());
        Ok(vec![
            name.to_string(),
            t.gpu.name.clone(),
            t.gpus().to_string(),
            t.gpu.hbm_gib.value.to_string(),
            t.gpu.hbm_tb_s.value.to_string(),
            t.gpu.bf16_tflops.value.to_string(),
            t.gpu.fp8_tflops.value.to_string(),
            fp4,
            t.node.scaleup_gb_s.value.to_string(),
            price,
        ])
    };
    const HEAD: &[(&str, bool)] = &[
        ("target", false),
        ("GPU", false),
        ("GPUs", true),
        ("GiB", true),
        ("TB/s", true),
        ("bf16 TF", true),
        ("fp8 TF", true),
        ("fp4 TF", true),
        ("link GB/s", true),
        ("$/h", true),
    ];
    Ok((HEAD, each(Kind::Target, row)?))
}

fn models() -> Result<Listing> {
    let row = |name: &str| {
        let m = Model::load(name)?;
        let p = m.architecture.parameters();
        let billions = |count: u64| format!("{:.1}", count as f64 / 1e9);
        let dtypes: Vec<&str> = m.checkpoints.iter().map(|c| c.dtype.as_str()).collect();
        Ok(vec![
            name.to_string(),
            billions(p.total()),
            billions(p.active()),
            m.architecture.layer_count().to_string(),
            m.architecture.max_context.to_string(),
            dtypes.join(" "),
        ])
    };
    const HEAD: &[(&str, bool)] = &[
        ("model", false),
        ("params B", true),
        ("active B", true),
        ("layers", true),
        ("context", true),
        ("checkpoints", false),
    ];
    Ok((HEAD, each(Kind::Model, row)?))
}

fn engines() -> Result<Listing> {
    let row = |name: &str| {
        let e = EngineProfile::load(name)?;
        let changes: Vec<&str> = e.versions.iter().map(|v| v.since.as_str()).collect();
        let fraction = e.settings(None).memory_fraction;
        Ok(vec![name.to_string(), e.title.clone(), fraction.to_string(), changes.join(" ")])
    };
    const HEAD: &[(&str, bool)] =
        &[("engine", false), ("title", false), ("memory fraction", true), ("changes at", false)];
    Ok((HEAD, each(Kind::Engine, row)?))
}

fn spaces() -> Result<Listing> {
    let row = |name: &str| {
        let (file, _) = SpaceFile::load(name)?;
        Ok(vec![name.to_string(), file.about])
    };
    Ok((&[("space", false), ("what it searches", false)], each(Kind::Space, row)?))
}

fn objectives() -> Result<Listing> {
    let row = |name: &str| {
        let (objective, _) = Objective::load(name)?;
        Ok(vec![name.to_string(), objective.sentence()])
    };
    Ok((&[("objective", false), ("what it asks for", false)], each(Kind::Objective, row)?))
}

fn each(kind: Kind, row: impl Fn(&str) -> Result<Vec<String>>) -> Result<Vec<Vec<String>>> {
    catalog::names(kind).into_iter().map(row).collect()
}
