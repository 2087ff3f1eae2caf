//! Turns what a run found into things people read. Computes nothing: it renders a [`RunRecord`].

pub mod record;
pub mod time;

pub use record::RunRecord;
