//! What shapes SGLang's scheduler, under the engine's own names.

use crate::{Error, Result};

/// SGLang's options that shape scheduling.
#[derive(Debug, Clone, PartialEq)]
pub struct SglangConfig {
    /// Prompt tokens of one extend step.
    pub chunked_prefill_size: u32,
    /// Prompt tokens one extend step admits beyond its first request.
    pub max_prefill_tokens: u32,
    /// Requests that run at once.
    pub max_running_requests: u32,
    /// Tokens of one request.
    pub context_length: u32,
    /// Tokens of the KV pool.
    pub max_total_tokens: u64,
    /// Tokens of one page.
    pub page_size: u32,
    /// Prefixes are cached.
    pub radix_cache: bool,
    /// Factor on the initial ratio.
    pub schedule_conservativeness: f64,
}

impl Default for SglangConfig {
    fn default() -> Self {
        Self {
            chunked_prefill_size: 8192,
            max_prefill_tokens: 16_384,
            max_running_requests: 1024,
            context_length: 131_072,
            max_total_tokens: 524_288,
            page_size: 1,
            radix_cache: true,
            schedule_conservativeness: 1.0,
        }
    }
}

impl SglangConfig {
    /// Refuses what no engine starts with.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("chunked_prefill_size", u64::from(self.chunked_prefill_size)),
            ("max_prefill_tokens", u64::from(self.max_prefill_tokens)),
            ("max_running_requests", u64::from(self.max_running_requests)),
            ("context_length", u64::from(self.context_length)),
            ("max_total_tokens", self.max_total_tokens),
            ("page_size", u64::from(self.page_size)),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(Error::input(name, "is 0", "It must be at least 1")),
            None if self.chunked_prefill_size < self.page_size => {
                Err(Error::input("chunked_prefill_size", "is below a page", "Give at least one page"))
            }
            None => Ok(()),
        }
    }
}
