//! Mean and percentiles of measured times.

/// Percentile by linear interpolation between closest ranks: rank `p/100·(n − 1)` of the sorted values; `None` without
/// values.
pub fn percentile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let rank = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let (low, share) = (rank.floor() as usize, rank.fract());
    let high = (low + 1).min(last);
    Some(sorted[low] + share * (sorted[high] - sorted[low]))
}

/// Arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// Median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_between_ranks() {
        // By hand: ranks 0, 1, 2, 3 of 10, 20, 30, 40; p50 is rank 1.5, p99 rank 2.97.
        let values = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(percentile(&values, 0.0), Some(10.0));
        assert_eq!(percentile(&values, 50.0), Some(25.0));
        assert!((percentile(&values, 99.0).unwrap() - 39.7).abs() < 1e-9);
        assert_eq!(percentile(&values, 100.0), Some(40.0));
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(mean(&[1.0, 2.0]), Some(1.5));
    }
}
