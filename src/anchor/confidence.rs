//! How far can an anchored figure be trusted, how wide is its band, and how sure is the choice made with it?

use super::transport::{Carrier, Observation, Place, Rule};
use serde::Serialize;
use std::fmt;

/// What a figure rests on, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// An anchor's own point: the measurement itself.
    Measured,
    /// Carried over from anchors near by.
    Restored,
    /// Carried over further than the anchors vouch for.
    Extrapolated,
    /// No anchor of this regime: the projection alone.
    OutOfRegime,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Confidence::Measured => "measured",
            Confidence::Restored => "restored",
            Confidence::Extrapolated => "extrapolated",
            Confidence::OutOfRegime => "out of regime",
        })
    }
}

/// Most GPUs whose rungs count for a ladder, unless raised: anchors on four GPUs transported as well as on eight.
pub const LADDER_GPUS: u32 = 4;
/// Rungs agree within this.
const AGREE: f64 = 0.05;
/// Concurrency and lengths may leave the anchors' range by this factor.
const REACH: f64 = 2.0;

/// Two adjacent GPU counts whose per-GPU decode agrees within 5 % at `g` vouch for up to `2 g` GPUs. Each rung is a GPU
/// count and its decode tokens per second and GPU at one load per GPU; rungs above `limit` GPUs do not count. `None`
/// where no two rungs agree.
pub fn ladder(rungs: &[(u32, f64)], limit: u32) -> Option<u32> {
    let mut rungs: Vec<(u32, f64)> = rungs.iter().copied().filter(|r| r.0 <= limit).collect();
    rungs.sort_by_key(|r| r.0);
    rungs.dedup_by_key(|r| r.0);
    rungs.windows(2).filter(|w| (w[1].1 / w[0].1 - 1.0).abs() <= AGREE).map(|w| 2 * w[1].0).max()
}

/// GPUs that a set of anchors vouches for: twice the largest agreeing rung, at least the largest measured count.
pub fn vouched_gpus(anchors: &[&Observation], limit: u32) -> u32 {
    let largest = anchors.iter().map(|a| a.place.layout.gpus()).max().unwrap_or(0);
    // Rungs compare at equal load per GPU and equal lengths.
    let load = |p: &Place| (p.load.concurrency / p.layout.gpus().max(1), p.load.isl, p.load.osl);
    let certified = anchors.iter().filter_map(|anchor| {
        let rungs: Vec<(u32, f64)> = anchors
            .iter()
            .filter(|a| load(&a.place) == load(&anchor.place))
            .filter_map(|a| {
                let gpus = f64::from(a.place.layout.gpus().max(1));
                Some((a.place.layout.gpus(), f64::from(a.place.load.concurrency) / a.measured.tpot_ms? / gpus))
            })
            .collect();
        ladder(&rungs, limit)
    });
    certified.max().unwrap_or(0).max(largest)
}

/// How far a place lies from what the anchors measured.
pub fn confidence(anchors: &[&Observation], place: &Place, vouched: u32) -> Confidence {
    if anchors.is_empty() {
        return Confidence::OutOfRegime;
    }
    if anchors.iter().any(|a| a.place == *place) {
        return Confidence::Measured;
    }
    let within = |of: fn(&Place) -> u32| {
        let values = anchors.iter().map(|a| f64::from(of(&a.place)));
        let (low, high) = values.fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        (low / REACH..=high * REACH).contains(&f64::from(of(place)))
    };
    let near = within(|p| p.load.concurrency)
        && within(|p| p.load.isl)
        && within(|p| p.load.osl)
        && place.layout.gpus() <= vouched;
    if near { Confidence::Restored } else { Confidence::Extrapolated }
}

/// Spread of repeated runs of one configuration (mean absolute, public runs).
pub const REPEAT: f64 = 0.007;
/// Spread between versions of an engine (half the median ratio of 1.065 over public configurations).
pub const VERSIONS: f64 = 0.033;
/// Error of one transported anchor on groups never seen (public runs; `inferasim fidelity --anchors 1` prints it).
const ONE_ANCHOR: f64 = 0.11;
/// An extrapolated figure's band is wider by this factor.
const FAR: f64 = 2.0;
/// Error of the projection alone on groups never seen (public runs).
pub const NO_ANCHOR: f64 = 0.18;

/// Relative half-width of a figure's band, about one standard deviation. It comes from leaving each anchor out and
/// carrying the others to its point; below three anchors, from public runs.
pub fn band(rule: Rule, anchors: &[&Observation], confidence: Confidence, other_version: bool) -> f64 {
    let carried = match leave_one_out(rule, anchors) {
        Some(error) => error.max(REPEAT),
        None => ONE_ANCHOR,
    };
    let base = match confidence {
        Confidence::Measured => REPEAT,
        Confidence::Restored => carried,
        Confidence::Extrapolated => FAR * carried,
        Confidence::OutOfRegime => return NO_ANCHOR,
    };
    if other_version { base.hypot(VERSIONS) } else { base }
}

/// Most anchors that are left out in turn; of more, every so many-th is.
const LEFT_OUT: usize = 32;

/// Root mean square of ln(carried / measured) over the anchors, each carried from the others; `None` below three.
pub fn leave_one_out(rule: Rule, anchors: &[&Observation]) -> Option<f64> {
    if anchors.len() < 3 {
        return None;
    }
    let errors: Vec<f64> = (0..anchors.len())
        .step_by(anchors.len().div_ceil(LEFT_OUT))
        .filter_map(|i| {
            let measured = anchors[i].measured.tpot_ms?;
            let others = anchors.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, a)| (*a).clone()).collect();
            let carried =
                Carrier::new(rule, others, &anchors[i].epoch).decode(&anchors[i].place, &anchors[i].projected);
            Some((carried / measured).ln())
        })
        .collect();
    let squares: f64 = errors.iter().map(|e| e * e).sum();
    (!errors.is_empty()).then(|| (squares / errors.len() as f64).sqrt())
}

/// Places in `values` (the objective of each candidate, larger is better, the winner first) that the winner's band does
/// not tell apart from it.
pub fn rivals(values: &[f64], band: f64) -> Vec<usize> {
    let Some(best) = values.first() else { return Vec::new() };
    values.iter().enumerate().skip(1).filter(|(_, v)| **v >= best * (1.0 - band)).map(|(i, _)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::super::transport::tests::{observation, place};
    use super::*;

    #[test]
    fn two_agreeing_rungs_vouch_for_twice_the_larger() {
        assert_eq!(ladder(&[(1, 100.0), (2, 96.0)], 4), Some(4));
        assert_eq!(ladder(&[(4, 97.0), (2, 100.0)], 4), Some(8));
        assert_eq!(ladder(&[(1, 100.0), (2, 94.0)], 4), None, "6 % apart");
        assert_eq!(ladder(&[(1, 100.0)], 4), None);
        assert_eq!(ladder(&[(4, 100.0), (8, 99.0)], 4), None, "eight GPUs need a raised limit");
        assert_eq!(ladder(&[(4, 100.0), (8, 99.0)], 8), Some(16));
    }

    #[test]
    fn the_ladder_compares_equal_loads_per_gpu() {
        // Tokens per second and GPU: 64/16 = 4.0 on one, 128/16.2/2 = 3.95 on two: within 5 %.
        let (one, two) = (observation(place(1, 64), 15.0, 16.0), observation(place(2, 128), 15.0, 16.2));
        assert_eq!(vouched_gpus(&[&one, &two], LADDER_GPUS), 4);
        let uneven = observation(place(2, 64), 15.0, 16.2);
        assert_eq!(vouched_gpus(&[&one, &uneven], LADDER_GPUS), 2);
    }

    #[test]
    fn confidence_falls_with_distance() {
        let anchor = observation(place(2, 64), 10.0, 12.0);
        let at = |tp, c| confidence(&[&anchor], &place(tp, c), 2);
        assert_eq!(at(2, 64), Confidence::Measured);
        assert_eq!(at(1, 128), Confidence::Restored);
        assert_eq!(at(2, 256), Confidence::Extrapolated);
        assert_eq!(at(4, 64), Confidence::Extrapolated);
        assert_eq!(confidence(&[], &place(2, 64), 0), Confidence::OutOfRegime);
    }

    #[test]
    fn the_band_is_what_leaving_one_out_shows() {
        // Residuals of +1, +1 and +4 ms at equal distances: each is carried from the other two.
        let far = |c, tpot, measured| observation(place(1, c), tpot, measured);
        let (a, b) = (far(64, 10.0, 11.0), far(64, 10.0, 11.0));
        let c = far(64, 10.0, 14.0);
        let error = leave_one_out(Rule::Difference, &[&a, &b, &c]).unwrap();
        let expected = ((2.0 * (12.5f64 / 11.0).ln().powi(2) + (11.0f64 / 14.0).ln().powi(2)) / 3.0).sqrt();
        assert!((error - expected).abs() < 1e-12);
        assert_eq!(leave_one_out(Rule::Difference, &[&a, &b]), None);
        let b = band(Rule::Difference, &[&a], Confidence::Restored, true);
        assert!((b - 0.11f64.hypot(0.033)).abs() < 1e-12);
    }

    #[test]
    fn rivals_lie_inside_the_winners_band() {
        assert_eq!(rivals(&[100.0, 95.0, 89.0, 91.0], 0.10), [1, 3]);
        assert_eq!(rivals(&[100.0, 95.0], 0.01), Vec::<usize>::new());
    }
}
