//! Journals of `libzipwire_nccl.so` in mode `stats`: a line of JSON for each call of NCCL, one file per process. docs/nccl.md has the format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;

use crate::communicators::{ProcessLog, fold_all_to_all};
use crate::error::ProfileError;
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};
use crate::source::{LATEST_NS, Lines, Source, SourceKind};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

/// Version of the format that is read.
const VERSION: u64 = 1;

/// Calls that are held of one process at the most.
const MOST_CALLS: usize = 1 << 20;

const WANTED: &str = "journal of `libzipwire_nccl.so`";
const REMEDY: &str = "pass what a job with `LD_PRELOAD=libzipwire_nccl.so` and `ZIPWIRE_NCCL=stats` wrote, `zipwire-nccl.*.jsonl`";

/// Reads the journal of one process, plain or as gzip; `file` is its name for messages.
///
/// Begins are those of the calls on the CPU, and there are no durations. A group of messages to and from all ranks of a communicator is an
/// All-to-All, as PyTorch makes it.
///
/// # Errors
/// If it cannot be read, is something else or of another version, is cut off or damaged, or holds the journals of several processes.
pub fn read_shim(file: &str, reader: impl Read) -> Result<ProcessLog, ProfileError> {
    let source = Source::open(file, reader)?;
    source.refuse_foreign(file, WANTED, REMEDY, &[SourceKind::Shim, SourceKind::Json])?;
    let mut lines = Lines::new(source.reader);
    let mut journal = Journal::default();
    while lines.advance(file)? {
        let line: Line<'_> =
            serde_json::from_slice(lines.line()).map_err(|error| lines.broken(file, &error))?;
        journal.take(file, lines.number(), &line)?;
        if journal.ops.len() > MOST_CALLS {
            let (file, line) = (file.to_owned(), lines.number());
            return Err(ProfileError::TooMany { file, line, things: "more calls" });
        }
    }
    Ok(journal.finish(file))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    zipwire_nccl: Option<u64>,
    t: Option<f64>,
    rank: Option<u32>,
    #[serde(borrow)]
    op: Cow<'a, str>,
    count: u64,
    bytes: u64,
    dtype: serde_json::Value,
    peer: Option<u32>,
    #[serde(borrow)]
    comm: Option<Cow<'a, str>>,
    nranks: Option<u32>,
    group: u64,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    capturing: bool,
    /// Finding of a call; of the first line, how many calls there are for each that is looked at.
    sample: serde_json::Value,
    wire_bytes: Option<u64>,
    lost: u64,
}

#[derive(Default)]
struct Journal {
    has_begun: bool,
    rank: Option<u32>,
    groups: Vec<TraceGroup>,
    seats: Vec<Option<u32>>,
    ops: Vec<TraceOp>,
    /// By call, the number of its group of calls.
    batches: Vec<Option<u64>>,
    dtypes: Vec<Arc<str>>,
    not_used: BTreeMap<String, u64>,
    repaired: BTreeMap<String, u64>,
    has_end: bool,
}

impl Journal {
    fn take(&mut self, file: &str, number: u64, line: &Line<'_>) -> Result<(), ProfileError> {
        let broken = |reason: &str| ProfileError::Json {
            file: file.to_owned(),
            line: number,
            reason: reason.to_owned(),
        };
        match (&*line.kind, self.has_begun) {
            ("start", true) => return Err(ProfileError::SecondTrace { file: file.to_owned(), line: number }),
            ("start", false) => match line.zipwire_nccl {
                Some(VERSION) => (self.has_begun, self.rank) = (true, line.rank),
                Some(version) => {
                    let (file, version) = (file.to_owned(), version.to_string());
                    return Err(ProfileError::Version { file, wanted: WANTED, version, known: "1" });
                }
                None => return Err(broken("a first line without `zipwire_nccl`, the version")),
            },
            (_, false) => {
                return Err(ProfileError::NotThis {
                    file: file.to_owned(),
                    wanted: WANTED,
                    found: "has no first line with `\"kind\":\"start\"`",
                    remedy: REMEDY.to_owned(),
                });
            }
            ("op", _) => self.call(line).map_err(broken)?,
            ("comm", _) => _ = self.group(line),
            ("end", _) => {
                self.has_end = true;
                if line.lost > 0 {
                    self.not_used.insert("calls of which the journal has no line".to_owned(), line.lost);
                }
            }
            _ => *self.not_used.entry("lines of a kind that is not known".to_owned()).or_default() += 1,
        }
        Ok(())
    }

    /// Place of the communicator of a line.
    fn group(&mut self, line: &Line<'_>) -> usize {
        let name = line.comm.as_deref().unwrap_or_default();
        let size = line.nranks.filter(|size| *size > 0);
        let is_same = |group: &TraceGroup| group.name == name && (!name.is_empty() || group.size == size);
        let place = self.groups.iter().position(is_same).unwrap_or_else(|| {
            self.groups.push(TraceGroup { name: name.to_owned(), size, ..TraceGroup::default() });
            self.seats.push(None);
            self.groups.len() - 1
        });
        // The first lines of a communicator come before NCCL has said its ranks.
        self.groups[place].size = self.groups[place].size.or(size);
        self.seats[place] = self.seats[place].or(line.rank);
        place
    }

    fn call(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        let us = line
            .t
            .map(|seconds| (seconds * 1e6).round())
            .filter(|us| (0.0..LATEST_NS as f64 / 1e3).contains(us));
        let begin_ns = us.ok_or("a call without its time `t`")? as i64 * 1000;
        let op = match &*line.op {
            "bcast" => Some(CollectiveOp::Broadcast),
            name => CollectiveOp::within(name),
        };
        let Some(op) = op else {
            *self.not_used.entry(format!("calls of `{}`", line.op)).or_default() += 1;
            return Ok(());
        };
        if line.capturing {
            let what =
                "calls that were captured into a CUDA graph: each is here once, however often its graph ran";
            *self.repaired.entry(what.to_owned()).or_default() += 1;
        }
        let group = self.group(line);
        let (bytes_in, bytes_out) = self.bytes(line, op, self.groups[group].size);
        let own = self.seats[group];
        let (src, dst) = match op {
            CollectiveOp::Send => (own, line.peer),
            CollectiveOp::Recv => (line.peer, own),
            _ => (None, None),
        };
        let coded = line.wire_bytes.filter(|_| line.bytes > 0).map(|bytes| bytes as f64 / line.bytes as f64);
        let ratio = line.sample["ratio"].as_f64();
        self.batches.push(Some(line.group).filter(|group| *group > 0));
        let dtype = line.dtype.as_str().unwrap_or_default();
        let dtype = self.dtype(dtype);
        self.ops.push(TraceOp {
            group,
            seq: None,
            op,
            bytes_in,
            bytes_out,
            splits_in: Vec::new(),
            splits_out: Vec::new(),
            dtype,
            src,
            dst,
            begin_ns,
            end_ns: begin_ns,
            stream: stream(&line.stream),
            coded_share: ratio.or(coded).filter(|share| share.is_finite()),
        });
        Ok(())
    }

    /// Bytes that a rank gives and gets, from those of the values that the call counts: NCCL counts a rank's part.
    fn bytes(&mut self, line: &Line<'_>, op: CollectiveOp, size: Option<u32>) -> (Option<u64>, Option<u64>) {
        use CollectiveOp::{AllGather, AllToAll, Gather, ReduceScatter, Scatter};
        if line.bytes == 0 && line.count > 0 {
            *self.repaired.entry("calls without bytes: their type is not known".to_owned()).or_default() += 1;
            return (None, None);
        }
        let all = size.and_then(|size| line.bytes.checked_mul(u64::from(size)));
        let part = Some(line.bytes);
        match op {
            AllGather | Gather => (part, all),
            ReduceScatter | Scatter => (all, part),
            AllToAll => (all, all),
            _ => (part, part),
        }
    }

    /// The name of a type, held once.
    fn dtype(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.dtypes.iter().find(|known| ***known == *name) {
            return known.clone();
        }
        self.dtypes.push(name.into());
        name.into()
    }

    fn finish(mut self, file: &str) -> ProcessLog {
        if !self.has_end {
            let what = "journals without a last line: the process was killed, and its last calls are missing, or it still runs";
            self.repaired.insert(what.to_owned(), 1);
        }
        // A sampled call has its line when the sample has been looked at.
        let mut order: Vec<usize> = (0..self.ops.len()).collect();
        order.sort_by_key(|index| self.ops[*index].begin_ns);
        let batches: Vec<_> = order.iter().map(|index| self.batches[*index]).collect();
        let mut taken: Vec<Option<TraceOp>> = self.ops.into_iter().map(Some).collect();
        let ops = order.iter().filter_map(|index| taken[*index].take()).collect();
        let groups: Vec<_> =
            self.seats.iter().copied().zip(self.groups.iter().map(|group| group.size)).collect();
        let mut trace = RankTrace::new(file, Format::Shim, Timing::Issued);
        trace.rank = self.rank;
        trace.ops = fold_all_to_all(ops, &batches, &groups, false);
        trace.groups = self.groups;
        trace.not_used = self.not_used;
        trace.repaired = self.repaired;
        // Numbers of processes are those of their hosts, which the journal does not name: each file is a process.
        ProcessLog { trace, process: file.to_owned(), seats: self.seats }
    }
}

/// Number of a stream, of its address as the journal has it.
fn stream(address: &str) -> u64 {
    address.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}
