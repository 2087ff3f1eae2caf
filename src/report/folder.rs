//! The folder `reports/<run>/`: checked before the search, written beside its place, moved there when complete.

use super::html::{Beside, page};
use super::plots::{Chart, breakdown, fronts, png, svg};
use super::points::PointsWriter;
use super::record::RunRecord;
use super::shortlist::shortlist;
use super::{text, time};
use crate::config::Deployment;
use crate::serve::Evaluation;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A report in the making. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct ReportFolder {
    root: PathBuf,
    created_root: bool,
    name: String,
    draft: PathBuf,
    /// The report's place, where it was claimed before the search.
    claimed: Option<PathBuf>,
    points: Option<PointsWriter>,
    finished: bool,
}

/// The folder's name: date and time, target, model; safe on every file system.
pub fn run_name(started: &str, target: &str, model: &str) -> String {
    format!("{}-{}-{}", time::compact(started), text::file_name(target), text::file_name(model))
}

impl ReportFolder {
    /// Makes sure that a report can be written under `root` (created where missing) before time is spent on a search.
    ///
    /// Fails with an input error that names the folder where it cannot be written.
    pub fn prepare(root: &Path, name: &str) -> Result<Self> {
        let unwritable = |error: std::io::Error| {
            Error::input(
                format!("report folder {}", root.display()),
                format!("cannot be written: {error}"),
                "Choose another folder, or use `--no-report`",
            )
        };
        let created_root = !root.exists();
        fs::create_dir_all(root).map_err(unwritable)?;
        let draft = root.join(format!(".{name}.{}.partial", std::process::id()));
        fs::create_dir(&draft).map_err(unwritable)?;
        let mut folder = Self {
            root: root.to_path_buf(),
            created_root,
            name: name.to_string(),
            draft,
            claimed: None,
            points: None,
            finished: false,
        };
        folder.points = Some(PointsWriter::create(&folder.draft.join("points.csv"))?);
        Ok(folder)
    }

    /// Takes the report's place at once, for what a search keeps beside its report while it runs. What lies there stays
    /// when the report is not finished.
    ///
    /// # Errors
    /// A thousand reports of that name.
    pub fn claim(&mut self) -> Result<PathBuf> {
        let place = self.free_place()?;
        self.claimed = Some(place.clone());
        Ok(place)
    }

    /// The report's place, where it was taken already.
    pub fn claimed(&self) -> Option<&Path> {
        self.claimed.as_deref()
    }

    /// As [`ReportFolder::prepare`], into the folder of an earlier run.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn prepare_in(place: &Path) -> Result<Self> {
        let mut folder = Self::prepare(place, "report")?;
        folder.claimed = Some(place.to_path_buf());
        Ok(folder)
    }

    /// Adds one feasible point to `points.csv`; best first, since the file is bounded (see [`super::points`]).
    pub fn push_point(&mut self, deployment: &Deployment, evaluation: &Evaluation) -> Result<()> {
        match &mut self.points {
            Some(points) => points.push(deployment, evaluation),
            None => Ok(()),
        }
    }

    /// Renders everything and moves the folder to its place, which is returned; a taken name gets a number.
    pub fn finish(mut self, record: &RunRecord) -> Result<PathBuf> {
        let (points_written, points_left_out) = match self.points.take() {
            Some(points) => points.finish()?,
            None => (0, 0),
        };
        self.write("report.html", &page(record, Beside { points_written, points_left_out })?)?;
        self.write_chart("pareto", &fronts::pareto(record))?;
        if let Some(chart) = fronts::cost(record) {
            self.write_chart("cost", &chart)?;
        }
        self.write_chart("breakdown", &breakdown::breakdown(record))?;
        self.write_json("run.json", record)?;
        self.write_json("shortlist.json", &shortlist(record))?;
        let place = self.publish()?;
        self.finished = true;
        Ok(place)
    }

    fn publish(&self) -> Result<PathBuf> {
        let moving = |error: std::io::Error| self.failed("moving the report to its place", &error);
        if let Some(place) = &self.claimed {
            for file in fs::read_dir(&self.draft).map_err(moving)? {
                let file = file.map_err(moving)?;
                fs::rename(file.path(), place.join(file.file_name())).map_err(moving)?;
            }
            fs::remove_dir(&self.draft).map_err(moving)?;
            return Ok(place.clone());
        }
        let place = self.free_place()?;
        // Renaming onto an empty folder is atomic.
        match fs::rename(&self.draft, &place) {
            Ok(()) => Ok(place),
            Err(error) => {
                let _ = fs::remove_dir(&place);
                Err(moving(error))
            }
        }
    }

    /// A new, empty folder of the report's name; a taken name gets a number.
    fn free_place(&self) -> Result<PathBuf> {
        for number in 1..1000 {
            let name = if number == 1 { self.name.clone() } else { format!("{}-{number}", self.name) };
            let place = self.root.join(name);
            if fs::create_dir(&place).is_ok() {
                return Ok(place);
            }
        }
        Err(Error::input(
            format!("report folder {}", self.root.display()),
            format!("a thousand reports are named {}", self.name),
            "Remove old reports or choose another folder",
        ))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.draft.join(name), text).map_err(|e| self.failed(&format!("writing {name}"), &e))
    }

    fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|e| self.failed(&format!("writing {name}"), &e))?;
        self.write(name, &(text + "\n"))
    }

    fn write_chart(&self, name: &str, chart: &dyn Chart) -> Result<()> {
        self.write(&format!("{name}.svg"), &svg(chart)?)?;
        png(chart, &self.draft.join(format!("{name}.png")))
    }

    fn failed(&self, tried: &str, error: &dyn std::fmt::Display) -> Error {
        Error::input(
            format!("report folder {}: {tried}", self.root.display()),
            error.to_string(),
            "Check free space and permissions, or use `--no-report`",
        )
    }
}

impl Drop for ReportFolder {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Best effort: the error that ended the run is what the user must see.
        let _ = fs::remove_dir_all(&self.draft);
        if self.created_root {
            let _ = fs::remove_dir(&self.root);
        }
    }
}
