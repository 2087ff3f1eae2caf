//! The files of a run, each there whole or not at all; only the growing JSONL is written as it happens.

use super::record::RequestRecord;
use crate::{Error, Result};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Names of the files under `--out`.
pub const SUMMARY: &str = "summary.json";
/// One record a line, in each point's folder.
pub const REQUESTS: &str = "requests.jsonl";
/// AIPerf's own summary layout, in each point's folder.
pub const AIPERF: &str = "profile_export_aiperf.json";

/// Prepares `--out` before anything is sent: it can be written, and holds no earlier result.
pub fn prepare(out: &Path, overwrite: bool) -> Result<()> {
    let tried = || format!("--out {}", out.display());
    if out.join(SUMMARY).exists() && !overwrite {
        return Err(Error::input(tried(), "holds an earlier result", "Name another folder, or add --overwrite"));
    }
    let wrong = |e: std::io::Error| Error::input(tried(), e.to_string(), "Name a folder that can be written");
    std::fs::create_dir_all(out).map_err(wrong)?;
    let probe = out.join(".writable");
    std::fs::write(&probe, b"").map_err(wrong)?;
    std::fs::remove_file(&probe).map_err(wrong)?;
    match std::fs::remove_file(out.join(SUMMARY)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(wrong(e)),
        _ => Ok(()),
    }
}

/// Writes a file through a neighbour and a rename.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let wrong = |e: std::io::Error| Error::input(path.display().to_string(), e.to_string(), "Nothing was written");
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside).and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()));
    if let Err(e) = written {
        let _ = std::fs::remove_file(&beside);
        return Err(wrong(e));
    }
    std::fs::rename(&beside, path).map_err(wrong)
}

/// Writes a document as indented JSON.
pub fn write_json(path: &Path, document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Error::input(path.display().to_string(), e.to_string(), ""))?;
    write_whole(path, (text + "\n").as_bytes())
}

/// The records of a point, appended as requests end, so that an interrupted run keeps what it measured.
pub struct RecordFile {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
    /// Bytes of whole lines.
    whole: u64,
}

impl RecordFile {
    /// Creates the file.
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|e| Error::input(path.display().to_string(), e.to_string(), ""))?;
        Ok(Self { file, path, line: vec![], whole: 0 })
    }

    /// Appends one record in one write. Where the disk takes only a part of it, that part is cut off again.
    pub fn append(&mut self, record: &RequestRecord) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record)
            .map_err(|e| Error::input(self.path.display().to_string(), e.to_string(), ""))?;
        self.line.push(b'\n');
        if let Err(e) = self.file.write_all(&self.line) {
            let _ = self.file.set_len(self.whole);
            let repair = "The run was stopped; every line in the file is whole";
            return Err(Error::input(self.path.display().to_string(), e.to_string(), repair));
        }
        self.whole += self.line.len() as u64;
        Ok(())
    }
}
