//! The section of the fidelity page on runs under open load, and its short form for a terminal.

use crate::anchor::open_loop::requests::ScoredSetup;
use crate::anchor::open_loop::runs::ScoredRun;
use crate::anchor::open_loop::{OpenLoop, Pair};
use std::fmt::Write;

/// Title of the section; what stands under it is replaced as a whole.
pub const TITLE: &str = "## Simulated under open load";

/// The section.
pub fn section(scores: &OpenLoop, command: &str) -> String {
    let mut out = format!("{TITLE}\n\nWritten by `{command}`.\n\n");
    if let Some(s) = &scores.summary {
        let _ = writeln!(
            out,
            "Runs of vLLM at a constant rate of requests, simulated with the projector's step cost; a factor on the step \
             and a time outside the engine (in decode steps, part of it exponential) are fitted on the runs of all models but the one that is scored. {} runs count; mean |error|: E2E {:.1} %, TPOT {:.1} %, TTFT {:.1} %, p99 of TTFT {:.1} %. {} runs were \
             overloaded, {} of their simulations are.\n\n\
             | run | E2E ms | | TPOT ms | | TTFT ms | | TTFT p99 ms | |\n|---|---|---|---|---|---|---|---|---|",
            s.runs, s.e2e_mape, s.tpot_mape, s.ttft_mape, s.ttft_p99_mape, s.overloaded, s.overload_seen
        );
        for run in scores.runs.iter().filter(|r| !r.overloaded && r.refused.is_none()) {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                run.name,
                cell(run.e2e),
                cell(run.tpot),
                cell(run.ttft),
                cell(run.ttft_p99)
            );
        }
        out.push('\n');
        for run in scores.runs.iter() {
            if let Some(why) = &run.refused {
                let _ = writeln!(out, "Not simulated: {}: {why}.\n", run.name);
            }
        }
    }
    if !scores.setups.is_empty() {
        let _ = writeln!(
            out,
            "Single requests with the engine's own timestamps: a step cost of six terms and the size of the KV cache are \
             fitted on every other request, all requests are replayed, and the figures below are of those not fitted.\n\n\
             | set-up | requests | TPOT ms | | E2E ms | | TTFT ms | | TPOT, each | E2E, each |\n\
             |---|---|---|---|---|---|---|---|---|---|"
        );
        for s in &scores.setups {
            let h = &s.held_out;
            let each = |e: Option<f64>| e.map_or("–".to_string(), |e| format!("{e:.1} %"));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                s.name,
                h.requests,
                cell(h.tpot),
                cell(h.e2e),
                cell(h.ttft),
                each(h.tpot_mape),
                each(h.e2e_mape)
            );
        }
        out.push('\n');
    }
    out
}

/// Measured and simulated, and the error.
fn cell(pair: Pair) -> String {
    let digits = usize::from(pair.measured < 100.0);
    format!("{:.digits$} → {:.digits$} | {:+.1} %", pair.measured, pair.simulated, pair.error_pct())
}

/// The page with its section on open load replaced, or appended.
pub fn replace(page: &str, section: &str) -> String {
    match existing(page) {
        Some((from, to)) => format!("{}{}{}", &page[..from], section, &page[to..]),
        None => format!("{}\n\n{section}", page.trim_end()),
    }
}

/// Where the section stands in a page.
pub fn existing(page: &str) -> Option<(usize, usize)> {
    let from = page.find(TITLE)?;
    let after = from + TITLE.len();
    Some((from, page[after..].find("\n## ").map_or(page.len(), |at| after + at + 1)))
}

/// The scores for a terminal.
pub fn table(scores: &OpenLoop) -> String {
    let mut out = String::new();
    if !scores.runs.is_empty() {
        let _ = writeln!(out, "{:<48}{:>11}{:>11}{:>11}{:>11}", "run: error, %", "E2E", "TPOT", "TTFT", "TTFT p99");
    }
    for run in &scores.runs {
        let _ = writeln!(out, "{:<48}{}", shortened(&run.name), run_errors(run));
    }
    if let Some(s) = &scores.summary {
        let _ = writeln!(
            out,
            "{:<48}{:>11.1}{:>11.1}{:>11.1}{:>11.1}\noverloaded runs seen as such: {} of {}",
            format!("mean |error| of {} runs", s.runs),
            s.e2e_mape,
            s.tpot_mape,
            s.ttft_mape,
            s.ttft_p99_mape,
            s.overload_seen,
            s.overloaded
        );
    }
    if !scores.setups.is_empty() {
        let _ = writeln!(
            out,
            "{:<48}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "requests not fitted: error, %", "TPOT", "E2E", "TTFT", "TPOT each", "E2E each"
        );
    }
    for s in &scores.setups {
        let _ = writeln!(out, "{:<48}{}", shortened(&s.name), setup_errors(s));
    }
    out
}

fn shortened(name: &str) -> String {
    let skipped = name.chars().count().saturating_sub(46);
    name.chars().skip(skipped).collect()
}

fn run_errors(run: &ScoredRun) -> String {
    match (&run.refused, run.overloaded) {
        (Some(why), _) => format!("  not simulated: {}", why.chars().take(34).collect::<String>()),
        (None, true) if run.simulated_saturated => "  overloaded, and so is the simulation".into(),
        (None, true) => "  overloaded, the simulation is NOT".into(),
        (None, false) => {
            [run.e2e, run.tpot, run.ttft, run.ttft_p99].map(|pair| format!("{:>+11.1}", pair.error_pct())).concat()
        }
    }
}

fn setup_errors(setup: &ScoredSetup) -> String {
    let h = &setup.held_out;
    let means = [h.tpot, h.e2e, h.ttft].map(|pair| format!("{:>+10.1}", pair.error_pct())).concat();
    let each = [h.tpot_mape, h.e2e_mape].map(|e| format!("{:>10.1}", e.unwrap_or(f64::NAN))).concat();
    means + &each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let page = format!("# Page\n\n## One\n\ntext\n\n{TITLE}\n\nold\n\n## Two\n\nmore\n");
        let new = format!("{TITLE}\n\nnew\n\n");
        assert_eq!(replace(&page, &new), format!("# Page\n\n## One\n\ntext\n\n{TITLE}\n\nnew\n\n## Two\n\nmore\n"));
        assert_eq!(replace("# Page\n\n## One\n", &new), format!("# Page\n\n## One\n\n{new}"));
    }
}
