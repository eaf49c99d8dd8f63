//! Execution traces of MLCommons Chakra, one file per rank, `NAME.RANK.et`: nodes in protobuf, each behind its length, or the JSON that Chakra's
//! `jsonizer` prints of them.
//!
//! The source of names and meanings is `schema/protobuf/et_def.proto` of Chakra and its converter of PyTorch's traces.

mod node;

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

use self::node::{Node, NodeKind, length};
use crate::error::ProfileError;
use crate::intervals::Union;
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};
use crate::scan::{ScanError, Scanner};
use crate::source::{Bytes, BytesError, LATEST_NS, LONGEST_NS, Source, SourceKind, json_fault, rank_at_end};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

/// Nodes of communication that are held of one rank at the most.
const MOST_CALLS: usize = 1 << 20;

/// Nodes of communication and compute that are held of one rank at the most.
const MOST_STEPS: usize = 1 << 24;

/// Longest node that is held, in bytes.
const LONGEST_NODE: u64 = 64 << 20;

/// Group of calls that name none, which are of all ranks.
const ALL: &str = "all ranks";

const WANTED: &str = "execution trace of Chakra";
const REMEDY: &str =
    "pass the traces of the ranks, `NAME.0.et`, `NAME.1.et` and so on, as `chakra_converter` writes them";

/// Reads the trace of one rank, in protobuf or JSON, plain or as gzip; `file` is its name for messages, and ends with the rank.
///
/// Times are those of the nodes: converters that leave out begins leave durations in an order, and traces that were made up may have no times.
///
/// # Errors
/// If it cannot be read, is something else, is cut off or damaged.
pub fn read_chakra(file: &str, reader: impl Read) -> Result<RankTrace, ProfileError> {
    let source = Source::open(file, reader)?;
    let own = [SourceKind::Binary, SourceKind::Text, SourceKind::ChakraJson, SourceKind::Json];
    source.refuse_foreign(file, WANTED, REMEDY, &own)?;
    let mut graph = Graph::default();
    match source.kind {
        SourceKind::ChakraJson | SourceKind::Json => graph.read_json(file, Scanner::new(source.reader))?,
        _ => graph.read_protobuf(file, Bytes::new(source.reader))?,
    }
    graph.trace(file)
}

fn not_this(file: &str, found: &'static str) -> ProfileError {
    ProfileError::NotThis { file: file.to_owned(), wanted: WANTED, found, remedy: REMEDY.to_owned() }
}

/// Nodes of a trace that are looked at further, in the order of the file.
#[derive(Default)]
struct Graph {
    nodes: u64,
    calls: usize,
    steps: Vec<GraphStep>,
    groups: Vec<TraceGroup>,
    not_used: BTreeMap<String, u64>,
}

/// Something that runs on the GPU; times are nanoseconds.
struct GraphStep {
    begin_ns: Option<i64>,
    duration_ns: i64,
    /// The call, if it is one.
    call: Option<Box<Call>>,
}

struct Call {
    op: CollectiveOp,
    group: String,
    bytes: Option<u64>,
    src: Option<u32>,
    dst: Option<u32>,
    stream: u64,
}

impl Graph {
    fn read_protobuf(&mut self, file: &str, mut bytes: Bytes<impl Read>) -> Result<(), ProfileError> {
        let mut is_first = true;
        loop {
            let at = bytes.at();
            let failed = |error: BytesError, records: u64| match error {
                BytesError::Read(source) => ProfileError::Read { file: file.to_owned(), source },
                BytesError::Ended if records == 0 => {
                    not_this(file, "does not begin with the length of a message that it has")
                }
                BytesError::Ended => ProfileError::CutOff { file: file.to_owned(), records },
            };
            if bytes.is_at_end().map_err(|error| failed(error, self.nodes))? {
                break;
            }
            let count = length(&mut bytes).map_err(|error| failed(error, self.nodes))?;
            let Some(count) = count.filter(|count| *count <= LONGEST_NODE) else {
                if self.nodes == 0 {
                    return Err(not_this(file, "does not begin with the length of a message that it has"));
                }
                let reason = "the length of a node is none".to_owned();
                return Err(ProfileError::Damaged { file: file.to_owned(), byte: at, reason });
            };
            let message = bytes.take(count).map_err(|error| failed(error, self.nodes))?;
            let node = Node::of(&message);
            match (node, is_first) {
                // Its first message is that of the trace, whose fields differ by version.
                (Ok(_), true) => {}
                (Ok(node), false) => self.add(node, file)?,
                (Err(()), _) if self.nodes == 0 => {
                    return Err(not_this(file, "does not begin with messages of protobuf"));
                }
                (Err(()), _) => {
                    let reason = "a node is no valid message of protobuf".to_owned();
                    return Err(ProfileError::Damaged { file: file.to_owned(), byte: at, reason });
                }
            }
            is_first = false;
        }
        if self.nodes == 0 { Err(not_this(file, "has no nodes")) } else { Ok(()) }
    }

    fn read_json(&mut self, file: &str, mut scanner: Scanner<impl Read>) -> Result<(), ProfileError> {
        loop {
            let failed = |error: ScanError, line: u64, records: u64| match error {
                ScanError::Read(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
                    ProfileError::Read { file: file.to_owned(), source }
                }
                ScanError::Read(_) | ScanError::Truncated => {
                    ProfileError::CutOff { file: file.to_owned(), records }
                }
                ScanError::TooLong => {
                    ProfileError::TooMany { file: file.to_owned(), line, things: "one node is longer" }
                }
                ScanError::Unexpected { found, wanted } => {
                    let reason = format!("`{}` where {wanted} should be", char::from(found).escape_default());
                    ProfileError::Json { file: file.to_owned(), line, reason }
                }
            };
            let token = scanner.token();
            let line = scanner.line();
            if token.map_err(|error| failed(error, line, self.nodes))?.is_none() {
                break;
            }
            let text = scanner.value().map_err(|error| failed(error, line, self.nodes))?;
            let value: Value = serde_json::from_slice(text).map_err(|error| {
                let (line, reason) = json_fault(line, &error);
                let reason = format!("a node is no valid JSON: {reason}");
                ProfileError::Json { file: file.to_owned(), line, reason }
            })?;
            if let Some(node) = Node::of_json(&value) {
                self.add(node, file)?;
            }
        }
        if self.nodes == 0 { Err(not_this(file, "is JSON without nodes")) } else { Ok(()) }
    }

    fn add(&mut self, node: Node, file: &str) -> Result<(), ProfileError> {
        self.nodes += 1;
        if node.name.contains("process_group:init") {
            self.groups.extend(node.groups());
        }
        match step_of(node) {
            Ok(step) => {
                self.calls += usize::from(step.as_ref().is_some_and(|step| step.call.is_some()));
                self.steps.extend(step);
            }
            Err(what) => self.leave(what),
        }
        if self.steps.len() > MOST_STEPS || self.calls > MOST_CALLS {
            return Err(self.too_many(file, "more nodes"));
        }
        Ok(())
    }

    /// Error that names the node that was read last.
    fn too_many(&self, file: &str, things: &'static str) -> ProfileError {
        ProfileError::TooMany { file: file.to_owned(), line: self.nodes, things }
    }

    fn leave(&mut self, what: &str) {
        *self.not_used.entry(what.to_owned()).or_default() += 1;
    }

    /// Meaning of times: what all calls have.
    fn timing(&self) -> Timing {
        let calls = || self.steps.iter().filter(|step| step.call.is_some());
        let has_begins = calls().next().is_some() && self.steps.iter().all(|step| step.begin_ns.is_some());
        match (has_begins, calls().any(|step| step.duration_ns > 0)) {
            (true, true) => Timing::Kernels,
            (false, true) => Timing::Durations,
            (true, false) => Timing::Issued,
            (false, false) => Timing::Order,
        }
    }

    fn trace(mut self, file: &str) -> Result<RankTrace, ProfileError> {
        let timing = self.timing();
        let mut trace = RankTrace::new(file, Format::Chakra, timing);
        trace.rank = rank_at_end(file);
        let mut compute = Union::default();
        let mut after_ns = 0_i64;
        for step in std::mem::take(&mut self.steps) {
            let is_timed = matches!(timing, Timing::Kernels | Timing::Issued);
            let begin_ns = step.begin_ns.filter(|_| is_timed).unwrap_or(after_ns);
            let end_ns = begin_ns.saturating_add(step.duration_ns);
            if end_ns > LATEST_NS + LONGEST_NS {
                self.leave("nodes of times that no clock shows");
                continue;
            }
            // Without begins one thing is taken to come after the other.
            after_ns = end_ns.max(begin_ns.saturating_add(i64::from(timing == Timing::Order)));
            match step.call {
                None => {
                    trace.is_compute_known = true;
                    if !compute.add((begin_ns, end_ns)) {
                        return Err(self.too_many(file, "more separate stretches of compute"));
                    }
                }
                Some(_) if timing.has_durations() && step.duration_ns == 0 => {
                    self.leave("nodes of communication without a duration, beside others that have one");
                }
                Some(call) => {
                    let group = group_of(&mut trace.groups, &call.group, &self.groups);
                    trace.ops.push(call.row(group, trace.groups[group].size, begin_ns, end_ns));
                }
            }
        }
        trace.ops.sort_by_key(|op| op.begin_ns);
        trace.compute = compute.finish();
        trace.not_used = self.not_used;
        Ok(trace)
    }
}

/// Part of the trace that a node is; none for nodes that say something of the job, and a name for those that are not used.
fn step_of(node: Node) -> Result<Option<GraphStep>, &'static str> {
    let call = match node.kind {
        NodeKind::Metadata => return Ok(None),
        NodeKind::Memory => return Err("nodes of memory and storage"),
        NodeKind::Other => return Err("nodes of a type that is not known"),
        NodeKind::Compute if node.is_cpu_op => return Err("nodes of the CPU"),
        NodeKind::Compute if node.duration_us == 0 => return Err("nodes of compute without a duration"),
        NodeKind::Compute => None,
        NodeKind::Communication(_) if node.is_cpu_op => {
            return Err("nodes of the CPU that start communication");
        }
        NodeKind::Communication(op) => {
            let op = op.or_else(|| CollectiveOp::within(&node.name));
            Some(Box::new(Call {
                op: op.ok_or("nodes of communication whose operation is not said")?,
                group: node.group.unwrap_or_else(|| ALL.to_owned()),
                bytes: node.bytes,
                src: node.src,
                dst: node.dst,
                stream: node.stream,
            }))
        }
    };
    let ns = |us: u64, limit_ns: i64| {
        i64::try_from(us).ok().and_then(|us| us.checked_mul(1000)).filter(|ns| *ns <= limit_ns)
    };
    let times = ns(node.begin_us, LATEST_NS).zip(ns(node.duration_us, LONGEST_NS));
    let (begin_ns, duration_ns) = times.ok_or("nodes of times that no clock shows")?;
    Ok(Some(GraphStep { begin_ns: Some(begin_ns).filter(|ns| *ns > 0), duration_ns, call }))
}

/// Place of a group, with the ranks that the setup of the job has for it.
fn group_of(groups: &mut Vec<TraceGroup>, name: &str, known: &[TraceGroup]) -> usize {
    if let Some(place) = groups.iter().position(|group| group.name == name) {
        return place;
    }
    let group = known.iter().find(|group| group.name == name).cloned();
    groups.push(group.unwrap_or_else(|| TraceGroup { name: name.to_owned(), ..TraceGroup::default() }));
    groups.len() - 1
}

impl Call {
    /// The call as a row. Its bytes are those that the rank gives.
    fn row(self, group: usize, size: Option<u32>, begin_ns: i64, end_ns: i64) -> TraceOp {
        let size = size.map(u64::from).filter(|size| *size > 0);
        let bytes_out = match self.op {
            CollectiveOp::AllGather | CollectiveOp::Gather => {
                self.bytes.zip(size).and_then(|(bytes, size)| bytes.checked_mul(size))
            }
            CollectiveOp::ReduceScatter | CollectiveOp::Scatter => {
                self.bytes.zip(size).map(|(bytes, size)| bytes / size)
            }
            _ => self.bytes,
        };
        TraceOp {
            group,
            seq: None,
            op: self.op,
            bytes_in: self.bytes,
            bytes_out,
            splits_in: Vec::new(),
            splits_out: Vec::new(),
            dtype: "".into(),
            src: self.src,
            dst: self.dst,
            begin_ns,
            end_ns,
            stream: self.stream,
            coded_share: None,
        }
    }
}
