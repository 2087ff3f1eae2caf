//! How long does one engine step take? The seam to the cost model: anything that answers [`StepTime`].

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

/// Prompt tokens of one request in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillChunk {
    /// Tokens computed in this step.
    pub tokens: u32,
    /// Tokens of the request whose KV existed before.
    pub context: u32,
    /// The chunk ends the prompt: a token is sampled.
    pub samples: bool,
}

/// The exact composition of one step of one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepBatch {
    /// Sequences in their decode phase.
    pub decode_sequences: u32,
    /// Tokens computed for them: one each, and their drafts.
    pub decode_tokens: u32,
    /// Tokens they attend to, summed over sequences, the new ones included.
    pub decode_context: u64,
    /// Sequences that run but are not in the step: an engine that computes prompts first holds its decodes back.
    pub held_sequences: u32,
    /// Prefill (and recomputed) chunks, in order.
    pub prefill: Vec<PrefillChunk>,
    /// Tokens of `prefill`.
    pub prefill_tokens: u64,
    /// Tokens whose KV is copied in from the host tier during the step; the engine adds that time itself.
    pub loaded_tokens: u64,
}

impl StepBatch {
    /// Empties it; keeps the memory.
    pub fn clear(&mut self) {
        self.prefill.clear();
        (self.decode_sequences, self.decode_tokens, self.decode_context) = (0, 0, 0);
        (self.prefill_tokens, self.loaded_tokens, self.held_sequences) = (0, 0, 0);
    }

    /// Tokens computed in the step.
    pub fn tokens(&self) -> u64 {
        u64::from(self.decode_tokens) + self.prefill_tokens
    }

    /// Requests in the step.
    pub fn sequences(&self) -> u32 {
        self.decode_sequences + self.prefill.len() as u32
    }
}

/// The time of pure decode steps of a fixed set of sequences, as a line in the summed context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeLine {
    /// Seconds at a summed context of 0.
    pub base_s: f64,
    /// Seconds per token of summed context.
    pub per_context_token_s: f64,
    /// The line holds up to this summed context.
    pub up_to_context: u64,
}

/// A request whose first token an engine just gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirstToken {
    /// Prompt tokens computed.
    pub computed: u32,
    /// Prompt tokens found in the prefix cache.
    pub cached: u32,
    /// Sequences that decoded in the step that gave it, or were held back for it.
    pub running: u32,
    /// Its place in a closed loop's first wave, from 0; `None` for all later requests.
    pub wave_place: Option<u32>,
    /// Seconds from arrival to this token, in the engine.
    pub engine_s: f64,
}

/// The duration of a step, in seconds.
pub trait StepTime {
    /// How long this batch takes from launch to tokens, the engine's own work included.
    fn seconds(&mut self, batch: &StepBatch) -> f64;

    /// The same for steps with `sequences` decodes and nothing else, where it is a line in the summed context from
    /// `context` on. An answer lets the simulator take runs of such steps at once; `None` makes it take each.
    fn decode_line(&mut self, sequences: u32, context: u64) -> Option<DecodeLine> {
        let _ = (sequences, context);
        None
    }

    /// Seconds that a request spends outside the engine: in the front end on the way in and out. They delay its first
    /// token, and with it all others.
    fn outside(&mut self, request: &FirstToken) -> f64 {
        let _ = request;
        0.0
    }
}

/// Every step takes the same time.
#[derive(Debug, Clone, Copy)]
pub struct ConstantStep {
    /// Seconds of a step.
    pub seconds: f64,
}

impl StepTime for ConstantStep {
    fn seconds(&mut self, _: &StepBatch) -> f64 {
        self.seconds
    }

    fn decode_line(&mut self, _: u32, _: u64) -> Option<DecodeLine> {
        Some(DecodeLine { base_s: self.seconds, per_context_token_s: 0.0, up_to_context: u64::MAX })
    }
}

/// A sum of simple terms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AffineStep {
    /// Seconds of any step.
    pub base_s: f64,
    /// Seconds per decoded token.
    pub per_decode_token_s: f64,
    /// Seconds per token of context that decodes attend to.
    pub per_context_token_s: f64,
    /// Seconds per prefill token.
    pub per_prefill_token_s: f64,
}

impl StepTime for AffineStep {
    fn seconds(&mut self, batch: &StepBatch) -> f64 {
        self.base_s
            + self.per_decode_token_s * f64::from(batch.decode_tokens)
            + self.per_context_token_s * batch.decode_context as f64
            + self.per_prefill_token_s * batch.prefill_tokens as f64
    }

    fn decode_line(&mut self, sequences: u32, _: u64) -> Option<DecodeLine> {
        Some(DecodeLine {
            base_s: self.base_s + self.per_decode_token_s * f64::from(sequences),
            per_context_token_s: self.per_context_token_s,
            up_to_context: u64::MAX,
        })
    }
}

/// Steps of exponentially distributed length: with one token per request, the M of M/M/c.
#[derive(Debug, Clone)]
pub struct ExponentialStep {
    mean_s: f64,
    random: Pcg64Mcg,
}

impl ExponentialStep {
    /// Steps of this mean, reproducible from the seed.
    pub fn new(mean_s: f64, seed: u64) -> Self {
        Self { mean_s, random: Pcg64Mcg::seed_from_u64(seed ^ 0x005e_57e9) }
    }
}

impl StepTime for ExponentialStep {
    fn seconds(&mut self, _: &StepBatch) -> f64 {
        let unit: f64 = Exp1.sample(&mut self.random);
        unit * self.mean_s
    }
}
