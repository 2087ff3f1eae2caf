//! Can a planner that understands nothing but the hints find the best deployment? It reads `Set KNOB=VALUE and
//! KNOB=VALUE:` in what it is told of a point and proposes exactly that.

use crate::world::World;
use inferasim::search::{Search, Verdict};
use inferasim::serve::Projector;

/// The settings a text says to try.
fn hinted(text: &str) -> Vec<(String, String)> {
    let Some((_, rest)) = text.split_once(". Set ") else { return Vec::new() };
    let (settings, _) = rest.split_once(": ").expect("a hint ends with a colon");
    let pair = |setting: &str| setting.split_once('=').map(|(knob, value)| (knob.to_string(), value.to_string()));
    settings.split(" and ").map(|s| pair(s).expect("knob=value")).collect()
}

/// The best score after at most `proposals` points, the first of them given; and how many it took.
fn follow(search: &Search<'_, Projector>, first: u64, proposals: usize) -> (Option<f64>, usize) {
    let mut at = first;
    let mut best = None;
    for count in 1..=proposals {
        let advice = search.advise(at);
        if let Verdict::Feasible(found) = &advice.verdict {
            best = best.max(Some(found.score).map(Score)).or(best);
        }
        let settings = hinted(&advice.text);
        if settings.is_empty() {
            return (best.map(|s| s.0), count);
        }
        let pairs: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        at = search.space.turned(at, &pairs).expect("a hint names knobs and values of the space");
    }
    (best.map(|s| s.0), proposals)
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Score(f64);
impl Eq for Score {}
impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[test]
fn survey() {
    for (target, model, engine, objective, slos) in [
        ("mi355x", "gpt-oss-120b", "vllm", "default", ""),
        ("mi355x", "gpt-oss-120b", "vllm", "default", "ttft_ms=500"),
        ("mi355x", "gpt-oss-120b", "vllm", "default", "ttft_ms=500,tpot_ms=10"),
        ("mi355x", "deepseek-r1", "sglang", "chat", ""),
        ("h200", "llama-3.3-70b", "vllm", "interactive", ""),
        ("b200", "deepseek-r1", "trtllm", "cheapest", ""),
        ("b200", "qwen3-235b-a22b", "vllm", "agentic", ""),
    ] {
        let world = World::new(target, model, engine, "default", objective, slos);
        let search = world.search();
        let best = search.run(&|_| {}).layouts.first().map(|f| f.score);
        let n = world.space.len();
        for first in [world.space.middle(), 0, n - 1, n / 3, n / 2 + 7, 2 * n / 3 + 1] {
            let (score, count) = follow(&search, first, 12);
            println!("{target} {model} {objective} {slos}: from {first}/{n}: {score:?} of {best:?} in {count} {:.3}", score.unwrap_or(f64::NAN) / best.unwrap_or(f64::NAN));
        }
        println!("{}", search.advise(world.space.middle()).text);
        println!("{}", search.advise(n - 1).text);
    }
}
