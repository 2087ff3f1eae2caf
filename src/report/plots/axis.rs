//! Where on the canvas does a value lie, and which values get a tick? Linear or logarithmic, chosen by the data.

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis over `values` from pixel `from` to pixel `to`: logarithmic where the largest is at least 20 times the
    /// smallest, else linear from zero where zero is near. Values must be finite; `None` without any.
    pub fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (min, max) = values.filter(|v| v.is_finite()).fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        if min > max {
            return None;
        }
        if min > 0.0 && max >= 20.0 * min {
            return Some(Self { low: min / 1.15, high: max * 1.25, logarithmic: true, from, to });
        }
        let span = (max - min).max(max.abs() * 0.05).max(1e-9);
        let low = if min >= 0.0 && min < span { 0.0 } else { min - 0.08 * span };
        Some(Self { low, high: max + 0.12 * span, logarithmic: false, from, to })
    }

    /// A logarithmic axis from `low` to `high`, both above 0.
    pub fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high, logarithmic: true, from, to }
    }

    /// The pixel of a value; `None` where it lies outside.
    pub fn pixel(&self, value: f64) -> Option<f64> {
        if !(value >= self.low && value <= self.high) {
            return None;
        }
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.from + share * (self.to - self.from))
    }

    /// Distances grow by factors.
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Round values along the axis, between four and twelve of them.
    pub fn ticks(&self) -> Vec<f64> {
        if self.logarithmic { self.log_ticks() } else { self.linear_ticks() }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let marks: &[f64] = if decades > 3.0 {
            &[1.0]
        } else if decades > 1.6 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
        };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|decade| marks.iter().map(move |m| m * 10f64.powi(decade)));
        all.filter(|v| *v >= self.low && *v <= self.high).collect()
    }
}

/// A tick's label: no more digits than it needs.
pub fn label(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return super::super::text::grouped(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_is_logarithmic_and_a_narrow_one_is_not() {
        let log = Axis::over([1.0, 100.0].into_iter(), 0.0, 100.0).expect("values");
        assert!(log.is_logarithmic());
        // The geometric mean of two values lies in the middle between them.
        let pixel = |v| log.pixel(v).expect("inside");
        assert!((pixel(10.0) - (pixel(1.0) + pixel(100.0)) / 2.0).abs() < 1e-9);
        let linear = Axis::over([50.0, 100.0].into_iter(), 0.0, 100.0).expect("values");
        assert!(!linear.is_logarithmic());
        assert!(linear.pixel(1e9).is_none() && linear.pixel(f64::NAN).is_none());
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (low, high) in [(0.0, 1.0), (50.0, 100.0), (3.0, 7000.0), (12.0, 300.0), (0.02, 0.5), (7.0, 7.0)] {
            let axis = Axis::over([low, high].into_iter(), 0.0, 1.0).expect("values");
            let ticks = axis.ticks();
            assert!((3..=12).contains(&ticks.len()), "{low}..{high}: {ticks:?}");
            assert!(ticks.iter().all(|t| axis.pixel(*t).is_some()), "{low}..{high}: {ticks:?}");
        }
        assert_eq!(label(2000.0), "2,000");
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(20.0), "20");
    }

    #[test]
    fn no_values_no_axis() {
        assert!(Axis::over([f64::NAN].into_iter(), 0.0, 1.0).is_none());
    }
}
