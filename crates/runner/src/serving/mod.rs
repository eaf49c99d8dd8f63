//! Workload `serving`: requests instead of iterations, a machine that decides instead of a plan.

mod real;
mod validate;

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;
use zipwire_codec::Spec;
use zipwire_kv::{KvCodec, KvError, Place};
use zipwire_payload::{Payload, stream};
use zipwire_scenarios::{Experiment, Serving, Variant};
use zipwire_schedule::SegmentId;
use zipwire_serving::{Metrics as RequestMetrics, Record, Recorder, Requests, Summary};
use zipwire_sim::SimError;
use zipwire_sim::serving::{Coding, RankTimes, SimServingSetup, run as simulate_requests};
use zipwire_timeline::{Metrics, Spread};

use crate::Cancel;
use crate::execute::ExecuteError;
use crate::executors::{ServeReport, ServeRun};

pub(crate) use self::real::setup;
pub use self::validate::{
    ServingValidation, ServingValidationSetup, ServingVariantValidation, validate_serving,
};

/// Spans of a timeline at the most: 100 MB of them, which is more than a viewer of timelines shows.
const SPAN_LIMIT: usize = 1_000_000;

/// Outcome of all requests of a run.
#[derive(Clone, Debug)]
pub struct Served {
    /// The requests.
    pub requests: Arc<Requests>,
    /// When things happened to each.
    pub records: Vec<Record>,
    /// Latencies that users saw, and the resources that were used.
    pub summary: Summary,
    /// Times and bytes of the whole run, which counts as one iteration.
    pub metrics: Metrics,
    /// Spans that the timeline has no room for.
    pub spans_left_out: u64,
    /// Remarks on the run, a line each.
    pub notes: Vec<String>,
}

/// Record of a run, simulated or real.
struct Ran<'a> {
    recorder: &'a Recorder,
    times: &'a RankTimes,
    bytes_raw: u64,
    bytes_wire: u64,
    unanswered_at_last_arrival: u32,
    end_s: f64,
    /// Share of its capacity that the busiest link carried.
    busiest_link: Option<f64>,
    spans_left_out: u64,
}

/// A hash of everything that decides what is served how: what a plan's digest is elsewhere.
pub(crate) fn digest(experiment: &Experiment, serving: &Serving, variant: &Variant) -> String {
    let codec = experiment.codec_of(variant).filter(|_| variant.is_coded());
    format!("{:032x}", xxh3_128(format!("{serving:?} {codec:?}").as_bytes()))
}

/// Simulates a run.
pub(crate) fn simulate(
    experiment: &Experiment,
    run: &ServeRun<'_>,
    cancel: &Cancel,
) -> Result<ServeReport, ExecuteError> {
    let ServeRun { index, serving, .. } = *run;
    let variant = &experiment.variants[index];
    let setup = SimServingSetup {
        requests: &serving.requests,
        config: serving.config,
        compute: serving.compute,
        shards: &serving.shards,
        topology: &experiment.topology,
        model: experiment.model,
        host: experiment.host,
        handshake_s: serving.handshake_s,
        coding: coding(experiment, serving, variant)?,
        troubles: &serving.troubles,
        until_s: serving.until_s,
        span_limit: SPAN_LIMIT,
    };
    let ran = simulate_requests(&setup, &|| !cancel.is_cancelled()).map_err(|error| match error {
        SimError::Cancelled => ExecuteError::Cancelled,
        error => ExecuteError::Sim(variant.name.clone(), error),
    })?;
    let capacities = experiment.topology.capacities();
    let shares = ran.link_bytes.iter().zip(capacities).map(|(&bytes, capacity)| bytes as f64 / capacity);
    let busiest_link = (ran.end_s > 0.0).then(|| shares.fold(0.0, f64::max) / ran.end_s);
    let served = Served::of(
        serving,
        &Ran {
            recorder: &ran.recorder,
            times: &ran.times,
            bytes_raw: ran.bytes_raw,
            bytes_wire: ran.bytes_wire,
            unanswered_at_last_arrival: ran.unanswered_at_last_arrival,
            end_s: ran.end_s,
            busiest_link,
            spans_left_out: ran.spans_left_out,
        },
    );
    Ok(ServeReport { timeline: ran.timeline, verified: None, served, least_dilation: 1.0, late: (0, 0.0) })
}

/// How a variant codes caches, with the size that its codec has on the payload.
fn coding(
    experiment: &Experiment,
    serving: &Serving,
    variant: &Variant,
) -> Result<Option<Coding>, ExecuteError> {
    let Some(choice) = experiment.codec_of(variant).filter(|_| variant.is_coded()) else { return Ok(None) };
    let size = match (choice.ratio, &experiment.payload) {
        (Some(ratio), _) => 1.0 / ratio,
        (None, Some(payload)) => measured(serving, &choice.spec, payload, experiment.seed)
            .map_err(|error| ExecuteError::Caches(variant.name.clone(), Box::new(error)))?,
        (None, None) => unreachable!("scenarios with coded variants have a payload or a ratio"),
    };
    let &Serving { is_pipelined, geometry, .. } = serving;
    Ok(Some(Coding { cost: choice.cost, size, piece_tokens: geometry.group_tokens(), is_pipelined }))
}

impl Served {
    fn of(serving: &Serving, ran: &Ran<'_>) -> Self {
        let Serving { requests, config, shards, slo, .. } = serving;
        let records = ran.recorder.records().to_vec();
        let prompts: u64 = requests
            .list()
            .iter()
            .zip(&records)
            .filter(|(_, record)| record.prefill.is_some())
            .map(|(request, _)| u64::from(request.input_tokens))
            .sum();
        let cached: u64 =
            records.iter().filter_map(|record| record.prefill).map(|(_, cached)| u64::from(cached)).sum();
        let pool = config.prefill.instances as usize * shards.prefill_ranks(0).len();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let share = |seconds: f64| if ran.end_s > 0.0 { seconds / ran.end_s } else { 0.0 };
        let (prefill_s, decode_s) = ran.times.compute_s.split_at(pool);
        let idle: Vec<f64> = ran.times.busy_s.iter().map(|busy_s| (ran.end_s - busy_s).max(0.0)).collect();
        let summary = Summary {
            metrics: RequestMetrics::of(requests, ran.recorder, slo, ran.unanswered_at_last_arrival),
            kv_bytes_raw: ran.bytes_raw,
            kv_bytes_wire: ran.bytes_wire,
            cached_tokens: if prompts > 0 { cached as f64 / prompts as f64 } else { 0.0 },
            prefill_busy: share(mean(prefill_s)),
            decode_busy: share(mean(decode_s)),
            busiest_link: ran.busiest_link,
        };
        let metrics = Metrics {
            iteration_s: Spread::of(&[ran.end_s]),
            margin_s: None,
            comm_s: mean(&ran.times.comm_s),
            wait_s: mean(&idle),
            codec_s: mean(&ran.times.codec_s),
            reduce_s: 0.0,
            compute_s: mean(&ran.times.compute_s),
            bytes_raw: ran.bytes_raw,
            bytes_wire: ran.bytes_wire,
            ratio: (ran.bytes_wire > 0).then(|| ran.bytes_raw as f64 / ran.bytes_wire as f64),
        };
        let requests = Arc::clone(requests);
        Self { requests, records, summary, metrics, spans_left_out: ran.spans_left_out, notes: Vec::new() }
    }
}

/// Groups that are coded: of 256 tokens of eight heads of 128 values they are 16 MiB.
const GROUPS: u64 = 16;

/// Coded bytes over raw ones, headers included: a mean over groups whose rows are drawn.
fn measured(serving: &Serving, spec: &Spec, payload: &Payload, seed: u64) -> Result<f64, KvError> {
    let geometry = serving.geometry;
    let codec = KvCodec::new(geometry, spec.clone())?;
    let plane_len = geometry.row_len() * geometry.group_tokens() as usize;
    let mut planes = vec![vec![0; plane_len]; geometry.planes()];
    let mut out = vec![0; codec.bound(geometry.group_tokens())];
    let (mut raw, mut coded) = (0, 0);
    for group in 0..GROUPS {
        for (plane, bytes) in planes.iter_mut().enumerate() {
            let draws = stream(seed, "caches", [group, plane as u64, 0]);
            payload.source(SegmentId(plane as u32)).fill(draws, bytes);
        }
        let layer = group as u32 % geometry.layers();
        let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        coded += codec.encode(Place { layer, token: 0 }, &planes, &mut out)?;
        raw += plane_len * geometry.planes();
    }
    Ok(coded as f64 / raw as f64)
}
