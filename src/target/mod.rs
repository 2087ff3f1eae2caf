//! The outside world: GPU, node, fabric, price, engine profile; read from `targets/`.

pub mod engine;
pub mod gpu;
pub mod kernels;
pub mod load;

pub use engine::{EngineFamily, EngineProfile, EngineSettings};
pub use gpu::{Defaults, Gpu, GpuFamily, Node, Price, Target, Topology};
pub use kernels::{Curve, Fit, Kernels, RowsTiming};
