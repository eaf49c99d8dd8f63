//! Workload `transfers`: explicit flows.

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Flow, Job, Pace, Rank, Segment, Slot, Work};

use super::table_file::{Cell, TableFile};
use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::files::Files;
use crate::language::{
    BYTES_LIMIT, Field, Key, Raw, Rule, Schema, array, choice, custom, integer, keys, named, raw, schema,
    string, table, time,
};
use crate::payload::{Carried, TENSORS};
use crate::problem::{FlowProblem, Problem};

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
        Some(field) => read_file(&field, context.files, context.ranks, &mut starts)?,
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

const COLUMNS: [&str; 4] = ["src", "dst", "bytes", "start_us"];
const HEADER: &str = "src,dst,bytes,start_us";
/// A row, for messages: 1 MiB from rank 0 to rank 1, at once.
const EXAMPLE: &str = "0,1,1048576,0";
/// Latest start: as late as the longest time that a scenario can name.
const START_LIMIT_US: f64 = 1e12;

/// Reads a CSV file of flows, in issue order.
fn read_file(field: &Field<'_>, files: &Files, ranks: u32, starts: &mut Starts) -> Result<Vec<Flow>> {
    let file = TableFile::read(field, files)?;
    let bad_header = |found| Problem::BadHeader { expected: HEADER, example: EXAMPLE, found };
    let mut rows = file.rows();
    let Some(header) = rows.next() else {
        return Err(field.error(bad_header(String::new())));
    };
    let names: Vec<&str> = (0..header.len()).map(|index| header.cell(index).text).collect();
    if names != COLUMNS {
        return Err(header.error(bad_header(names.join(","))));
    }
    if rows.len() == 0 {
        return Err(field.error(Problem::NoRows { path: files.path(field.string()?), example: EXAMPLE }));
    }
    let mut flows = Vec::with_capacity(rows.len());
    for row in rows {
        row.need_length(COLUMNS.len())?;
        let [src, dst, bytes, start] = [0, 1, 2, 3].map(|index| row.cell(index));
        let rank = |cell: &Cell<'_>, column| {
            let rank = cell.integer(column, 0..=u64::from(ranks - 1))?;
            Ok(Rank(u32::try_from(rank).expect("ranks are u32")))
        };
        let flow = Flow {
            src: rank(&src, COLUMNS[0])?,
            dst: rank(&dst, COLUMNS[1])?,
            bytes: bytes.integer(COLUMNS[2], 1..=BYTES_LIMIT)?,
            not_before_s: start.number(COLUMNS[3], 0.0..=START_LIMIT_US)? / 1e6,
        };
        check(&flow, starts).map_err(|error| match error {
            FlowError::Pair(problem) => dst.error(problem),
            FlowError::Start(problem) => start.error(problem),
        })?;
        flows.push(flow);
    }
    Ok(flows)
}

/// A problem of a flow, by the part of the flow that it concerns.
enum FlowError {
    Pair(Problem),
    Start(Problem),
}

/// Checks what concerns more than one column, and takes note of the sender's start.
fn check(flow: &Flow, starts: &mut Starts) -> std::result::Result<(), FlowError> {
    if flow.src == flow.dst {
        return Err(FlowError::Pair(Problem::Flow(FlowProblem::SelfFlow { rank: flow.src.0 })));
    }
    starts.note(flow).map_err(FlowError::Start)
}

/// Start time of each sender so far, in seconds, if flows wait for ranks to be ready.
struct Starts {
    ready_s: Option<Vec<Option<f64>>>,
}

impl Starts {
    /// No starts yet; `ranks` is given if flows wait for their ranks to be ready.
    fn new(ranks: Option<u32>) -> Self {
        Self { ready_s: ranks.map(|ranks| vec![None; ranks as usize]) }
    }

    fn note(&mut self, flow: &Flow) -> std::result::Result<(), Problem> {
        let Some(ready_s) = &mut self.ready_s else { return Ok(()) };
        let (rank, second_s) = (flow.src.0, flow.not_before_s);
        match ready_s[flow.src.index()].replace(second_s) {
            Some(first_s) if first_s != second_s => {
                Err(Problem::Flow(FlowProblem::TwoStarts { rank, first_s, second_s }))
            }
            _ => Ok(()),
        }
    }

    /// A flow starts when both ends are ready; a rank that sends nothing is ready at 0.
    fn apply(&self, flows: &mut [Flow]) {
        let Some(ready_s) = &self.ready_s else { return };
        let ready = |rank: Rank| ready_s[rank.index()].unwrap_or(0.0);
        for flow in flows {
            flow.not_before_s = ready(flow.src).max(ready(flow.dst));
        }
    }
}
