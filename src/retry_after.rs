//! How long does an answer's `Retry-After` ask to wait (RFC 9110, 10.2.3)?

/// Seconds to wait: a number, or a date against the answer's own `Date`; `None` where it is neither. A date in the past
/// asks for no wait.
pub fn seconds(value: &str, date: Option<&str>) -> Option<f64> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return seconds.is_finite().then_some(seconds.max(0.0));
    }
    let now = http_date(date?)?;
    Some(http_date(value)?.saturating_sub(now) as f64)
}

/// Seconds since an arbitrary but fixed day of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split_whitespace().skip(1);
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|m| *m == name)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok().filter(|y| *y < 100_000)?;
    let mut clock = parts.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if day > 31 || hour > 24 || minute > 60 || second > 60 {
        return None;
    }
    // Days of the civil calendar (Fliegel and Van Flandern 1968), counted from 1 March of year 0.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let wait = |value: &str| seconds(value, Some("Wed, 31 Dec 2025 23:59:30 GMT"));
        assert_eq!(wait("7"), Some(7.0));
        assert_eq!(wait(" 0.5 "), Some(0.5));
        assert_eq!(wait("Thu, 01 Jan 2026 00:00:15 GMT"), Some(45.0));
        assert_eq!(wait("Wed, 31 Dec 2025 23:00:00 GMT"), Some(0.0), "in the past");
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("inf"), None);
        assert_eq!(wait("Thu, 01 Jan 99999999999999999999 00:00:15 GMT"), None);
        assert_eq!(seconds("Thu, 01 Jan 2026 00:00:15 GMT", None), None);
    }
}
