//! Which points lose to no other in two figures at once? Pure geometry.

/// A point of the plane with what it stands for; both coordinates are better high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<T> {
    /// First figure.
    pub x: f64,
    /// Second figure.
    pub y: f64,
    /// What the point stands for; between points that agree in both figures the smallest is kept.
    pub item: T,
}

/// The points that no other beats: none is at least as good in both figures and better in one.
///
/// Sorted by rising `x`. Of points that agree in both figures one is kept, that with the smallest item. Points with
/// a coordinate that is not a number are left out. Cost O(n log n): sort by falling x, keep what raises y.
pub fn front<T: Ord + Copy>(mut points: Vec<Placed<T>>) -> Vec<Placed<T>> {
    points.retain(|p| !p.x.is_nan() && !p.y.is_nan());
    points.sort_by(|a, b| b.x.total_cmp(&a.x).then(b.y.total_cmp(&a.y)).then(a.item.cmp(&b.item)));
    let mut best = f64::NEG_INFINITY;
    points.retain(|p| {
        let kept = p.y > best;
        best = best.max(p.y);
        kept
    });
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items(points: &[(f64, f64)]) -> Vec<usize> {
        let placed = points.iter().enumerate().map(|(item, &(x, y))| Placed { x, y, item }).collect();
        front(placed).into_iter().map(|p| p.item).collect()
    }

    #[test]
    fn skyline_of_the_hotel_problem() {
        // Börzsönyi, Kossmann, Stocker, "The Skyline Operator", ICDE 2001: cheap and near the beach; figures negated,
        // since there low is good. Hotels (price, distance): a 50/2.0, b 60/1.5, c 80/1.0, d 90/1.2, e 70/2.2, f 40/3.0.
        let hotels = [(-50.0, -2.0), (-60.0, -1.5), (-80.0, -1.0), (-90.0, -1.2), (-70.0, -2.2), (-40.0, -3.0)];
        assert_eq!(items(&hotels), [2, 1, 0, 5]);
    }

    #[test]
    fn ties_keep_one_point() {
        assert_eq!(items(&[(1.0, 1.0), (1.0, 1.0)]), [0], "equal in both: the smallest item");
        assert_eq!(items(&[(1.0, 1.0), (1.0, 2.0)]), [1], "equal x: the higher y");
        assert_eq!(items(&[(1.0, 2.0), (2.0, 2.0)]), [1], "equal y: the higher x");
        assert_eq!(items(&[(f64::NAN, 9.0), (1.0, 1.0)]), [1]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(points in proptest::collection::vec((0u8..12, 0u8..12), 0..40)) {
            let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (f64::from(x), f64::from(y))).collect();
            let beats = |a: (f64, f64), b: (f64, f64)| a.0 >= b.0 && a.1 >= b.1 && a != b;
            let mut expected: Vec<(f64, f64)> = points.iter().copied().filter(|p| !points.iter().any(|q| beats(*q, *p))).collect();
            expected.sort_by(|a, b| a.0.total_cmp(&b.0));
            expected.dedup();
            let found: Vec<(f64, f64)> = items(&points).into_iter().map(|i| points[i]).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
