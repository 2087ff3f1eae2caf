//! Runs every trial of a recipe and leaves its folder: trials, the matrix, the recipe.

use super::matrix::Matrix;
use super::recipe::Recipe;
use super::trial::{self, Launcher};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// What a triage left.
pub struct Triage {
    /// The matrix.
    pub matrix: Matrix,
    /// The folder with `matrix.md`, `matrix.json`, `recipe.resolved.yaml` and `cells/`.
    pub folder: PathBuf,
}

/// Runs the trials in order; `said` hears of each as it ends.
///
/// # Errors
/// A folder or file that cannot be written. A trial that fails is no error.
pub fn run(recipe: &Recipe, launcher: &Launcher, out: &Path, said: impl Fn(&trial::Trial)) -> Result<Triage> {
    let folder = fresh(&out.join(recipe.ticket.as_deref().unwrap_or("no-ticket")))?;
    let failed = |path: &Path, e: std::io::Error| {
        Error::input(path.display().to_string(), format!("cannot be written: {e}"), "Choose another --out")
    };
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| failed(&path, e))
    };
    let text =
        serde_yaml::to_string(&recipe.document).map_err(|e| Error::input("recipe.resolved.yaml", e.to_string(), ""))?;
    write("recipe.resolved.yaml", text)?;
    let mut trials = Vec::new();
    for cell in &recipe.cells {
        let below = Path::new("cells").join(&cell.name);
        let mut of_cell = Vec::new();
        for number in 0..cell.trials {
            let trial = launcher.run(cell, number);
            said(&trial);
            trial::write(&trial, &folder.join(&below), number).map_err(|e| failed(&folder.join(&below), e))?;
            of_cell.push((trial, below.join(format!("trial_{number}.json")).display().to_string()));
        }
        trials.push(of_cell);
    }
    let matrix = Matrix::of(recipe, &trials);
    let json = serde_json::to_string_pretty(&matrix).map_err(|e| Error::input("matrix.json", e.to_string(), ""))?;
    write("matrix.json", json + "\n")?;
    write("matrix.md", matrix.markdown())?;
    Ok(Triage { matrix, folder })
}

/// `run-001`, `run-002` …: the first that does not exist yet.
fn fresh(parent: &Path) -> Result<PathBuf> {
    let failed = |e: std::io::Error| {
        Error::input(parent.display().to_string(), format!("cannot be written: {e}"), "Choose another --out")
    };
    std::fs::create_dir_all(parent).map_err(failed)?;
    let mut number = 1;
    loop {
        let folder = parent.join(format!("run-{number:03}"));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(failed(e)),
        }
    }
}
