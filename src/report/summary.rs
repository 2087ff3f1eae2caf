//! The answer as one JSON document for scripts (`inferasim-tune --json`).

use super::record::{Candidate, Group, RunRecord};
use super::shortlist::launch_of;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Keys that scripts rely on: `points`, `feasible` (counts), `rejected` (reason to count), `best` (with `objective`;
/// null where nothing is feasible), `front` (array), `evaluations`, `stop`, `elapsed_s`, `cpu_s`, `report` (the folder, or null).
pub fn summary(record: &RunRecord, report: Option<&Path>) -> Value {
    let closest = record.closest.as_ref().map(|c| {
        let mut value = candidate(record, &c.candidate);
        value["blocked_by"] = json!(c.blocked_by);
        value
    });
    let all = |list: &[Candidate]| list.iter().map(|c| candidate(record, c)).collect::<Vec<_>>();
    json!({
        "version": record.version,
        "target": record.target.document.name,
        "model": record.model.name,
        "engine": record.engine.name,
        "engine_version": record.engine.version,
        "workload": record.workload,
        "slos": record.objective.slos,
        "points": record.counts.points,
        "legal": record.counts.legal,
        "feasible": record.counts.feasible,
        "listed": record.counts.listed,
        "backend": record.search.backend,
        "seed": record.search.seed,
        "budget": record.search.budget,
        "evaluations": record.search.evaluations,
        "stop": record.search.stop,
        "search_notes": record.search.notes,
        "illegal": counts(&record.illegal),
        "rejected": counts(&record.rejected),
        "metric": record.objective.metric,
        "best": record.best.as_ref().map(|c| candidate(record, c)),
        "closest": closest.unwrap_or_else(|| json!(record.obstacle)),
        "why": record.why,
        "binds": record.binds,
        "top": all(&record.top[..record.top.len().min(10)]),
        "front": all(&record.front),
        "cost_front": all(&record.cost_front),
        "calibration": record.calibration,
        "warnings": record.warnings,
        "elapsed_s": record.elapsed_s,
        "cpu_s": record.cpu_s,
        "report": report.map(|p| p.display().to_string()),
    })
}

fn counts(groups: &[Group]) -> Value {
    let mut map = Map::new();
    for group in groups {
        map.insert(group.reason.clone(), json!(group.count));
    }
    Value::Object(map)
}

fn candidate(record: &RunRecord, candidate: &Candidate) -> Value {
    let mut value = json!({
        "rank": candidate.rank,
        "objective": candidate.objective,
        "gpus": candidate.gpus,
        "deployment": candidate.deployment,
        "metrics": candidate.evaluation.metrics,
        "bound": candidate.evaluation.bound,
        "breakdown": candidate.evaluation.breakdown,
        "memory": candidate.memory,
    });
    if let Ok(launch) = launch_of(record, candidate) {
        value["launch"] = json!(launch.shell());
    }
    value
}
