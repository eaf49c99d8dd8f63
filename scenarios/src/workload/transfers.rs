//! Workload `transfers`: explicit flows.

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Flow, Job, Pace, Rank, Segment, Slot, Work};

use super::{Context, Kind, Workload, flows_file, one_tensor_per_call};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::payload::Rowset;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Schema, array, bytes, integer, names, needed, optional, string, table, time};

const KEYS: &[&str] = &["kind", "file", "flows", "start", "order", "payload"];

const FLOW_KEYS: &[&str] = &["src", "dst", "bytes", "start"];
const SOURCES: &[&str] = &["file", "flows"];

const PAYLOAD_KEYS: &[&str] = &["file", "tensor", "gaussian"];
const TENSORS: &[&str] = &["tensor"];

/// When flows may start.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// When their own row says.
    Given,
    /// When both ends are ready.
    RankReady,
}

const STARTS: [(&str, Start); 2] = [("given", Start::Given), ("rank-ready", Start::RankReady)];
const PACES: [(&str, Pace); 3] =
    [("burst", Pace::Burst), ("chain", Pace::Chain), ("sendrecv", Pace::SendReceive)];

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(KEYS)?;
    let start = match table.get("start") {
        Some(field) => field.choice("start", &STARTS, |(name, _)| name)?.1,
        None => Start::Given,
    };
    let pace = match table.get("order") {
        Some(field) => field.choice("order of flows", &PACES, |(name, _)| name)?.1,
        None => Pace::Burst,
    };
    let mut starts =
        Starts { ready_s: (start == Start::RankReady).then(|| vec![None; context.ranks as usize]) };
    let mut flows = match table.one_of(SOURCES)? {
        ("file", field) => flows_file::read(&field, context.files, context.ranks, &mut starts)?,
        (_, field) => inline(&field, context.ranks, &mut starts)?,
    };
    if flows.is_empty() {
        let (path, value) = ("the number of flows".to_owned(), "0".to_owned());
        return Err(table.error(Problem::OutOfRange { path, value, limits: "at least 1".to_owned() }));
    }
    starts.apply(&mut flows);
    let rows = table
        .get("payload")
        .map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, &[DType::Bf16], context.files));

    let work = Work::Transfers { flows, pace, input: Slot(0), output: Slot(1) };
    let segments = vec![Segment::new("transfers", work)];
    let durations = Durations::zeros(context.iterations, segments.len(), context.ranks);
    let job = Job { name: "transfers", rank_count: context.ranks, slots: vec!["input", "output"], segments };
    let tensors = one_tensor_per_call(&job);
    Ok(Workload {
        job,
        durations,
        dtypes: vec![DType::Bf16],
        rows: rows.transpose()?,
        tensors,
        fp8_values: None,
    })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    let rank = || integer(0..=RANK_LIMIT - 1);
    #[rustfmt::skip]
    let flow = [
        needed("src", "rank that sends", rank()),
        needed("dst", "rank that receives, another one", rank()),
        needed("bytes", "bytes that move, at least one", bytes()),
        optional("start", "time before which the flow does not start; none by default", time()),
    ];
    #[rustfmt::skip]
    let keys = [
        Kind::Transfers.key(),
        optional("file", "a CSV file with the header `src,dst,bytes,start_us`", string()),
        optional("flows", "the flows, in issue order", array(table(FLOW_KEYS, flow))),
        optional("start", "when flows may start; `given`, at their start times, by default", names(STARTS.map(|(name, _)| name))),
        optional("order", "what a rank's next send waits for; `burst`, nothing, by default", names(PACES.map(|(name, _)| name))),
        optional("payload", "what is sent", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
    ];
    table(KEYS, keys).with_one_of(SOURCES)
}

fn inline(field: &Field<'_>, ranks: u32, starts: &mut Starts) -> Result<Vec<Flow>> {
    let mut flows = Vec::new();
    for item in field.array()? {
        let table = item.table(FLOW_KEYS)?;
        let rank = |key| Ok(Rank(table.need(key, "0")?.integer_u32(0..=ranks - 1)?));
        let start = table.get("start");
        let flow = Flow {
            src: rank("src")?,
            dst: rank("dst")?,
            bytes: table.need("bytes", "\"1 MiB\"")?.bytes(1)?,
            not_before_s: start.as_ref().map_or(Ok(0.0), Field::time)?,
        };
        check(&flow, starts).map_err(|error| match error {
            FlowError::Pair(problem) => item.error(problem),
            FlowError::Start(problem) => start.as_ref().unwrap_or(&item).error(problem),
        })?;
        flows.push(flow);
    }
    Ok(flows)
}

/// What is wrong with a flow, and which part of it.
pub(super) enum FlowError {
    Pair(Problem),
    Start(Problem),
}

/// Checks what concerns more than one column, and takes note of the sender's start.
pub(super) fn check(flow: &Flow, starts: &mut Starts) -> std::result::Result<(), FlowError> {
    if flow.src == flow.dst {
        return Err(FlowError::Pair(Problem::SelfFlow { rank: flow.src.0 }));
    }
    starts.note(flow).map_err(FlowError::Start)
}

/// Start time of each sender so far, if flows wait for ranks to be ready.
pub(super) struct Starts {
    ready_s: Option<Vec<Option<f64>>>,
}

impl Starts {
    fn note(&mut self, flow: &Flow) -> std::result::Result<(), Problem> {
        let Some(ready_s) = &mut self.ready_s else { return Ok(()) };
        let (rank, second_s) = (flow.src.0, flow.not_before_s);
        match ready_s[flow.src.index()].replace(second_s) {
            Some(first_s) if first_s != second_s => Err(Problem::TwoStarts { rank, first_s, second_s }),
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
