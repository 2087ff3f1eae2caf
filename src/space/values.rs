//! The values a knob may take, as a file spells them: a list, `{ pow2: [1, 8] }`, `{ range: [8, 64], step: 8 }`, one
//! value, or a word such as `auto`.

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// Most values one knob may list.
pub const MOST_VALUES: usize = 100_000;

/// Explicit values, or a word whose meaning the knob defines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Values<T> {
    /// In the order of the file, each once.
    List(Vec<T>),
    /// `auto`, `fill` …
    Word(String),
}

impl<T> Values<T> {
    /// The values, where they are spelt out.
    pub fn list(&self) -> Option<&[T]> {
        match self {
            Values::List(values) => Some(values),
            Values::Word(_) => None,
        }
    }
}

/// What a knob's values are made of.
pub trait KnobValue: Sized + PartialEq + fmt::Display {
    /// What a reader should write, for messages.
    const EXPECTED: &'static str;
    /// From a whole number.
    fn whole(value: u64) -> Option<Self>;
    /// From a decimal number.
    fn decimal(_value: f64) -> Option<Self> {
        None
    }
    /// From a word; `None` leaves the word to the knob.
    fn word(_value: &str) -> Option<Self> {
        None
    }
}

impl KnobValue for u32 {
    const EXPECTED: &'static str =
        "whole numbers from 1 to 10,000,000, `{ pow2: [1, 8] }`, `{ range: [8, 64], step: 8 }` or a word";
    fn whole(value: u64) -> Option<Self> {
        (1..=10_000_000).contains(&value).then_some(value as u32)
    }
}

impl KnobValue for f64 {
    const EXPECTED: &'static str = "shares above 0 and up to 1, or a word";
    fn whole(value: u64) -> Option<Self> {
        (value == 1).then_some(1.0)
    }
    fn decimal(value: f64) -> Option<Self> {
        (value > 0.0 && value <= 1.0).then_some(value)
    }
}

impl KnobValue for String {
    const EXPECTED: &'static str = "names";
    fn whole(_value: u64) -> Option<Self> {
        None
    }
    fn word(value: &str) -> Option<Self> {
        Some(value.to_string())
    }
}

impl KnobValue for crate::model::KvFormat {
    const EXPECTED: &'static str = "`bf16`, `fp8` or `auto`";
    fn whole(_value: u64) -> Option<Self> {
        None
    }
    fn word(value: &str) -> Option<Self> {
        match value {
            "bf16" => Some(crate::model::KvFormat::Bf16),
            "fp8" => Some(crate::model::KvFormat::Fp8),
            _ => None,
        }
    }
}

impl<'de, T: KnobValue> Deserialize<'de> for Values<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValuesVisitor(PhantomData))
    }
}

struct ValuesVisitor<T>(PhantomData<T>);

/// One scalar of a list.
struct Scalar<T>(T);

impl<'de, T: KnobValue> Deserialize<'de> for Scalar<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ScalarVisitor(PhantomData))? {
            Values::List(mut one) if one.len() == 1 => Ok(Scalar(one.remove(0))),
            Values::Word(word) => Err(de::Error::custom(format!("`{word}` in a list, expected {}", T::EXPECTED))),
            Values::List(_) => Err(de::Error::custom(format!("expected {}", T::EXPECTED))),
        }
    }
}

struct ScalarVisitor<T>(PhantomData<T>);

fn refused<T: KnobValue, E: de::Error>(value: impl fmt::Display) -> E {
    E::custom(format!("{value} is out of place, expected {}", T::EXPECTED))
}

impl<T: KnobValue> Visitor<'_> for ScalarVisitor<T> {
    type Value = Values<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::whole(value).map(|v| Values::List(vec![v])).ok_or_else(|| refused::<T, E>(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        u64::try_from(value)
            .ok()
            .and_then(T::whole)
            .map(|v| Values::List(vec![v]))
            .ok_or_else(|| refused::<T, E>(value))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::decimal(value).map(|v| Values::List(vec![v])).ok_or_else(|| refused::<T, E>(value))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(T::word(value).map_or_else(|| Values::Word(value.to_string()), |v| Values::List(vec![v])))
    }
}

impl<'de, T: KnobValue> Visitor<'de> for ValuesVisitor<T> {
    type Value = Values<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        ScalarVisitor(PhantomData).visit_u64(value)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        ScalarVisitor(PhantomData).visit_i64(value)
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        ScalarVisitor(PhantomData).visit_f64(value)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        // At the top of a knob a word that is no value (`auto`, `fill`) is left to the knob.
        match value {
            "auto" | "fill" => Ok(Values::Word(value.to_string())),
            _ => ScalarVisitor(PhantomData).visit_str(value),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values: Vec<T> = Vec::new();
        while let Some(Scalar(value)) = seq.next_element::<Scalar<T>>()? {
            if values.len() >= MOST_VALUES {
                return Err(de::Error::custom(format!("more than {MOST_VALUES} values")));
            }
            if values.len() < 4096 && values.contains(&value) {
                return Err(de::Error::custom(format!("{value} is listed twice")));
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(de::Error::custom("an empty list leaves nothing to search, give at least one value"));
        }
        Ok(Values::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let form = Form::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let whole: Vec<u64> = form.expand().map_err(de::Error::custom)?;
        let mut values = Vec::with_capacity(whole.len());
        for value in whole {
            values.push(T::whole(value).ok_or_else(|| refused::<T, A::Error>(value))?);
        }
        Ok(Values::List(values))
    }
}

/// The two short spellings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    /// Powers of two from the first to the last.
    pow2: Option<[u64; 2]>,
    /// From the first to the last, both included.
    range: Option<[u64; 2]>,
    /// Step of `range`; 1 where it is not given.
    step: Option<u64>,
}

impl Form {
    fn expand(&self) -> Result<Vec<u64>, String> {
        match (self.pow2, self.range, self.step) {
            (Some([low, high]), None, None) => {
                if low == 0 || low > high || !low.is_power_of_two() || !high.is_power_of_two() {
                    return Err(format!("pow2 [{low}, {high}] needs two powers of two, the smaller first"));
                }
                Ok((low.trailing_zeros()..=high.trailing_zeros()).map(|e| 1 << e).collect())
            }
            (None, Some([low, high]), step) => {
                let step = step.unwrap_or(1);
                if step == 0 || low > high {
                    return Err(format!(
                        "range [{low}, {high}] with step {step} holds nothing, give the smaller first"
                    ));
                }
                if (high - low) / step >= MOST_VALUES as u64 {
                    return Err(format!("range [{low}, {high}] with step {step} has more than {MOST_VALUES} values"));
                }
                Ok((low..=high).step_by(step as usize).collect())
            }
            _ => Err("give either pow2, or range with an optional step".to_string()),
        }
    }
}
