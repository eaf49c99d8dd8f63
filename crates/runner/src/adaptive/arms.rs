//! The plans between which an adaptive variant chooses, what the model says about them, and what was measured of an iteration.

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_payload::{Payload, Rows};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::{LocalKind, OpKind, Plan};
use zipwire_schedule::switcher::{
    Arm, ClassModel, LinearModel, Observation, Prior, Switcher, SwitcherReport, classes,
};
use zipwire_schedule::{Algorithm, CallKind, Choice, Job, Lane, Protocol, Rank, Segment, Slot, Work};
use zipwire_timeline::Timeline;

use super::tables::{TABLE_BYTES, takes_new_tables};
use crate::choices::{choice, costs};
use crate::{ExecuteError, Executor};

/// Name of the segment in which ranks tell each other what their calls took.
const STATISTICS: &str = "statistics";

/// Bytes that a rank tells about a class: begin and end in 32 bits each, and bytes on the wire.
const STATISTICS_BYTES: u64 = 16;

/// The jobs and choices of an adaptive variant.
pub(crate) struct Arms<'a> {
    experiment: &'a Experiment,
    variant: &'a Variant,
    /// How each arm lets each segment travel; the last two segments are the statistics'.
    choices: Vec<Vec<Choice>>,
    /// With statistics, and with an empty segment in their place: all plans have the same segments.
    jobs: [Job; 2],
    /// Uncompressed bytes of each segment, over all ranks.
    pub(super) raw_bytes: Vec<u64>,
    models: Vec<ClassModel>,
}

/// Cost of one segment of a plan, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    raw_bytes: u64,
    /// Most exchanges of a rank.
    exchanges: u32,
    /// Most codec ops of a rank.
    codec_ops: u32,
    /// Seconds that coding and reducing take the busiest rank.
    codec_s: f64,
    /// Seconds that the busiest link takes.
    network_s: f64,
    /// Fixed seconds of library calls, and seconds that grow with their bytes, of the rank that has most of each.
    calls_s: f64,
    called_s: f64,
    /// Bytes that they move, over all ranks.
    called_bytes: u64,
}

impl<'a> Arms<'a> {
    pub(crate) fn new(experiment: &'a Experiment, variant: &'a Variant) -> Self {
        let job = experiment.job();
        let statistics = Choice { algorithm: Some(Algorithm::Direct), ..Choice::of(Protocol::Native, None) };
        let of_arm = |arm: &Variant| {
            let segments = (0..job.segments.len()).map(|segment| choice(experiment, arm, segment));
            segments.chain([statistics.clone(), statistics.clone()]).collect::<Vec<_>>()
        };
        let choices = variant.arms.iter().map(of_arm).collect();
        let native = Choice::of(Protocol::Native, None);
        let plain = zipwire_schedule::plan(job, &native);
        let raw = loads(experiment, variant, &plain);
        let raw_bytes: Vec<u64> = raw.iter().map(|load| load.raw_bytes).collect();
        let mut arms = Self {
            experiment,
            variant,
            choices,
            jobs: [job.clone(), job.clone()],
            raw_bytes,
            models: Vec::new(),
        };
        let found = classes(job, &arms.raw_bytes);
        let of_table = if takes_new_tables(experiment, variant) { TABLE_BYTES } else { 0 };
        let bytes = STATISTICS_BYTES * found.len() as u64 + of_table;
        arms.jobs = [bytes, 0].map(|bytes| with_statistics(job, bytes));
        let by_arm: Vec<Vec<Load>> = (0..variant.arms.len())
            .map(|arm| loads(experiment, variant, &arms.plan(&vec![arm; job.segments.len()], false)))
            .collect();
        arms.models = found
            .into_iter()
            .map(|class| {
                let segment = class.segments[0].index();
                let coded = by_arm.iter().zip(&variant.arms);
                let priors =
                    coded.map(|(loads, arm)| arms.prior(arm, &raw[segment], &loads[segment])).collect();
                let beta_s_per_byte = raw[segment].network_s / raw[segment].raw_bytes as f64;
                ClassModel { class, priors, beta_s_per_byte }
            })
            .collect();
        arms
    }

    fn prior(&self, arm: &Variant, raw: &Load, load: &Load) -> Prior {
        let (topology, host) = (&self.experiment.topology, self.experiment.host);
        let latency_s = if topology.nodes > 1 { topology.latency_inter_s } else { topology.latency_intra_s };
        let codec_launch_s =
            self.experiment.codec_of(self.variant).map_or(0.0, |choice| choice.cost.launch_s);
        let model = LinearModel {
            alpha_s: latency_s + host.launch_s,
            gamma_s_per_byte: load.codec_s / raw.raw_bytes as f64,
            coded_s: codec_launch_s * f64::from(load.codec_ops) + host.sync_s,
        };
        // Where no ratio is stated nothing is known before the first call: as if nothing were saved.
        let stated = self.experiment.codec_of(self.variant).and_then(|choice| choice.ratio).unwrap_or(1.0);
        if arm.is_coded() {
            return model.coded(load.exchanges, 1.0 / stated);
        }
        if load.called_bytes > 0 {
            let s_per_byte = load.called_s / load.called_bytes as f64;
            return model.library(load.calls_s, s_per_byte, load.called_bytes as f64 / raw.raw_bytes as f64);
        }
        // Uncompressed reductions add up, too.
        Prior { codec_s_per_byte: model.gamma_s_per_byte, ..model.native(load.exchanges) }
    }

    /// A switcher that knows nothing but the model.
    pub(crate) fn switcher(&self) -> Switcher {
        let arm = |arm: &Variant| Arm { name: arm.name.clone(), is_coded: arm.is_coded() };
        let arms = self.variant.arms.iter().map(arm).collect();
        Switcher::new(arms, self.models.clone(), self.experiment.job().segments.len())
    }

    fn job(&self, exchanges: bool) -> &Job {
        &self.jobs[usize::from(!exchanges)]
    }

    /// The plan of an iteration in which each segment has its own arm.
    pub(crate) fn plan(&self, arms: &[usize], exchanges: bool) -> Plan {
        let job = self.job(exchanges);
        // The statistics are the same in all arms.
        let arms = arms.iter().copied().chain([0, 0]);
        let choices: Vec<&Choice> =
            arms.enumerate().map(|(segment, arm)| &self.choices[arm][segment]).collect();
        zipwire_schedule::plan_each(job, &choices)
    }

    /// The same, checked.
    pub(super) fn valid_plan(&self, arms: &[usize], exchanges: bool) -> Result<Plan, ExecuteError> {
        let plan = self.plan(arms, exchanges);
        let checked = plan.validate_for(self.job(exchanges));
        checked.map_err(|error| ExecuteError::Plan(self.variant.name.clone(), error))?;
        Ok(plan)
    }

    /// The scenario's payload with a placeholder for the exchanged statistics: the switcher reads these from the timeline.
    pub(crate) fn payload(&self, executor: &dyn Executor) -> Result<Payload, ExecuteError> {
        let payload = self.experiment.payload.clone();
        let payload =
            payload.ok_or_else(|| ExecuteError::NoPayload(self.variant.name.clone(), executor.name()))?;
        let rows = Arc::new(Rows::gaussian(1.0, self.experiment.seed));
        Ok(payload.with_sources([Arc::clone(&rows), rows]))
    }

    pub(crate) fn first_plan(&self) -> Plan {
        let round = self.switcher().choose(0);
        self.plan(&round.arms, round.exchanges)
    }
}

/// The job with a last call in which every rank tells all others so many bytes. A phase without a duration gathers them behind
/// the last call, and behind whatever claims its buffers. Without bytes both segments are empty.
fn with_statistics(job: &Job, bytes: u64) -> Job {
    let mut job = job.clone();
    let calls = job.segments.iter().rev().filter(|segment| !segment.channel.is_background());
    let last = calls.filter(|segment| segment.work.is_collective()).find_map(|segment| segment.work.slots());
    let any = || job.segments.iter().rev().find_map(|segment| segment.work.slots());
    let reads = last.or_else(any).expect("an adaptive variant has a collective call").to_vec();
    let [input, output] = ["own statistics", "statistics"].map(|name| {
        job.slots.push(name);
        Slot(u32::try_from(job.slots.len() - 1).expect("slots are counted in 32 bits"))
    });
    let kind = CallKind::AllGather { bytes: vec![bytes; job.rank_count as usize] };
    let tell = Work::of_call(DType::Bf16, [input, output], kind);
    let gather = if bytes > 0 {
        Work::Compute { phase: "own statistics", reads, writes: vec![input] }
    } else {
        tell.clone()
    };
    job.segments.extend([Segment::new("own statistics", gather), Segment::new(STATISTICS, tell)]);
    job
}

fn loads(experiment: &Experiment, variant: &Variant, plan: &Plan) -> Vec<Load> {
    let (topology, count) = (&experiment.topology, experiment.job().segments.len());
    let (capacities, costs) = (topology.capacities(), costs(experiment, variant));
    let mut links = vec![vec![0_u64; capacities.len()]; count];
    let mut loads = vec![Load::default(); count];
    for program in &plan.programs {
        let mut own = vec![Load::default(); count];
        for op in program.ops.iter().filter(|op| op.segment.index() < count) {
            let load = &mut own[op.segment.index()];
            match &op.kind {
                OpKind::Exchange(exchange) => {
                    load.exchanges += 1;
                    for transfer in &exchange.sends {
                        let bytes = transfer.content.values().map_or(0, |region| region.len);
                        load.raw_bytes += bytes;
                        for link in topology.route(program.rank, transfer.peer).links() {
                            links[op.segment.index()][link.index()] += bytes;
                        }
                    }
                }
                OpKind::Local(local) => {
                    load.codec_ops += u32::from(local.batch().is_some());
                    // What copies take is left to the measurement.
                    if local.kind() != LocalKind::GatherRows {
                        load.codec_s += costs.of(&op.kind).work_s;
                    }
                }
                OpKind::Library(call) => {
                    let bytes = call.ring_bytes(|_| unreachable!("arms that call a library are not coded"));
                    load.called_bytes += bytes;
                    // What a call takes, it takes on all ranks.
                    if program.rank == Rank(0) {
                        let activity = costs.call(call, topology, bytes);
                        load.calls_s += activity.latency_s;
                        load.called_s += activity.alone_s(&capacities) - activity.latency_s;
                    }
                }
                OpKind::Compute(_) => {}
            }
        }
        for (load, own) in loads.iter_mut().zip(own) {
            load.raw_bytes += own.raw_bytes;
            load.exchanges = load.exchanges.max(own.exchanges);
            load.codec_ops = load.codec_ops.max(own.codec_ops);
            load.codec_s = load.codec_s.max(own.codec_s);
            load.calls_s = load.calls_s.max(own.calls_s);
            load.called_s = load.called_s.max(own.called_s);
            load.called_bytes += own.called_bytes;
        }
    }
    for (load, links) in loads.iter_mut().zip(links) {
        let seconds = links.iter().zip(&capacities).map(|(&bytes, capacity)| bytes as f64 / capacity);
        load.network_s = seconds.fold(0.0, f64::max);
    }
    loads
}

/// A call takes from the moment at which the last rank begins its first op (an encode, where there is one) to the end of
/// the last rank's last op. The time in which early ranks wait for a late one does not count: it is not the protocol's doing, and
/// differs from iteration to iteration. Work of early ranks while a late one computes is hidden under any protocol, and does not count
/// either; so the codec counts where it makes other ranks wait.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// When the last rank began.
    latest_begin_s: f64,
    end_s: f64,
    wire_bytes: u64,
}

/// The report about one iteration; `raw_bytes` are those of each segment. The exchange of statistics is the last segment.
pub(super) fn report(timeline: &Timeline, raw_bytes: &[u64]) -> SwitcherReport {
    let count = timeline.segments.len();
    let mut begins_s = vec![f64::INFINITY; count * timeline.rank_count as usize];
    let mut extents = vec![Extent { latest_begin_s: f64::NEG_INFINITY, end_s: 0.0, wire_bytes: 0 }; count];
    for span in &timeline.spans {
        let begin_s = &mut begins_s[span.rank.index() * count + span.segment.index()];
        *begin_s = begin_s.min(span.begin_s);
        let extent = &mut extents[span.segment.index()];
        extent.end_s = extent.end_s.max(span.end_s);
        if span.lane == Lane::Tx {
            extent.wire_bytes += span.bytes;
        }
    }
    for begins_s in begins_s.chunks_exact(count) {
        // Ranks that take no part begin never.
        for (extent, &begin_s) in extents.iter_mut().zip(begins_s).filter(|(_, begin_s)| begin_s.is_finite())
        {
            extent.latest_begin_s = extent.latest_begin_s.max(begin_s);
        }
    }
    let seconds = |extent: &Extent| (extent.end_s - extent.latest_begin_s).max(0.0);
    let call = |(&raw_bytes, extent): (&u64, &Extent)| {
        let took = raw_bytes > 0 && extent.latest_begin_s.is_finite() && seconds(extent) > 0.0;
        took.then(|| Observation { seconds: seconds(extent), raw_bytes, wire_bytes: extent.wire_bytes })
    };
    let exchange = extents.last().filter(|extent| extent.latest_begin_s.is_finite());
    SwitcherReport {
        iteration_s: timeline.elapsed_s(),
        exchange_s: exchange.map_or(0.0, seconds),
        calls: raw_bytes.iter().zip(&extents).map(call).collect(),
    }
}
