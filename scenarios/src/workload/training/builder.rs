//! Collects the segments of an iteration, how long its compute phases take, and which tensor each call carries.

use std::fmt::Display;
use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_schedule::{Channel, Durations, Job, Rank, Segment, Slot, Work};

use super::super::amounts::check_durations;
use super::super::{Context, Workload};
use super::settings::Settings;
use crate::error::Result;
use crate::language::{BYTES_LIMIT, Field};
use crate::noise::Noise;
use crate::payload::Rowset;
use crate::problem::Problem;
use crate::skew::{Shape, Skew};

/// An iteration in the making.
pub(super) struct Builder<'a> {
    context: &'a Context<'a>,
    skew: Option<Skew>,
    noise: Noise,
    slots: Vec<&'static str>,
    segments: Vec<Segment>,
    times: Vec<Time>,
    /// The tensor of the payload that each segment carries; `None` for compute phases.
    tensors: Vec<Option<usize>>,
}

/// Seconds of a segment.
#[derive(Clone, Debug)]
pub(super) enum Time {
    /// The same on every rank.
    Equal(f64),
    /// By rank.
    PerRank(Vec<f64>),
    /// Drawn, before phases that take this many seconds.
    Skew(f64),
    /// Before a call, whose time is not known.
    Unknown,
}

/// Slots that a compute phase uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uses<'a> {
    pub(super) reads: &'a [Slot],
    pub(super) writes: &'a [Slot],
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: &'a Context<'a>, settings: &Settings) -> Self {
        let (slots, segments, times, tensors) = Default::default();
        let (skew, noise) = (settings.skew, settings.compute.noise);
        Self { context, skew, noise, slots, segments, times, tensors }
    }

    /// A new buffer of every rank.
    pub(super) fn slot(&mut self, name: &'static str) -> Slot {
        self.slots.push(name);
        Slot(u32::try_from(self.slots.len() - 1).expect("slots are counted in 32 bits"))
    }

    /// A delay in front of phases that take `compute_s` on average, if there is skew. It uses what they use: otherwise a
    /// rank would be late during the call before.
    pub(super) fn skew(&mut self, name: impl Display, compute_s: f64, uses: Uses<'_>) {
        if self.skew.is_some() && compute_s > 0.0 {
            self.compute(format!("{name} skew"), "skew", Time::Skew(compute_s), uses);
        }
    }

    /// A compute phase; `phase` is what it is without its layer.
    pub(super) fn compute(
        &mut self,
        name: impl Display,
        phase: &'static str,
        time: Time,
        Uses { reads, writes }: Uses<'_>,
    ) {
        let work = Work::Compute { phase, reads: reads.to_vec(), writes: writes.to_vec() };
        self.push(name, work, Channel::Main, time, None);
    }

    /// A compute phase that takes as long on every rank, with a delay in front of it, if there is skew.
    pub(super) fn phase(&mut self, name: &str, phase: &'static str, seconds: f64, uses: Uses<'_>) {
        self.skew(name, seconds, uses);
        self.compute(name, phase, Time::Equal(seconds), uses);
    }

    /// A collective call that carries the rows of a tensor of the payload.
    pub(super) fn call(&mut self, name: impl Display, work: Work, channel: Channel, tensor: usize) {
        self.push(name, work, channel, Time::Unknown, Some(tensor));
    }

    fn push(&mut self, name: impl Display, work: Work, channel: Channel, time: Time, tensor: Option<usize>) {
        let name: Arc<str> = name.to_string().into();
        self.segments.push(Segment { name, work, channel });
        self.times.push(time);
        self.tensors.push(tensor);
    }

    /// The workload, of the kind that `field` describes.
    pub(super) fn finish(
        self,
        kind: &'static str,
        field: &Field<'_>,
        dtypes: Vec<DType>,
        rows: Option<Rowset>,
    ) -> Result<Workload> {
        let Context { iterations, ranks, seed, .. } = *self.context;
        check_durations(iterations, self.segments.len(), ranks, field)?;
        let mut durations = Durations::zeros(iterations, self.segments.len(), ranks);
        let mut set = |segment, seconds: &dyn Fn(usize) -> f64| {
            for (iteration, rank) in (0..iterations).flat_map(|i| (0..ranks).map(move |rank| (i, Rank(rank))))
            {
                durations.set(iteration, segment, rank, seconds(rank.index()));
            }
        };
        for (segment, time) in self.times.iter().enumerate() {
            match time {
                Time::Equal(seconds) => set(segment, &|_| *seconds),
                Time::PerRank(seconds) => set(segment, &|rank| seconds[rank]),
                Time::Skew(_) | Time::Unknown => {}
            }
        }
        let shape = Shape { iterations, ranks };
        for (segment, time) in self.times.iter().enumerate() {
            match (time, self.skew) {
                (Time::Equal(_) | Time::PerRank(_), _) => {
                    self.noise.apply(segment, seed, shape, &mut durations);
                }
                (Time::Skew(compute_s), Some(skew)) => {
                    skew.draw(*compute_s, segment, seed, shape, &mut durations);
                }
                (Time::Skew(_) | Time::Unknown, _) => {}
            }
        }
        let job = Job { name: kind, rank_count: ranks, slots: self.slots, segments: self.segments };
        Ok(Workload::new(job, durations, dtypes, rows, self.tensors))
    }
}

/// No rank sends or receives more than the limit in a call.
pub(super) fn check_call(bytes: u64, field: &Field<'_>) -> Result<()> {
    check("bytes of a call on one rank", bytes, BYTES_LIMIT, field)
}

/// `what` is at most `limit`.
pub(super) fn check(what: &str, value: u64, limit: u64, field: &Field<'_>) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    Err(field.error(Problem::out_of_range(what, value, format!("at most {limit}"))))
}
