//! How is a number, a layout or a stranger's string written? Shared by every rendering.

use crate::config::Deployment;

/// Three significant digits at least, thousands apart, no exponent: `12,345`, `87.4`, `0.312`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_string();
    }
    let size = value.abs();
    match size {
        s if s >= 99.95 || s == 0.0 => grouped(value),
        s if s >= 9.995 => format!("{value:.1}"),
        s if s >= 0.9995 => format!("{value:.2}"),
        s if s >= 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("-{text}") } else { text }
}

/// A count with its thousands apart.
pub fn count(value: u64) -> String {
    // f64 holds counts up to 2^53 exactly; no space is that large.
    grouped(value as f64)
}

/// US dollars with enough digits to tell two answers apart.
pub fn dollars(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_string(), |v| format!("${v:.3}"))
}

/// The parallel layout in short: `4 × TP2 EP2`, `TP8 DPA8`, `TP4 PP2`.
pub fn layout(d: &Deployment) -> String {
    let mut text = if d.replicas > 1 { format!("{} × TP{}", d.replicas, d.tp) } else { format!("TP{}", d.tp) };
    for (name, width) in [("EP", d.ep), ("DPA", d.attention_dp), ("DCP", d.context_parallel), ("PP", d.pp)] {
        if width > 1 {
            text.push_str(&format!(" {name}{width}"));
        }
    }
    if let Some(pool) = d.prefill {
        text.push_str(&format!(" + {} × TP{} prefill", pool.instances, pool.tp));
    }
    text
}

/// What a share of a total is in percent, `12.3 %`.
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "-".to_string() }
}

/// Safe inside HTML text and double-quoted attributes.
pub fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters other than line ends are not allowed in XML and mean nothing here.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A string as part of a file name: letters, digits, dots and hyphens, at most 60 characters.
pub fn file_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(60) {
        let keep = c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if keep {
            name.push(c.to_ascii_lowercase());
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_matches(|c| c == '-' || c == '.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let shown: Vec<_> =
            [0.0, 0.01234, 0.3119, 1.0, 9.999, 87.44, 99.96, 1234.5, 1e6, -1500.0, f64::NAN].map(number).to_vec();
        let expected = ["0", "0.0123", "0.312", "1.00", "10.0", "87.4", "100", "1,234", "1,000,000", "-1,500", "n/a"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn strangers_strings_are_harmless() {
        assert_eq!(html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_name("openai/gpt-oss 120b"), "openai-gpt-oss-120b");
    }
}
