//! Discrete-event simulation of serving: the engine's own scheduler on a virtual clock.

pub mod check_trace;
