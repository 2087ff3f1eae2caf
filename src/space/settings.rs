//! What can each knob be set to, as a user writes it, and which point do settings lead to?

use super::{KNOBS, Space};
use serde::Serialize;
use std::fmt;

/// A knob with one of its values, as a space file spells them: `kv_dtype=fp8`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// One of [`KNOBS`].
    pub knob: &'static str,
    /// The value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.knob, self.value)
    }
}

/// Why a setting leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSuch {
    /// No knob of that name.
    Knob,
    /// The knob has no such value in this space.
    Value,
}

impl Space {
    /// The values of a knob (a position in [`KNOBS`]), in the order of the space.
    pub fn values_of(&self, knob: usize) -> Vec<String> {
        (0..self.sizes()[knob]).map(|digit| self.spelt(knob, digit)).collect()
    }

    /// What a point sets a knob to.
    pub fn setting(&self, index: u64, knob: usize) -> Setting {
        Setting { knob: KNOBS[knob], value: self.spelt(knob, self.radix.digits(index)[knob]) }
    }

    /// Every knob with more than one value, as a point sets it.
    pub fn settings(&self, index: u64) -> Vec<Setting> {
        let sizes = self.sizes();
        (0..KNOBS.len()).filter(|knob| sizes[*knob] > 1).map(|knob| self.setting(index, knob)).collect()
    }

    /// The point that differs from `index` by settings such as (`tp`, `4`); a number may be spelt `4.0`.
    ///
    /// # Errors
    /// The first setting that leads nowhere, by its place.
    pub fn turned(&self, index: u64, settings: &[(&str, &str)]) -> Result<u64, (usize, NoSuch)> {
        let mut digits = self.radix.digits(index);
        for (at, (name, value)) in settings.iter().enumerate() {
            let knob = KNOBS.iter().position(|knob| knob == name).ok_or((at, NoSuch::Knob))?;
            let digit = (0..self.sizes()[knob]).find(|digit| same(&self.spelt(knob, *digit), value));
            digits[knob] = digit.ok_or((at, NoSuch::Value))?;
        }
        Ok(self.radix.index(digits))
    }

    /// Numbers of the points that differ from `index` in exactly one knob. Of a knob with more than `most` values
    /// those in steps of 1, 2, 4 … from its present one, and its first and last.
    pub fn one_turn(&self, index: u64, most: usize) -> Vec<(usize, u64)> {
        let digits = self.radix.digits(index);
        let mut found = Vec::new();
        for (knob, size) in self.sizes().into_iter().enumerate() {
            let here = digits[knob];
            let near = |digit: usize| {
                size <= most || digit.abs_diff(here).is_power_of_two() || digit == 0 || digit + 1 == size
            };
            for digit in (0..size).filter(|digit| *digit != here && near(*digit)) {
                let mut moved = digits;
                moved[knob] = digit;
                found.push((knob, self.radix.index(moved)));
            }
        }
        found
    }

    /// Numbers of the points that cut the model otherwise (tp, pp, ep, attention_dp) and agree in all else; at most
    /// about `most`, evenly chosen.
    pub fn other_cuts(&self, index: u64, most: usize) -> Vec<u64> {
        let digits = self.radix.digits(index);
        let mut cuts = vec![digits];
        for (knob, size) in self.sizes().into_iter().enumerate() {
            if !is_cut(knob) {
                continue;
            }
            let turned = |cut: &[usize; KNOBS.len()]| {
                let cut = *cut;
                (0..size).map(move |digit| {
                    let mut turned = cut;
                    turned[knob] = digit;
                    turned
                })
            };
            cuts = cuts.iter().flat_map(turned).collect();
        }
        cuts.retain(|cut| *cut != digits);
        let step = cuts.len().div_ceil(most.max(1)).max(1);
        cuts.into_iter().step_by(step).map(|cut| self.radix.index(cut)).collect()
    }

    /// A plain point to begin with: no pipeline stages, expert or attention groups, all GPUs, the middle of the rest.
    pub fn middle(&self) -> u64 {
        let mut digits = self.sizes();
        for (knob, digit) in KNOBS.into_iter().zip(&mut digits) {
            *digit = match knob {
                "prefill" | "pp" | "ep" | "attention_dp" | "context_parallel" | "draft_tokens" => 0,
                "gpus" => *digit - 1,
                _ => (*digit - 1) / 2,
            };
        }
        self.radix.index(digits)
    }

    /// What leads from one point to another.
    pub fn difference(&self, from: u64, to: u64) -> Vec<Setting> {
        let (a, b) = (self.radix.digits(from), self.radix.digits(to));
        (0..KNOBS.len()).filter(|knob| a[*knob] != b[*knob]).map(|knob| self.setting(to, knob)).collect()
    }

    fn spelt(&self, knob: usize, digit: usize) -> String {
        match KNOBS[knob] {
            "gpus" => self.gpus[digit].to_string(),
            "weight_dtype" => self.weight_dtype[digit].clone(),
            "kv_dtype" => self.kv_dtype[digit].to_string(),
            "prefill" => self.prefill[digit].to_string(),
            "tp" => self.tp[digit].to_string(),
            "pp" => self.pp[digit].to_string(),
            "ep" => self.ep[digit].to_string(),
            "attention_dp" => self.attention_dp[digit].to_string(),
            "context_parallel" => self.context_parallel[digit].to_string(),
            "replicas" => self.replicas.as_ref().map_or_else(|| "fill".to_string(), |r| r[digit].to_string()),
            "draft_tokens" => super::draft_choice(&self.drafts[digit]).to_string(),
            "memory_fraction" => self.memory_fraction[digit].to_string(),
            "max_num_seqs" => self.max_num_seqs[digit].to_string(),
            "max_num_batched_tokens" => self.max_num_batched_tokens[digit].to_string(),
            _ => self.concurrency[digit].to_string(),
        }
    }
}

/// A knob says how one instance is cut.
pub fn is_cut(knob: usize) -> bool {
    matches!(KNOBS[knob], "tp" | "pp" | "ep" | "attention_dp" | "context_parallel")
}

/// The same word, or the same number.
fn same(a: &str, b: &str) -> bool {
    let b = b.trim();
    a.eq_ignore_ascii_case(b) || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(x), Ok(y)) if x == y)
}
