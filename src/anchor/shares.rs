//! Where does an error sit: in the level of a combination of GPU, engine and model, or in its shape over load and layout?

use super::measured::{MeasuredPoint, ServingKind};
use super::score::{Errors, Scored, errors, relative};
use serde::Serialize;
use std::collections::BTreeMap;

/// Errors of one slice, as predicted and with what no prediction could know of a combination taken out.
#[derive(Debug, Clone, Serialize)]
pub struct Shares {
    /// `agg`, `agg MI355X` …, `speculative`, `disaggregated`, `data-parallel attention`.
    pub slice: String,
    /// As predicted.
    pub predicted: Errors,
    /// With each combination's own mean error taken out: what a perfect constant per combination would leave.
    pub levelled: Errors,
    /// Standard deviation of the combinations' mean errors, as logarithms.
    pub between: f64,
}

/// What combinations that share two of GPU, engine and model know of each other's level.
#[derive(Debug, Clone, Serialize)]
pub struct Kin {
    /// `GPU and engine` …
    pub shared: &'static str,
    /// Combinations that have such kin.
    pub combinations: usize,
    /// TPOT of their rows as predicted.
    pub predicted: Errors,
    /// The same with the mean level of their kin, shrunken by n/(n + 1), taken out.
    pub corrected: Errors,
}

/// A combination with its part of the error.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// GPU, engine and model.
    pub combination: String,
    /// Errors of TPOT.
    pub tpot: Errors,
    /// Errors of the output rate.
    pub output: Option<Errors>,
    /// Points of the MAPE over all rows that it holds: TPOT, output rate.
    pub points: [f64; 2],
}

/// Logarithms of predicted over measured TPOT by GPU, engine and model.
type Levels = BTreeMap<[String; 3], Vec<f64>>;

fn levels(rows: &[Scored<'_>], counts: impl Fn(&MeasuredPoint) -> bool) -> Levels {
    let mut out = Levels::new();
    for row in rows.iter().filter(|r| counts(r.point)) {
        let Some(error) = row.outcome.as_ref().ok().and_then(|p| relative(row.point, p)[0]) else { continue };
        let m = row.point;
        let key = [&m.hardware, &m.engine, &m.model].map(String::clone);
        out.entry(key).or_default().push(error.ln_1p());
    }
    out
}

/// Whether one combination tells another's level, by what they share.
pub fn kin(rows: &[Scored<'_>]) -> Vec<Kin> {
    let levels = levels(rows, aggregated);
    [("GPU and engine", [0, 1]), ("GPU and model", [0, 2]), ("engine and model", [1, 2])]
        .into_iter()
        .filter_map(|(shared, axes)| kin_by(&levels, shared, axes))
        .collect()
}

fn kin_by(levels: &Levels, shared: &'static str, axes: [usize; 2]) -> Option<Kin> {
    let (mut predicted, mut corrected, mut combinations) = (Vec::new(), Vec::new(), 0);
    for (key, logs) in levels {
        let others = levels.iter().filter(|(other, _)| *other != key && axes.iter().all(|a| other[*a] == key[*a]));
        let means: Vec<f64> = others.map(|(_, logs)| mean(logs)).collect();
        if means.is_empty() {
            continue;
        }
        combinations += 1;
        let known = means.iter().sum::<f64>() / (means.len() + 1) as f64;
        predicted.extend(logs.iter().map(|log| log.exp_m1()));
        corrected.extend(logs.iter().map(|log| (log - known).exp_m1()));
    }
    Some(Kin { shared, combinations, predicted: errors(&predicted)?, corrected: errors(&corrected)? })
}

/// The combinations that hold most of the error of TPOT, the largest part first.
pub fn parts(rows: &[Scored<'_>], most: usize) -> Vec<Part> {
    let mut lists: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.point.kind() == ServingKind::Aggregated) {
        let Ok(prediction) = &row.outcome else { continue };
        let [tpot, _, output] = relative(row.point, prediction);
        let m = row.point;
        let list = lists.entry(format!("{} {} {}", m.hardware, m.engine, m.model)).or_default();
        list[0].extend(tpot);
        list[1].extend(output);
    }
    let all: [f64; 2] = std::array::from_fn(|i| lists.values().map(|l| l[i].len() as f64).sum());
    let points = |list: &[Vec<f64>; 2]| -> [f64; 2] {
        std::array::from_fn(|i| 100.0 * list[i].iter().map(|e| e.abs()).sum::<f64>() / all[i].max(1.0))
    };
    let mut out: Vec<Part> = lists
        .into_iter()
        .filter_map(|(combination, list)| {
            Some(Part { tpot: errors(&list[0])?, output: errors(&list[1]), points: points(&list), combination })
        })
        .collect();
    out.sort_by(|a, b| b.points[0].total_cmp(&a.points[0]));
    out.truncate(most);
    out
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

fn aggregated(point: &MeasuredPoint) -> bool {
    point.kind() == ServingKind::Aggregated
}

/// TPOT of aggregated rows without speculation, all of them and each GPU's, and of the other ways of serving.
pub fn shares(rows: &[Scored<'_>]) -> Vec<Shares> {
    let mut slices: BTreeMap<String, Levels> = BTreeMap::new();
    for (key, logs) in levels(rows, aggregated) {
        for slice in ["agg".to_string(), format!("agg {}", key[0])] {
            slices.entry(slice).or_default().insert(key.clone(), logs.clone());
        }
    }
    let of = |kind: ServingKind| levels(rows, move |point| point.kind() == kind);
    slices.insert("speculative".into(), of(ServingKind::Speculative));
    slices.insert("disaggregated".into(), of(ServingKind::Disaggregated));
    slices.insert("data-parallel attention".into(), levels(rows, |point| point.dp_attention));
    slices.into_iter().filter_map(|(slice, levels)| share(slice, &levels)).collect()
}

fn share(slice: String, combinations: &Levels) -> Option<Shares> {
    let predicted: Vec<f64> = combinations.values().flatten().map(|log| log.exp_m1()).collect();
    let levelled: Vec<f64> = combinations
        .values()
        .flat_map(|logs| {
            let level = mean(logs);
            logs.iter().map(move |log| (log - level).exp_m1())
        })
        .collect();
    let levels: Vec<f64> = combinations.values().map(|logs| mean(logs)).collect();
    let centre = mean(&levels);
    let between = (levels.iter().map(|l| (l - centre).powi(2)).sum::<f64>() / levels.len() as f64).sqrt();
    Some(Shares { slice, predicted: errors(&predicted)?, levelled: errors(&levelled)?, between })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels_of(entries: &[(&str, &str, &str, &[f64])]) -> Levels {
        let key = |parts: [&str; 3]| parts.map(str::to_string);
        entries.iter().map(|(gpu, engine, model, logs)| (key([gpu, engine, model]), logs.to_vec())).collect()
    }

    #[test]
    fn a_level_is_taken_out_and_a_shape_stays() {
        // One combination 20 % slow throughout, one that errs by ±10 % around its level.
        let (slow, even) = ([1.2f64.ln(); 4], [1.1f64.ln(), (1.0f64 / 1.1).ln()]);
        let found = share("agg".into(), &levels_of(&[("g", "e", "a", &slow), ("g", "e", "b", &even)])).unwrap();
        assert!((found.predicted.mape - (4.0 * 20.0 + 10.0 + 100.0 / 11.0) / 6.0).abs() < 1e-9);
        assert!((found.levelled.mape - (10.0 + 100.0 / 11.0) / 6.0).abs() < 1e-9);
        assert!((found.between - 0.5 * 1.2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn kin_take_out_half_of_what_one_of_them_shows() {
        // Two models 20 % slow on one GPU and engine: each takes ln 1.2 / 2 out of the other.
        let slow = [1.2f64.ln()];
        let levels = levels_of(&[("g", "e", "a", &slow), ("g", "e", "b", &slow), ("h", "f", "c", &slow)]);
        let found = kin_by(&levels, "GPU and engine", [0, 1]).unwrap();
        assert_eq!(found.combinations, 2);
        assert!((found.predicted.mape - 20.0).abs() < 1e-9);
        assert!((found.corrected.mape - 100.0 * (1.2f64.sqrt() - 1.0)).abs() < 1e-9);
        assert!(kin_by(&levels, "engine and model", [1, 2]).is_none());
    }
}
