//! What time is it, in the two spellings a report needs? UTC, proleptic Gregorian, no time-zone data.

use std::time::{SystemTime, UNIX_EPOCH};

/// The present, `2026-03-01T12:30:00Z`.
pub fn utc_now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    utc(seconds)
}

/// Seconds since 1970-01-01T00:00:00Z as `YYYY-MM-DDThh:mm:ssZ`.
///
/// Civil date from a day count after H. Hinnant, "chrono-compatible low-level date algorithms" (`civil_from_days`).
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// `2026-03-01T12:30:00Z` as `20260301-123000`, fit for a file name; other characters are dropped.
pub fn compact(utc: &str) -> String {
    utc.chars().filter_map(|c| if c == 'T' { Some('-') } else { c.is_ascii_digit().then_some(c) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_gnu_date() {
        // date -u -d @0, @951782400, @1709210096, @1767225599
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_210_096), "2024-02-29T12:34:56Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(compact("2024-02-29T12:34:56Z"), "20240229-123456");
    }
}
