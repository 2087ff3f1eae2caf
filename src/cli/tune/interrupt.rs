//! Ctrl-C: the first ends the search and writes what is known, the second ends the process.

use crate::error::exit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Listens to Ctrl-C (and to a request to terminate) from now on; the flag says whether it came.
pub fn flag() -> &'static AtomicBool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where no handler can be set, Ctrl-C keeps its usual meaning.
        let _ = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(exit::INPUT.into());
            }
            eprintln!("Stopping: what is known will be written. Again to end at once.");
        });
    });
    &INTERRUPTED
}
