//! Judgement: steps of a profile as they were, simulated on a cluster whose constants are from one of them at the most.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use zipwire_profiles::{Profile, Replay};
use zipwire_runner::Cancel;
use zipwire_scenarios::Experiment;
use zipwire_schedule::Rank;

use crate::case::{Case, Run};
use crate::choose::simulate;
use crate::{AdviceError, AdviceSetup};

/// Error of the time of steps up to which a simulation is believed, in percent.
pub const STEP_TOLERANCE_PCT: f64 = 5.0;

/// Error of the time of calls, in percent.
pub const CALLS_TOLERANCE_PCT: f64 = 20.0;

/// Steps that are judged at the most.
const MOST_STEPS: usize = 8;

/// How well steps come out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Steps that constants of the cluster were fitted to; none if it is given.
    pub steps_fitted: Vec<usize>,
    /// Other steps, or that one if there is no other.
    pub judged: Vec<JudgedStep>,
    /// Error of the sum of their times, in percent; none without times of kernels.
    pub step_error_pct: Option<f64>,
    /// Error of the sum of the times of their calls, in percent.
    pub collectives_error_pct: f64,
    /// Whether both are within [`STEP_TOLERANCE_PCT`] and [`CALLS_TOLERANCE_PCT`], on steps that nothing was fitted to.
    pub is_believed: bool,
    /// Reason for people.
    pub why: String,
}

/// A step, measured and predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JudgedStep {
    /// Its number.
    pub step: usize,
    /// Time of the step; none without times of kernels.
    pub measured_s: Option<f64>,
    /// The same, simulated.
    pub predicted_s: f64,
    /// Transfer times of its calls, the mean over ranks.
    pub collectives_measured_s: f64,
    /// The same, simulated.
    pub collectives_predicted_s: f64,
}

/// Simulates steps as they were; none if the profile has no durations, or is from another cluster.
pub(crate) fn judge(
    case: &Case,
    replay: &Replay,
    profile: &Profile,
    setup: &AdviceSetup,
    cancel: &Cancel,
) -> Result<Option<Judgement>, AdviceError> {
    let is_fitted = setup.cluster.is_none();
    if !profile.timing.has_durations() || !(is_fitted || setup.ran_there) {
        return Ok(None);
    }
    let count = replay.steps.len();
    let steps: Vec<usize> = if is_fitted && count > 1 { (1..count).collect() } else { (0..count).collect() };
    let each = steps.len().div_ceil(MOST_STEPS);
    let mut judged = Vec::new();
    for step in steps.into_iter().step_by(each) {
        let experiment = case.experiment(&[], &Run { steps: &[step], queued: "late", seed: 0 })?;
        let (predicted_s, collectives_predicted_s) = native(&experiment, setup.memory, cancel)?;
        let times = replay.steps[step];
        judged.push(JudgedStep {
            step,
            measured_s: times.span_s,
            predicted_s,
            collectives_measured_s: times.calls_s,
            collectives_predicted_s,
        });
    }
    Ok(Some(Judgement::of(judged, is_fitted, count)))
}

/// Time of an iteration without compression, and of its calls: the mean over ranks, without waiting for the last one.
fn native(experiment: &Experiment, memory: Option<u64>, cancel: &Cancel) -> Result<(f64, f64), AdviceError> {
    let mut timeline = None;
    simulate(experiment, memory, cancel, &mut |ran| timeline = Some(ran.timeline.clone()))?;
    let timeline = timeline.unwrap_or_default();
    let segments = experiment.work.segments();
    let mut spans: BTreeMap<(usize, Rank), (f64, f64)> = BTreeMap::new();
    for span in timeline.spans.iter().filter(|span| segments[span.segment.index()].work.communicates()) {
        let own = spans.entry((span.segment.index(), span.rank)).or_insert((f64::INFINITY, 0.0));
        *own = (own.0.min(span.begin_s), own.1.max(span.end_s));
    }
    let ranks = timeline.rank_count;
    let mut least: BTreeMap<(usize, Rank), f64> = BTreeMap::new();
    let key = |segment: usize, rank: Rank| {
        let group = segments[segment].group(rank, ranks);
        (segment, group.map_or(rank, |group| group.first))
    };
    for (&(segment, rank), (begin_s, end_s)) in &spans {
        let least = least.entry(key(segment, rank)).or_insert(f64::INFINITY);
        *least = least.min(end_s - begin_s);
    }
    let total: f64 = spans.keys().map(|&(segment, rank)| least[&key(segment, rank)]).sum();
    let members: BTreeSet<Rank> = spans.keys().map(|(_, rank)| *rank).collect();
    let mean_s = total / members.len().max(1) as f64;
    Ok((timeline.iterations.first().map_or(0.0, |iteration| iteration.length_s), mean_s))
}

impl Judgement {
    fn of(judged: Vec<JudgedStep>, is_fitted: bool, count: usize) -> Self {
        let sum = |of: fn(&JudgedStep) -> f64| judged.iter().map(of).sum::<f64>();
        let error = |predicted: f64, measured: f64| 100.0 * (predicted / measured - 1.0);
        let has_spans = judged.iter().all(|step| step.measured_s.is_some());
        let measured_s = sum(|step| step.measured_s.unwrap_or(0.0));
        let step_error_pct = has_spans.then(|| error(sum(|step| step.predicted_s), measured_s));
        let collectives_error_pct =
            error(sum(|step| step.collectives_predicted_s), sum(|step| step.collectives_measured_s));
        let is_near = step_error_pct.is_none_or(|error| error.abs() <= STEP_TOLERANCE_PCT)
            && collectives_error_pct.abs() <= CALLS_TOLERANCE_PCT;
        let is_circular = is_fitted && count < 2;
        let why = if is_circular {
            "there is one step, so it is judged by what constants were fitted to: profile several".to_owned()
        } else if is_near {
            let steps = step_error_pct.map_or("", |_| "times of steps come out within 5 percent, and ");
            format!("{steps}those of calls within 20 percent")
        } else if collectives_error_pct.abs() > CALLS_TOLERANCE_PCT {
            "times of calls do not come out: other steps took longer or less than those that constants are from, or ranks that are missing \
             were late"
                .to_owned()
        } else {
            "times of steps do not come out: what ranks wait for is not in the profile".to_owned()
        };
        Self {
            steps_fitted: if is_fitted { vec![0] } else { Vec::new() },
            judged,
            step_error_pct,
            collectives_error_pct,
            is_believed: is_near && !is_circular,
            why,
        }
    }
}
