//! One number for a point, for backends that know no limits: low is good, and the scale is that of a logarithm.

use super::backend::Observation;

/// What a point that does not run costs.
const BROKEN: f64 = 10.0;
/// What one more limit missed by 100 % costs, beside the score it may bring.
const EXCESS: f64 = 2.0;
/// What missing a limit at all costs.
const MISSED: f64 = 0.05;

/// Scores on a scale that is linear near zero and logarithmic away from it, so that a gain of one per cent counts the
/// same at every size. The scale is set by the first scores seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Merit {
    unit: Option<f64>,
}

impl Merit {
    /// Sets the unit from the first points that run: the smallest size among them that is not zero.
    pub fn learn(&mut self, seen: &[Observation]) {
        if self.unit.is_none() {
            self.unit = seen.iter().filter_map(|o| o.score).map(f64::abs).filter(|s| *s > 0.0).reduce(f64::min);
        }
    }

    /// A score on that scale; high is good.
    pub fn of_score(&self, score: f64) -> f64 {
        (score / self.unit.unwrap_or(1.0)).asinh()
    }

    /// The cost of a point: minus its score, and a penalty for what it misses.
    pub fn cost(&self, observation: &Observation) -> f64 {
        match (observation.score, observation.excess()) {
            (Some(score), _) if observation.feasible() => -self.of_score(score),
            (Some(score), Some(excess)) => -self.of_score(score) + MISSED + EXCESS * excess.min(4.0),
            _ => BROKEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(score: f64, excess: f64) -> Observation {
        let rejection = (excess > 0.0).then(String::new);
        Observation { point: 0, score: Some(score), front: None, limits: vec![excess], rejection, legal: true }
    }

    #[test]
    fn better_scores_cost_less_and_missing_costs_more_than_it_brings() {
        let mut merit = Merit::default();
        merit.learn(&[seen(100.0, -0.5), seen(10.0, -0.5)]);
        assert!(merit.cost(&seen(20.0, -0.1)) < merit.cost(&seen(10.0, -0.1)));
        // Throughput grows at most in proportion to the latency it costs.
        for share in [0.01, 0.1, 0.5, 1.0] {
            assert!(merit.cost(&seen(100.0 * (1.0 + share), share)) > merit.cost(&seen(100.0, 0.0)), "{share}");
        }
        let broken = Observation { score: None, limits: vec![], rejection: Some(String::new()), ..seen(1.0, 1.0) };
        assert!(merit.cost(&broken) > merit.cost(&seen(1.0, 4.0)));
    }

    #[test]
    fn negative_scores_keep_their_order() {
        let mut merit = Merit::default();
        merit.learn(&[seen(-40.0, 0.0), seen(0.0, 0.0), seen(-2.0, 0.0)]);
        let costs: Vec<f64> = [0.0, -2.0, -40.0].iter().map(|s| merit.cost(&seen(*s, 0.0))).collect();
        assert!(costs.is_sorted(), "{costs:?}");
    }
}
