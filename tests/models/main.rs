//! Models: presets and imported files agree with what their publishers state, and bad files end in one clear error.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod families;
mod mutation;
mod names;
mod published;
mod quantisation;
