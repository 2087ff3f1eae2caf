//! shim
use serde::{Deserialize, Serialize};
/// Engines that budget memory alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineFamily {
    /// vLLM and what is built on it.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}
