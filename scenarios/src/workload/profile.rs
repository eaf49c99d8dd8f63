//! Workload `profile`: steps of a real job, as `zipwire import` read them: its calls, and what ranks did between them.
//!
//! Compute takes the time that it took; how long calls take follows from the cluster and the variant.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_profiles::{CollectiveOp, Item, Profile, Queued, Replay, ReplayCall, ReplaySetup};
use zipwire_schedule::{CallKind, Channel, Durations, Job, Rank, RankRange, Segment, Slot, Work};

use super::{Context, Kind, Workload, check_durations, check_limit, one_tensor_per_call};
use crate::error::Result;
use crate::language::{Field, Raw, Reader, Schema, array, choice, keys, raw, schema, string};
use crate::payload::{Carried, TENSORS};
use crate::problem::Problem;

/// Most steps of a profile.
const STEP_LIMIT: u32 = 1 << 20;

keys! { static KEYS =
    file: Raw = raw(string), "a profile that `zipwire import` wrote, relative to the scenario", needed = "\"profile.json\"";
    steps: Raw = raw(|| array(schema::integer(0..=STEP_LIMIT)).at_least(1)), "steps of the profile that iterations replay in turn, from 0 on; all by default", example = "[0, 1]";
    queued: Queued = choice("time of queued calls", &QUEUED, name_of), "when a call was made that its stream carried out right behind another one, which no profile says: with that one, `early`, or when it began, `late`, by default";
    payload: Raw = raw(|| CARRIED.schema()), "what is sent; only for calls that all carry one type, or sum up BF16 or FP32";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.tensor], always: 1 };

const QUEUED: [Queued; 2] = [Queued::Early, Queued::Late];

fn name_of(queued: Queued) -> &'static str {
    match queued {
        Queued::Early => "early",
        Queued::Late => "late",
    }
}

pub(super) fn schema() -> Schema {
    Kind::Profile.table(KEYS.all)
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Profile.keys(KEYS.all))?;
    let replay = read_replay(&table, context)?;
    let file = table.need_field(KEYS.file)?;
    check_limit(replay.calls.iter().map(|call| call.bytes_in.max(call.bytes_out)).max().unwrap_or(0), &file)?;
    let parts = Parts::of(&replay, context.launch_s);
    let of_iteration = parts.segments.iter().filter_map(|segment| {
        let ranks = |groups: zipwire_schedule::Groups| u64::from(groups.count() * groups.size());
        (!segment.work.communicates()).then(|| ranks(segment.groups(context.ranks)))
    });
    check_durations(context.iterations, of_iteration.sum(), &file)?;
    let durations = parts.durations(context.iterations, context.ranks);
    let Parts { segments, slots, dtypes, .. } = parts;
    let payload = table.field(KEYS.payload);
    let carried = carried_type(&segments);
    if let (Some(field), None) = (&payload, carried)
        && field.as_string().is_none()
    {
        let reason = "calls of the profile carry values of several types: only `noise` has all of them";
        return Err(field.error(Problem::NoEffect { path: field.path.clone(), reason }));
    }
    let rows = CARRIED.read(payload, 1, carried.unwrap_or(DType::Bf16), context.files)?;
    let job = Job { name: Kind::Profile.name(), rank_count: context.ranks, slots, segments };
    let tensors = one_tensor_per_call(&job).into_iter().map(|tensor| tensor.map(|_| 0)).collect();
    Ok(Workload::new(job, durations, dtypes, rows, tensors))
}

fn read_replay(table: &Reader<'_>, context: &Context<'_>) -> Result<Replay> {
    let file = table.need_field(KEYS.file)?;
    let path = context.files.path(file.string()?);
    let problem = |reason: String, remedy: &str| {
        file.error(Problem::Profile { path: path.clone(), reason, remedy: remedy.to_owned() })
    };
    let unreadable = |source| file.error(Problem::Unreadable { path: path.clone(), source });
    let document = context.files.text(file.string()?).map_err(unreadable)?;
    let profile = Profile::parse(&document.text).map_err(|error| {
        problem(error.to_string(), "make one of the traces: `zipwire import kineto TRACES -o profile.json`")
    })?;
    if profile.world_size != context.ranks {
        let reason = format!("it is of {} ranks, and the cluster has {}", profile.world_size, context.ranks);
        return Err(problem(
            reason,
            "choose `nodes` and `gpus_per_node` of the cluster so that it has as many ranks",
        ));
    }
    let steps = table.field(KEYS.steps).map(|field| {
        let items = field.array()?;
        if items.is_empty() {
            return Err(field.error(Problem::out_of_range("the number of steps", 0, "at least 1")));
        }
        items.iter().map(|item| Ok(item.integer_u32(0..=STEP_LIMIT)? as usize)).collect::<Result<Vec<_>>>()
    });
    let setup = ReplaySetup {
        steps: steps.transpose()?.unwrap_or_default(),
        queued: table.get(KEYS.queued)?.unwrap_or_default(),
    };
    Replay::of(&profile, &setup).map_err(|error| {
        let text = error.to_string();
        let (reason, remedy) = text.rsplit_once("\nhelp: ").unwrap_or((&text, ""));
        problem(reason.to_owned(), remedy)
    })
}

/// Type of the tensor that all calls can carry: sums are of BF16 values, widened.
fn carried_type(segments: &[Segment]) -> Option<DType> {
    let of_segment = |segment: &Segment| {
        segment.work.dtype().map(|dtype| if segment.work.is_reduction() { DType::Bf16 } else { dtype })
    };
    let mut types = segments.iter().filter_map(of_segment);
    let first = types.next()?;
    types.all(|other| other == first).then_some(first)
}

/// Segments of a job, and how long those take that compute.
struct Parts {
    segments: Vec<Segment>,
    slots: Vec<&'static str>,
    dtypes: Vec<DType>,
    /// By segment that computes: seconds by step and by rank in the order of its groups.
    seconds: BTreeMap<usize, Vec<Vec<f64>>>,
}

impl Parts {
    /// Times between calls have their launches in them: `launch_s`, which a simulation adds again, is taken out.
    fn of(replay: &Replay, launch_s: f64) -> Self {
        let input = |call: usize| Slot(2 * call as u32);
        let output = |call: usize| Slot(2 * call as u32 + 1);
        let mut parts = Self {
            segments: Vec::new(),
            slots: replay.calls.iter().flat_map(|_| ["given", "got"]).collect(),
            dtypes: Vec::new(),
            seconds: BTreeMap::new(),
        };
        let mut counts: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let mut computes = 0;
        for item in &replay.program {
            let segment = match item {
                Item::Compute { ranks, waits, allows, seconds } => {
                    let reads = waits.iter().map(|call| output(*call)).collect();
                    let writes = allows.iter().map(|call| input(*call)).collect();
                    let launches = launch_s * if allows.is_empty() { 1.0 } else { 2.0 };
                    let own = |of: &Vec<f64>| of.iter().map(|own| (own - launches).max(0.0)).collect();
                    parts.seconds.insert(parts.segments.len(), seconds.iter().map(own).collect());
                    computes += 1;
                    let work = Work::Compute { phase: "compute", reads, writes };
                    Segment { among: Some(*ranks), ..Segment::new(format!("compute {computes}"), work) }
                }
                Item::Call(place) => {
                    let call = &replay.calls[*place];
                    let (dtype, kind) = kind_of(call);
                    if !parts.dtypes.contains(&dtype) {
                        parts.dtypes.push(dtype);
                    }
                    let count = counts.entry(Arc::clone(&call.class)).or_default();
                    *count += 1;
                    let work = Work::of_call(dtype, [input(*place), output(*place)], kind);
                    let channel = if call.is_beside { Channel::Background } else { Channel::Main };
                    let segment = Segment::new(format!("{} {count}", call.class), work);
                    Segment { channel, ..segment.among(call.groups, Arc::clone(&call.class)) }
                }
            };
            parts.segments.push(segment);
        }
        parts
    }

    /// Times of compute: iterations replay steps in turn.
    fn durations(&self, iterations: u32, ranks: u32) -> Durations {
        let mut durations = Durations::zeros(iterations, self.segments.len(), ranks);
        for (segment, steps) in &self.seconds {
            let Some(groups) = self.segments[*segment].among else { continue };
            for (iteration, seconds) in (0..iterations).zip(steps.iter().cycle()) {
                let of =
                    |rank: Rank| groups.position(rank).map_or(0.0, |position| seconds[position as usize]);
                durations.change(iteration, *segment, groups, |rank, _| of(rank));
            }
        }
        durations
    }
}

/// Type of the values of a call, and the call: whole values, at least one for each rank.
fn kind_of(call: &ReplayCall) -> (DType, CallKind) {
    let is_sum =
        matches!(call.op, CollectiveOp::AllReduce | CollectiveOp::ReduceScatter | CollectiveOp::Barrier);
    let dtype = type_of(call, is_sum);
    let (ranks, width) = (u64::from(call.groups.size()), dtype.width() as u64);
    let whole = |bytes: u64| bytes.div_ceil(width) * width;
    let each = |bytes: u64| whole(bytes.div_ceil(ranks)).max(width);
    let kind = match call.op {
        CollectiveOp::AllGather => {
            CallKind::AllGather { bytes: vec![whole(call.bytes_in).max(width); ranks as usize] }
        }
        CollectiveOp::ReduceScatter => {
            CallKind::ReduceScatter { bytes: vec![each(call.bytes_in); ranks as usize] }
        }
        CollectiveOp::AllToAll => {
            let bytes = |(from, to): (usize, usize)| match &call.splits {
                Some(splits) => whole(splits[from][to]),
                None => each(call.bytes_in),
            };
            let shape = (ranks as usize, ranks as usize);
            CallKind::AllToAll { bytes: Array2::from_shape_fn(shape, bytes).into(), tokens: None }
        }
        CollectiveOp::Broadcast => {
            let bytes = whole(call.bytes_in.max(call.bytes_out));
            CallKind::Broadcast { bytes, root: Rank(0), to: RankRange::all(call.groups.size()) }
        }
        CollectiveOp::Send | CollectiveOp::Recv => {
            CallKind::Send { bytes: whole(call.bytes_in), from: Rank(call.from) }
        }
        _ => CallKind::AllReduce { bytes: whole(call.bytes_in) },
    };
    (dtype, kind)
}

/// Type as which values travel: sums are of BF16 or FP32, and other values than codecs know count as FP32, or as BF16 or bytes where they are no whole ones.
fn type_of(call: &ReplayCall, is_sum: bool) -> DType {
    match call.float() {
        Some(dtype @ (DType::Bf16 | DType::F32)) => dtype,
        Some(_) if is_sum => DType::Bf16,
        Some(dtype) => dtype,
        None if call.bytes_in.is_multiple_of(4) => DType::F32,
        None if is_sum => DType::Bf16,
        None => DType::F8E4M3,
    }
}
