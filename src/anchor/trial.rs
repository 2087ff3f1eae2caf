//! What are anchors worth? Groups that no constant has seen, K random points of each as anchors, the rest scored.

use super::case::{Case, Prediction};
use super::fidelity::fits;
use super::measured::ServingKind;
use super::score::{Errors, errors, relative};
use super::transport::{Carrier, Observation, Place, Projected, Rule};
use crate::anchor::artifact::{Figures, Layout, LoadPoint};
use serde::Serialize;
use std::collections::BTreeMap;

/// Errors with K anchors under one rule, over all draws.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// Anchors in a group.
    pub anchors: usize,
    /// How decode was carried over.
    pub rule: Rule,
    /// TPOT.
    pub tpot: Option<Errors>,
    /// Output rate.
    pub output: Option<Errors>,
    /// Groups drawn from.
    pub groups: usize,
    /// Draws of each.
    pub draws: u64,
}

/// Scores every rule with every number of anchors in `counts` on aggregated rows without speculation. Each draw takes
/// the most anchors asked for from each group and never scores them, so all counts are scored on the same rows; groups
/// with fewer than two rows to score drop out. A row anchors another of the same precision and KV format, decode only
/// (public rows do not assert that prefix caching was off), and only where its own figures agree with each other.
pub fn trials(
    cases: &[Case],
    predictions: &[Prediction],
    unseen: impl Fn(&Case) -> bool,
    counts: &[usize],
    draws: u64,
) -> Vec<Trial> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        if case.point.kind() == ServingKind::Aggregated && case.point.tpot_ms.is_some() && unseen(case) {
            groups.entry(case.group()).or_default().push(i);
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    groups.retain(|_, rows| rows.len() >= most + 2 && rows.iter().filter(|i| fits(&cases[**i])).count() >= most);
    let mut out = Vec::new();
    for &count in counts {
        // Without anchors every rule is the projection.
        for &rule in if count == 0 { &Rule::ALL[..1] } else { &Rule::ALL[..] } {
            let (mut tpot, mut output) = (Vec::new(), Vec::new());
            for draw in 0..draws {
                let mut random = SplitMix(draw);
                for rows in groups.values() {
                    let pool: Vec<usize> = rows.iter().copied().filter(|i| fits(&cases[*i])).collect();
                    let drawn = choose(&mut random, pool, most);
                    let anchors: Vec<Observation> =
                        drawn[..count].iter().map(|&i| observation(&cases[i], &predictions[i])).collect();
                    for &i in rows.iter().filter(|i| !drawn.contains(i)) {
                        let used: Vec<&Observation> = drawn[..count]
                            .iter()
                            .zip(&anchors)
                            .filter(|(a, _)| same_formats(&cases[**a], &cases[i]))
                            .map(|(_, o)| o)
                            .collect();
                        let carried = carry(rule, &used, &cases[i], &predictions[i]);
                        let [t, _, o] = relative(&cases[i].point, &carried);
                        tpot.extend(t);
                        output.extend(o);
                    }
                }
            }
            let (tpot, output) = (errors(&tpot), errors(&output));
            out.push(Trial { anchors: count, rule, tpot, output, groups: groups.len(), draws });
        }
    }
    out
}

fn same_formats(a: &Case, b: &Case) -> bool {
    a.deployment.weight_dtype == b.deployment.weight_dtype && a.deployment.kv_dtype == b.deployment.kv_dtype
}

fn place(case: &Case) -> Place {
    let (d, m) = (&case.deployment, &case.point);
    Place {
        layout: Layout {
            tp: d.tp,
            ep: d.ep,
            pp: d.pp,
            attention_dp: d.attention_dp,
            context_parallel: d.context_parallel,
            replicas: d.replicas,
        },
        load: LoadPoint {
            concurrency: m.concurrency,
            isl: m.isl.round() as u32,
            osl: m.osl.round() as u32,
            range_ratio: m.range_ratio,
        },
    }
}

fn projected(case: &Case, p: &Prediction) -> Projected {
    Projected {
        ttft_ms: p.ttft_ms,
        ttft_p50_ms: p.ttft_p50_ms,
        tpot_ms: p.tpot_ms,
        output_tok_s: p.output_tok_s,
        osl: case.point.osl * (1.0 + case.point.range_ratio) / 2.0,
        floor_ms: case.decode_floor_ms(),
    }
}

fn observation(case: &Case, p: &Prediction) -> Observation {
    let measured = Figures { tpot_ms: case.point.tpot_ms, ..Figures::default() };
    Observation {
        id: case.point.id.clone(),
        place: place(case),
        measured,
        projected: projected(case, p),
        epoch: case.regime.epoch.clone(),
    }
}

/// A prediction with anchors applied.
fn carry(rule: Rule, anchors: &[&Observation], case: &Case, p: &Prediction) -> Prediction {
    let before = projected(case, p);
    // Two rows at one place are two runs: the second is scored as carried over, not as read back.
    let own = place(case);
    let apart = anchors.iter().copied().filter(|a| a.place != own).cloned().collect();
    let after = Carrier::new(rule, apart, &case.regime.epoch).transport(&own, &before);
    let rate = after.output_tok_s / before.output_tok_s;
    Prediction {
        ttft_ms: after.ttft_ms,
        ttft_p50_ms: after.ttft_p50_ms,
        tpot_ms: after.tpot_ms,
        output_tok_s: after.output_tok_s,
        total_tok_s: p.total_tok_s * rate,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z % n.max(1) as u64) as usize
    }
}

/// `count` of `pool` in random order (Fisher and Yates).
fn choose(random: &mut SplitMix, mut pool: Vec<usize>, count: usize) -> Vec<usize> {
    for i in 0..count.min(pool.len()) {
        let j = i + random.below(pool.len() - i);
        pool.swap(i, j);
    }
    pool.truncate(count);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_seeded_distinct_and_whole() {
        let draw = |seed| choose(&mut SplitMix(seed), (0..50).collect(), 3);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut all = choose(&mut SplitMix(7), (0..50).collect(), 50);
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn draws_are_even() {
        let mut counts = [0u32; 5];
        let mut random = SplitMix(3);
        for _ in 0..5000 {
            counts[random.below(5)] += 1;
        }
        assert!(counts.iter().all(|c| (900..1100).contains(c)), "{counts:?}");
    }
}
