//! Dumps of PyTorch's Flight Recorder, as pickles or JSON: the last calls of each rank, one file per rank.
//!
//! The source of names and meanings is `FlightRecorderDetail.hpp` of PyTorch and its own reader, `torch.distributed.flight_recorder`.

mod entry;
mod pickle;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::entry::{Entry, GroupConfig, group_configs};
use self::pickle::Pickle;
use crate::error::ProfileError;
use crate::op::CollectiveOp;
use crate::profile::{Format, Timing};
use crate::scan::{ScanError, Scanner};
use crate::source::{LATEST_NS, Source, SourceKind, json_fault, rank_at_end};
use crate::trace::{RankTrace, TraceGroup, TraceOp};

/// Entries that are held of one rank at the most.
const MOST_ENTRIES: usize = 1 << 20;

const WANTED: &str = "dump of PyTorch's Flight Recorder";
const REMEDY: &str = "pass what `TORCH_FR_DUMP_TEMP_FILE` names, or `torch._C._distributed_c10d._dump_nccl_trace()` gave, a file for each rank";

/// Reads the dump of one rank, a pickle or JSON, plain or as gzip; `file` is its name for messages, and ends with the rank.
///
/// Durations are there if the job ran with `TORCH_NCCL_ENABLE_TIMING=1`. Begins are when the CPU made the calls. Pickles are never executed: those
/// that ask for it are refused.
///
/// # Errors
/// If it cannot be read, is something else or of another version, is cut off or damaged.
pub fn read_flight(file: &str, reader: impl Read) -> Result<RankTrace, ProfileError> {
    let source = Source::open(file, reader)?;
    let own = [SourceKind::FlightPickle, SourceKind::FlightJson, SourceKind::Json];
    source.refuse_foreign(file, WANTED, REMEDY, &own)?;
    let dump = if source.kind == SourceKind::FlightPickle {
        from_pickle(file, source.reader)?
    } else {
        let mut scanner = Scanner::new(source.reader);
        let mut dump = Dump::default();
        let read = dump.read(&mut scanner);
        read.map_err(|fault| fault.at(file, scanner.line(), dump.entries.len()))?;
        dump
    };
    let version = dump.version.as_deref().ok_or_else(|| not_this(file, "has no `version`"))?;
    if version.split('.').next() != Some("2") {
        let version = version.to_owned();
        return Err(ProfileError::Version {
            file: file.to_owned(),
            wanted: WANTED,
            version,
            known: "2.0 to 2.10",
        });
    }
    if !dump.has_entries {
        return Err(not_this(file, "has no `entries`"));
    }
    Ok(dump.trace(file))
}

fn not_this(file: &str, found: &'static str) -> ProfileError {
    ProfileError::NotThis { file: file.to_owned(), wanted: WANTED, found, remedy: REMEDY.to_owned() }
}

/// Reasons for which reading of JSON ends, before they are given a place.
enum Fault {
    Scan(ScanError),
    Json(String),
    /// The same at a line that is not the one read last.
    JsonAt(u64, String),
    TooMany,
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

impl Fault {
    fn at(self, file: &str, line: u64, entries: usize) -> ProfileError {
        let file = file.to_owned();
        match self {
            Self::Json(reason) => ProfileError::Json { file, line, reason },
            Self::JsonAt(line, reason) => ProfileError::Json { file, line, reason },
            Self::TooMany => ProfileError::TooMany { file, line, things: "more entries" },
            Self::Scan(ScanError::Truncated) => ProfileError::CutOff { file, records: entries as u64 },
            // What gzip says of a file that ends too early.
            Self::Scan(ScanError::Read(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                ProfileError::CutOff { file, records: entries as u64 }
            }
            Self::Scan(ScanError::Read(source)) => ProfileError::Read { file, source },
            Self::Scan(ScanError::TooLong) => {
                ProfileError::TooMany { file, line, things: "one entry is longer" }
            }
            Self::Scan(ScanError::Unexpected { found, wanted }) => {
                let found = char::from(found).escape_default();
                ProfileError::Json { file, line, reason: format!("`{found}` where {wanted} should be") }
            }
        }
    }
}

/// Reads a value; `what` says what it means if it has another form.
fn value<T: DeserializeOwned>(scanner: &mut Scanner<impl Read>, what: &str) -> Result<T, Fault> {
    scanner.token()?;
    let begin = scanner.line();
    serde_json::from_slice(scanner.value()?).map_err(|error| {
        let (line, reason) = json_fault(begin, &error);
        Fault::JsonAt(line, format!("{what}: {reason}"))
    })
}

/// Parts of a dump that are read.
#[derive(Default)]
struct Dump {
    version: Option<String>,
    has_entries: bool,
    entries: Vec<Entry>,
    configs: Vec<GroupConfig>,
}

fn from_pickle(file: &str, reader: impl Read) -> Result<Dump, ProfileError> {
    let pickle = Pickle::read(reader).map_err(|fault| fault.at(file))?;
    let mut dump = Dump::default();
    let value = |key: &str| pickle.member(pickle.root(), key);
    let small = |key: &str| value(key).and_then(|id| pickle.json(id));
    dump.version = small("version").as_ref().and_then(Value::as_str).map(str::to_owned);
    dump.configs = small("pg_config").map(|configs| group_configs(&configs)).unwrap_or_default();
    for (index, id) in value("entries").into_iter().flat_map(|id| pickle.items(id)).enumerate() {
        let damaged = |what: &str| {
            let reason = format!("entry {index} is not as the Flight Recorder writes it: {what}");
            ProfileError::Damaged { file: file.to_owned(), byte: pickle.bytes(), reason }
        };
        if index >= MOST_ENTRIES {
            return Err(damaged("there are more than are held in memory"));
        }
        let entry = pickle.json(*id).ok_or_else(|| damaged("it holds too much"))?;
        dump.entries.push(serde_json::from_value(entry).map_err(|error| damaged(&error.to_string()))?);
    }
    dump.has_entries = value("entries").is_some();
    Ok(dump)
}

impl Dump {
    fn read(&mut self, scanner: &mut Scanner<impl Read>) -> Result<(), Fault> {
        scanner.token()?;
        scanner.take(b'{', "`{`")?;
        let mut is_first = true;
        while scanner.goes_on(b'}', is_first)? {
            is_first = false;
            let key = scanner.value()?.to_vec();
            scanner.take(b':', "`:`")?;
            match key.as_slice() {
                br#""version""# => {
                    let version = serde_json::from_slice(scanner.value()?);
                    self.version = Some(version.map_err(|_| Fault::Json("`version` is no text".to_owned()))?);
                }
                br#""pg_config""# => {
                    self.configs = group_configs(&value(scanner, "`pg_config` is no valid JSON")?);
                }
                br#""entries""# => {
                    self.has_entries = true;
                    self.read_entries(scanner)?;
                }
                key if !key.starts_with(b"\"") => return Err(Fault::Json("a key is no text".to_owned())),
                _ => scanner.skip()?,
            }
        }
        match scanner.token()? {
            None => Ok(()),
            Some(_) => Err(Fault::Json("there is something behind the end of the dump".to_owned())),
        }
    }

    fn read_entries(&mut self, scanner: &mut Scanner<impl Read>) -> Result<(), Fault> {
        scanner.take(b'[', "the list of entries")?;
        let mut is_first = true;
        while scanner.goes_on(b']', is_first)? {
            is_first = false;
            let entry = value(scanner, "an entry is not as the Flight Recorder writes it")?;
            self.entries.push(entry);
            if self.entries.len() > MOST_ENTRIES {
                return Err(Fault::TooMany);
            }
        }
        Ok(())
    }

    fn trace(mut self, file: &str) -> RankTrace {
        self.complete_coalesced();
        let mut trace = RankTrace::new(file, Format::Flight, Timing::Issued);
        trace.rank = rank_at_end(file);
        trace.world_size = self
            .configs
            .iter()
            .find(|config| config.desc == "default_pg")
            .and_then(|config| u32::try_from(config.ranks.len()).ok())
            .filter(|ranks| *ranks > 0);
        let mut used: Vec<(Entry, CollectiveOp)> = Vec::new();
        for entry in self.entries {
            match usable(&entry) {
                Ok(op) => used.push((entry, op)),
                Err(Some(why)) => *trace.not_used.entry(why).or_default() += 1,
                Err(None) => {}
            }
        }
        let timed = used.iter().filter(|(entry, _)| entry.duration_ns().is_some()).count();
        // The last calls have none yet when the dump is written.
        if timed > 0 && 2 * timed >= used.len() {
            trace.timing = Timing::Durations;
            if timed < used.len() {
                let what = "completed calls without a duration, beside others that have one".to_owned();
                trace.not_used.insert(what, (used.len() - timed) as u64);
            }
            used.retain(|(entry, _)| entry.duration_ns().is_some());
        }
        used.sort_by_key(|(entry, _)| entry.time_created_ns);
        let mut ends: BTreeMap<usize, i64> = BTreeMap::new();
        for (entry, op) in used {
            let group = group_of(&mut trace.groups, &entry, &self.configs);
            let mut op = entry.op(op, group, &trace.groups[group]);
            if trace.timing == Timing::Durations {
                // The CPU runs ahead: a kernel begins when the one in front of it in its group is done.
                let end = ends.entry(group).or_insert(i64::MIN);
                op.begin_ns = op.begin_ns.max(*end);
                op.end_ns = op.begin_ns.saturating_add(entry.duration_ns().unwrap_or_default());
                // Calls of one coalesced kernel run beside each other.
                if !entry.is_coalesced {
                    *end = op.end_ns;
                }
            }
            trace.ops.push(op);
        }
        trace.ops.sort_by_key(|op: &TraceOp| op.begin_ns);
        trace
    }

    /// Gives calls of a coalesced group the state and the duration of the entry that ends it: only that one has them.
    fn complete_coalesced(&mut self) {
        let mut ends: BTreeMap<_, (String, Option<f64>)> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is_end_of_coalesced()) {
            ends.insert(entry.number(), (entry.state.clone(), entry.duration_ms));
        }
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_end_of_coalesced()) {
            if let Some((state, duration_ms)) = ends.get(&entry.number())
                && entry.state != "completed"
            {
                entry.state.clone_from(state);
                entry.duration_ms = *duration_ms;
                entry.is_coalesced = true;
            }
        }
    }
}

/// Operation of an entry that is used, or why it is not; nothing to say of the end of a coalesced group, whose calls have entries of their own.
fn usable(entry: &Entry) -> Result<CollectiveOp, Option<String>> {
    if entry.is_end_of_coalesced() {
        return Err(None);
    }
    if let Some((backend @ ("gloo" | "mpi"), _)) = entry.profiling_name.split_once(':') {
        return Err(Some(format!("calls of the backend `{backend}`, which leave no GPU")));
    }
    let name = &entry.profiling_name;
    // `all_reduce_barrier` is how PyTorch names its barrier.
    let op = if name.contains("barrier") { Some(CollectiveOp::Barrier) } else { CollectiveOp::within(name) };
    let op = op.ok_or_else(|| Some(format!("entries of `{name}`, which sends nothing that is known")))?;
    if entry.state != "completed" {
        let state = if entry.state.is_empty() { "of no state" } else { &entry.state };
        return Err(Some(format!("calls that are not completed, but {state}")));
    }
    if !(0..LATEST_NS).contains(&entry.time_created_ns) {
        return Err(Some("calls at times that no clock shows".to_owned()));
    }
    Ok(op)
}

/// Place of the group of an entry.
fn group_of(groups: &mut Vec<TraceGroup>, entry: &Entry, configs: &[GroupConfig]) -> usize {
    let [name, description] = &entry.process_group;
    if let Some(place) =
        groups.iter().position(|group| group.name == *name && group.description == *description)
    {
        return place;
    }
    let config = configs.iter().find(|config| config.name == *name);
    let ranks = config.map(|config| config.ranks.clone()).unwrap_or_default();
    let size = u32::try_from(ranks.len()).ok().filter(|size| *size > 0);
    groups.push(TraceGroup { name: name.clone(), ranks, size, description: description.clone() });
    groups.len() - 1
}
