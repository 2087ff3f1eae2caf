//! The two scatter plots of a run: throughput against speed, and cost against speed.

use super::scatter::{CloudPoint, FrontPoint, Guide, Scatter};
use crate::report::record::{Candidate, RunRecord, SAMPLE_LIMIT, SamplePoint};
use crate::report::text;

/// tok/s/GPU against tok/s/user.
pub fn pareto(record: &RunRecord) -> Scatter {
    let y = |c: &Candidate| Some(c.metrics().tok_s_per_gpu);
    Scatter {
        title: format!("Throughput per GPU against speed per user: {}", record.title()),
        y_label: "tok/s/GPU (input + output)".to_string(),
        guides: guides(record, "tok_s_per_gpu"),
        ..scatter(record, &record.front, y, |p| Some(p.tok_s_per_gpu))
    }
}

/// US dollars per million tokens against tok/s/user; `None` where no price is known.
pub fn cost(record: &RunRecord) -> Option<Scatter> {
    let y = |c: &Candidate| c.metrics().usd_per_m_total;
    let price = record.target.usd_per_gpu_hour?;
    if record.cost_front.is_empty() {
        return None;
    }
    Some(Scatter {
        title: format!("Cost against speed per user: {} at ${price}/GPU/h", record.title()),
        y_label: "US$ per million tokens (input + output)".to_string(),
        guides: guides(record, "usd_per_m_total"),
        ..scatter(record, &record.cost_front, y, |p| p.usd_per_m_total)
    })
}

fn scatter(
    record: &RunRecord,
    front: &[Candidate],
    y: impl Fn(&Candidate) -> Option<f64>,
    cloud_y: impl Fn(&SamplePoint) -> Option<f64>,
) -> Scatter {
    let mark = |c: &Candidate| {
        let d = &c.deployment;
        let label = format!("{}, c{}", text::layout(d), d.concurrency);
        Some(FrontPoint { x: c.metrics().tok_s_per_user, y: y(c)?, label })
    };
    let stride = record.sample.len().div_ceil(SAMPLE_LIMIT).max(1);
    let cloud = record.sample.iter().step_by(stride).filter_map(|p| {
        let point = CloudPoint { x: p.tok_s_per_user, y: cloud_y(p)?, feasible: p.feasible };
        (point.x.is_finite() && point.y.is_finite()).then_some(point)
    });
    let mut front: Vec<FrontPoint> = front.iter().filter_map(mark).collect();
    front.sort_by(|a, b| a.x.total_cmp(&b.x));
    Scatter {
        title: String::new(),
        subtitle: subtitle(record),
        x_label: "tok/s/user (1000 / TPOT)".to_string(),
        y_label: String::new(),
        cloud: cloud.collect(),
        front,
        chosen: record.best.as_ref().and_then(mark),
        guides: Vec::new(),
    }
}

fn subtitle(record: &RunRecord) -> String {
    let slos: Vec<String> = record.objective.slos.iter().map(ToString::to_string).collect();
    let limits = if slos.is_empty() { "no SLO".to_string() } else { slos.join(", ") };
    let w = &record.workload;
    format!("input {} / output {} tokens; {limits}; calibration: {}", w.isl, w.osl, record.calibration_level())
}

/// The limits that can be drawn on the axes of a plot whose y is `y_key`.
fn guides(record: &RunRecord, y_key: &str) -> Vec<Guide> {
    let guide = |value: f64, vertical, label: String| Guide { value, vertical, label };
    record
        .objective
        .slos
        .iter()
        .filter_map(|slo| match slo.key.as_str() {
            "tpot_ms" if slo.limit > 0.0 => Some(guide(1000.0 / slo.limit, true, slo.to_string())),
            "tok_s_per_user" => Some(guide(slo.limit, true, slo.to_string())),
            key if key == y_key => Some(guide(slo.limit, false, slo.to_string())),
            _ => None,
        })
        .collect()
}
