//! What would change the recommendation? One step of each knob, and the assumptions it rests on.

use super::text::number;
use serde::{Deserialize, Serialize};

/// Both answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sensitivity {
    /// One step of each knob up and down, all else as recommended.
    pub knobs: Vec<KnobStep>,
    /// Other values of what was assumed.
    pub assumptions: Vec<Shift>,
}

/// The recommendation with one knob turned by one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnobStep {
    /// The knob with its new value, e.g. `concurrency 96`.
    pub to: String,
    /// Value of the objective's metric, where the point keeps every limit.
    pub objective: Option<f64>,
    /// Its change as a share of the recommendation's; 0.1 is ten per cent more.
    pub change: Option<f64>,
    /// Why the point is out.
    pub blocked_by: Option<String>,
}

/// The choice with one assumption changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// What was assumed, e.g. `memory bandwidth 8 TB/s`.
    pub assumed: String,
    /// What it becomes, e.g. `6.4 TB/s`.
    pub to: String,
    /// The recommendation's objective then; absent where it no longer keeps the limits.
    pub objective: Option<f64>,
    /// Its change as a share.
    pub change: Option<f64>,
    /// What would be recommended instead; absent where the recommendation stands.
    pub instead: Option<String>,
    /// By what share the other would be better, where the recommendation still keeps the limits.
    pub gain: Option<f64>,
}

/// `+3.2 %`.
pub fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

impl KnobStep {
    /// One line.
    pub fn sentence(&self) -> String {
        match (self.objective, self.change, &self.blocked_by) {
            (Some(objective), Some(change), _) => {
                format!("{}: {} ({})", self.to, number(objective), signed_percent(change))
            }
            (_, _, Some(why)) => format!("{}: out, {why}", self.to),
            _ => format!("{}: out", self.to),
        }
    }
}

impl Shift {
    /// One line.
    pub fn sentence(&self) -> String {
        let now = match (self.objective, self.change) {
            (Some(objective), Some(change)) => format!("{} ({})", number(objective), signed_percent(change)),
            _ => "the recommendation breaks a limit".to_string(),
        };
        let choice = match (&self.instead, self.gain) {
            (None, _) => "the choice stands".to_string(),
            (Some(other), Some(gain)) => {
                format!("{other} would be {} better", signed_percent(gain).trim_start_matches('+'))
            }
            (Some(other), None) => format!("{other} would be recommended"),
        };
        format!("{} -> {}: {now}; {choice}", self.assumed, self.to)
    }
}
