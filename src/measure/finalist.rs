//! Which deployments does a shortlist name, and under which load was each predicted?
//!
//! A shortlist is `{"include": [entry, …]}`, as `inferasim-tune` writes it; one entry alone (a CI job's matrix values)
//! is one too. Only what a measurement needs is looked at; every field of an entry travels on with its result.

use super::shape::Shape;
use crate::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// One deployment of a shortlist.
#[derive(Debug, Clone, PartialEq)]
pub struct Finalist {
    /// `gpt-oss-120b vllm TP4 c64`.
    pub name: String,
    /// Place in the predicted ranking, from 1.
    pub rank: u64,
    /// Name the engine serves the model under.
    pub served_model: String,
    /// Shell line that starts the engine; empty where there is none.
    pub launch: String,
    /// Clients of the closed loop the prediction stands for.
    pub concurrency: usize,
    /// Requests of the run the prediction stands for.
    pub requests: usize,
    /// Prompt and answer lengths.
    pub shape: Shape,
    /// Share of each prompt that the prediction takes from the prefix cache.
    pub prefix_hit_rate: f64,
    /// The entry as it was read.
    pub fields: Map<String, Value>,
}

impl Finalist {
    /// Checks what a measurement needs of an entry; `place` says where it was read.
    ///
    /// # Errors
    /// A field that is missing or cannot be, by name.
    pub fn from_fields(fields: Map<String, Value>, place: &str) -> Result<Self> {
        let bad = |key: &str, found: String| {
            Error::input(format!("{place}: `{key}`"), found, "Give a shortlist.json as inferasim-tune writes it")
        };
        let text = |key: &str| match fields.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
            Some(other) => Err(bad(key, format!("is {other}"))),
            None => Err(bad(key, "is missing".into())),
        };
        let number = |key: &str, range: std::ops::RangeInclusive<f64>| match fields.get(key).map(|v| (v, v.as_f64())) {
            Some((_, Some(value))) if range.contains(&value) => Ok(value),
            Some((other, _)) => Err(bad(key, format!("is {other}"))),
            None => Err(bad(key, "is missing".into())),
        };
        let (isl, osl) = (number("isl", 1.0..=4e6)?, number("osl", 1.0..=4e6)?);
        let concurrency = number("concurrency", 1.0..=1e6)? as usize;
        let or =
            |key: &str, range, default: f64| if fields.contains_key(key) { number(key, range) } else { Ok(default) };
        let ratio = or("range_ratio", f64::MIN_POSITIVE..=1.0, 1.0)?;
        Ok(Self {
            name: text("name")?,
            rank: or("rank", 1.0..=1e9, 1.0)? as u64,
            served_model: text("checkpoint").or_else(|_| text("model"))?,
            launch: fields.get("launch").and_then(Value::as_str).unwrap_or_default().to_string(),
            concurrency,
            requests: or("num_prompts", 1.0..=1e8, 10.0 * concurrency as f64)? as usize,
            shape: Shape::free(isl, osl, 0.0, 0.0, ratio)?,
            prefix_hit_rate: or("prefix_hit_rate", 0.0..=1.0, 0.0)?,
            fields,
        })
    }

    /// One of its equal instances under its share of the load: what its launch line starts. Fields of the load and the
    /// layout become the instance's, `instances` says how many there were; predictions stay the whole deployment's.
    ///
    /// # Errors
    /// Two pools: no instance of one answers alone.
    pub fn one_instance(mut self) -> Result<Self> {
        if self.fields.contains_key("prefill") {
            return Err(Error::input(
                &self.name,
                "prefill and decode run on pools of their own; its launch line starts one instance of one",
                "Start both pools and their router, name the router by --url, and leave --launch out",
            ));
        }
        let instances = self.fields.get("replicas").and_then(Value::as_u64).unwrap_or(1).max(1);
        if instances == 1 {
            return Ok(self);
        }
        self.concurrency = self.concurrency.div_ceil(instances as usize);
        self.requests = self.requests.div_ceil(instances as usize);
        for (key, value) in [
            ("replicas", 1),
            ("instances", instances),
            ("concurrency", self.concurrency as u64),
            ("num_prompts", self.requests as u64),
        ] {
            self.fields.insert(key.into(), value.into());
        }
        Ok(self)
    }

    /// Folder of its results: rank and id (else name), safe on every file system.
    pub fn folder(&self) -> String {
        let mut slug = String::new();
        for c in self.fields.get("id").and_then(Value::as_str).unwrap_or(&self.name).chars().take(80) {
            if c.is_ascii_alphanumeric() || c == '.' {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.ends_with('-') {
                slug.push('-');
            }
        }
        format!("{:02}-{}", self.rank, slug.trim_matches(['-', '.']))
    }
}

/// Reads a shortlist, or one entry of it.
///
/// # Errors
/// Unreadable, not JSON, no entry, an entry that cannot be measured, two entries of one rank and name.
pub fn read(path: &Path) -> Result<Vec<Finalist>> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::input(&shown, format!("cannot be read: {e}"), "Give a shortlist.json of inferasim-tune"))?;
    parse(&text, &shown)
}

fn parse(text: &str, shown: &str) -> Result<Vec<Finalist>> {
    let repair = "Give a shortlist.json of inferasim-tune, {\"include\": [...]}";
    let document: Value = serde_json::from_str(text)
        .map_err(|e| Error::input(format!("{shown}:{}", e.line()), format!("not JSON: {e}"), repair))?;
    let entries = match document {
        Value::Object(mut fields) => match fields.remove("include") {
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(Error::input(shown, "`include` is no list", repair)),
            None => vec![Value::Object(fields)],
        },
        _ => return Err(Error::input(shown, "no shortlist", repair)),
    };
    if entries.is_empty() {
        return Err(Error::input(shown, "no entry: nothing was feasible", "Search again with looser limits"));
    }
    let mut all = Vec::new();
    for (i, entry) in entries.into_iter().enumerate() {
        let place = format!("{shown}: entry {}", i + 1);
        let Value::Object(fields) = entry else { return Err(Error::input(place, "no object", repair)) };
        all.push(Finalist::from_fields(fields, &place)?);
    }
    let mut folders: Vec<String> = all.iter().map(Finalist::folder).collect();
    folders.sort();
    if let Some(twice) = folders.windows(2).find(|w| w[0] == w[1]) {
        return Err(Error::input(shown, format!("two entries are {}", twice[0]), "Give each its own rank and name"));
    }
    Ok(all)
}

/// The entries of these ranks; all where none is named.
///
/// # Errors
/// A rank that the shortlist does not have.
pub fn choose(all: Vec<Finalist>, ranks: &[u64]) -> Result<Vec<Finalist>> {
    if let Some(missing) = ranks.iter().find(|r| all.iter().all(|f| f.rank != **r)) {
        let known: Vec<String> = all.iter().map(|f| f.rank.to_string()).collect();
        let found = "no entry of that rank";
        return Err(Error::input(format!("--entry {missing}"), found, format!("Ranks: {}", known.join(", "))));
    }
    Ok(all.into_iter().filter(|f| ranks.is_empty() || ranks.contains(&f.rank)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"{"name": "m vllm 2xTP4 c64", "rank": 2, "model": "m", "checkpoint": "org/m", "concurrency": 64,
        "isl": 1024, "osl": 256, "range_ratio": 0.8, "num_prompts": 640, "launch": "vllm serve org/m", "new_field": 1}"#;

    #[test]
    fn a_matrix_and_one_entry_of_it_are_read_alike() {
        let alone = parse(ENTRY, "entry.json").unwrap();
        let listed = parse(&format!("{{\"include\": [{ENTRY}]}}"), "shortlist.json").unwrap();
        assert_eq!(alone, listed);
        let f = &alone[0];
        assert_eq!((f.served_model.as_str(), f.concurrency, f.requests), ("org/m", 64, 640));
        assert_eq!((f.shape.isl.tokens, f.shape.osl.tokens, f.shape.isl.range_ratio), (1024.0, 256.0, 0.8));
        assert_eq!(f.folder(), "02-m-vllm-2xtp4-c64");
        assert_eq!(f.fields["new_field"], 1);
    }

    #[test]
    fn one_instance_takes_its_share() {
        let whole =
            parse(&ENTRY.replace("\"rank\": 2", "\"rank\": 2, \"replicas\": 3, \"gpus\": 12"), "s.json").unwrap();
        let one = whole[0].clone().one_instance().unwrap();
        // 64 clients and 640 requests over three instances.
        assert_eq!((one.concurrency, one.requests), (22, 214));
        assert_eq!(
            (&one.fields["replicas"], &one.fields["instances"], &one.fields["gpus"]),
            (&1.into(), &3.into(), &12.into())
        );
        assert_eq!(one.folder(), whole[0].folder());
        let alone = parse(ENTRY, "s.json").unwrap().remove(0);
        assert_eq!(alone.clone().one_instance().unwrap(), alone);
        let pools = parse(&ENTRY.replace("\"rank\": 2", "\"rank\": 2, \"prefill\": \"1xTP8\""), "s.json").unwrap();
        assert!(pools[0].clone().one_instance().unwrap_err().to_string().contains("router"));
    }

    #[test]
    fn what_cannot_be_measured_is_named() {
        let of = |text: &str| parse(text, "s.json").unwrap_err().to_string();
        assert!(of("{").contains("s.json:1: not JSON"));
        assert!(of("[]").contains("no shortlist"));
        assert!(of("{\"include\": []}").contains("nothing was feasible"));
        assert!(of(&ENTRY.replace("\"isl\": 1024,", "")).contains("`isl`: is missing"));
        assert!(of(&ENTRY.replace("1024", "-4")).contains("`isl`: is -4"));
        assert!(of(&format!("{{\"include\": [{ENTRY}, {ENTRY}]}}")).contains("two entries"));
        let one = parse(ENTRY, "s.json").unwrap();
        assert!(choose(one.clone(), &[3]).unwrap_err().to_string().contains("Ranks: 2"));
        assert_eq!(choose(one, &[]).unwrap().len(), 1);
    }
}
