//! The projector of a search, with measured anchors applied where there are any.

use super::{Arguments, Inputs};
use crate::anchor::confidence::{Confidence, rivals};
use crate::anchor::set::{AnchorSet, Settings};
use crate::anchor::store::Store;
use crate::config::Deployment;
use crate::report::record::{CalibrationLevel, CalibrationStatement, Candidate, RunRecord};
use crate::search::Evaluator;
use crate::serve::{CompiledDeployment, Evaluation, Projector, Refusal};
use crate::{Error, Result};

/// A projector that stands on anchors.
pub struct AnchoredProjector<'a> {
    projector: &'a Projector,
    anchors: Option<AnchorSet>,
}

/// A compiled layout beside the layout itself, which anchors are compared with.
pub struct Compiled {
    layout: CompiledDeployment,
    deployment: Option<Deployment>,
}

impl Evaluator for AnchoredProjector<'_> {
    type Compiled = Compiled;

    fn compile(&self, deployment: &Deployment) -> std::result::Result<Compiled, Refusal> {
        let layout = self.projector.compile(deployment)?;
        Ok(Compiled { layout, deployment: self.anchors.is_some().then(|| deployment.clone()) })
    }

    fn evaluate(&self, compiled: &Compiled, concurrency: u32, tokens: u32) -> std::result::Result<Evaluation, Refusal> {
        let evaluation = compiled.layout.evaluate(concurrency, tokens)?;
        Ok(match (&self.anchors, &compiled.deployment) {
            (Some(set), Some(d)) => set.apply(d, &compiled.layout, concurrency, tokens, &evaluation),
            _ => evaluation,
        })
    }
}

impl<'a> AnchoredProjector<'a> {
    /// Reads the store that `--anchors` names; none without the flag.
    ///
    /// # Errors
    /// An unreadable store.
    pub fn new(inputs: &'a Inputs, arguments: &Arguments) -> Result<Self> {
        let projector = &inputs.projector;
        let anchors = match &arguments.anchors {
            None => None,
            Some(_) if projector.workload.prefix_hit_rate > 0.0 => {
                return Err(Error::input(
                    "--anchors",
                    "the workload answers part of each prompt from the prefix cache, the anchors do not",
                    "Leave --anchors or the hit rate out",
                ));
            }
            Some(folder) => {
                let settings = Settings { rule: arguments.anchor_rule, ladder_gpus: arguments.ladder_gpus };
                Some(AnchorSet::new(&Store::new(folder).read()?, projector, settings))
            }
        };
        Ok(Self { projector, anchors })
    }

    /// Says what the figures rest on, and how sure the choice is.
    pub fn describe(&self, record: &mut RunRecord) {
        let Some(set) = &self.anchors else { return };
        record.warnings.extend(set.warnings.iter().cloned());
        if set.is_empty() {
            record.warnings.push(format!(
                "None of the {} anchors is of this model, GPU and engine; the figures are the projection alone.",
                set.left_out.len()
            ));
            return;
        }
        let Some(best) = &record.best else { return };
        let basis = set.basis(&best.deployment, best.deployment.concurrency);
        let level = match basis.decode {
            Confidence::Measured | Confidence::Restored => CalibrationLevel::Calibrated,
            Confidence::Extrapolated => CalibrationLevel::Neighbour,
            Confidence::OutOfRegime => CalibrationLevel::Uncalibrated,
        };
        let statements = basis.statements();
        let anchored = statements.into_iter().zip([level, CalibrationLevel::Neighbour]);
        let known = basis.decode != Confidence::OutOfRegime;
        if known {
            for (text, level) in anchored {
                record.calibration.insert(0, CalibrationStatement { level, text: format!("anchors: {text}") });
            }
        }
        let value = |c: &Candidate| if record.objective.maximise { c.objective } else { 1.0 / c.objective };
        let values: Vec<f64> = std::iter::once(best).chain(record.top.iter().skip(1)).map(value).collect();
        let close = rivals(&values, basis.band);
        let text = match close.len() {
            0 => format!("No rival lies inside the recommendation's band (±{:.0} %).", basis.band * 100.0),
            n => {
                let next = &record.top[close[0]].deployment;
                let (word, verb) = if n == 1 { ("rival", "lies") } else { ("rivals", "lie") };
                format!(
                    "{n} listed {word} {verb} inside the recommendation's band (±{:.0} %), first {next}: measure before choosing.",
                    basis.band * 100.0
                )
            }
        };
        record.warnings.push(text);
    }
}
