//! What does the workload run? A typed configuration, every key known, every figure in range.

use crate::catalog::Document;
use crate::model::{KvFormat, WeightFormat};
use crate::{Error, Result, yaml};
use serde::{Deserialize, Serialize};

/// How requests reach the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One fixed batch after the other.
    OfflineBatch,
    /// Requests join and leave a running batch.
    ContinuousBatch,
}

impl Mode {
    /// As the configuration spells it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::OfflineBatch => "offline_batch",
            Mode::ContinuousBatch => "continuous_batch",
        }
    }
}

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The GPU backend this binary was built with, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Rocm,
}

impl Device {
    /// The device a result names (`cpu`, `cuda:0` …).
    pub fn of_name(name: &str) -> Self {
        match name.split(':').next() {
            Some("cuda") => Device::Cuda,
            Some("rocm") => Device::Rocm,
            _ => Device::Cpu,
        }
    }

    /// Kind of device this build runs it on.
    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda => "cuda",
            Device::Rocm => "rocm",
            Device::Auto if cfg!(feature = "cuda") => "cuda",
            Device::Auto if cfg!(feature = "rocm") => "rocm",
            Device::Auto => "cpu",
        }
    }
}

/// Number format of weights, activations and KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// 16-bit brain float.
    #[serde(rename = "bfloat16", alias = "bf16")]
    Bfloat16,
    /// 16-bit IEEE float.
    #[serde(rename = "float16", alias = "fp16", alias = "f16")]
    Float16,
    /// 32-bit IEEE float.
    #[serde(rename = "float32", alias = "fp32", alias = "f32")]
    Float32,
}

impl Dtype {
    /// As the configuration spells it.
    pub fn word(self) -> &'static str {
        match self {
            Dtype::Bfloat16 => "bfloat16",
            Dtype::Float16 => "float16",
            Dtype::Float32 => "float32",
        }
    }

    /// The format of a word, as [`Dtype::word`] spells it.
    pub fn of_word(word: &str) -> Option<Self> {
        [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32].into_iter().find(|d| d.word() == word)
    }

    /// Format in which a device (`cpu`, `cuda:0` …) holds and computes values of this one.
    ///
    /// A processor has no 16-bit units worth the name, so 16-bit weights, rounded to their format once, are widened
    /// when the model is built rather than at every step.
    pub fn held_on(self, device: &str) -> Self {
        if device.split(':').next() == Some("cpu") { Dtype::Float32 } else { self }
    }

    /// How the projector prices weights in this format.
    pub fn weight_format(self) -> WeightFormat {
        match self {
            Dtype::Bfloat16 | Dtype::Float16 => WeightFormat::Bf16,
            Dtype::Float32 => WeightFormat::F32,
        }
    }

    /// How the projector prices a cache in this format.
    pub fn kv_format(self) -> KvFormat {
        match self {
            Dtype::Bfloat16 | Dtype::Float16 => KvFormat::Bf16,
            Dtype::Float32 => KvFormat::F32,
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bfloat16 | Dtype::Float16 => 2,
            Dtype::Float32 => 4,
        }
    }
}

/// Topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Embedding, linear layers with GELU, head: each token on its own.
    Mlp,
    /// Transformer in which every token sees every other; one forward pass, nothing generated.
    EncoderTransformer,
    /// Causal transformer with a KV cache; generates greedily.
    DecoderTransformer,
}

impl ModelKind {
    /// As the configuration spells it.
    pub fn word(self) -> &'static str {
        match self {
            ModelKind::Mlp => "mlp",
            ModelKind::EncoderTransformer => "encoder_transformer",
            ModelKind::DecoderTransformer => "decoder_transformer",
        }
    }

    /// Whether it generates tokens.
    pub fn generates(self) -> bool {
        self != ModelKind::EncoderTransformer
    }

    /// Whether it has attention.
    pub fn is_transformer(self) -> bool {
        self != ModelKind::Mlp
    }
}

/// One request, or one batch of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Sequences of a batch; in continuous mode all requests of the run.
    pub batch_size: usize,
    /// Prompt length, tokens.
    pub prompt_len: usize,
    /// Tokens generated per request, the one that prefill yields included.
    pub generate_tokens: usize,
}

impl Default for Request {
    fn default() -> Self {
        Self { batch_size: 4, prompt_len: 128, generate_tokens: 32 }
    }
}

/// Shapes of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelShape {
    /// Topology.
    pub kind: ModelKind,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Layers.
    pub num_layers: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Inner width of the gated MLP, or of each expert.
    pub ffn_size: usize,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Experts of each layer; above 1 a router sends every token to one of them.
    pub num_experts: usize,
}

impl Default for ModelShape {
    fn default() -> Self {
        Self {
            kind: ModelKind::DecoderTransformer,
            hidden_size: 512,
            num_layers: 4,
            num_heads: 8,
            ffn_size: 2048,
            vocab_size: 32000,
            num_experts: 1,
        }
    }
}

impl ModelShape {
    /// Parameters; the head of a transformer is its embedding.
    ///
    /// Transformer: `V·H + L(4H² + 3HF + 4H) + 2H`, with experts `E·3HF + H·E` in place of `3HF`; MLP:
    /// `V·H + L(H² + H) + H·V + V`.
    pub fn parameter_count(&self) -> usize {
        let (h, l, f, v, e) = (self.hidden_size, self.num_layers, self.ffn_size, self.vocab_size, self.num_experts);
        if self.kind == ModelKind::Mlp {
            return v * h + l * (h * h + h) + h * v + v;
        }
        let ffn = if e > 1 { e * 3 * h * f + h * e } else { 3 * h * f };
        v * h + l * (4 * h * h + ffn + 4 * h) + 2 * h
    }

    /// Dimensions of one head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_heads
    }
}

/// Continuous batching.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContinuousBatch {
    /// True turns `mode: offline_batch` into `continuous_batch`.
    pub enabled: bool,
    /// Requests that run at once.
    pub max_active_requests: usize,
    /// When requests arrive.
    pub arrival_pattern: ArrivalPattern,
}

/// When requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalPattern {
    /// All are queued at the start and admitted as slots come free.
    Fixed,
}

impl Default for ContinuousBatch {
    fn default() -> Self {
        Self { enabled: false, max_active_requests: 8, arrival_pattern: ArrivalPattern::Fixed }
    }
}

/// Serving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Serving {
    /// Keep keys and values of past tokens; false computes the whole sequence again for every token.
    pub kv_cache: bool,
    /// Continuous batching.
    pub continuous_batch: ContinuousBatch,
}

impl Default for Serving {
    fn default() -> Self {
        Self { kv_cache: true, continuous_batch: ContinuousBatch::default() }
    }
}

/// What fails a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// A NaN or an infinity in any logits.
    pub fail_on_nan_logits: bool,
    /// A NaN or an infinity in the final hidden states.
    pub fail_on_nonfinite_output: bool,
    /// Report the checksum of the last logits; a triage fails trials of one cell that differ in it.
    pub compare_logits_checksum: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self { fail_on_nan_logits: true, fail_on_nonfinite_output: true, compare_logits_checksum: true }
    }
}

/// The whole configuration; every key has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How requests reach the model.
    pub mode: Mode,
    /// Seed of weights and prompts.
    pub seed: u64,
    /// Where it runs.
    pub device: Device,
    /// Number format.
    pub dtype: Dtype,
    /// Unmeasured batches before the measured ones.
    pub warmup_steps: usize,
    /// Measured batches; in continuous mode the most scheduler ticks.
    pub steps: usize,
    /// The load.
    pub request: Request,
    /// The model.
    pub model: ModelShape,
    /// Serving.
    pub serving: Serving,
    /// What fails a run.
    pub checks: Checks,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::OfflineBatch,
            seed: 1234,
            device: Device::Auto,
            dtype: Dtype::Bfloat16,
            warmup_steps: 1,
            steps: 4,
            request: Request::default(),
            model: ModelShape::default(),
            serving: Serving::default(),
            checks: Checks::default(),
        }
    }
}

impl Config {
    /// Parses and checks a document.
    ///
    /// # Errors
    /// An unknown key (with the nearest known one), a value of a wrong type, a figure out of range, or modes and models
    /// that do not go together; each names the file and the line.
    pub fn from_document(document: &Document) -> Result<Self> {
        let config: Self = yaml::parse(document)?;
        config.checked(document)
    }

    /// Checks figures that a document states, and settles the mode.
    ///
    /// # Errors
    /// See [`Config::from_document`].
    pub fn checked(mut self, document: &Document) -> Result<Self> {
        if self.serving.continuous_batch.enabled {
            self.mode = Mode::ContinuousBatch;
        }
        self.serving.continuous_batch.enabled = self.mode == Mode::ContinuousBatch;
        self.check_ranges(document)?;
        self.check_together(document)?;
        Ok(self)
    }

    fn check_ranges(&self, document: &Document) -> Result<()> {
        let range = |key: &str, value: usize, low: f64, high: f64, meaning: &str| {
            yaml::in_range(document, key, value as f64, (low, high), meaning)
        };
        let (r, m) = (&self.request, &self.model);
        let least_tokens = if self.mode == Mode::ContinuousBatch { 1.0 } else { 0.0 };
        range("warmup_steps", self.warmup_steps, 0.0, 1e6, "a number of batches")?;
        range("steps", self.steps, 1.0, 1e6, "a number of steps")?;
        range("request.batch_size", r.batch_size, 1.0, 1e5, "a number of sequences")?;
        range("request.prompt_len", r.prompt_len, 1.0, 1e6, "a prompt length in tokens")?;
        range("request.generate_tokens", r.generate_tokens, least_tokens, 1e6, "an answer length in tokens")?;
        range("model.hidden_size", m.hidden_size, 1.0, 1e5, "a width")?;
        range("model.num_layers", m.num_layers, 1.0, 1e3, "a number of layers")?;
        range("model.num_heads", m.num_heads, 1.0, 1e4, "a number of heads")?;
        range("model.ffn_size", m.ffn_size, 1.0, 1e6, "a width")?;
        range("model.vocab_size", m.vocab_size, 2.0, 1e7, "a number of tokens")?;
        range("model.num_experts", m.num_experts, 1.0, 1e4, "a number of experts")?;
        let active = self.serving.continuous_batch.max_active_requests;
        range("serving.continuous_batch.max_active_requests", active, 1.0, 1e5, "a number of requests")
    }

    fn check_together(&self, document: &Document) -> Result<()> {
        let m = &self.model;
        let refuse =
            |key: &str, found: String, repair: &str| Err(Error::input(yaml::place(document, key), found, repair));
        if m.kind.is_transformer() && !m.hidden_size.is_multiple_of(m.num_heads) {
            let found = format!("{} heads do not divide a hidden size of {}", m.num_heads, m.hidden_size);
            return refuse("model.num_heads", found, "Choose a number of heads that does");
        }
        if m.kind == ModelKind::Mlp && m.num_experts > 1 {
            return refuse("model.num_experts", "an mlp has no experts".into(), "Use a transformer, or one expert");
        }
        if self.mode == Mode::ContinuousBatch && !m.kind.generates() {
            let found = "an encoder generates nothing, so no request can leave a running batch".to_string();
            return refuse("model.kind", found, "Use mode: offline_batch, or a model that generates");
        }
        Ok(())
    }
}
