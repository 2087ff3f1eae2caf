//! By which clock are latencies taken?

use serde::{Deserialize, Serialize};

/// Clock of the measured times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Time that passes: what a user waits.
    Wall,
    /// Processor time of this process: on one thread the wall time of an idle machine, whatever else runs on it.
    Cpu,
}

impl Clock {
    /// Seconds since a fixed point.
    pub fn now(self) -> f64 {
        let id = match self {
            Clock::Wall => rustix::time::ClockId::Monotonic,
            Clock::Cpu => rustix::time::ClockId::ProcessCPUTime,
        };
        let at = rustix::time::clock_gettime(id);
        at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
    }

    /// As a flag spells it.
    pub fn word(self) -> &'static str {
        match self {
            Clock::Wall => "wall",
            Clock::Cpu => "cpu",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_wall_time_and_no_processor_time() {
        let (wall, cpu) = (Clock::Wall.now(), Clock::Cpu.now());
        std::thread::sleep(std::time::Duration::from_millis(60));
        let (wall, cpu) = (Clock::Wall.now() - wall, Clock::Cpu.now() - cpu);
        assert!(wall >= 0.06, "{wall}");
        // Other tests of this process may run meanwhile, so only the sign is certain.
        assert!(cpu >= 0.0, "{cpu}");
    }
}
