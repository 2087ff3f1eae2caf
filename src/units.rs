//! Quantities with their unit in the type. GiB, ms and µs appear only where a number is printed or read.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl Add for $name { type Output = Self; fn add(self, o: Self) -> Self { Self(self.0 + o.0) } }
        impl Sub for $name { type Output = Self; fn sub(self, o: Self) -> Self { Self(self.0 - o.0) } }
        impl AddAssign for $name { fn add_assign(&mut self, o: Self) { self.0 += o.0 } }
        impl Mul<f64> for $name { type Output = Self; fn mul(self, k: f64) -> Self { Self(self.0 * k) } }
        impl Div<f64> for $name { type Output = Self; fn div(self, k: f64) -> Self { Self(self.0 / k) } }
        impl Div for $name { type Output = f64; fn div(self, o: Self) -> f64 { self.0 / o.0 } }
        impl Sum for $name { fn sum<I: Iterator<Item = Self>>(i: I) -> Self { Self(i.map(|q| q.0).sum()) } }
    };
}

quantity!(
    /// Bytes (not GiB, not GB).
    Bytes
);
quantity!(
    /// Floating-point operations; a multiply-add counts two.
    Flops
);
quantity!(
    /// Seconds.
    Seconds
);

/// Bytes in one GiB.
pub const GIB: f64 = 1_073_741_824.0;

impl Bytes {
    /// From GiB.
    pub fn gib(gib: f64) -> Self {
        Self(gib * GIB)
    }
    /// In GiB.
    pub fn as_gib(self) -> f64 {
        self.0 / GIB
    }
}

impl Seconds {
    /// From milliseconds.
    pub fn ms(ms: f64) -> Self {
        Self(ms / 1e3)
    }
    /// In milliseconds.
    pub fn as_ms(self) -> f64 {
        self.0 * 1e3
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GiB", self.as_gib())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0.abs();
        if s >= 1.0 {
            write!(f, "{:.2} s", self.0)
        } else if s >= 1e-3 {
            write!(f, "{:.2} ms", self.0 * 1e3)
        } else {
            write!(f, "{:.2} µs", self.0 * 1e6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_a_unit_a_reader_expects() {
        assert_eq!(Bytes::gib(1.5).to_string(), "1.50 GiB");
        assert_eq!(Seconds::ms(12.345).to_string(), "12.35 ms");
        assert_eq!(Seconds(2e-6).to_string(), "2.00 µs");
        assert_eq!(Seconds(3.0).to_string(), "3.00 s");
    }
}
