//! Compute phases whose end moves: other lanes of the rank slow them down.
//!
//! An end that has moved leaves its event in the queue; when that comes, it is no longer the end, and nothing happens.

use zipwire_cluster::Progress;
use zipwire_schedule::{Lane, OpId, Rank};

use super::Iteration;
use crate::queue::Event;

/// The compute phase of a rank.
pub(super) struct Computing {
    op: OpId,
    progress: Progress,
    /// When it ends, as far as is known.
    end_s: f64,
}

impl Iteration<'_> {
    /// Begins a compute phase of `seconds` seconds, the launch not included.
    pub(super) fn start_compute(&mut self, rank: Rank, op: OpId, seconds: f64) {
        let (now_s, launch_s) = (self.now_s, self.setup.costs.host.launch_s);
        let slowness = self.faults.slowness(rank);
        self.note_work(rank, launch_s + seconds);
        let factor = self.compute_factor(rank);
        let progress = Progress::begin(now_s + launch_s * slowness, seconds * slowness, factor);
        // One rounding where nothing slows it.
        let end_s = if factor == 1.0 { now_s + (launch_s + seconds) * slowness } else { progress.end_s() };
        self.host(rank).computing = Some(Computing { op, progress, end_s });
        self.queue.push(end_s, Event::Ended { rank, op });
    }

    /// Moves the end of a rank's compute phase, after a codec op or a transfer of the rank has begun or ended.
    pub(super) fn adapt_compute(&mut self, rank: Rank) {
        if self.setup.costs.host.compute_slowdown.is_none() {
            return;
        }
        let (now_s, factor) = (self.now_s, self.compute_factor(rank));
        let Some(computing) = &mut self.host(rank).computing else { return };
        let before_s = computing.progress.end_s();
        computing.progress.change(now_s, factor);
        let (op, end_s) = (computing.op, computing.progress.end_s().max(now_s));
        if end_s != before_s {
            computing.end_s = end_s;
            self.queue.push(end_s, Event::Ended { rank, op });
        }
    }

    /// Whether an op ends now: always, but for compute phases whose end has moved.
    pub(super) fn ends_now(&mut self, rank: Rank, op: OpId) -> bool {
        let now_s = self.now_s;
        let host = self.host(rank);
        match &host.computing {
            Some(computing) if computing.op == op => {
                let is_end = computing.end_s <= now_s;
                if is_end {
                    host.computing = None;
                }
                is_end
            }
            Some(_) | None => !host.ended[op.index()],
        }
    }

    fn compute_factor(&mut self, rank: Rank) -> f64 {
        let slowdown = self.setup.costs.host.compute_slowdown;
        let host = self.host(rank);
        slowdown.factor(host.busy[Lane::Codec as usize] > 0, host.moving > 0)
    }
}
