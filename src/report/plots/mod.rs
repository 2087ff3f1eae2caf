//! The plots of a report, one file per chart; each draws on a [`Canvas`] and so comes out as SVG and as PNG.
//!
//! Only `plotters`' drawing back ends are used; fonts are embedded, so no system library or font is needed.

pub mod axis;
pub mod breakdown;
pub mod canvas;
pub mod curves;
pub mod fronts;
pub mod labels;
pub mod load_curve;
pub mod parity;
pub mod raster_text;
pub mod scatter;

pub use canvas::{Canvas, Chart, png, svg};
