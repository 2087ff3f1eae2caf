//! Reads a target by name or path and refuses figures that no machine has.

use super::{GpuFamily, Target};
use crate::catalog::{self, Document, Kind};
use crate::source::Sourced;
use crate::workload::Workload;
use crate::{Error, Result, yaml};

impl Target {
    /// Loads a file where `name_or_path` is one, else the built-in target of that name.
    ///
    /// # Errors
    /// Unreadable files, unknown keys, wrong types, and figures that are negative, not finite or absurd; each
    /// names the file, the line, the key and the value.
    pub fn load(name_or_path: &str) -> Result<Target> {
        Target::from_document(&catalog::open(Kind::Target, name_or_path)?)
    }

    /// Parses and validates a document.
    pub fn from_document(document: &Document) -> Result<Target> {
        let target: Target = yaml::parse(document)?;
        target.check(document)?;
        Ok(target)
    }

    fn check(&self, document: &Document) -> Result<()> {
        let range = |key: &str, value: f64, range: (f64, f64), meaning: &str| {
            yaml::in_range(document, key, value, range, meaning)
        };
        let sourced = |key: &str, figure: &Sourced<f64>, bounds, meaning| {
            yaml::in_range(document, key, figure.value, bounds, meaning)?;
            stated(document, key, &figure.source)
        };
        // A processor reaches a hundredth of a TFLOP/s.
        const PEAK: (f64, f64) = (1e-3, 1e6);
        let gpu = &self.gpu;
        sourced("gpu.bf16_tflops", &gpu.bf16_tflops, PEAK, "a dense peak in TFLOP/s")?;
        sourced("gpu.fp8_tflops", &gpu.fp8_tflops, PEAK, "a dense peak in TFLOP/s")?;
        if let Some(fp4) = &gpu.fp4_tflops {
            sourced("gpu.fp4_tflops", fp4, PEAK, "a dense peak in TFLOP/s")?;
        }
        sourced("gpu.hbm_gib", &gpu.hbm_gib, (1.0, 1e5), "GiB")?;
        sourced("gpu.hbm_tb_s", &gpu.hbm_tb_s, (1e-3, 1e3), "TB/s")?;
        range("gpu.compute_units", f64::from(gpu.compute_units.value), (1.0, 1e5), "a number of units")?;
        stated(document, "gpu.compute_units", &gpu.compute_units.source)?;
        let node = &self.node;
        range("node.gpus", f64::from(node.gpus), (1.0, 1e3), "GPUs per node")?;
        range("node.nodes", f64::from(node.nodes), (1.0, 1e4), "a number of nodes")?;
        range("node.scaleup_world", f64::from(node.scaleup_world), (1.0, 1e4), "GPUs of one domain")?;
        sourced("node.scaleup_gb_s", &node.scaleup_gb_s, (0.1, 1e5), "GB/s per GPU and direction")?;
        sourced("node.scaleout_gb_s", &node.scaleout_gb_s, (0.01, 1e5), "GB/s per GPU and direction")?;
        if let Some(price) = &self.price {
            sourced("price.usd_per_gpu_hour", &price.usd_per_gpu_hour, (1e-3, 1e4), "US dollars per GPU and hour")?;
        }
        match (&self.kernels, gpu.family) {
            (Some(kernels), GpuFamily::Local) => kernels.check(document)?,
            (None, GpuFamily::Local) => {
                let found = "family `local` without `kernels`";
                return Err(Error::input(
                    yaml::place(document, "gpu.family"),
                    found,
                    "Let `inferasim workload probe` write them",
                ));
            }
            (Some(_), family) => {
                let found = format!("`kernels` of a device of family `{family}`");
                return Err(Error::input(yaml::place(document, "kernels"), found, "Write `family: local`"));
            }
            (None, _) => {}
        }
        check_workload(&self.defaults.workload, |key, value, bounds, meaning| {
            yaml::in_range(document, &format!("defaults.workload.{key}"), value, bounds, meaning)
        })
    }
}

/// Runs every figure of a workload past `check`, which knows how to name where it came from.
pub fn check_workload(workload: &Workload, check: impl Fn(&str, f64, (f64, f64), &str) -> Result<()>) -> Result<()> {
    check("isl", f64::from(workload.isl), (1.0, 1e7), "a prompt length in tokens")?;
    check("osl", f64::from(workload.osl), (1.0, 1e7), "an answer length in tokens")?;
    check("range_ratio", workload.range_ratio, (0.0, 1.0), "a ratio")?;
    check("prefix_hit_rate", workload.prefix_hit_rate, (0.0, 0.999), "a share")?;
    check("host_hit_share", workload.host_hit_share, (0.0, 1.0), "a share")?;
    check("expert_imbalance", workload.expert_imbalance, (1.0, 1e3), "a ratio")?;
    check("prompts_per_client", f64::from(workload.prompts_per_client), (1.0, 1e5), "prompts per client")
}

fn stated(document: &Document, key: &str, source: &str) -> Result<()> {
    if !source.trim().is_empty() {
        return Ok(());
    }
    Err(Error::input(
        yaml::place(document, key),
        format!("`{key}` names no source"),
        "Say where the figure was read; `origin: assumed` with a reason is enough",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutated(from: &str, to: &str) -> Result<Target> {
        let mut document = catalog::built_in(Kind::Target, "mi355x").expect("built in");
        assert!(document.text.contains(from), "the test edits a line that exists: {from}");
        document.text = document.text.replacen(from, to, 1);
        document.origin = "edited.yaml".into();
        Target::from_document(&document)
    }

    #[test]
    fn every_built_in_target_loads_under_its_file_name() {
        let names = catalog::names(Kind::Target);
        assert_eq!(names.len(), 10, "{names:?}");
        for name in names {
            let target = Target::load(name).expect(name);
            assert_eq!(target.name, name);
            assert!(target.node.scaleup_world >= target.node.gpus);
        }
    }

    #[test]
    fn vendor_figures_of_the_mi355x() {
        // AMD Instinct MI355X: 288 GB HBM3E, 8 TB/s, 256 compute units, 2.5 / 5.0 / 10.1 PF dense.
        let target = Target::load("mi355x").unwrap();
        assert_eq!(target.gpus(), 8);
        assert_eq!(target.gpu.hbm_tb_s.value, 8.0);
        assert_eq!(target.gpu.compute_units.value, 256);
        assert!((target.gpu.bf16_tflops.value / 2500.0 - 1.0).abs() < 0.01);
        assert!((target.gpu.fp4_tflops.unwrap().value / 10_100.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn an_absurd_figure_names_file_line_key_and_value() {
        for (to, shown) in [("-8", "-8"), (".nan", "NaN"), ("1e30", "1e30"), ("0", "0")] {
            let error = mutated("hbm_tb_s: { value: 8.0", &format!("hbm_tb_s: {{ value: {to}")).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.exit_code(), 2);
            assert!(text.starts_with("edited.yaml:10: `gpu.hbm_tb_s` is "), "{text}");
            assert!(text.contains(&format!("is {shown}. ")), "{text}");
        }
        assert!(mutated("gpus: 8", "gpus: 0").unwrap_err().to_string().contains("`node.gpus` is 0"));
        assert!(mutated("isl: 1024", "isl: 0").unwrap_err().to_string().contains("`defaults.workload.isl` is 0"));
        assert!(mutated("range_ratio: 1.0", "range_ratio: 1.5").is_err());
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        let text = mutated("hbm_tb_s:", "hbm_tbs:").unwrap_err().to_string();
        assert!(text.contains("edited.yaml:10:3: "), "{text}");
        assert!(text.contains("Did you mean `hbm_tb_s`?"), "{text}");
        let text = mutated("node:", "nodes:").unwrap_err().to_string();
        assert!(text.contains("Did you mean `node`?"), "{text}");
    }

    #[test]
    fn a_figure_without_source_is_refused() {
        let error =
            mutated("source: \"ROCm documentation, GPU hardware specifications, read 2026-08\"", "source: \"\"");
        assert!(error.unwrap_err().to_string().contains("`gpu.compute_units` names no source"));
    }
}
