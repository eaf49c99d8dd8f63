//! Serving on real ranks: the same machine decides, and real bytes of caches move.

use std::time::Duration;

use zipwire_engine::serving::{self, Coding, Instance, ServeError, ServingSetup, least_dilation};
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Serving};
use zipwire_schedule::Lane;
use zipwire_sim::serving::RankTimes;
use zipwire_timeline::{Timeline, Union};

use super::{Ran, SPAN_LIMIT, Served};
use crate::Executor;
use crate::execute::{ExecuteError, Prepared};
use crate::executors::{ServeReport, ServeRun, cores};

/// Setup of a run on real ranks, equal in all processes.
pub(crate) fn setup<'a>(
    experiment: &'a Experiment,
    run: &ServeRun<'a>,
    payload: &'a Payload,
    stuck_after: Duration,
    verifies: bool,
) -> ServingSetup<'a> {
    let ServeRun { index, serving, pace } = *run;
    let variant = &experiment.variants[index];
    let choice = experiment.codec_of(variant).filter(|_| variant.is_coded());
    let &Serving { is_pipelined, .. } = serving;
    let coding = choice.map(|choice| Coding { spec: choice.spec.clone(), cost: choice.cost, is_pipelined });
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
        pace,
        ..ServingSetup::new(
            &serving.requests,
            serving.config,
            &serving.shards,
            serving.geometry,
            payload.sources(),
        )
    }
}

impl Prepared<'_> {
    /// Report of requests that were served on `executor` as `setup` says.
    ///
    /// # Errors
    /// If serving has failed, or not all bytes were compared.
    pub(crate) fn served_on(
        &self,
        executor: &dyn Executor,
        run: &ServeRun<'_>,
        setup: &ServingSetup<'_>,
        served: Result<serving::Served, ServeError>,
    ) -> Result<ServeReport, ExecuteError> {
        let variant = || self.experiment.variants[run.index].name.clone();
        let served = served.map_err(|error| match error {
            ServeError::Stopped => ExecuteError::Cancelled,
            error => ExecuteError::Serve(variant(), executor.name(), Box::new(error)),
        })?;
        // What a lost instance had received is compared, too, and what stops on its way may have been.
        if setup.verifies && served.totals.bytes_verified < served.bytes_raw {
            return Err(ExecuteError::Unverified(variant()));
        }
        let serving = run.serving;
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
        Ok(ServeReport {
            least_dilation: least_dilation(setup, &self.experiment.topology, &served),
            late: served.totals.late,
            timeline: served.timeline,
            verified: Some(setup.verifies),
            served: own,
        })
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
