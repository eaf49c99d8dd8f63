//! Traces of PyTorch's profiler, Kineto: Chrome's JSON, one file per rank.

mod args;
mod event;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;

use self::args::CallArgs;
use self::event::{Event, EventKind, decimal_ns, string};
use crate::dtype::dtype_bytes;
use crate::error::ProfileError;
use crate::intervals::Union;
use crate::names::{KernelKind, kernel_kind};
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};
use crate::scan::{ScanError, Scanner};
use crate::source::{Source, SourceKind, rank_in_name};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

const WANTED: &str = "trace of PyTorch's profiler";

const EXPORT: &str =
    "pass what `export_chrome_trace` or `tensorboard_trace_handler` of `torch.profiler` wrote";

/// Calls that are held of one rank at the most: a few hundred bytes each.
const MOST_CALLS: usize = 1 << 20;

/// Overlap of calls on one stream that comes of rounded times.
const ROUNDING_NS: i64 = 1000;

/// Reads the trace of one rank, plain or as gzip of any number of members; `file` is its name for messages, and for the rank if the trace does not
/// say it.
///
/// # Errors
/// If it cannot be read, is something else, is cut off or damaged, or holds several ranks.
pub fn read_kineto(file: &str, reader: impl Read) -> Result<RankTrace, ProfileError> {
    let source = Source::open(file, reader)?;
    // Heads of traces name groups and versions, as dumps of the Flight Recorder do.
    let own = [SourceKind::Kineto, SourceKind::Json, SourceKind::FlightJson];
    source.refuse_foreign(file, WANTED, EXPORT, &own)?;
    let mut scanner = Scanner::new(source.reader);
    let mut reading = Reading::new(file);
    let read = reading.document(&mut scanner);
    read.map_err(|fault| fault.at(file, scanner.line(), reading.events))?;
    reading.finish()
}

/// Reasons for which reading ends, before they are given a place.
enum Fault {
    Scan(ScanError),
    Known(ProfileError),
    Json(&'static str),
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

impl Fault {
    fn at(self, file: &str, line: u64, events: u64) -> ProfileError {
        let file = file.to_owned();
        match self {
            Self::Known(error) => error,
            Self::Json(reason) => ProfileError::Json { file, line, reason: reason.to_owned() },
            Self::Scan(ScanError::Truncated) => ProfileError::Truncated { file, line, events },
            // What gzip says of a file that ends too early.
            Self::Scan(ScanError::Read(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                ProfileError::Truncated { file, line, events }
            }
            Self::Scan(ScanError::Read(source)) => ProfileError::Read { file, source },
            Self::Scan(ScanError::TooLong) => {
                ProfileError::TooMany { file, line, things: "one event is longer" }
            }
            Self::Scan(ScanError::Unexpected { found, wanted }) => {
                let found = char::from(found).escape_default();
                ProfileError::Json { file, line, reason: format!("`{found}` where {wanted} should be") }
            }
        }
    }
}

/// Part of `distributedInfo` that is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Distributed {
    rank: Option<u32>,
    world_size: Option<u32>,
    pg_config: serde_json::Value,
}

/// Part of an entry of `deviceProperties` that is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Device {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupConfig {
    pg_name: String,
    pg_desc: String,
    pg_size: Option<u32>,
    ranks: Vec<u32>,
}

/// Call of a kernel, before everything that is known of it is put together.
struct Call {
    begin_ns: i64,
    end_ns: i64,
    stream: u64,
    /// Operation after the name of the kernel.
    op: Option<CollectiveOp>,
    external_id: Option<u64>,
    known: Known,
}

/// Arguments of a call in little memory: groups and types are held once for all calls.
#[derive(Clone)]
struct Known {
    /// Whether the profiler has recorded any.
    is_recorded: bool,
    op: Option<CollectiveOp>,
    seq: Option<u64>,
    group: usize,
    bytes_in: Option<u64>,
    bytes_out: Option<u64>,
    splits_in: Vec<u64>,
    splits_out: Vec<u64>,
    dtype: Arc<str>,
    is_dtype_known: bool,
    src: Option<u32>,
    dst: Option<u32>,
}

struct Reading<'f> {
    file: &'f str,
    events: u64,
    kernels: u64,
    calls: Vec<Call>,
    /// Arguments that the CPU recorded of a call, by the id that its kernels have, too.
    recorded: BTreeMap<u64, Known>,
    groups: Vec<TraceGroup>,
    dtypes: Vec<Arc<str>>,
    /// Rank within the group of all.
    rank: Option<u32>,
    compute: Union,
    device: Option<u64>,
    distributed: Distributed,
    /// GPUs that the process sees.
    gpus: Vec<Device>,
    base_ns: i64,
    not_used: BTreeMap<String, u64>,
    repaired: BTreeMap<String, u64>,
}

fn count(counts: &mut BTreeMap<String, u64>, name: impl Into<String>) {
    *counts.entry(name.into()).or_default() += 1;
}

impl<'f> Reading<'f> {
    fn new(file: &'f str) -> Self {
        Self {
            file,
            events: 0,
            kernels: 0,
            calls: Vec::new(),
            recorded: BTreeMap::new(),
            groups: Vec::new(),
            dtypes: Vec::new(),
            rank: None,
            compute: Union::default(),
            device: None,
            distributed: Distributed::default(),
            gpus: Vec::new(),
            base_ns: 0,
            not_used: BTreeMap::new(),
            repaired: BTreeMap::new(),
        }
    }

    fn document(&mut self, scanner: &mut Scanner<impl Read>) -> Result<(), Fault> {
        match scanner.token()? {
            Some(b'[') => self.list(scanner)?,
            _ => self.object(scanner)?,
        }
        match scanner.token()? {
            None => Ok(()),
            Some(b'{' | b'[') => Err(Fault::Known(ProfileError::SecondTrace {
                file: self.file.to_owned(),
                line: scanner.line(),
            })),
            Some(_) => Err(Fault::Json("there is something behind the end of the trace")),
        }
    }

    /// The usual form: an object, one key of which has the events.
    fn object(&mut self, scanner: &mut Scanner<impl Read>) -> Result<(), Fault> {
        scanner.take(b'{', "`{`")?;
        let (mut is_first, mut has_events) = (true, false);
        while scanner.goes_on(b'}', is_first)? {
            is_first = false;
            let key = scanner.value()?.to_vec();
            scanner.take(b':', "`:`")?;
            match key.as_slice() {
                br#""traceEvents""# => {
                    has_events = true;
                    self.list(scanner)?;
                }
                br#""distributedInfo""# => {
                    let read = serde_json::from_slice(scanner.value()?);
                    self.distributed =
                        read.map_err(|_| Fault::Json("`distributedInfo` is not as PyTorch writes it"))?;
                }
                br#""deviceProperties""# => {
                    // Nothing depends on it alone.
                    self.gpus = serde_json::from_slice(scanner.value()?).unwrap_or_default();
                }
                br#""baseTimeNanoseconds""# => {
                    let text = std::str::from_utf8(scanner.value()?).unwrap_or_default();
                    let base = text.trim_matches('"').parse();
                    self.base_ns =
                        base.map_err(|_| Fault::Json("`baseTimeNanoseconds` is no whole number"))?;
                }
                key if !key.starts_with(b"\"") => return Err(Fault::Json("a key is no text")),
                _ => scanner.skip()?,
            }
        }
        if has_events {
            return Ok(());
        }
        Err(Fault::Known(ProfileError::NotThis {
            file: self.file.to_owned(),
            wanted: WANTED,
            found: "is JSON without `traceEvents`",
            remedy: EXPORT.to_owned(),
        }))
    }

    fn list(&mut self, scanner: &mut Scanner<impl Read>) -> Result<(), Fault> {
        scanner.take(b'[', "the list of events")?;
        let mut is_first = true;
        while scanner.goes_on(b']', is_first)? {
            is_first = false;
            // Of the line where the event ends.
            let line = scanner.line();
            let text = scanner.value()?;
            let event = Event::of(text).map_err(|()| Fault::Json("an event is no valid JSON"))?;
            self.events += 1;
            if let Some(event) = event {
                self.event(&event, line)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>, line: u64) -> Result<(), Fault> {
        let broken = |()| Fault::Json("the `args` of an event are no valid JSON");
        match event.kind {
            EventKind::Copy => count(&mut self.not_used, "copies and fills of memory"),
            EventKind::Recorded => {
                let args = CallArgs::of(event.args).map_err(broken)?;
                if let Some(id) = args.external_id {
                    let known = self.known(args);
                    self.recorded.insert(id, known);
                }
            }
            EventKind::Kernel => {
                self.kernels += 1;
                let (name, is_repaired) = string(event.name);
                if is_repaired {
                    count(&mut self.repaired, "names with control characters or bytes that are no UTF-8");
                }
                match kernel_kind(&name) {
                    KernelKind::Foreign(who) => {
                        count(&mut self.not_used, format!("kernels that communicate without NCCL: {who}"));
                    }
                    KernelKind::Compute => {
                        if let Some(interval) = self.interval(event, "compute kernels")
                            && !self.compute.add(interval)
                        {
                            return Err(self.too_many(line, "more separate stretches of compute"));
                        }
                    }
                    KernelKind::Library(op) => {
                        let args = CallArgs::of(event.args).map_err(broken)?;
                        self.call(event, op, args, line)?;
                    }
                }
            }
        }
        if self.recorded.len() + self.calls.len() > MOST_CALLS {
            return Err(self.too_many(line, "more calls"));
        }
        Ok(())
    }

    /// Arguments of a call with its group and type looked up.
    fn known(&mut self, args: CallArgs) -> Known {
        if args.description == "default_pg" {
            self.rank = self.rank.or(args.rank);
        }
        let (bytes_in, bytes_out) = (args.bytes(args.elements_in), args.bytes(args.elements_out));
        let is_dtype_known = args.elements_in.is_none() || dtype_bytes(&args.dtype).is_some();
        let group = TraceGroup {
            name: args.group,
            ranks: args.ranks,
            size: args.group_size,
            description: args.description,
        };
        let group = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        let dtype = self.dtypes.iter().find(|known| ***known == *args.dtype).cloned();
        let dtype = dtype.unwrap_or_else(|| {
            self.dtypes.push(args.dtype.as_str().into());
            args.dtype.as_str().into()
        });
        Known {
            is_recorded: args.name.is_some(),
            op: args.name.as_deref().and_then(CollectiveOp::within),
            seq: args.seq,
            group,
            bytes_in,
            bytes_out,
            splits_in: args.splits_in,
            splits_out: args.splits_out,
            dtype,
            is_dtype_known,
            src: args.src,
            dst: args.dst,
        }
    }

    fn too_many(&self, line: u64, things: &'static str) -> Fault {
        Fault::Known(ProfileError::TooMany { file: self.file.to_owned(), line, things })
    }

    fn call(
        &mut self,
        event: &Event<'_>,
        op: Option<CollectiveOp>,
        args: CallArgs,
        line: u64,
    ) -> Result<(), Fault> {
        if let Some(device) = args.device.or(event.device()) {
            let first = *self.device.get_or_insert(device);
            if first != device {
                let file = self.file.to_owned();
                return Err(Fault::Known(ProfileError::SeveralRanks { file, line, first, second: device }));
            }
        }
        let Some((begin_ns, end_ns)) = self.interval(event, "communication kernels") else { return Ok(()) };
        let stream = args.stream.or(event.stream()).unwrap_or_default();
        let external_id = args.external_id;
        let known = self.known(args);
        self.calls.push(Call { begin_ns, end_ns, stream, op, external_id, known });
        Ok(())
    }

    /// Begin and end of a kernel; what has none is counted.
    fn interval(&mut self, event: &Event<'_>, whose: &str) -> Option<(i64, i64)> {
        let (begin, begin_is_text) = decimal_ns(event.ts);
        let (duration, duration_is_text) = decimal_ns(event.dur);
        if begin_is_text || duration_is_text {
            count(&mut self.repaired, "times that are text");
        }
        let why = match (begin, duration) {
            (Some(_), Some(0)) => "zero duration",
            (Some(_), Some(duration)) if duration < 0 => "negative duration",
            (Some(begin), Some(duration)) => match begin.checked_add(duration) {
                Some(end) => return Some((begin, end)),
                None => "times that no clock shows",
            },
            (None, _) => "no time of their begin",
            (_, None) => "no duration",
        };
        count(&mut self.not_used, format!("{whose} of {why}"));
        None
    }

    fn finish(mut self) -> Result<RankTrace, ProfileError> {
        if self.kernels == 0 {
            return Err(ProfileError::NoKernels { file: self.file.to_owned(), events: self.events });
        }
        let mut calls = std::mem::take(&mut self.calls);
        calls.sort_by_key(|call| (call.begin_ns, call.end_ns));
        self.clip(&mut calls);
        let mut ops = Vec::with_capacity(calls.len());
        for call in calls {
            ops.extend(self.op(call));
        }
        let configs = self.distributed.pg_config.take();
        let configs = serde_json::from_value::<Vec<GroupConfig>>(configs).unwrap_or_default();
        Ok(RankTrace {
            is_compute_known: true,
            gpu: self.gpus.first().and_then(|gpu| gpu.name.clone()),
            gpus_per_node: u32::try_from(self.gpus.len()).ok().filter(|count| *count > 0),
            rank: self.distributed.rank.or_else(|| rank_in_name(self.file)).or(self.rank),
            world_size: self.distributed.world_size.filter(|ranks| *ranks > 0),
            groups: used_groups(self.groups, &mut ops, &configs),
            ops,
            compute: self.compute.finish(),
            base_ns: self.base_ns,
            not_used: self.not_used,
            repaired: self.repaired,
            kernels: self.kernels,
            ..RankTrace::new(self.file, Format::Kineto, Timing::Kernels)
        })
    }

    /// Everything that is known of a call; none if it is not known what it does.
    fn op(&mut self, call: Call) -> Option<TraceOp> {
        let Call { begin_ns, end_ns, stream, op, external_id, mut known } = call;
        if !known.is_recorded
            && let Some(recorded) = external_id.and_then(|id| self.recorded.get(&id))
        {
            known = recorded.clone();
        }
        let Some(op) = known.op.or(op) else {
            count(&mut self.not_used, "communication kernels whose operation is not said");
            return None;
        };
        if !known.is_recorded {
            count(&mut self.repaired, "calls without sizes, known by the names of their kernels only");
        }
        if !known.is_dtype_known {
            count(&mut self.repaired, format!("calls without bytes: type `{}` is not known", known.dtype));
        }
        Some(TraceOp {
            group: known.group,
            seq: known.seq,
            op,
            bytes_in: known.bytes_in,
            bytes_out: known.bytes_out,
            splits_in: known.splits_in,
            splits_out: known.splits_out,
            dtype: known.dtype,
            src: known.src,
            dst: known.dst,
            begin_ns,
            end_ns,
            stream,
            coded_share: None,
        })
    }

    /// Ends calls where the next one on their stream begins: a stream does one thing after the other.
    fn clip(&mut self, calls: &mut Vec<Call>) {
        let mut next: BTreeMap<u64, i64> = BTreeMap::new();
        for call in calls.iter_mut().rev() {
            let limit = next.insert(call.stream, call.begin_ns).unwrap_or(i64::MAX);
            if call.end_ns > limit {
                if call.end_ns - limit > ROUNDING_NS {
                    count(
                        &mut self.repaired,
                        "calls that were cut where the next one of their stream begins",
                    );
                }
                call.end_ns = limit;
            }
        }
        let before = calls.len();
        calls.retain(|call| call.end_ns > call.begin_ns);
        for _ in calls.len()..before {
            count(
                &mut self.not_used,
                "communication kernels that begin when another one of their stream does",
            );
        }
    }
}

/// Groups that calls are of, each once; others are of calls that leave no kernel.
fn used_groups(groups: Vec<TraceGroup>, ops: &mut [TraceOp], configs: &[GroupConfig]) -> Vec<TraceGroup> {
    let known: Vec<TraceGroup> = groups.into_iter().map(|group| completed(group, configs)).collect();
    let mut places: Vec<Option<usize>> = vec![None; known.len()];
    let mut used: Vec<TraceGroup> = Vec::new();
    for op in ops {
        let place = *places[op.group].get_or_insert_with(|| {
            let group = &known[op.group];
            used.iter().position(|other| other == group).unwrap_or_else(|| {
                used.push(group.clone());
                used.len() - 1
            })
        });
        op.group = place;
    }
    used
}

/// The group with everything that the head of the trace knows of it.
fn completed(mut group: TraceGroup, configs: &[GroupConfig]) -> TraceGroup {
    if let Some(config) = configs.iter().find(|config| config.pg_name == group.name) {
        if group.ranks.is_empty() {
            group.ranks.clone_from(&config.ranks);
        }
        if group.description.is_empty() {
            group.description.clone_from(&config.pg_desc);
        }
        group.size = group.size.or(config.pg_size);
    }
    group
}
