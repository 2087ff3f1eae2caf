//! What disturbs a fleet: requests without a place, the hand-over to decode replicas, failures, the end of a run.

use super::clock::Time;
use super::fleet::Fleet;
use super::request_log::Live;

impl Fleet<'_> {
    /// Requests that found no replica try again.
    pub(super) fn serve_held(&mut self, now: Time) {
        for _ in 0..self.held.len() {
            let Some(index) = self.held.pop_front() else { return };
            let before = self.held.len();
            if self.lives[index as usize].outputs > 0 {
                self.start_decode(index, now)
            } else {
                self.route(index, now)
            }
            if self.held.len() > before {
                // Still nowhere to go: back to its place.
                if let Some(index) = self.held.pop_back() {
                    self.held.push_front(index);
                }
                return;
            }
        }
    }

    pub(super) fn start_decode(&mut self, index: u32, now: Time) {
        let pool = self.front_pool().end..self.replicas.len();
        let open = pool.filter(|r| self.replicas[*r].up);
        match open.min_by_key(|r| (self.in_flight[*r], *r)) {
            Some(replica) => self.deliver(index, replica, now),
            None => self.held.push_back(index),
        }
    }

    /// A replica fails: its requests begin anew elsewhere.
    pub(super) fn fail(&mut self, replica: usize, now: Time) {
        self.cut(replica, now, true);
        let here = |l: &Live| l.output_len > 0 && l.replica == replica && !l.leaving;
        let held: Vec<u32> = self.held.iter().copied().collect();
        let lost: Vec<u32> = (0..self.lives.len() as u32)
            .filter(|i| here(&self.lives[*i as usize]) && !held.contains(i))
            .filter(|i| !self.in_transfer(*i))
            .collect();
        let engine = &mut self.replicas[replica];
        lost.iter().for_each(|index| engine.scheduler.abort(self.lives[*index as usize].slot));
        let waste = engine.scheduler.waste();
        self.lost.preempted += waste.preempted;
        self.lost.rejected += waste.rejected;
        self.lost.discarded += waste.discarded;
        self.lost.aborted += waste.aborted;
        engine.kill(self.scenario.engine.build());
        self.in_flight[replica] = 0;
        for index in lost {
            let live = &mut self.lives[index as usize];
            live.outputs = 0;
            live.admitted = None;
            live.restarts += 1;
            self.log.restarts += 1;
            self.route(index, now);
        }
    }

    /// Its KV is on the way: no engine holds it.
    fn in_transfer(&self, index: u32) -> bool {
        let live = &self.lives[index as usize];
        live.in_prefill && live.outputs > 0
    }

    pub(super) fn recover(&mut self, replica: usize, now: Time) {
        self.replicas[replica].up = true;
        self.serve_held(now);
    }

    /// Counts what never got an answer.
    pub(super) fn give_up_rest(&mut self, now: Time) {
        for index in 0..self.lives.len() {
            if self.lives[index].output_len > 0 {
                let live = std::mem::take(&mut self.lives[index]);
                self.log.refusals.unserved += 1;
                self.log.leave(&live, now, false);
            }
        }
    }
}
