//! Numbers the points of a product of lists: mixed radix, the last dimension counting fastest.

use crate::{Error, Result};

/// More points than this are refused: at 200,000 evaluations a CPU-second they take hours.
pub const MOST_POINTS: u64 = 2_000_000_000;

/// Sizes of the dimensions, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Radix<const N: usize> {
    sizes: [u64; N],
}

impl<const N: usize> Radix<N> {
    /// From the sizes of the dimensions.
    ///
    /// # Errors
    /// An empty dimension, or more than [`MOST_POINTS`] points.
    pub fn new(sizes: [usize; N]) -> Result<Self> {
        let mut points: u64 = 1;
        for size in sizes {
            points = points.saturating_mul(size as u64);
        }
        if points == 0 {
            return Err(Error::input("the space", "holds no point", "Give every knob at least one value"));
        }
        if points > MOST_POINTS {
            let found = format!("holds more than {MOST_POINTS} points");
            return Err(Error::input("the space", found, "Give some knob fewer values"));
        }
        Ok(Self { sizes: sizes.map(|s| s as u64) })
    }

    /// Number of points.
    pub fn len(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// Never: a space without points cannot be built.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The digits of a point's number.
    pub fn digits(&self, index: u64) -> [usize; N] {
        let mut rest = index;
        let mut digits = [0; N];
        for at in (0..N).rev() {
            digits[at] = (rest % self.sizes[at]) as usize;
            rest /= self.sizes[at];
        }
        digits
    }

    /// The number of a point.
    pub fn index(&self, digits: [usize; N]) -> u64 {
        digits.iter().zip(self.sizes).fold(0, |index, (digit, size)| index * size + *digit as u64)
    }

    /// Points that share the digits of the first `outer` dimensions.
    pub fn inner_len(&self, outer: usize) -> u64 {
        self.sizes[outer..].iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_dimension_counts_fastest() {
        let radix = Radix::new([2, 3, 4]).unwrap();
        assert_eq!(radix.len(), 24);
        assert_eq!(radix.digits(0), [0, 0, 0]);
        assert_eq!(radix.digits(1), [0, 0, 1]);
        assert_eq!(radix.digits(4), [0, 1, 0]);
        assert_eq!(radix.digits(23), [1, 2, 3]);
        assert_eq!(radix.inner_len(1), 12);
    }

    #[test]
    fn refuses_nothing_and_too_much() {
        assert!(Radix::new([2, 0]).is_err());
        assert!(Radix::new([usize::MAX, 2]).is_err());
    }

    proptest! {
        #[test]
        fn digits_and_index_are_inverse(sizes in proptest::array::uniform4(1usize..9), at in 0u64..10_000) {
            let radix = Radix::new(sizes).unwrap();
            let index = at % radix.len();
            prop_assert_eq!(radix.index(radix.digits(index)), index);
        }
    }
}
