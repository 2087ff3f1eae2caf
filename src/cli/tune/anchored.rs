//! The projector of a search, with measured anchors applied where there are any.

use super::{Arguments, Inputs};
use crate::Result;
use crate::anchor::confidence::{Confidence, rivals};
use crate::anchor::set::{AnchorSet, Basis, Chosen};
use crate::cli::anchor::flags;
use crate::config::Deployment;
use crate::report::record::{CalibrationLevel, CalibrationStatement, Candidate, RunRecord};
use crate::search::Evaluator;
use crate::serve::{CompiledDeployment, Evaluation, Projector, Refusal};

/// A projector that stands on anchors.
pub struct AnchoredProjector<'a> {
    projector: &'a Projector,
    anchors: Option<AnchorSet>,
}

/// A compiled layout beside the anchors that count for it.
pub struct Compiled {
    layout: CompiledDeployment,
    anchors: Option<Chosen>,
}

impl Evaluator for AnchoredProjector<'_> {
    type Compiled = Compiled;

    fn compile(&self, deployment: &Deployment) -> std::result::Result<Compiled, Refusal> {
        let layout = self.projector.compile(deployment)?;
        Ok(Compiled { layout, anchors: self.anchors.as_ref().map(|set| set.choose(deployment)) })
    }

    fn evaluate(&self, compiled: &Compiled, concurrency: u32, tokens: u32) -> std::result::Result<Evaluation, Refusal> {
        let evaluation = compiled.layout.evaluate(concurrency, tokens)?;
        Ok(match (&self.anchors, &compiled.anchors) {
            (Some(set), Some(chosen)) => set.apply(chosen, &compiled.layout, concurrency, tokens, &evaluation),
            _ => evaluation,
        })
    }
}

/// A projector without anchors, as a library's caller searches with it.
impl Evaluator for Projector {
    type Compiled = CompiledDeployment;

    fn compile(&self, deployment: &Deployment) -> std::result::Result<CompiledDeployment, Refusal> {
        Projector::compile(self, deployment)
    }

    fn evaluate(
        &self,
        compiled: &CompiledDeployment,
        concurrency: u32,
        tokens: u32,
    ) -> std::result::Result<Evaluation, Refusal> {
        compiled.evaluate(concurrency, tokens)
    }
}

impl<'a> AnchoredProjector<'a> {
    /// Reads the store that `--anchors` names; none without the flag.
    ///
    /// # Errors
    /// An unreadable store.
    pub fn new(inputs: &'a Inputs, arguments: &Arguments) -> Result<Self> {
        let projector = &inputs.projector;
        Ok(Self { projector, anchors: arguments.anchors.load(projector)? })
    }

    /// What the anchors make of a deployment's figures; `None` without anchors.
    pub fn basis(&self, deployment: &Deployment) -> Option<Basis> {
        let set = self.anchors.as_ref().filter(|set| !set.is_empty())?;
        Some(set.basis(deployment, deployment.concurrency))
    }

    /// The anchors it stands on.
    pub fn anchors(&self) -> Option<&AnchorSet> {
        self.anchors.as_ref()
    }

    /// Says what the figures rest on, and how sure the choice is.
    pub fn describe(&self, record: &mut RunRecord) {
        let Some(set) = &self.anchors else { return };
        record.warnings.extend(flags::warnings(set));
        if set.is_empty() {
            return;
        }
        let Some(best) = &record.best else { return };
        let basis = set.basis(&best.deployment, best.deployment.concurrency);
        record.calibration.splice(0..0, statements(&basis));
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

/// What anchored figures rest on, one statement each; none for figures no anchor touches.
pub fn statements(basis: &Basis) -> Vec<CalibrationStatement> {
    let level = |confidence| match confidence {
        Confidence::Measured | Confidence::Restored => Some(CalibrationLevel::Calibrated),
        Confidence::Extrapolated => Some(CalibrationLevel::Neighbour),
        Confidence::OutOfRegime => None,
    };
    let said = basis.statements().into_iter().zip([basis.decode, basis.prefill]);
    said.filter_map(|(text, c)| Some(CalibrationStatement { level: level(c)?, text: format!("anchors: {text}") }))
        .collect()
}
