//! What had been looked at when a search was stopped? One JSON object a line, appended as soon as an evaluation is
//! known, so that a killed process loses the evaluations in flight and no more.
//!
//! The first line says what was searched; a last line without its end was being written and is dropped.

use super::driver::Witness;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Layout version of the file.
const SCHEMA: u32 = 1;

/// Its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Layout version of the file.
    pub schema: u32,
    /// Version of InferaSim that wrote it.
    pub version: String,
    /// Number that stands for everything the figures depend on; equal numbers mean equal searches.
    pub inputs: String,
    /// The command line, program name first.
    pub arguments: Vec<String>,
    /// Start of the run, UTC.
    pub started: String,
}

impl Header {
    /// Of a search that starts now.
    pub fn new(inputs: String, arguments: Vec<String>, started: String) -> Self {
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION").to_string(), inputs, arguments, started }
    }
}

#[derive(Serialize)]
struct Line<'a, F> {
    point: u64,
    figures: &'a F,
}

#[derive(Deserialize)]
struct Place {
    point: u64,
}

#[derive(Deserialize)]
struct Entry<F> {
    figures: F,
}

/// A journal that is being written.
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

/// A journal that was read.
#[derive(Debug)]
pub struct Recorded<F> {
    /// Its first line.
    pub header: Header,
    /// Points with their figures, in the order written.
    pub entries: Vec<(u64, F)>,
}

impl Journal {
    /// A new file.
    ///
    /// # Errors
    /// It exists, or cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(|e| unwritable(path, &e))?;
        let journal = Self { path: path.to_path_buf(), file: Mutex::new(file) };
        journal.write(header)?;
        Ok(journal)
    }

    /// Reads a file and opens it for more; a torn last line is cut off.
    ///
    /// # Errors
    /// No such file, not a journal, another layout, a line in the middle that is none.
    pub fn resume<F: DeserializeOwned>(path: &Path) -> Result<(Self, Recorded<F>)> {
        let (recorded, good) = read(path)?;
        let file = OpenOptions::new().append(true).open(path).map_err(|e| unwritable(path, &e))?;
        file.set_len(good).map_err(|e| unwritable(path, &e))?;
        Ok((Self { path: path.to_path_buf(), file: Mutex::new(file) }, recorded))
    }

    fn write(&self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(value).map_err(|e| unwritable(&self.path, &e))?;
        text.push(b'\n');
        // A thread that panicked while it held the file wrote whole lines or one torn one; the next reader copes.
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(&text).map_err(|e| unwritable(&self.path, &e))
    }
}

impl<F: Serialize + Sync> Witness<F> for Journal {
    fn saw(&self, point: u64, figures: &F) -> Result<()> {
        self.write(&Line { point, figures })
    }
}

/// The journal, and the length of its good part in bytes.
fn read<F: DeserializeOwned>(path: &Path) -> Result<(Recorded<F>, u64)> {
    let shown = || format!("journal {}", path.display());
    let bytes = std::fs::read(path).map_err(|e| {
        Error::input(shown(), e.to_string(), "Give the folder of a run whose search was not exhaustive")
    })?;
    let good = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut header: Option<Header> = None;
    let mut entries = Vec::new();
    for (number, line) in bytes[..good].split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.is_empty()) {
        let broken = |e: serde_json::Error| {
            Error::input(format!("{}:{}", path.display(), number + 1), e.to_string(), "Remove the line or the run")
        };
        if header.is_none() {
            let first: Header = serde_json::from_slice(line).map_err(broken)?;
            if first.schema != SCHEMA {
                let found = format!("layout {} where {SCHEMA} is known", first.schema);
                return Err(Error::input(shown(), found, "Resume it with the version that wrote it"));
            }
            header = Some(first);
            continue;
        }
        let place: Place = serde_json::from_slice(line).map_err(broken)?;
        // Figures that JSON cannot hold (an infinite latency) are worked out again.
        if let Ok(entry) = serde_json::from_slice::<Entry<F>>(line) {
            entries.push((place.point, entry.figures));
        }
    }
    let header = header.ok_or_else(|| Error::input(shown(), "has no first line", "Start the run anew"))?;
    Ok((Recorded { header, entries }, good as u64))
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let tried = format!("journal {}", path.display());
    Error::input(tried, format!("cannot be written: {error}"), "Check free space and permissions, or use `--no-report`")
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): a number that stands for a text.
pub fn fingerprint(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header::new(fingerprint("a"), vec!["inferasim-tune".into()], "2026-01-01T00:00:00Z".into())
    }

    #[test]
    fn fingerprints_are_those_of_the_published_function() {
        // draft-eastlake-fnv, appendix C: FNV-1a of "" and of "a".
        assert_eq!(fingerprint(""), "cbf29ce484222325");
        assert_eq!(fingerprint("a"), "af63dc4c8601ec8c");
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path, &header()).unwrap();
        for point in [5, 2, 9] {
            journal.saw(point, &(point as f64 / 3.0)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..20 {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let (journal, recorded) = Journal::resume::<f64>(&path).unwrap();
            assert_eq!(recorded.entries, [(5, 5.0 / 3.0), (2, 2.0 / 3.0)], "cut {cut}");
            journal.saw(9, &3.0).unwrap();
            drop(journal);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Journal::resume::<f64>(&path).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused("").contains("no first line"));
        assert!(refused("{\"schema\":1").contains("no first line"));
        assert!(refused("nonsense\n").contains("journal.jsonl:1"));
        let first = serde_json::to_string(&header()).unwrap();
        assert!(refused(&format!("{}\n", first.replace("\"schema\":1", "\"schema\":7"))).contains("layout 7"));
        assert!(
            refused(&format!("{first}\n{{\"point\":1,\"figures\":2}}\n{{\"po\n{{}}\n")).contains("journal.jsonl:3")
        );
        assert!(Journal::resume::<f64>(folder.path()).is_err());
    }
}
