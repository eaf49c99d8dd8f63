//! Logs of NCCL's profiler plugin Inspector: a line of JSON for each operation of each communicator, one file per process.
//!
//! The source of names and meanings is `plugins/profiler/inspector` of NCCL, versions 4.0 to 4.3 of its format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use serde::Deserialize;

use crate::communicators::{ProcessLog, fold_all_to_all};
use crate::error::ProfileError;
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};
use crate::source::{LATEST_NS, LONGEST_NS, Lines, Source, SourceKind};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

/// Calls that are held of one file at the most.
const MOST_CALLS: usize = 1 << 20;

const WANTED: &str = "log of NCCL's Inspector";
const REMEDY: &str = "pass the folder `NCCL_INSPECTOR_DUMP_DIR` of a job with `NCCL_INSPECTOR_ENABLE=1`, or its `HOST-pidN.log` files";

/// Reads the log of one process, plain or as gzip; `file` is its name for messages. A process of several GPUs gives a log for each of its ranks
/// in the largest communicator.
///
/// Durations are those of kernels. Begins are only an order, line by line, unless the log is verbose and has times of events.
///
/// # Errors
/// If it cannot be read, is something else or of another version, is cut off or damaged.
pub fn read_inspector(file: &str, reader: impl Read) -> Result<Vec<ProcessLog>, ProfileError> {
    let source = Source::open(file, reader)?;
    source.refuse_foreign(file, WANTED, REMEDY, &[SourceKind::Inspector, SourceKind::Json])?;
    let mut lines = Lines::new(source.reader);
    let mut log = Log::default();
    while lines.advance(file)? {
        let line: Line = serde_json::from_slice(lines.line()).map_err(|error| lines.broken(file, &error))?;
        log.take(line).map_err(|fault| fault.at(file, lines.number()))?;
        if log.calls.len() > MOST_CALLS {
            let (file, line) = (file.to_owned(), lines.number());
            return Err(ProfileError::TooMany { file, line, things: "more calls" });
        }
    }
    if log.left.values().any(|left| *left > 0) {
        return Err(ProfileError::CutOff { file: file.to_owned(), records: log.calls.len() as u64 });
    }
    Ok(log.finish(file))
}

#[derive(Deserialize)]
struct Line {
    header: Option<Header>,
    metadata: Option<Metadata>,
    dump_stats: Option<BTreeMap<String, u64>>,
    coll_perf: Option<CollPerf>,
    p2p_perf: Option<P2pPerf>,
    proxy_trace: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Header {
    id: String,
    #[serde(default)]
    comm_name: String,
    rank: u32,
    n_ranks: u32,
    #[serde(default)]
    nnodes: u32,
}

#[derive(Clone, Deserialize)]
struct Metadata {
    inspector_output_format_version: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    pid: u64,
}

#[derive(Deserialize)]
struct CollPerf {
    coll: String,
    coll_sn: u64,
    coll_msg_size_bytes: u64,
    coll_exec_time_us: f64,
    #[serde(default)]
    coll_timing_source: String,
    event_trace_ts: Option<EventTimes>,
}

#[derive(Deserialize)]
struct P2pPerf {
    p2p: String,
    p2p_sn: u64,
    p2p_peer: u32,
    p2p_msg_size_bytes: u64,
    p2p_exec_time_us: f64,
    #[serde(default)]
    p2p_timing_source: String,
    event_trace_ts: Option<EventTimes>,
}

/// Times of a verbose log, in microseconds since 1970.
#[derive(Deserialize)]
struct EventTimes {
    #[serde(default)]
    kernel_events: Vec<KernelTimes>,
}

#[derive(Deserialize)]
struct KernelTimes {
    #[serde(default)]
    kernel_start_ts: u64,
}

/// Reasons for which reading ends, before they are given a place.
enum Fault {
    Version(String),
    NotThis,
    Json(&'static str),
}

impl Fault {
    fn at(self, file: &str, line: u64) -> ProfileError {
        let file = file.to_owned();
        match self {
            Self::Version(version) => {
                ProfileError::Version { file, wanted: WANTED, version, known: "v4.0 to v4.3" }
            }
            Self::NotThis if line == 1 => ProfileError::NotThis {
                file,
                wanted: WANTED,
                found: "begins with a line without `header` and `metadata`",
                remedy: REMEDY.to_owned(),
            },
            Self::NotThis => {
                let reason = "a line without `header` and `metadata`".to_owned();
                ProfileError::Json { file, line, reason }
            }
            Self::Json(reason) => ProfileError::Json { file, line, reason: reason.to_owned() },
        }
    }
}

/// One operation, in the common terms of collectives and messages.
struct Call {
    communicator: usize,
    name: String,
    number: u64,
    bytes: u64,
    duration_ns: i64,
    /// Begin of its first kernel, if the log is verbose.
    begin_ns: Option<i64>,
    peer: Option<u32>,
    /// Stretch of messages that stand behind each other in the file, none for collectives.
    batch: Option<u64>,
}

#[derive(Default)]
struct Log {
    /// Head of the batch that is read, and what is left of it: from version 4.3 on lines have no head of their own.
    head: Option<(Header, Metadata)>,
    left: BTreeMap<&'static str, u64>,
    /// Communicators with the rank in each.
    communicators: Vec<Header>,
    calls: Vec<Call>,
    seen: BTreeSet<(usize, String, u64)>,
    batch: u64,
    process: Option<String>,
    not_used: BTreeMap<String, u64>,
    repaired: BTreeMap<String, u64>,
}

fn count(counts: &mut BTreeMap<String, u64>, name: impl Into<String>) {
    *counts.entry(name.into()).or_default() += 1;
}

impl Log {
    fn take(&mut self, mut line: Line) -> Result<(), Fault> {
        let head = line.header.take().zip(line.metadata.take());
        if let Some((_, metadata)) = &head {
            let version = &metadata.inspector_output_format_version;
            if version != "v4" && !version.starts_with("v4.") {
                return Err(Fault::Version(version.clone()));
            }
            self.process.get_or_insert_with(|| format!("{} {}", metadata.hostname, metadata.pid));
        }
        if let Some(stats) = &line.dump_stats {
            let (header, metadata) = head.ok_or(Fault::NotThis)?;
            return self.marker(stats, header, metadata);
        }
        let kind = match &line {
            Line { coll_perf: Some(_), .. } => "coll_records",
            Line { p2p_perf: Some(_), .. } => "p2p_records",
            Line { proxy_trace: Some(_), .. } => "proxy_records",
            _ if head.is_none() => return Err(Fault::NotThis),
            _ => {
                count(&mut self.not_used, "lines without `coll_perf` or `p2p_perf`");
                return Ok(());
            }
        };
        let header = match (head, &self.head) {
            (Some((header, _)), _) => header,
            (None, Some((header, _))) => {
                let left = self.left.entry(kind).or_default();
                *left = left.checked_sub(1).ok_or(Fault::Json("a line more than the batch has"))?;
                header.clone()
            }
            (None, None) => return Err(Fault::NotThis),
        };
        match line {
            Line { coll_perf: Some(perf), .. } => self.collective(header, perf),
            Line { p2p_perf: Some(perf), .. } => self.message(header, perf),
            _ => count(&mut self.not_used, "lines of the proxy"),
        }
        Ok(())
    }

    /// Begins a batch of a communicator.
    fn marker(
        &mut self,
        stats: &BTreeMap<String, u64>,
        header: Header,
        metadata: Metadata,
    ) -> Result<(), Fault> {
        if self.left.values().any(|left| *left > 0) {
            return Err(Fault::Json("a batch begins before the one in front of it is whole"));
        }
        let of = |key: &str| stats.get(key).copied().unwrap_or_default();
        let dropped = of("coll_dropped_since_last_dump").saturating_add(of("p2p_dropped_since_last_dump"));
        if dropped > 0 {
            let what = "calls that the plugin dropped, as its ring was full (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, ..P2P..)";
            let dropped_all = self.not_used.entry(what.to_owned()).or_default();
            *dropped_all = dropped_all.saturating_add(dropped);
        }
        self.left.clear();
        self.head = None;
        // Before that version each line has a head of its own.
        if !["v4.0", "v4.1", "v4.2"].contains(&metadata.inspector_output_format_version.as_str()) {
            for kind in ["coll_records", "p2p_records", "proxy_records"] {
                self.left.insert(kind, of(kind));
            }
            self.head = Some((header, metadata));
        }
        Ok(())
    }

    fn collective(&mut self, header: Header, perf: CollPerf) {
        let begin = begin_ns(perf.event_trace_ts.as_ref());
        self.timed(&perf.coll_timing_source);
        self.batch += 1;
        self.call(
            header,
            perf.coll,
            perf.coll_sn,
            perf.coll_msg_size_bytes,
            perf.coll_exec_time_us,
            begin,
            None,
        );
    }

    fn message(&mut self, header: Header, perf: P2pPerf) {
        let begin = begin_ns(perf.event_trace_ts.as_ref());
        self.timed(&perf.p2p_timing_source);
        let peer = Some(perf.p2p_peer);
        self.call(header, perf.p2p, perf.p2p_sn, perf.p2p_msg_size_bytes, perf.p2p_exec_time_us, begin, peer);
    }

    /// Notes times that are not those of the GPU.
    fn timed(&mut self, source: &str) {
        if !matches!(source, "" | "kernel_gpu") {
            count(&mut self.repaired, format!("durations that the CPU measured (`{source}`)"));
        }
    }

    #[allow(clippy::too_many_arguments, reason = "fields that collectives and messages name differently")]
    fn call(
        &mut self,
        header: Header,
        name: String,
        number: u64,
        bytes: u64,
        us: f64,
        begin_ns: Option<i64>,
        peer: Option<u32>,
    ) {
        let duration_ns = (us * 1e3).round();
        if !(1.0..=LONGEST_NS as f64).contains(&duration_ns) {
            let what = if duration_ns > 1.0 {
                "calls that last longer than 2 hours"
            } else {
                "calls of zero duration"
            };
            return count(&mut self.not_used, what);
        }
        let communicator =
            self.communicators.iter().position(|known| *known == header).unwrap_or_else(|| {
                self.communicators.push(header);
                self.communicators.len() - 1
            });
        // Messages are not numbered by the pair of ranks, and may have the same number.
        if peer.is_none() && !self.seen.insert((communicator, name.clone(), number)) {
            return count(&mut self.not_used, "records of a call that is there already");
        }
        let batch = peer.map(|_| self.batch);
        let duration_ns = duration_ns as i64;
        self.calls.push(Call { communicator, name, number, bytes, duration_ns, begin_ns, peer, batch });
    }

    /// Calls that the log does not have, though they have numbers between those that it has.
    fn gaps(&self) -> u64 {
        let mut numbers: BTreeMap<(usize, &str), (u64, u64, u64)> = BTreeMap::new();
        for (communicator, name, number) in &self.seen {
            let (least, most, count) = numbers.entry((*communicator, name)).or_insert((*number, *number, 0));
            (*least, *most) = ((*least).min(*number), (*most).max(*number));
            *count += 1;
        }
        numbers
            .values()
            .fold(0, |sum, (least, most, count)| sum.saturating_add((most - least).saturating_sub(count - 1)))
    }
}

/// Begin of the first kernel of a call, in nanoseconds since 1970.
fn begin_ns(times: Option<&EventTimes>) -> Option<i64> {
    let starts = times?.kernel_events.iter().map(|kernel| kernel.kernel_start_ts).filter(|ts| *ts > 0);
    i64::try_from(starts.min()?).ok()?.checked_mul(1000).filter(|ns| *ns < LATEST_NS)
}

impl Log {
    fn finish(mut self, file: &str) -> Vec<ProcessLog> {
        let gaps = self.gaps();
        if gaps > 0 {
            let what = "collectives that the log leaves out: numbers between others (small ones, NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)";
            self.not_used.insert(what.to_owned(), gaps);
        }
        let has_begins = !self.calls.is_empty() && self.calls.iter().all(|call| call.begin_ns.is_some());
        let members = self.members();
        let mut logs = Vec::new();
        for member in &members {
            logs.push(self.log_of(file, member, members.len() > 1, has_begins));
        }
        if let Some(first) = logs.first_mut() {
            let others = self
                .calls
                .iter()
                .filter(|call| !members.iter().any(|member| member.contains(&call.communicator)));
            let others = others.count() as u64;
            if others > 0 {
                let what =
                    "calls of communicators of a process of several GPUs, which do not say whose they are";
                self.not_used.insert(what.to_owned(), others);
            }
            for (what, count) in self.not_used {
                *first.trace.not_used.entry(what).or_default() += count;
            }
            first.trace.repaired = self.repaired;
        }
        logs
    }

    /// By rank of the process, its communicators: all of them if it is of one rank, else its seat in the largest.
    fn members(&self) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.communicators.len()).collect();
        let ids: BTreeSet<&str> = self.communicators.iter().map(|header| header.id.as_str()).collect();
        if ids.len() == all.len() {
            return vec![all];
        }
        let seats = |id: &str| self.communicators.iter().filter(|header| header.id == id).count();
        let largest = self.communicators.iter().max_by_key(|header| (header.n_ranks, seats(&header.id)));
        let id = largest.map(|header| header.id.as_str());
        all.into_iter()
            .filter(|place| Some(self.communicators[*place].id.as_str()) == id)
            .map(|place| vec![place])
            .collect()
    }

    fn log_of(&self, file: &str, member: &[usize], is_shared: bool, has_begins: bool) -> ProcessLog {
        let timing = if has_begins { Timing::Kernels } else { Timing::Durations };
        let mut trace = RankTrace::new(file, Format::Inspector, timing);
        let headers: Vec<&Header> = member.iter().map(|place| &self.communicators[*place]).collect();
        trace.groups = headers.iter().map(|header| group_of(header)).collect();
        let largest = headers.iter().max_by_key(|header| header.n_ranks);
        trace.gpus_per_node = largest.and_then(|header| {
            let is_even = header.nnodes > 0 && header.n_ranks % header.nnodes == 0;
            is_even.then(|| header.n_ranks / header.nnodes)
        });
        let (mut ops, mut batches) = (Vec::new(), Vec::new());
        for call in &self.calls {
            let Some(group) = member.iter().position(|place| *place == call.communicator) else { continue };
            let begin_ns = call.begin_ns.filter(|_| has_begins).unwrap_or_default();
            let Some(op) = op_of(call, group, headers[group], begin_ns) else {
                *trace.not_used.entry(format!("calls of `{}`", call.name)).or_default() += 1;
                continue;
            };
            ops.push(op);
            batches.push(call.batch);
        }
        let seats: Vec<Option<u32>> = headers.iter().map(|header| Some(header.rank)).collect();
        let sizes: Vec<_> = headers.iter().map(|header| (Some(header.rank), Some(header.n_ranks))).collect();
        trace.ops = fold_all_to_all(ops, &batches, &sizes, true);
        if has_begins {
            trace.ops.sort_by_key(|op| op.begin_ns);
        } else {
            let mut after_ns = 0_i64;
            for op in &mut trace.ops {
                (op.begin_ns, op.end_ns) = (after_ns, after_ns.saturating_add(op.end_ns));
                after_ns = op.end_ns;
            }
        }
        let shared = if is_shared { format!(" rank {}", headers[0].rank) } else { String::new() };
        let process =
            self.process.as_ref().map_or_else(|| file.to_owned(), |process| format!("{process}{shared}"));
        ProcessLog { trace, process, seats }
    }
}

fn group_of(header: &Header) -> TraceGroup {
    let description = if header.comm_name == "unknown" { "" } else { &header.comm_name };
    TraceGroup {
        name: header.id.clone(),
        ranks: Vec::new(),
        size: Some(header.n_ranks).filter(|ranks| *ranks > 0),
        description: description.to_owned(),
    }
}

/// The call as a row; none if its operation is not known.
///
/// Sizes are those of a rank's part: NCCL multiplies them by the number of ranks for the bandwidth of All-Gather and Reduce-Scatter.
fn op_of(call: &Call, group: usize, header: &Header, begin_ns: i64) -> Option<TraceOp> {
    use CollectiveOp::{AllGather, AllToAll, Recv, ReduceScatter, Send};
    let op = match call.name.as_str() {
        "All2All" => AllToAll,
        name => CollectiveOp::within(name)?,
    };
    let part = Some(call.bytes);
    let all = call.bytes.checked_mul(u64::from(header.n_ranks));
    let (bytes_in, bytes_out) = match op {
        AllGather => (part, all),
        ReduceScatter => (all, part),
        AllToAll => (all, all),
        _ => (part, part),
    };
    let own = Some(header.rank);
    let (src, dst) = match op {
        Send => (own, call.peer),
        Recv => (call.peer, own),
        _ => (None, None),
    };
    Some(TraceOp {
        group,
        seq: call.peer.is_none().then(|| numbered(call.number, op)),
        op,
        bytes_in,
        bytes_out,
        splits_in: Vec::new(),
        splits_out: Vec::new(),
        dtype: "".into(),
        src,
        dst,
        begin_ns,
        end_ns: begin_ns.saturating_add(call.duration_ns),
        // Kernels of one communicator run one after the other.
        stream: group as u64,
        coded_share: None,
    })
}

/// Number that no other call of the communicator has: NCCL counts each kind of collective for itself.
fn numbered(number: u64, op: CollectiveOp) -> u64 {
    number.saturating_mul(16).saturating_add(op as u64)
}
