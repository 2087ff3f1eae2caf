//! Where measurements and projections meet: measured points, calibration, fidelity.

pub mod case;
pub mod cross_validation;
pub mod fidelity;
pub mod fit;
pub mod measured;
pub mod score;
