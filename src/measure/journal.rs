//! What has a campaign done so far? One line a step, appended and synced, so that a campaign that was killed goes on.
//!
//! A line is written before the next step begins. A last line that was cut by a kill is dropped when the journal is
//! opened again; a damaged line anywhere else is an error.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Layout of the journal.
pub const SCHEMA: &str = "inferasim.campaign/1";

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// What the campaign measures; the first line.
    Campaign {
        /// [`SCHEMA`].
        schema: String,
        /// Folders of all points, in order.
        points: Vec<String>,
        /// Digest of the entries and of what is asked of them.
        digest: String,
    },
    /// An engine was started; its processes share this group.
    Engine {
        /// Folder of the finalist.
        finalist: String,
        /// Process group.
        process_group: u32,
    },
    /// The engine was stopped.
    Stopped {
        /// Folder of the finalist.
        finalist: String,
    },
    /// A point begins.
    Started {
        /// Its folder.
        point: String,
    },
    /// A point is whole and on disk.
    Measured {
        /// Its folder.
        point: String,
    },
    /// A point, or all points of a finalist, could not be measured.
    Failed {
        /// Its folder.
        point: String,
        /// Why.
        why: String,
    },
    /// The user stopped the campaign.
    Interrupted,
}

#[derive(Serialize, Deserialize)]
struct Line {
    unix_s: u64,
    #[serde(flatten)]
    step: Step,
}

/// The journal of a campaign, open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Every step so far.
    pub steps: Vec<Step>,
}

impl Journal {
    /// Opens the journal of these points, or begins it.
    ///
    /// # Errors
    /// Unreadable, damaged before its last line, of other points or settings.
    pub fn open(path: &Path, points: &[String], digest: &str) -> Result<Self> {
        let shown = path.display().to_string();
        let wrong = |e: std::io::Error| Error::input(&shown, e.to_string(), "Name a folder that can be written");
        let text = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => vec![],
            Err(e) => return Err(wrong(e)),
        };
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        let steps = parse(&text[..whole], &shown)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(wrong)?;
        if whole < text.len() {
            file.set_len(whole as u64).map_err(wrong)?;
        }
        match steps.first() {
            None => {}
            Some(Step::Campaign { schema, points: before, digest: asked }) => {
                let differs = match () {
                    () if schema != SCHEMA => "of another version",
                    () if before != points => "over other points",
                    () if asked != digest => "of other deployments or settings",
                    () => "",
                };
                if !differs.is_empty() {
                    let found = format!("holds a campaign {differs}");
                    return Err(Error::input(shown, found, "Name another --out, or add --overwrite"));
                }
            }
            Some(_) => return Err(Error::input(shown, "does not begin with a campaign", "Name another --out")),
        }
        file.flush().map_err(wrong)?;
        let mut journal = Self { file, path: path.to_path_buf(), steps };
        if journal.steps.is_empty() {
            let (points, digest) = (points.to_vec(), digest.to_string());
            journal.add(Step::Campaign { schema: SCHEMA.into(), points, digest })?;
        }
        Ok(journal)
    }

    /// Appends a step; on disk when it returns.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn add(&mut self, step: Step) -> Result<()> {
        let wrong = |e: String| {
            let repair = "The campaign was stopped; run it again to go on";
            Error::input(self.path.display().to_string(), e, repair)
        };
        let unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut line = serde_json::to_vec(&Line { unix_s, step: step.clone() }).map_err(|e| wrong(e.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(|e| wrong(e.to_string()))?;
        self.steps.push(step);
        Ok(())
    }

    /// Points that are whole.
    pub fn measured(&self) -> BTreeSet<String> {
        let point = |step: &'_ Step| match step {
            Step::Measured { point } => Some(point.clone()),
            _ => None,
        };
        self.steps.iter().filter_map(point).collect()
    }

    /// How often a point was begun.
    pub fn tries(&self, folder: &str) -> usize {
        self.steps.iter().filter(|s| matches!(s, Step::Started { point } if point == folder)).count()
    }

    /// The process group of an engine that was started and never stopped.
    pub fn engine_left(&self) -> Option<u32> {
        self.steps.iter().fold(None, |left, step| match step {
            Step::Engine { process_group, .. } => Some(*process_group),
            Step::Stopped { .. } => None,
            _ => left,
        })
    }
}

fn parse(bytes: &[u8], shown: &str) -> Result<Vec<Step>> {
    let lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_slice::<Line>(line).map(|l| l.step).map_err(|e| {
                let repair = "Remove the line, or name another --out";
                Error::input(format!("{shown}:{}", i + 1), format!("a damaged line: {e}"), repair)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<String> {
        vec!["01-a/c1".into(), "01-a/c2".into()]
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path, &points(), "d").unwrap();
        journal.add(Step::Engine { finalist: "01-a".into(), process_group: 7 }).unwrap();
        journal.add(Step::Measured { point: "01-a/c1".into() }).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let mut torn = whole.clone();
        torn.extend_from_slice(b"{\"unix_s\":1,\"step\":\"meas");
        std::fs::write(&path, &torn).unwrap();
        let again = Journal::open(&path, &points(), "d").unwrap();
        assert_eq!(again.measured().into_iter().collect::<Vec<_>>(), ["01-a/c1"]);
        assert_eq!(again.engine_left(), Some(7));
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn another_campaign_and_a_damaged_line_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        Journal::open(&path, &points(), "d").unwrap();
        assert!(Journal::open(&path, &points()[..1], "d").unwrap_err().to_string().contains("other points"));
        assert!(Journal::open(&path, &points(), "e").unwrap_err().to_string().contains("other deployments"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{]\n{text}")).unwrap();
        assert!(
            Journal::open(&path, &points(), "d").unwrap_err().to_string().contains("journal.jsonl:2: a damaged line")
        );
    }
}
