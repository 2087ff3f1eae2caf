//! Turns what a run found into things people read. Computes nothing: it renders a [`RunRecord`].

pub mod plots;
pub mod record;
pub mod text;
pub mod time;

pub use record::RunRecord;
