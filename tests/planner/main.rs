//! The planner: what its hints are worth, and what it makes of answers good and bad.

mod command;
mod hints;
mod rounds;
mod server;
mod world;
