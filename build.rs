//! Rebuilds the crate when an embedded YAML file changes.

fn main() {
    for folder in ["targets", "spaces", "objectives"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
