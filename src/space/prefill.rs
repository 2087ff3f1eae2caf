//! Where are prompts prefilled? One value of the `prefill` knob: together with decode, or on a pool of their own.

use super::values::KnobValue;
use crate::config::PrefillPool;
use serde::{Serialize, Serializer};
use std::fmt;

/// `together`, or a pool such as `2xtp4` or `1xtp8ep8dp8` (instances x ranks, expert groups, attention-DP groups).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillChoice(pub Option<PrefillPool>);

const TOGETHER: &str = "together";

impl PrefillChoice {
    /// Numbers by which two choices are alike: a pool or none, and the logarithms of its instances, ranks, expert groups
    /// and attention-DP groups.
    pub fn parts(self) -> [f64; 5] {
        let Some(pool) = self.0 else { return [0.0; 5] };
        let log = |n: u32| f64::from(n).log2();
        [1.0, log(pool.instances), log(pool.tp), log(pool.ep), log(pool.attention_dp)]
    }
}

impl fmt::Display for PrefillChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pool) = self.0 else { return f.write_str(TOGETHER) };
        write!(f, "{}xtp{}", pool.instances, pool.tp)?;
        for (name, groups) in [("ep", pool.ep), ("dp", pool.attention_dp)] {
            if groups > 1 {
                write!(f, "{name}{groups}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for PrefillChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl KnobValue for PrefillChoice {
    const EXPECTED: &'static str = "`together` or pools such as `2xtp4` and `1xtp8ep8dp8`";
    fn whole(_value: u64) -> Option<Self> {
        None
    }
    fn word(value: &str) -> Option<Self> {
        if value == TOGETHER {
            return Some(Self(None));
        }
        let (instances, rest) = value.split_once("xtp")?;
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| (1..=4096).contains(n));
        let (rest, attention_dp) = match rest.split_once("dp") {
            Some((rest, groups)) => (rest, number(groups)?),
            None => (rest, 1),
        };
        let (tp, ep) = match rest.split_once("ep") {
            Some((tp, groups)) => (number(tp)?, number(groups)?),
            None => (number(rest)?, 1),
        };
        Some(Self(Some(PrefillPool { instances: number(instances)?, tp, ep, attention_dp })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_differ_by_a_doubling_are_one_apart() {
        let parts = |text| PrefillChoice::word(text).unwrap().parts();
        assert_eq!(parts("together"), [0.0; 5]);
        assert_eq!(parts("1xtp1"), [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(parts("2xtp8ep4dp8"), [1.0, 1.0, 3.0, 2.0, 3.0]);
    }

    #[test]
    fn every_spelling_is_read_back() {
        for text in ["together", "1xtp8", "2xtp4", "1xtp8ep8", "4xtp8ep8dp8", "3xtp4dp4"] {
            let choice = PrefillChoice::word(text).unwrap();
            assert_eq!(choice.to_string(), text);
        }
        for text in ["", "none", "xtp4", "0xtp4", "1xtp", "1xtp4ep", "1xtp4dpx", "1xtp99999"] {
            assert_eq!(PrefillChoice::word(text), None, "{text}");
        }
    }
}
