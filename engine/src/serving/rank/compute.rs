//! Compute phases of the rank's instance. Nothing is computed: a phase takes its declared time, and longer while the rank codes and
//! moves.

use zipwire_schedule::{Failure, SegmentId};
use zipwire_serving::{Computing, RequestId};

use super::{Due, Run};
use crate::serving::message::ServingReport;
use crate::serving::segment;

/// The instance's work on this rank.
#[derive(Default)]
pub(super) struct Compute {
    computing: Computing,
    work: u32,
    part: u32,
    /// Segment, name and begin of its span.
    note: Option<(SegmentId, &'static str, f64)>,
}

impl Run<'_> {
    pub(super) fn begin_prefill(&mut self, at_s: f64, work: u32, request: RequestId, tokens: [u32; 2]) {
        let (shards, groups) = (self.job.setup.shards, self.job.setup.config.layer_groups);
        let seconds = self.job.compute_s(self.job.setup.compute.prefill.seconds(&(tokens[0]..tokens[1])));
        let share = |group| shards.layers_of(group, groups).len() as f64 / f64::from(shards.layers());
        let parts = (0..groups).map(|group| seconds * share(group)).collect();
        self.begin_work(at_s, work, parts, (segment(request), "prefill"));
    }

    pub(super) fn begin_step(&mut self, at_s: f64, work: u32, sequences: u32, context_tokens: u64) {
        let seconds = self.job.setup.compute.decode.seconds(sequences, context_tokens);
        let parts = vec![self.job.compute_s(seconds)];
        self.begin_work(at_s, work, parts, (SegmentId(0), "decode step"));
    }

    fn begin_work(
        &mut self,
        at_s: f64,
        work: u32,
        parts: Vec<f64>,
        (segment, name): (SegmentId, &'static str),
    ) {
        let host = &self.job.setup.host;
        (self.compute.work, self.compute.part) = (work, 0);
        self.compute.note = Some((segment, name, at_s));
        let begin_s = at_s + self.job.declared_s(host.launch_s);
        let (end_s, version) = self.compute.computing.begin(begin_s, parts, &host.compute_slowdown);
        self.queue.push(end_s, Due::Computed(version));
    }

    /// Ends a part of the work, unless its end has moved meanwhile.
    pub(super) fn computed(&mut self, version: u32, at_s: f64) -> Result<(), Failure> {
        if !self.compute.computing.is_current(version) {
            return Ok(());
        }
        let (work, part) = (self.compute.work, self.compute.part);
        self.compute.part += 1;
        match self.compute.computing.next(at_s, &self.job.setup.host.compute_slowdown) {
            Some((end_s, version)) => self.queue.push(end_s, Due::Computed(version)),
            None => {
                let is_first = self.job.ranks_of(self.job.instance_of(self.rank)).start == self.rank.0;
                if let Some((segment, name, begin_s)) = self.compute.note.take().filter(|_| is_first) {
                    self.span_log.compute(segment, name, [begin_s, at_s]);
                }
            }
        }
        self.transport.count_progress();
        self.report(ServingReport::Computed { work, part, at_s })
    }

    /// Coding and transfers have begun or ended here, which changes the speed of computing. In unpaced runs nothing is
    /// slowed down.
    pub(super) fn disturb(&mut self, at_s: f64, coding: i32, moving: i32) {
        if self.job.setup.pace.is_none() || self.is_dead {
            return;
        }
        let slowdown = &self.job.setup.host.compute_slowdown;
        if let Some((end_s, version)) = self.compute.computing.disturb(at_s, coding, moving, slowdown) {
            self.queue.push(end_s, Due::Computed(version));
        }
    }
}
