//! Percentiles: exact ones of samples, and ones within 0.1 % of durations too many to keep.

use super::clock::Time;

/// Linear interpolation between the two nearest ranks of sorted samples, rank = p/100 · (n − 1); 0 without samples.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let rank = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let low = rank.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (rank - low as f64)
}

/// Bits of the mantissa that tell bins apart: a bin is 1/1024 of its value wide.
const MANTISSA_BITS: u32 = 10;

/// Counts of durations in logarithmic bins.
#[derive(Debug, Clone, Default)]
pub struct DurationHistogram {
    bins: Vec<u64>,
    count: u64,
    sum_ps: u128,
}

impl DurationHistogram {
    /// Adds a duration `times` times.
    pub fn add(&mut self, duration: Time, times: u64) {
        let bin = bin_of(duration.0);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += times;
        self.count += times;
        self.sum_ps += u128::from(duration.0) * u128::from(times);
    }

    /// Durations added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact mean, s.
    pub fn mean_s(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ps as f64 / self.count as f64 / 1e12 }
    }

    /// Nearest-rank percentile, s: the middle of its bin.
    pub fn percentile_s(&self, p: f64) -> f64 {
        let rank = ((p / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return (start_of(bin) as f64 + start_of(bin + 1) as f64) / 2.0 / 1e12;
            }
        }
        0.0
    }
}

fn bin_of(ps: u64) -> usize {
    if ps < 1 << MANTISSA_BITS {
        return ps as usize;
    }
    let exponent = 63 - ps.leading_zeros() - MANTISSA_BITS;
    ((exponent as usize) << MANTISSA_BITS) + (ps >> exponent) as usize
}

fn start_of(bin: usize) -> u64 {
    let exponent = (bin >> MANTISSA_BITS).saturating_sub(1);
    ((bin - (exponent << MANTISSA_BITS)) as u64) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_between_ranks() {
        // numpy.percentile([1, 2, 3, 4], [0, 50, 90, 100]) = 1, 2.5, 3.7, 4
        let samples = [1.0, 2.0, 3.0, 4.0];
        for (p, wanted) in [(0.0, 1.0), (50.0, 2.5), (90.0, 3.7), (100.0, 4.0)] {
            assert!((percentile(&samples, p) - wanted).abs() < 1e-12);
        }
    }

    #[test]
    fn bins_are_within_a_thousandth() {
        let mut histogram = DurationHistogram::default();
        for ms in 1..=1000u32 {
            histogram.add(Time::from_seconds(f64::from(ms) * 1e-3), 1);
        }
        assert!((histogram.mean_s() - 0.5005).abs() < 1e-12);
        assert!((histogram.percentile_s(99.0) / 0.990 - 1.0).abs() < 1e-3);
        for ps in [0, 1, 1023, 1024, 1025, 123_456_789, u64::MAX / 3] {
            let bin = bin_of(ps);
            assert!(start_of(bin) <= ps && ps < start_of(bin + 1), "{ps}");
        }
    }
}
