//! Turns what a run found into things people read. Computes nothing: it renders a [`RunRecord`].

pub mod fidelity;
#[cfg(test)]
mod fixture;
pub mod folder;
pub mod html;
pub mod open_loop;
pub mod plots;
pub mod points;
pub mod projection;
pub mod record;
pub mod roofline;
pub mod shortlist;
pub mod summary;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod text;
pub mod time;
pub mod verification;

pub use folder::ReportFolder;
pub use record::RunRecord;
