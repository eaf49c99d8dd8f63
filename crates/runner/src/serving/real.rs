//! Serving on real ranks: the same machine decides, and real bytes of caches move.

use std::sync::Arc;
use std::time::Duration;

use zipwire_engine::serving::{self, Coding, Instance, Pace, ServeError, ServingSetup};
use zipwire_engine::threads::STUCK_AFTER;
use zipwire_payload::Rows;
use zipwire_scenarios::{Experiment, Serving, Variant};
use zipwire_schedule::Lane;
use zipwire_sim::serving::RankTimes;
use zipwire_timeline::{Timeline, Union};

use super::{Ran, SPAN_LIMIT, Served};
use crate::execute::{ExecuteError, Prepared};
use crate::executors::{ServeReport, THREADS, cores};
use crate::{Cancel, Executor};

/// Setup of a variant on real ranks, equal in all processes.
pub(crate) fn setup<'a>(
    experiment: &'a Experiment,
    serving: &'a Serving,
    variant: &Variant,
    rows: &'a [Arc<Rows>],
    stuck_after: Duration,
    verifies: bool,
) -> ServingSetup<'a> {
    let choice = experiment.codec_of(variant).filter(|_| variant.is_coded());
    let coding = choice.map(|choice| Coding {
        spec: choice.spec.clone(),
        cost: choice.cost,
        is_pipelined: serving.is_pipelined,
    });
    ServingSetup {
        compute: serving.compute,
        coding,
        seed: experiment.seed,
        host: experiment.host,
        handshake_s: serving.handshake_s,
        cores: cores(),
        verifies,
        troubles: &serving.troubles,
        until_s: serving.until_s,
        stuck_after,
        span_limit: SPAN_LIMIT,
        ..ServingSetup::new(&serving.requests, serving.config, &serving.shards, serving.geometry, rows)
    }
}

impl Prepared<'_> {
    /// Runs a variant on threads, paced as a cluster or as fast as it goes.
    pub(crate) fn serve_on_threads(
        &self,
        serving: &Serving,
        index: usize,
        pace: Option<Pace<'_>>,
        cancel: &Cancel,
    ) -> Result<serving::Served, ExecuteError> {
        let payload = self.payload(index, THREADS)?;
        let (experiment, variant) = (self.experiment, &self.experiment.variants[index]);
        let verifies = self.verifies();
        let own = setup(experiment, serving, variant, payload.sources(), STUCK_AFTER, verifies);
        let own = ServingSetup { pace, ..own };
        let served =
            serving::run(&own, cancel.flag()).map_err(|error| self.not_served(index, THREADS, error))?;
        self.check_compared(index, &served)?;
        Ok(served)
    }

    /// Error of serving that has failed.
    pub(crate) fn not_served(
        &self,
        index: usize,
        executor: &dyn Executor,
        error: ServeError,
    ) -> ExecuteError {
        if error == ServeError::Stopped {
            return ExecuteError::Cancelled;
        }
        ExecuteError::Serve(self.experiment.variants[index].name.clone(), executor.name(), Box::new(error))
    }

    /// Refuses a run in which not all bytes were compared.
    pub(crate) fn check_compared(&self, index: usize, served: &serving::Served) -> Result<(), ExecuteError> {
        // What a lost instance had received is compared, too, and what stops on its way may have been.
        if self.verifies() && served.totals.bytes_verified < served.bytes_raw {
            return Err(ExecuteError::Unverified(self.experiment.variants[index].name.clone()));
        }
        Ok(())
    }

    /// Report of a run on `executor`.
    pub(crate) fn served_on(
        &self,
        executor: &dyn Executor,
        serving: &Serving,
        served: serving::Served,
    ) -> ServeReport {
        let times =
            times(&served.timeline, serving.shards.ranks(serving.config.decode.instances), served.end_s);
        let mut own = Served::of(
            serving,
            &Ran {
                recorder: &served.recorder,
                times: &times,
                bytes_raw: served.bytes_raw,
                bytes_wire: served.bytes_wire,
                unanswered_at_last_arrival: served.unanswered_at_last_arrival,
                end_s: served.end_s,
                busiest_link: None,
                spans_left_out: served.totals.spans_left_out,
            },
        );
        own.notes = served.lost.iter().map(|lost| {
            let (pool, instance) = match lost.instance {
                Instance::Prefill(instance) => ("prefill", instance),
                Instance::Decode(instance) => ("decode", instance),
            };
            let (rank, at_s) = (lost.rank, lost.noticed_s);
            format!("{executor}: {pool} instance {instance} is gone: rank {rank} said nothing any more, which was noticed at {at_s:.3} s")
        }).collect();
        ServeReport { timeline: served.timeline, verified: Some(self.verifies()), served: own }
    }
}

/// Busy times of ranks, summed over their spans.
fn times(timeline: &Timeline, ranks: u32, end_s: f64) -> RankTimes {
    let of = |is: fn(Lane) -> bool| -> Vec<f64> {
        let mut intervals = vec![Vec::new(); ranks as usize];
        for span in timeline.spans.iter().filter(|span| is(span.lane)) {
            if let Some(intervals) = intervals.get_mut(span.rank.index()) {
                intervals.push((span.begin_s, span.end_s.min(end_s)));
            }
        }
        intervals.into_iter().map(|intervals| Union::of(intervals).length()).collect()
    };
    RankTimes {
        compute_s: of(|lane| lane == Lane::Compute),
        codec_s: of(|lane| lane == Lane::Codec),
        comm_s: of(|lane| matches!(lane, Lane::Tx | Lane::Rx)),
        busy_s: of(|_| true),
    }
}
