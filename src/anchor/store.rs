//! A folder of measured artifacts, one JSON file each.

use super::artifact::Artifact;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Environment variable that names the store.
pub const VARIABLE: &str = "INFERASIM_ANCHORS";

/// A folder of artifacts.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All artifacts, by name.
    ///
    /// # Errors
    /// No such folder; a file that is not an artifact, with what is wrong in it.
    pub fn read(&self) -> Result<Vec<Artifact>> {
        let shown = self.folder.display().to_string();
        let entries = std::fs::read_dir(&self.folder).map_err(|e| {
            Error::input(
                &shown,
                format!("no anchor store: {e}"),
                format!("Fill one with `inferasim anchor import`, or name another by --anchors or ${VARIABLE}"),
            )
        })?;
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| Error::input(&shown, format!("cannot be listed: {e}"), ""))?.path();
            if path.extension().is_some_and(|e| e == "json") && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| read_file(path)).collect()
    }

    /// One artifact by its name.
    ///
    /// # Errors
    /// None of that name; the nearest one is offered.
    pub fn find(&self, id: &str) -> Result<Artifact> {
        let all = self.read()?;
        if let Some(found) = all.iter().find(|a| a.id == id) {
            return Ok(found.clone());
        }
        let nearest =
            all.iter().max_by(|a, b| strsim::jaro_winkler(&a.id, id).total_cmp(&strsim::jaro_winkler(&b.id, id)));
        let repair = nearest.map_or("The store is empty".to_string(), |n| format!("Did you mean {}?", n.id));
        Err(Error::input(format!("anchor {id}"), format!("not in {}", self.folder.display()), repair))
    }

    /// Writes artifacts; all or none. An existing one of the same name is an error unless `replace`.
    ///
    /// # Errors
    /// A name twice, a name taken, a folder that cannot be written.
    pub fn add(&self, artifacts: &[Artifact], replace: bool) -> Result<()> {
        let shown = self.folder.display().to_string();
        let mut names: Vec<&str> = artifacts.iter().map(|a| a.id.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::input(
                &shown,
                format!("{} would be written twice", twice[0]),
                "Give each run its own id",
            ));
        }
        for artifact in artifacts {
            artifact.check(&format!("anchor {}", artifact.id))?;
            if !replace && self.path(artifact).exists() {
                return Err(Error::input(
                    &shown,
                    format!("{} is there already", artifact.id),
                    "Use --replace, or another --id",
                ));
            }
        }
        let failed =
            |e: std::io::Error| Error::input(&shown, format!("cannot be written: {e}"), "Check permissions and space");
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        let mut staged = Vec::new();
        for artifact in artifacts {
            let hidden = self.folder.join(format!(".{}.{}.part", artifact.id, std::process::id()));
            let text = serde_json::to_string_pretty(artifact)
                .map_err(|e| Error::input(&shown, format!("cannot be written: {e}"), ""))?;
            if let Err(e) = std::fs::write(&hidden, text + "\n") {
                staged.iter().for_each(|(from, _): &(PathBuf, PathBuf)| drop(std::fs::remove_file(from)));
                return Err(failed(e));
            }
            staged.push((hidden, self.path(artifact)));
        }
        staged.into_iter().try_for_each(|(from, to)| std::fs::rename(from, to)).map_err(failed)
    }

    fn path(&self, artifact: &Artifact) -> PathBuf {
        self.folder.join(format!("{}.json", artifact.id))
    }
}

/// Reads and checks one artifact file.
///
/// # Errors
/// Unreadable, not JSON, a missing or unknown field, a value that cannot be.
pub fn read_file(path: &Path) -> Result<Artifact> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Error::input(&shown, format!("cannot be read: {e}"), ""))?;
    let artifact: Artifact = serde_json::from_str(&text).map_err(|e| {
        Error::input(format!("{shown}:{}", e.line()), format!("not an anchor: {e}"), "docs/anchors.md shows the layout")
    })?;
    artifact.check(&shown)?;
    Ok(artifact)
}
