//! How much may a model cost? Calls, tokens and money, counted as they are spent.

use super::channel::{Completion, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Requests, those repeated after a fault included.
    pub calls: u32,
    /// Tokens, read and written.
    pub tokens: u64,
    /// US dollars; needs prices.
    pub usd: Option<f64>,
    /// US dollars per million tokens, read and written.
    pub usd_per_m: Option<(f64, f64)>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Requests sent.
    pub calls: u32,
    /// Tokens read by the model.
    pub prompt_tokens: u64,
    /// Tokens written by the model.
    pub completion_tokens: u64,
    /// US dollars, where prices are known.
    pub usd: Option<f64>,
    /// Some tokens were estimated, four bytes each, because the server did not count them.
    pub estimated: bool,
}

/// Limits and what was spent of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// What may be spent.
    pub limits: Limits,
    /// What was spent.
    pub spent: Spent,
}

impl Budget {
    /// Nothing spent yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, spent: Spent { usd: limits.usd_per_m.map(|_| 0.0), ..Spent::default() } }
    }

    /// Why no further call is possible; the next may write `most_written` tokens.
    pub fn exhausted(&self, request: &Value, most_written: u64) -> Option<String> {
        let Limits { calls, tokens, usd, usd_per_m } = self.limits;
        if self.spent.calls >= calls {
            return Some(format!("the budget of {calls} calls is spent"));
        }
        let next = Usage { prompt_tokens: bytes(request).div_ceil(4), completion_tokens: most_written };
        let spent = self.spent.prompt_tokens + self.spent.completion_tokens;
        if spent + next.prompt_tokens + next.completion_tokens > tokens {
            return Some(format!("the budget of {tokens} tokens is spent ({spent}; the next call may take more)"));
        }
        if let (Some(limit), Some(prices)) = (usd, usd_per_m) {
            let spent = self.spent.usd.unwrap_or(0.0);
            if spent + cost(next, prices) > limit {
                return Some(format!("the budget of ${limit} is spent (${spent:.4}; the next call may take more)"));
            }
        }
        None
    }

    /// Counts a call that brought an answer.
    pub fn count(&mut self, request: &Value, completion: &Completion) {
        let usage = completion.usage.unwrap_or_else(|| {
            self.spent.estimated = true;
            let tools: usize = completion.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
            Usage {
                prompt_tokens: bytes(request).div_ceil(4),
                completion_tokens: ((completion.text.len() + tools) as u64).div_ceil(4),
            }
        });
        self.spent.calls += 1;
        self.spent.prompt_tokens += usage.prompt_tokens;
        self.spent.completion_tokens += usage.completion_tokens;
        if let Some(prices) = self.limits.usd_per_m {
            self.spent.usd = Some(self.spent.usd.unwrap_or(0.0) + cost(usage, prices));
        }
    }

    /// Counts a call that brought none.
    pub fn count_fault(&mut self) {
        self.spent.calls += 1;
    }
}

fn bytes(request: &Value) -> u64 {
    request.to_string().len() as u64
}

fn cost(usage: Usage, (read, written): (f64, f64)) -> f64 {
    (usage.prompt_tokens as f64 * read + usage.completion_tokens as f64 * written) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIMITS: Limits = Limits { calls: 3, tokens: 1000, usd: Some(0.01), usd_per_m: Some((2.0, 8.0)) };

    fn completion(prompt_tokens: u64, completion_tokens: u64) -> Completion {
        Completion { usage: Some(Usage { prompt_tokens, completion_tokens }), ..Completion::default() }
    }

    #[test]
    fn calls_tokens_and_money_end_it() {
        let request = json!({});
        let mut budget = Budget::new(LIMITS);
        assert_eq!(budget.exhausted(&request, 10), None);
        budget.count(&request, &completion(300, 100));
        // 300 at $2 and 100 at $8 per million.
        assert!((budget.spent.usd.unwrap() - 0.0014).abs() < 1e-12);
        assert!(budget.exhausted(&request, 600).unwrap().contains("1000 tokens"));
        let mut dear = Budget::new(Limits { usd: Some(0.002), ..LIMITS });
        dear.count(&request, &completion(300, 100));
        assert!(dear.exhausted(&request, 100).unwrap().contains("$0.002"));
        budget.count_fault();
        budget.count_fault();
        assert!(budget.exhausted(&request, 10).unwrap().contains("3 calls"));
    }

    #[test]
    fn tokens_nobody_counted_are_estimated_and_said_to_be() {
        let mut budget = Budget::new(LIMITS);
        budget.count(&json!("12345678"), &Completion { text: "abcd".into(), ..Completion::default() });
        // Ten bytes with the quotes.
        assert_eq!((budget.spent.prompt_tokens, budget.spent.completion_tokens), (3, 1));
        assert!(budget.spent.estimated);
    }
}
