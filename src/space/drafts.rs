//! How many tokens are drafted in a step? One value of the `draft_tokens` knob: a number, or `none` without speculation.
//!
//! With the number off the switch is one knob, not two: no point is the same as another, and none has to be thrown away.

use super::values::KnobValue;
use serde::{Serialize, Serializer};
use std::fmt;

/// `none`, or the tokens drafted in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftChoice(pub Option<u32>);

const NONE: &str = "none";
/// Most drafts.
const MOST: u64 = 16;

impl fmt::Display for DraftChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(NONE),
            Some(drafts) => write!(f, "{drafts}"),
        }
    }
}

impl Serialize for DraftChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_str(NONE),
            Some(drafts) => serializer.serialize_u32(drafts),
        }
    }
}

impl KnobValue for DraftChoice {
    const EXPECTED: &'static str = "`none` or whole numbers from 1 to 16";
    fn whole(value: u64) -> Option<Self> {
        (1..=MOST).contains(&value).then_some(Self(Some(value as u32)))
    }
    fn word(value: &str) -> Option<Self> {
        (value == NONE).then_some(Self(None))
    }
}
