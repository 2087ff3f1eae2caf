//! Reads a YAML document into a struct; an error names the file, the line and the nearest known key.

use crate::catalog::{Document, nearest};
use crate::{Error, Result};
use serde::de::DeserializeOwned;

/// Parses a document. Unknown keys are errors wherever the struct denies them.
pub fn parse<T: DeserializeOwned>(document: &Document) -> Result<T> {
    if document.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Error::input(&document.origin, "is empty", "Write at least its required keys"));
    }
    serde_yaml::from_str(&document.text).map_err(|e| explain(document, &e))
}

/// Checks a number of a document against the range that makes sense for it.
///
/// `key` is the dotted path, `meaning` says the unit. NaN and infinities lie outside every range.
pub fn in_range(document: &Document, key: &str, value: f64, range: (f64, f64), meaning: &str) -> Result<()> {
    let (low, high) = range;
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::input(
        place(document, key),
        format!("`{key}` is {}", number(value)),
        format!("Give {meaning} between {} and {}", number(low), number(high)),
    ))
}

/// `file:line` of a dotted key, or the file alone where the key is not on a line of its own.
pub fn place(document: &Document, key: &str) -> String {
    let mut lines = document.text.lines().enumerate();
    let mut found = None;
    for segment in key.split('.') {
        let hit = lines.find(|(_, line)| {
            let line = line.trim_start().trim_start_matches("- ");
            line.strip_prefix(segment).is_some_and(|rest| rest.trim_start().starts_with(':'))
        });
        match hit {
            Some((at, _)) => found = Some(at + 1),
            None => break,
        }
    }
    match found {
        Some(line) => format!("{}:{line}", document.origin),
        None => document.origin.clone(),
    }
}

/// A number as a person writes it: no digits after the point where there are none, powers for the absurd.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size.is_finite() && !(1e-4..1e12).contains(&size) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}

fn explain(document: &Document, error: &serde_yaml::Error) -> Error {
    let message = error.to_string();
    let place = match error.location() {
        Some(at) => format!("{}:{}:{}", document.origin, at.line(), at.column()),
        None => document.origin.clone(),
    };
    // serde's texts end in ` at line L column C`, which `place` already says.
    let found = message.split(" at line ").next().unwrap_or(&message).to_string();
    let repair = unknown_key(&found).unwrap_or_default();
    Error::input(place, found, repair)
}

/// From serde's "unknown field `x`, expected one of `a`, `b`": the nearest of them.
fn unknown_key(message: &str) -> Option<String> {
    let (head, tail) = message.split_once(", expected")?;
    let (_, head) = head.rsplit_once("unknown ")?;
    let word = head.split('`').nth(1)?;
    let known: Vec<&str> = tail.split('`').skip(1).step_by(2).collect();
    nearest(word, &known).map(|k| format!("Did you mean `{k}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{self, Kind};
    use crate::target::Target;
    use proptest::prelude::*;

    fn document(text: &str) -> Document {
        Document { origin: "mine.yaml".into(), text: text.into() }
    }

    fn refusal(text: &str) -> String {
        let error = parse::<Target>(&document(text)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    fn mi355x() -> String {
        catalog::built_in(Kind::Target, "mi355x").unwrap().text
    }

    #[test]
    fn each_defect_has_its_own_message() {
        assert_eq!(refusal(""), "mine.yaml: is empty. Write at least its required keys");
        assert_eq!(refusal("# only\n\n# comments\n"), "mine.yaml: is empty. Write at least its required keys");
        let at = |text: &str, parts: &[&str]| {
            let found = refusal(text);
            for part in parts {
                assert!(found.contains(part), "{part:?} not in {found:?}");
            }
        };
        at(&mi355x().replace("topology: mesh", "topology: mash"), &["mine.yaml:", "unknown variant `mash`", "`mesh`?"]);
        at(&mi355x().replace("  gpus: 8", "  gpus: eight"), &["mine.yaml:13", "invalid type: string", "u32"]);
        at(&mi355x().replace("  gpus: 8", "  gpus: 8\n  gpus: 9"), &["mine.yaml:1", "duplicate field `gpus`"]);
        at(&mi355x().replace("  gpus: 8\n", ""), &["mine.yaml:1", "missing field `gpus`"]);
        at(
            &mi355x().replace("price:", "prize:"),
            &["mine.yaml:19:1", "unknown field `prize`", "Did you mean `price`?"],
        );
        at(&mi355x()[..900], &["mine.yaml:"]);
        at("- a\n- b\n", &["invalid type: sequence"]);
        at("just words", &["invalid type: string"]);
        at(&(mi355x() + "---\n" + &mi355x()), &["more than one document"]);
        at("name: [[[", &["mine.yaml:"]);
    }

    #[test]
    fn an_alias_bomb_is_refused_in_no_time() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..20 {
            let inside = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![inside; 9].join(", "));
        }
        let started = std::time::Instant::now();
        let error = parse::<serde_yaml::Value>(&document(&bomb)).unwrap_err().to_string();
        assert!(error.contains("repetition limit exceeded"), "{error}");
        assert!(started.elapsed().as_secs() < 5);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let error = parse::<serde_yaml::Value>(&document(&"[".repeat(100_000))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn lines_of_keys_are_found() {
        let text = document("a: 1\nb:\n  a: 2\n  c: { d: 3 }\n");
        assert_eq!(place(&text, "b.a"), "mine.yaml:3");
        assert_eq!(place(&text, "b.c.d"), "mine.yaml:4");
        assert_eq!(place(&text, "x.y"), "mine.yaml");
    }

    proptest! {
        #[test]
        fn a_mutated_target_is_read_or_refused(at in 0usize..2500, cut in 0usize..60, junk in "\\PC{0,16}") {
            let chars: Vec<char> = mi355x().chars().collect();
            let at = at.min(chars.len());
            let end = (at + cut).min(chars.len());
            let text = chars[..at].iter().collect::<String>() + &junk + &chars[end..].iter().collect::<String>();
            let _ = Target::from_document(&document(&text));
        }
    }
}
