//! Workload `transfers`: explicit flows.

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Flow, Job, Pace, Rank, Segment, Slot, Work};

use super::starts::{FlowError, Starts, check};
use super::{Context, Kind, Workload, flows_file, one_tensor_per_call};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::language::{
    Field, Key, Raw, Rule, Schema, array, choice, custom, integer, keys, named, raw, schema, string, table,
    time,
};
use crate::payload::{Carried, TENSORS};
use crate::problem::Problem;

keys! { static KEYS =
    file: Raw = raw(string), "a CSV file with the header `src,dst,bytes,start_us`";
    flows: Raw = raw(|| array(table(FLOW.all))), "the flows, in issue order";
    start: Start = choice("start", &Start::ALL, Start::name), "when flows may start; `given`, at their start times, by default";
    order: (&'static str, Pace) = choice("order of flows", &PACES, |(name, _)| name), "what a rank's next send waits for; `burst`, nothing, by default";
    dtype: DType = choice("dtype", &DType::ALL, DType::name), "type of the values; `BF16` by default";
    payload: Raw = raw(|| CARRIED.schema()), "what is sent, of type `dtype`";
}

keys! { static FLOW =
    src: u32 = integer(0..=RANK_LIMIT - 1), "rank that sends", needed = "0";
    dst: u32 = integer(0..=RANK_LIMIT - 1), "rank that receives, another one", needed = "0";
    bytes: u64 = custom(|field| field.bytes(1), schema::bytes), "bytes that move, at least one", needed = "\"1 MiB\"";
    start: f64 = time(), "time before which the flow does not start; none by default";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.tensor], always: 1 };

fn sources() -> Rule {
    Rule::one_of(&[KEYS.file, KEYS.flows])
}

named! {
    /// When flows may start.
    #[derive(Clone, Copy, PartialEq)]
    enum Start {
        /// When their own row says.
        Given = "given",
        /// When both ends are ready.
        RankReady = "rank-ready",
    }
}

const PACES: [(&str, Pace); 3] =
    [("burst", Pace::Burst), ("chain", Pace::Chain), ("sendrecv", Pace::SendReceive)];

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Transfers.keys(KEYS.all))?;
    let start = table.get(KEYS.start)?.unwrap_or(Start::Given);
    let pace = table.get(KEYS.order)?.map_or(Pace::Burst, |(_, pace)| pace);
    let dtype = table.get(KEYS.dtype)?.unwrap_or(DType::Bf16);
    table.check(&[sources()])?;
    let mut starts = Starts::new((start == Start::RankReady).then_some(context.ranks));
    let mut flows = match table.field(KEYS.file) {
        Some(field) => flows_file::read(&field, context.files, context.ranks, &mut starts)?,
        None => inline(&table.need_field(KEYS.flows)?, context.ranks, &mut starts)?,
    };
    if flows.is_empty() {
        return Err(table.error(Problem::out_of_range("the number of flows", 0, "at least 1")));
    }
    starts.apply(&mut flows);
    let rows = CARRIED.read(table.field(KEYS.payload), 1, dtype, context.files)?;

    let work = Work::Transfers { dtype, flows, pace, input: Slot(0), output: Slot(1) };
    let segments = vec![Segment::new("transfers", work)];
    let durations = Durations::zeros(context.iterations, segments.len(), context.ranks);
    let job = Job { name: "transfers", rank_count: context.ranks, slots: vec!["input", "output"], segments };
    let tensors = one_tensor_per_call(&job);
    Ok(Workload::new(job, durations, vec![dtype], rows, tensors))
}

/// Schema of the table that [`read`] accepts.
pub(super) fn schema() -> Schema {
    Kind::Transfers.table(KEYS.all).with(vec![sources()])
}

fn inline(field: &Field<'_>, ranks: u32, starts: &mut Starts) -> Result<Vec<Flow>> {
    let mut flows = Vec::new();
    for item in field.array()? {
        let table = item.table(FLOW.all)?;
        let rank = |key: &Key<u32>| Ok(Rank(table.need_field(key)?.integer_u32(0..=ranks - 1)?));
        let flow = Flow {
            src: rank(FLOW.src)?,
            dst: rank(FLOW.dst)?,
            bytes: table.need(FLOW.bytes)?,
            not_before_s: table.get(FLOW.start)?.unwrap_or(0.0),
        };
        check(&flow, starts).map_err(|error| match error {
            FlowError::Pair(problem) => item.error(problem),
            FlowError::Start(problem) => table.field(FLOW.start).as_ref().unwrap_or(&item).error(problem),
        })?;
        flows.push(flow);
    }
    Ok(flows)
}
