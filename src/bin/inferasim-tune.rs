//! Search a space of deployments and recommend one.

fn main() {}
