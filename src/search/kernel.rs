//! How alike are two places? Matérn 5/2 of their scaled distance, for egobox's Gaussian processes: its own product of one
//! factor a coordinate takes a step for every pair of coordinates, this one a step for each.

use egobox_gp::correlation_models::CorrelationModel;
use ndarray::{Array2, ArrayBase, Data, Ix1, Ix2};
use std::fmt;

/// `(1 + √5 r + 5/3 r²) e^(-√5 r)` with `r² = Σ (θ d)²`; coordinates are used as they are (no PLS weights).
#[derive(Debug, Clone, Copy, Default)]
pub struct Matern52;

impl fmt::Display for Matern52 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matern52 of the scaled distance")
    }
}

/// √5 times the scaled length of a difference.
fn length<'a>(difference: impl Iterator<Item = &'a f64>, theta: &[f64]) -> f64 {
    let squares = difference.zip(theta).map(|(d, t)| (d * t) * (d * t));
    (5.0 * squares.sum::<f64>()).sqrt()
}

impl CorrelationModel<f64> for Matern52 {
    fn rval_from_distances(
        &self,
        distances: &ArrayBase<impl Data<Elem = f64>, Ix2>,
        theta: &ArrayBase<impl Data<Elem = f64>, Ix1>,
        _weights: &ArrayBase<impl Data<Elem = f64>, Ix2>,
    ) -> Array2<f64> {
        let theta = theta.to_vec();
        let alike = |s: f64| (1.0 + s + s * s / 3.0) * (-s).exp();
        let values = match distances.as_slice() {
            Some(all) if !theta.is_empty() => {
                all.chunks_exact(theta.len()).map(|d| alike(length(d.iter(), &theta))).collect()
            }
            _ => distances.rows().into_iter().map(|d| alike(length(d.iter(), &theta))).collect::<Vec<f64>>(),
        };
        Array2::from_shape_fn((distances.nrows(), 1), |(row, _)| values[row])
    }

    fn jac(
        &self,
        x: &ArrayBase<impl Data<Elem = f64>, Ix1>,
        xtrain: &ArrayBase<impl Data<Elem = f64>, Ix2>,
        theta: &ArrayBase<impl Data<Elem = f64>, Ix1>,
        weights: &ArrayBase<impl Data<Elem = f64>, Ix2>,
    ) -> Array2<f64> {
        self.rval_with_jac(x, xtrain, theta, weights).1
    }

    fn rval_with_jac(
        &self,
        x: &ArrayBase<impl Data<Elem = f64>, Ix1>,
        xtrain: &ArrayBase<impl Data<Elem = f64>, Ix2>,
        theta: &ArrayBase<impl Data<Elem = f64>, Ix1>,
        weights: &ArrayBase<impl Data<Elem = f64>, Ix2>,
    ) -> (Array2<f64>, Array2<f64>) {
        let differences = Array2::from_shape_fn(xtrain.dim(), |(row, at)| x[at] - xtrain[[row, at]]);
        let scales = theta.to_vec();
        let slope = |row: usize| {
            let s = length(differences.row(row).iter(), &scales);
            -5.0 / 3.0 * (1.0 + s) * (-s).exp()
        };
        let slopes: Vec<f64> = (0..differences.nrows()).map(slope).collect();
        let at = |(row, at): (usize, usize)| slopes[row] * scales[at] * scales[at] * differences[[row, at]];
        let jacobian = Array2::from_shape_fn(differences.dim(), at);
        (self.rval_from_distances(&differences, theta, weights), jacobian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn values_and_slopes_are_those_of_the_formula() {
        let (theta, none) = (array![0.7, 1.3], Array2::eye(2));
        let of = |d: [f64; 2]| Matern52.rval_from_distances(&array![d], &theta, &none)[[0, 0]];
        let r = (0.49f64 * 0.25 + 1.69 * 0.04).sqrt();
        let s = 5f64.sqrt() * r;
        assert!((of([0.5, -0.2]) - (1.0 + s + 5.0 / 3.0 * r * r) * (-s).exp()).abs() < 1e-12);
        let slope = Matern52.jac(&array![0.5, -0.2], &array![[0.0, 0.0]], &theta, &none);
        let step = 1e-6;
        assert!((slope[[0, 0]] - (of([0.5 + step, -0.2]) - of([0.5 - step, -0.2])) / (2.0 * step)).abs() < 1e-8);
        assert!((slope[[0, 1]] - (of([0.5, -0.2 + step]) - of([0.5, -0.2 - step])) / (2.0 * step)).abs() < 1e-8);
    }
}
