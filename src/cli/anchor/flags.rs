//! `--anchors`: which measured runs a projection stands on, and how.

use crate::anchor::confidence::LADDER_GPUS;
use crate::anchor::set::{AnchorSet, Settings};
use crate::anchor::store::Store;
use crate::anchor::transport::Rule;
use crate::serve::Projector;
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;

/// The flags of commands that project.
#[derive(Debug, Args)]
pub struct AnchorFlags {
    /// Store of measured runs that figures stand on (`inferasim anchor`)
    #[arg(long, value_name = "DIR")]
    anchors: Option<PathBuf>,
    /// How an anchor's decode figure is carried over
    #[arg(long, value_enum, default_value_t, requires = "anchors")]
    anchor_rule: Rule,
    /// Most GPUs of an anchor that vouches for larger counts
    #[arg(long, value_name = "GPUS", default_value_t = LADDER_GPUS, requires = "anchors")]
    ladder_gpus: u32,
}

impl Default for AnchorFlags {
    /// No anchors.
    fn default() -> Self {
        Self { anchors: None, anchor_rule: Rule::default(), ladder_gpus: LADDER_GPUS }
    }
}

impl AnchorFlags {
    /// The anchors of a projector's regime; `None` without the flag.
    ///
    /// # Errors
    /// An unreadable store; a workload with prefix hits, which anchors do not measure.
    pub fn load(&self, projector: &Projector) -> Result<Option<AnchorSet>> {
        let Some(folder) = &self.anchors else { return Ok(None) };
        if projector.workload.prefix_hit_rate > 0.0 {
            return Err(Error::input(
                "--anchors",
                "the workload answers part of each prompt from the prefix cache, the anchors do not",
                "Leave --anchors or the hit rate out",
            ));
        }
        let settings = Settings { rule: self.anchor_rule, ladder_gpus: self.ladder_gpus };
        Ok(Some(AnchorSet::new(&Store::new(folder).read()?, projector, settings)))
    }
}

/// What a reader must know of the anchors as a whole.
pub fn warnings(set: &AnchorSet) -> Vec<String> {
    let mut warnings: Vec<String> = set.warnings.iter().take(3).cloned().collect();
    if set.warnings.len() > 3 {
        warnings.push(format!("The same of {} more anchors.", set.warnings.len() - 3));
    }
    if set.is_empty() {
        let example = set.left_out.first().map_or(String::new(), |l| format!(" ({}: {})", l.id, l.why));
        warnings.push(format!(
            "None of {} anchors is of this model, GPU and engine{example}; the figures are the projection alone.",
            set.left_out.len()
        ));
    }
    warnings
}
