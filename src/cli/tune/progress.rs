//! How far is it? A bar on a terminal for searches over a second, nothing when piped; and the CPU time spent.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts points and draws a bar once a second has passed.
pub struct Progress {
    points: u64,
    done: AtomicU64,
    started: Instant,
    visible: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// A counter for `points`.
    pub fn new(points: u64) -> Self {
        let visible = std::io::stderr().is_terminal();
        Self { points, done: AtomicU64::new(0), started: Instant::now(), visible, bar: OnceLock::new() }
    }

    /// Adds points from any thread.
    pub fn add(&self, points: u64) {
        let done = self.done.fetch_add(points, Ordering::Relaxed) + points;
        if !self.visible || self.started.elapsed() < Duration::from_secs(1) {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::with_draw_target(Some(self.points), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} points, {eta} left") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_position(done);
    }

    /// Wipes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// CPU time of all threads so far in seconds, from Linux's scheduler statistics; `None` elsewhere.
pub fn cpu_seconds() -> Option<f64> {
    let mut nanoseconds: u64 = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        nanoseconds += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanoseconds as f64 / 1e9)
}
