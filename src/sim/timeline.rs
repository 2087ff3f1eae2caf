//! How does a run develop? Presence, arrivals and answers in equal bins of time.

use super::clock::Time;
use serde::Serialize;

/// Bins at most; when a run outgrows them, neighbours are merged.
const MOST_BINS: usize = 256;

/// One bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Requests in the system, time average.
    pub present: f64,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests answered.
    pub finished: u64,
    /// Their answer tokens.
    pub output_tokens: u64,
}

/// The bins, each `width` long, from time 0 on.
#[derive(Debug, Clone)]
pub struct Timeline {
    width: Time,
    /// `present` holds request-seconds here.
    bins: Vec<Bin>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width: Time::from_seconds(1.0 / 64.0), bins: Vec::new() }
    }
}

impl Timeline {
    fn bin(&mut self, at: Time) -> &mut Bin {
        while at.0 / self.width.0 >= MOST_BINS as u64 {
            self.width.0 *= 2;
            let merged = self.bins.chunks(2).map(|pair| {
                let second = pair.get(1).copied().unwrap_or_default();
                Bin {
                    present: pair[0].present + second.present,
                    arrived: pair[0].arrived + second.arrived,
                    finished: pair[0].finished + second.finished,
                    output_tokens: pair[0].output_tokens + second.output_tokens,
                }
            });
            self.bins = merged.collect();
        }
        let index = (at.0 / self.width.0) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    /// `count` requests were present from `from` to `to`.
    pub fn present(&mut self, from: Time, to: Time, count: u64) {
        if count == 0 || to <= from {
            return;
        }
        self.bin(to); // widens the bins as far as this span needs
        let mut at = from;
        while at < to {
            let end = Time((at.0 / self.width.0 + 1) * self.width.0).min(to);
            self.bin(at).present += end.since(at).seconds() * count as f64;
            at = end;
        }
    }

    /// A request arrived.
    pub fn arrived(&mut self, at: Time) {
        self.bin(at).arrived += 1;
    }

    /// A request was answered.
    pub fn finished(&mut self, at: Time, tokens: u32) {
        let bin = self.bin(at);
        bin.finished += 1;
        bin.output_tokens += u64::from(tokens);
    }

    /// Width of a bin, s, and the bins.
    pub fn bins(&self) -> (f64, Vec<Bin>) {
        let width = self.width.seconds();
        (width, self.bins.iter().map(|b| Bin { present: b.present / width, ..*b }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_the_sums() {
        let mut timeline = Timeline::default();
        timeline.arrived(Time(0));
        timeline.present(Time(0), Time::from_seconds(10.0), 3);
        timeline.arrived(Time::from_seconds(9.5));
        let (width, bins) = timeline.bins();
        assert!(bins.len() <= MOST_BINS);
        assert_eq!(bins.iter().map(|b| b.arrived).sum::<u64>(), 2);
        let request_seconds: f64 = bins.iter().map(|b| b.present * width).sum();
        assert!((request_seconds - 30.0).abs() < 1e-9);
    }
}
