//! Where measurements and projections meet: measured points, calibration, fidelity, anchors.

pub mod artifact;
pub mod case;
pub mod comparison;
pub mod confidence;
pub mod cross_validation;
pub mod fidelity;
pub mod fit;
pub mod harvest;
pub mod import;
pub mod measured;
pub mod open_loop;
pub mod pools;
pub mod profile;
pub mod regime;
pub mod residual_fit;
pub mod roofline;
pub mod score;
pub mod set;
pub mod shares;
pub mod store;
pub mod transport;
pub mod trial;
