//! Where a number came from; carried from the YAML file to the report.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Read off a run on the hardware.
    Measured,
    /// The vendor's own statement.
    Vendor,
    /// Computed from other figures.
    Derived,
    /// Nobody measured it; a plausible value.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Measured => "measured",
            Origin::Vendor => "vendor",
            Origin::Derived => "derived",
            Origin::Assumed => "assumed",
        })
    }
}

/// A figure with its origin, as written in a target file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The figure.
    pub value: T,
    /// How it is known.
    pub origin: Origin,
    /// The document or record it was read from, with its date where one is known.
    pub source: String,
}
