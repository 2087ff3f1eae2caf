//! Where the measured data lies, which is not part of the repository.

use std::path::{Path, PathBuf};

/// The data folder: `$INFERASIM_DATA`, else `../shared/data` beside the crate. `None`, said aloud, where there is none.
pub fn data(what: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("INFERASIM_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
    };
    let path = folder.join(what);
    if path.exists() {
        return Some(path);
    }
    println!("SKIPPED: no {what} under {} (set INFERASIM_DATA)", folder.display());
    None
}
