//! One GPU, its node and the links between them, each figure with its source.

use crate::source::Sourced;
use serde::{Deserialize, Serialize};

/// GPU families that share kernels; op tables are keyed by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuFamily {
    /// CDNA3: MI300X, MI325X.
    Gfx942,
    /// CDNA4: MI350X, MI355X.
    Gfx950,
    /// H100, H200.
    Hopper,
    /// B200, B300, GB200, GB300.
    Blackwell,
    /// A device whose target carries its own kernel timings, written by a probe.
    Local,
}

impl GpuFamily {
    /// AMD rather than NVIDIA.
    pub fn is_amd(self) -> bool {
        matches!(self, GpuFamily::Gfx942 | GpuFamily::Gfx950)
    }
}

impl std::fmt::Display for GpuFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GpuFamily::Gfx942 => "gfx942",
            GpuFamily::Gfx950 => "gfx950",
            GpuFamily::Hopper => "hopper",
            GpuFamily::Blackwell => "blackwell",
            GpuFamily::Local => "local",
        })
    }
}

/// Silicon figures of one GPU. Peaks are dense, in TFLOP/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Marketing name, e.g. `MI355X`.
    pub name: String,
    /// Kernel family.
    pub family: GpuFamily,
    /// Dense bf16 peak, TFLOP/s.
    pub bf16_tflops: Sourced<f64>,
    /// Dense fp8 peak, TFLOP/s.
    pub fp8_tflops: Sourced<f64>,
    /// Dense fp4 peak, TFLOP/s; absent where the silicon has no fp4 units.
    #[serde(default)]
    pub fp4_tflops: Option<Sourced<f64>>,
    /// Memory a process can address, GiB.
    pub hbm_gib: Sourced<f64>,
    /// Memory bandwidth, TB/s.
    pub hbm_tb_s: Sourced<f64>,
    /// Compute units or streaming multiprocessors.
    pub compute_units: Sourced<u32>,
}

/// How the GPUs of a node are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Point-to-point links between all pairs (xGMI): a group of P uses P − 1 of them.
    Mesh,
    /// A switch (NVLink): every group has the full link.
    Switched,
}

/// Node and fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// GPUs in a node.
    pub gpus: u32,
    /// Nodes at hand.
    pub nodes: u32,
    /// GPUs one scale-up domain joins.
    pub scaleup_world: u32,
    /// Scale-up bandwidth per GPU and direction, GB/s.
    pub scaleup_gb_s: Sourced<f64>,
    /// How the domain is wired.
    pub topology: Topology,
    /// Scale-out bandwidth per GPU and direction, GB/s.
    pub scaleout_gb_s: Sourced<f64>,
}

/// What a GPU hour costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// US dollars per GPU and hour.
    pub usd_per_gpu_hour: Sourced<f64>,
}

/// A target file: everything known about the machine, and what a bare run uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name on the command line, e.g. `mi355x`.
    pub name: String,
    /// The GPU.
    pub gpu: Gpu,
    /// Node and fabric.
    pub node: Node,
    /// Price, where one is stated.
    #[serde(default)]
    pub price: Option<Price>,
    /// Timings of the device itself, where a probe took them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<super::Kernels>,
    /// What a run uses where no flag says otherwise.
    pub defaults: Defaults,
}

/// Defaults of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Engine name.
    pub engine: String,
    /// Model name.
    pub model: String,
    /// Workload.
    pub workload: crate::workload::Workload,
    /// Space name.
    pub space: String,
    /// Objective name.
    pub objective: String,
}

impl Target {
    /// GPUs at hand.
    pub fn gpus(&self) -> u32 {
        self.node.gpus * self.node.nodes
    }
}
