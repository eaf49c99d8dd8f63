//! Workload `weight-sync`: some ranks train, and others, which work with the weights, get new ones every few steps.
//!
//! Each trainer has a part of the weights, as sharded training leaves them, and broadcasts it to all ranks that do not train. What these
//! compute is not modelled: they keep the weights that they have until all new ones are there.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Durations, Job, Rank, RankRange, Segment, Slot, Work};
use zipwire_timeline::UpdateCycle;

use super::{
    Context, ExperimentWork, Iterations, Kind, PAIR_LIMIT, Workload, check_durations, check_limit, whole,
};
use crate::error::Result;
use crate::language::{
    Field, Raw, Reader, Rule, Schema, choice, custom, integer, keys, named, raw, schema, time,
};
use crate::model::{self, Architecture, Needs};
use crate::payload::{Carried, TENSORS};

/// Most steps of an iteration.
const STEP_LIMIT: u32 = 1024;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Update {
        Exposed = "exposed",
        Overlapped = "overlapped",
    }
}

keys! { static KEYS =
    trainers: u32 = integer(1..=PAIR_LIMIT - 1), "ranks that train, the first ones; the others get the weights", needed = "1";
    bytes: Raw = raw(schema::bytes), "bytes of all weights, which trainers have equal parts of";
    model: Architecture = custom(|field| model::read(field, Needs::Nothing), || model::schema(Needs::Nothing)), "in place of `bytes`: sizes of the model, a preset's name or a table";
    dtype: DType = choice("dtype", &DType::ALL, DType::name), "type of the weights that travel; `BF16` by default";
    step: f64 = time(), "time of a training step", needed = "\"1 s\"";
    every: u32 = integer(1..=STEP_LIMIT), "training steps of an iteration, behind which weights are sent; 1 by default";
    update: Update = choice("time of updates", &Update::ALL, Update::name), "when weights are sent: behind the steps of the iteration, and the next ones wait (`exposed`, the default), or a copy of those of the iteration before, beside its steps (`overlapped`)";
    payload: Raw = raw(|| CARRIED.schema()), "what is sent, of type `dtype`";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.tensor], always: 1 };

fn sizes() -> Rule {
    Rule::one_of(&[KEYS.bytes, KEYS.model])
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::WeightSync.keys(KEYS.all))?;
    let ranks = context.ranks;
    let trainers_field = table.need_field(KEYS.trainers)?;
    let trainers = trainers_field.integer_u32(1..=PAIR_LIMIT - 1)?;
    if trainers >= ranks {
        let limits = format!("at most {}: one of the {ranks} ranks does not train", ranks.saturating_sub(1));
        return Err(trainers_field.out_of_range(trainers, limits));
    }
    let dtype = table.get(KEYS.dtype)?.unwrap_or(DType::Bf16);
    table.check(&[sizes()])?;
    let shards = shards(&table, dtype, trainers)?;
    let (step_s, every) = (table.need(KEYS.step)?, table.get(KEYS.every)?.unwrap_or(1));
    let update = table.get(KEYS.update)?.unwrap_or(Update::Exposed);
    let rows = CARRIED.read(table.field(KEYS.payload), 1, dtype, context.files)?;

    let is_overlapped = update == Update::Overlapped;
    let mut slots = vec!["weights"];
    slots.extend(is_overlapped.then_some("copy"));
    let (weights, sent, first_part) = (Slot(0), Slot(u32::from(is_overlapped)), slots.len() as u32);
    slots.extend(shards.iter().map(|_| "part"));
    let steps = (0..every).map(|step| {
        let work = Work::Compute { phase: "training", reads: Vec::new(), writes: vec![weights] };
        Segment::new(format!("step {step}"), work)
    });
    let to = RankRange { begin: Rank(trainers), end: Rank(ranks) };
    let calls = shards.iter().zip(0..).map(|(&bytes, trainer)| {
        let slots = [sent, Slot(first_part + trainer)];
        let kind = CallKind::Broadcast { bytes, root: Rank(trainer), to };
        Segment::new(format!("part {trainer}"), Work::of_call(dtype, slots, kind))
    });
    let segments: Vec<Segment> =
        if is_overlapped { calls.chain(steps).collect() } else { steps.chain(calls).collect() };
    check_durations(context.iterations, segments.len() as u64 * u64::from(ranks), field)?;
    let mut durations = Durations::zeros(context.iterations, segments.len(), ranks);
    for (segment, _) in segments.iter().enumerate().filter(|(_, segment)| !segment.work.is_collective()) {
        for iteration in 0..context.iterations {
            (0..trainers).for_each(|rank| durations.set(iteration, segment, Rank(rank), step_s));
        }
    }
    let job = Job { name: Kind::WeightSync.name(), rank_count: ranks, slots, segments };
    let tensors = job.segments.iter().map(|segment| segment.work.is_collective().then_some(0)).collect();
    let cycle = Some(UpdateCycle { trainers, is_overlapped });
    let iterations = Iterations { cycle, ..Iterations::new(job, durations) };
    let work = ExperimentWork::Iterations(iterations);
    Ok(Workload { work, dtypes: vec![dtype], rows, tensors, fp8_values: None })
}

pub(super) fn schema() -> Schema {
    Kind::WeightSync.table(KEYS.all).with(vec![sizes()])
}

/// Bytes of each trainer's part: whole values, of which the first trainers have those that are left over.
fn shards(table: &Reader<'_>, dtype: DType, trainers: u32) -> Result<Vec<u64>> {
    let width = dtype.width() as u64;
    let (field, bytes) = match table.field(KEYS.bytes) {
        Some(field) => {
            let bytes = whole(&field, field.bytes(width)?, dtype)?;
            (field, bytes)
        }
        None => {
            let values = table.need(KEYS.model)?.parameters();
            // There are at most 2^50 parameters.
            (table.need_field(KEYS.model)?, values as u64 * width)
        }
    };
    let (each, left) = (bytes / width / u64::from(trainers), bytes / width % u64::from(trainers));
    let shards: Vec<u64> =
        (0..u64::from(trainers)).map(|trainer| (each + u64::from(trainer < left)) * width).collect();
    check_limit(shards[0], &field)?;
    Ok(shards)
}
