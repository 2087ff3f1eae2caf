//! Typed access to a JSON object: every number is checked, every key that was read is remembered.

use crate::{Error, Result};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Larger figures than any shape of a real model.
const LARGEST: u64 = 1 << 30;

/// One JSON object of a `config.json`, with its place for messages.
pub(super) struct Fields<'a> {
    /// The file.
    pub origin: &'a str,
    /// Path of the object inside the file, with a trailing dot; empty at the top.
    pub prefix: String,
    map: &'a Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    pub fn new(origin: &'a str, prefix: &str, map: &'a Map<String, Value>) -> Self {
        Self { origin, prefix: prefix.to_string(), map, read: RefCell::default() }
    }

    /// The value of a key; `null` counts as absent.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(key.to_string());
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// A nested object.
    pub fn object(&self, key: &str) -> Option<Fields<'a>> {
        let map = self.value(key)?.as_object()?;
        Some(Fields::new(self.origin, &format!("{}{key}.", self.prefix), map))
    }

    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    pub fn list(&self, key: &str) -> Option<&'a Vec<Value>> {
        self.value(key)?.as_array()
    }

    /// A true or false; 0 and 1 are accepted.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.value(key) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(v) => match v.as_u64() {
                Some(n @ 0..=1) => Ok(n == 1),
                _ => Err(self.bad(key, &format!("is {}, not true or false", brief(v)))),
            },
        }
    }

    /// A count or a size, if the key is there. A list of equal numbers counts as that number.
    pub fn number(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let value = match value.as_array().map(Vec::as_slice) {
            Some([first, rest @ ..]) if rest.iter().all(|v| v == first) => first,
            _ => value,
        };
        let whole = value.as_u64().or_else(|| {
            let f = value.as_f64()?;
            (f >= 0.0 && f.fract() == 0.0 && f <= LARGEST as f64).then_some(f as u64)
        });
        match whole {
            Some(n) if n <= LARGEST => Ok(Some(n as u32)),
            Some(n) => Err(self.bad(key, &format!("is {n}, larger than any model's"))),
            None => Err(self.bad(key, &format!("is {}, not a whole number from 0 up", brief(value)))),
        }
    }

    /// The first of several spellings that is there.
    pub fn first(&self, keys: &[&str]) -> Result<Option<u32>> {
        for key in keys {
            if let Some(n) = self.number(key)? {
                return Ok(Some(n));
            }
        }
        Ok(None)
    }

    /// A figure that must be there and above 0.
    pub fn need(&self, keys: &[&str]) -> Result<u32> {
        for key in keys {
            match self.number(key)? {
                Some(0) => return Err(self.bad(key, "is 0; it must be at least 1")),
                Some(n) => return Ok(n),
                None => {}
            }
        }
        let names: Vec<_> = keys.iter().map(|k| format!("`{}{k}`", self.prefix)).collect();
        Err(Error::input(
            self.origin,
            format!("{} is missing", names.join(" or ")),
            "Give the whole config.json of a decoder-only language model.",
        ))
    }

    /// A figure above 0 where the key is there; 0 counts as absent.
    pub fn above_zero(&self, keys: &[&str]) -> Result<Option<u32>> {
        Ok(self.first(keys)?.filter(|n| *n > 0))
    }

    /// A list of one number a layer.
    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<u32>>> {
        let Some(list) = self.list(key) else { return Ok(None) };
        self.long_enough(key, list, layers)?;
        let wrong = || self.bad(key, "holds something other than whole numbers from 0 up");
        let read = |v: &Value| match v {
            Value::Bool(b) => Some(u32::from(*b)),
            _ => v.as_u64().filter(|n| *n <= LARGEST).map(|n| n as u32),
        };
        list.iter().take(layers).map(read).collect::<Option<_>>().map(Some).ok_or_else(wrong)
    }

    /// A list of one word a layer.
    pub fn words_per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<&'a str>>> {
        let Some(list) = self.list(key) else { return Ok(None) };
        self.long_enough(key, list, layers)?;
        let wrong = || self.bad(key, "holds something other than words");
        list.iter().take(layers).map(Value::as_str).collect::<Option<_>>().map(Some).ok_or_else(wrong)
    }

    fn long_enough(&self, key: &str, list: &[Value], layers: usize) -> Result<()> {
        if list.len() < layers {
            return Err(self.bad(key, &format!("has {} entries for {layers} layers", list.len())));
        }
        Ok(())
    }

    /// An error about one key.
    pub fn bad(&self, key: &str, found: &str) -> Error {
        Error::input(self.origin, format!("`{}{key}` {found}", self.prefix), "")
    }

    /// Keys nobody asked for, with their values.
    pub fn unread(&self) -> Vec<(&'a String, &'a Value)> {
        let read = self.read.borrow();
        self.map.iter().filter(|(k, _)| !read.contains(*k)).collect()
    }
}

/// A value short enough for one line.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { format!("{}…", text.chars().take(40).collect::<String>()) }
}
