//! JSON as models write it: between prose, in code fences, with comments, trailing commas, single quotes, bare words,
//! or cut off in the middle. What can be read is read.

use serde_json::{Map, Number, Value};

/// Deepest nesting that is read.
const DEPTH: usize = 48;
/// Longest text that is looked at, bytes; a plan is far shorter.
const LONGEST: usize = 256 * 1024;

/// A value found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The value, completed where the text ends inside it.
    pub value: Value,
    /// The text ends inside it.
    pub cut_off: bool,
}

/// Every object and array of a text that lies in no other, in order. What a model thinks aloud (`<think>…</think>`) is
/// left out.
pub fn find(text: &str) -> Vec<Found> {
    let text = spoken(text);
    let chars: Vec<char> = text.chars().take(LONGEST).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if !matches!(chars[at], '{' | '[') {
            at += 1;
            continue;
        }
        let mut reader = Reader { chars: &chars, at, cut_off: false };
        match reader.value(0) {
            Some(value) => {
                found.push(Found { value, cut_off: reader.cut_off });
                at = reader.at.max(at + 1);
            }
            None => at += 1,
        }
    }
    found
}

/// A text without what was thought aloud.
fn spoken(text: &str) -> &str {
    match text.rsplit_once("</think>") {
        Some((_, spoken)) => spoken,
        None => text.split_once("<think>").map_or(text, |(before, _)| before),
    }
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    cut_off: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Past blanks and comments.
    fn skip(&mut self) {
        while let Some(c) = self.peek() {
            let next = self.chars.get(self.at + 1).copied();
            match (c, next) {
                (c, _) if c.is_whitespace() => self.at += 1,
                ('/', Some('/')) | ('#', _) => self.until('\n'),
                ('/', Some('*')) => {
                    self.at += 2;
                    while self.at < self.chars.len() && !self.chars[self.at..].starts_with(&['*', '/']) {
                        self.at += 1;
                    }
                    self.at = (self.at + 2).min(self.chars.len());
                }
                _ => return,
            }
        }
    }

    fn until(&mut self, end: char) {
        while self.peek().is_some_and(|c| c != end) {
            self.at += 1;
        }
    }

    /// The next value; `None` where none can be read.
    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.skip();
        match self.peek()? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            quote @ ('"' | '\'' | '“') => Some(Value::String(self.string(quote))),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            self.skip();
            match self.peek() {
                None => return self.ended(Value::Object(map)),
                Some('}') => {
                    self.at += 1;
                    return Some(Value::Object(map));
                }
                Some(',') => self.at += 1,
                Some(quote @ ('"' | '\'' | '“')) => {
                    let key = self.string(quote);
                    self.member(key, &mut map, depth)?;
                }
                Some(c) if c.is_alphanumeric() || c == '_' => {
                    let key = self.bare();
                    self.member(key, &mut map, depth)?;
                }
                Some(_) => return None,
            }
        }
    }

    fn member(&mut self, key: String, map: &mut Map<String, Value>, depth: usize) -> Option<()> {
        self.skip();
        match self.peek() {
            None => self.cut_off = true,
            Some(':' | '=') => {
                self.at += 1;
                self.skip();
                match self.peek() {
                    None => self.cut_off = true,
                    Some(_) => {
                        let value = self.value(depth + 1)?;
                        // A number or word that ends with the text may have lost its end.
                        if !(self.peek().is_none() && is_open(&value)) {
                            map.insert(key, value);
                        } else {
                            self.cut_off = true;
                        }
                    }
                }
            }
            Some(_) => return None,
        }
        Some(())
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip();
            match self.peek() {
                None => return self.ended(Value::Array(items)),
                Some(']') => {
                    self.at += 1;
                    return Some(Value::Array(items));
                }
                Some(',') => self.at += 1,
                Some(_) => items.push(self.value(depth + 1)?),
            }
        }
    }

    fn ended(&mut self, value: Value) -> Option<Value> {
        self.cut_off = true;
        Some(value)
    }

    fn string(&mut self, quote: char) -> String {
        let end = if quote == '“' { '”' } else { quote };
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                c if c == end => return text,
                '\\' => {
                    let escaped = self.peek().unwrap_or('\\');
                    self.at += 1;
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' | 'b' | 'f' => {}
                        'u' => text.extend(self.code_point()),
                        other => text.push(other),
                    }
                }
                c => text.push(c),
            }
        }
        self.cut_off = true;
        text
    }

    fn code_point(&mut self) -> Option<char> {
        let digits: String = self.chars.get(self.at..self.at + 4)?.iter().collect();
        let code = u32::from_str_radix(&digits, 16).ok()?;
        self.at += 4;
        char::from_u32(code)
    }

    fn bare(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || "_-+.%".contains(c)) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn word(&mut self) -> Option<Value> {
        let word = self.bare();
        match word.as_str() {
            "" => None,
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            "null" | "None" | "NaN" | "undefined" => Some(Value::Null),
            _ => Some(number(&word).map_or(Value::String(word), Value::Number)),
        }
    }
}

fn number(word: &str) -> Option<Number> {
    word.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(word.parse().ok()?))
}

fn is_open(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::Bool(_) | Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn only(text: &str) -> Value {
        let mut found = find(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found.remove(0).value
    }

    #[test]
    fn prose_and_fences_are_passed_over() {
        assert_eq!(only("Sure! Here you go:\n```json\n{\"tp\": 4}\n```\nGood luck."), json!({"tp": 4}));
        assert_eq!(only("I think [1, 2] fits"), json!([1, 2]));
        assert_eq!(find("no json at all"), []);
        assert_eq!(find(""), []);
    }

    #[test]
    fn habits_of_models_are_read() {
        assert_eq!(only("{'tp': 4, \"ep\": 2,}"), json!({"tp": 4, "ep": 2}));
        assert_eq!(
            only("{tp: 4, kv: fp8, on: True, off: None} # done"),
            json!({"tp": 4, "kv": "fp8", "on": true, "off": null})
        );
        assert_eq!(only("{\"a\": 1 /* why */, // because\n \"b\": 2}"), json!({"a": 1, "b": 2}));
        assert_eq!(only("<think>{\"tp\": 9}</think>{\"tp\": 1}"), json!({"tp": 1}));
        assert_eq!(find("<think>{\"tp\": 9}"), []);
    }

    #[test]
    fn what_is_cut_off_is_completed_without_its_torn_end() {
        let found = find("{\"candidates\": [{\"tp\": 4, \"concurrency\": 12");
        assert_eq!(found, [Found { value: json!({"candidates": [{"tp": 4}]}), cut_off: true }]);
        assert!(find("{\"why\": \"becau")[0].cut_off);
        assert!(!find("{\"a\": 1}")[0].cut_off);
    }

    #[test]
    fn deep_nesting_is_refused_in_time() {
        assert_eq!(find(&"[".repeat(100_000)).iter().filter(|f| !f.cut_off).count(), 0);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]{}:,\"'\\\\a-z0-9 \n/*#“”\u{0}\u{fffd}]{0,200}") {
            find(&text);
        }

        #[test]
        fn proper_json_is_read_as_it_is(map in proptest::collection::btree_map("[a-z]{1,6}", -1000i64..1000, 1..6)) {
            let value = json!({ "x": map });
            prop_assert_eq!(only(&value.to_string()), value);
        }
    }
}
