//! The journal: a line of JSON for each call, written by a thread of its own. docs/nccl.md has its format.
//!
//! Calls put records into a queue of fixed length, which takes no lock and wakes nobody; the writer looks into it every few milliseconds. A
//! record that finds it full is lost and counted.

#![allow(unsafe_code, reason = "the writer takes no signals")]

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::abi::{reduction_of, type_of};
use crate::communicators::Communicator;
use crate::exports::{Call, Op};
use crate::process::{Process, tell};
use crate::sample::{Finding, Pending};
use crate::settings::{Mode, settings};

/// Version of the format.
const VERSION: u32 = 1;
/// Records that wait for the writer at most.
const QUEUE_RECORDS: usize = 1 << 14;
/// Time between two looks into the queue.
const PAUSE: Duration = Duration::from_millis(5);
/// Time after which what has been written is in the file.
const FLUSH: Duration = Duration::from_millis(500);
/// Time that the end of the process waits for the writer at most.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A call, as the journal has it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) time: SystemTime,
    pub(crate) call: Call,
    pub(crate) communicator: Arc<Communicator>,
    /// Number of the outermost group; 0 outside of groups.
    pub(crate) group: u64,
    pub(crate) is_capturing: bool,
    /// Whether it would be compressed.
    pub(crate) is_eligible: bool,
    pub(crate) sample: Option<Pending>,
    /// Bytes that went over the wire, and whether the message came once more as it is; none if it was not compressed.
    pub(crate) wire: Option<(u64, bool)>,
}

/// Beginning or end of a communicator.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) time: SystemTime,
    pub(crate) name: &'static str,
    pub(crate) communicator: Arc<Communicator>,
    /// The communicator that it was made of; 0 for none.
    pub(crate) parent: u64,
}

/// An entry of the journal.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A call.
    Call(Record),
    /// A communicator begins or ends.
    Life(Life),
}

/// The end of the queue that calls have, and what is counted.
#[derive(Debug)]
pub(crate) struct Journal {
    queue: SyncSender<Entry>,
    calls: [(AtomicU64, AtomicU64); Op::COUNT],
    lost: AtomicU64,
    ends: AtomicBool,
    has_ended: AtomicBool,
}

impl Journal {
    /// A journal, and what its writer reads.
    pub(crate) fn new() -> (Self, Receiver<Entry>) {
        let (queue, entries) = sync_channel(QUEUE_RECORDS);
        let (ends, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        (Self { queue, calls: Default::default(), lost: AtomicU64::new(0), ends, has_ended }, entries)
    }

    /// Queues an entry. Never waits.
    pub(crate) fn push(&self, entry: Entry) {
        if settings().log.is_none() {
            return;
        }
        if let Entry::Call(Record { call, .. }) = &entry {
            let (count, bytes) = &self.calls[call.op as usize];
            count.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(call.bytes(), Ordering::Relaxed);
        }
        if self.queue.try_send(entry).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts the writer.
    pub(crate) fn start(&self, process: &'static Process, entries: Receiver<Entry>) {
        if settings().log.is_none() {
            self.has_ended.store(true, Ordering::Release);
            return;
        }
        // Signals of the process are for its own threads.
        // SAFETY: both sets are on the stack, and the mask is put back.
        let spawned = unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let name = "zipwire-nccl".to_owned();
            let spawned = thread::Builder::new().name(name).spawn(move || Writer::run(process, &entries));
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            spawned
        };
        if let Err(why) = spawned {
            self.has_ended.store(true, Ordering::Release);
            tell(&format!("no journal: a thread cannot be started: {why}"));
        }
    }

    /// Has the rest written, and the last line. Waits a while for that.
    pub(crate) fn finish(&self) {
        self.ends.store(true, Ordering::Release);
        let begin = Instant::now();
        while !self.has_ended.load(Ordering::Acquire) && begin.elapsed() < LAST_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The thread that writes.
struct Writer {
    process: &'static Process,
    file: BufWriter<File>,
    /// Calls whose samples are on their way.
    sampled: Vec<(Record, Pending)>,
    line: String,
    lines: u64,
    samples: u64,
    failed: bool,
}

impl Writer {
    fn run(process: &'static Process, entries: &Receiver<Entry>) {
        let journal = &process.journal;
        match Self::open(process) {
            Ok(mut writer) => {
                writer.serve(entries);
                writer.end();
            }
            Err(why) => {
                tell(&why);
                while !journal.ends.load(Ordering::Acquire) {
                    journal.lost.fetch_add(entries.try_iter().count() as u64, Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
            }
        }
        journal.has_ended.store(true, Ordering::Release);
    }

    fn open(process: &'static Process) -> Result<Self, String> {
        let path = path(process).ok_or("no journal")?;
        // A name that others can guess leads to no other file, and values are for the user alone.
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = file.map_err(|why| format!("no journal: ZIPWIRE_NCCL_LOG: `{path}`: {why}"))?;
        if settings().mode == Mode::Stats {
            tell(&format!("a line for each call is written to `{path}`"));
        }
        let (file, line) = (BufWriter::with_capacity(1 << 16, file), String::new());
        let mut writer =
            Self { process, file, sampled: Vec::new(), line, lines: 0, samples: 0, failed: false };
        let settings = settings();
        let rank = rank_of_environment().map_or("null".to_owned(), |rank| rank.to_string());
        _ = write!(
            writer.line,
            r#"{{"kind":"start","zipwire_nccl":{VERSION},"t":{},"pid":{},"rank":{rank},"mode":"{}","codec":"{}","min_bytes":{},"sample":{}}}"#,
            seconds(SystemTime::now()),
            std::process::id(),
            settings.mode.name(),
            settings.spec,
            settings.min_bytes,
            settings.sample,
        );
        writer.put();
        Ok(writer)
    }

    /// Writes what comes until the process ends.
    fn serve(&mut self, entries: &Receiver<Entry>) {
        let mut flushed = Instant::now();
        loop {
            // Looked at before the queue: what was queued before the end is then written.
            let ends = self.process.journal.ends.load(Ordering::Acquire);
            for entry in entries.try_iter().take(QUEUE_RECORDS) {
                self.entry(entry);
            }
            self.process.sampler.serve();
            self.look_at_samples(ends);
            if ends {
                return;
            }
            if flushed.elapsed() >= FLUSH {
                self.failed |= self.file.flush().is_err();
                flushed = Instant::now();
            }
            thread::sleep(PAUSE);
        }
    }

    fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::Call(mut record) => match record.sample.take() {
                Some(sample) => self.sampled.push((record, sample)),
                None => self.call(&record, None),
            },
            Entry::Life(life) => {
                let Life { time, name, communicator, parent } = life;
                _ = write!(self.line, r#"{{"kind":"comm","t":{},"op":"{name}""#, seconds(time));
                self.communicator(&communicator);
                if parent != 0 {
                    _ = write!(self.line, r#","parent":"{parent:016x}""#);
                }
                self.line.push('}');
                self.put();
            }
        }
    }

    /// Writes the calls whose samples have been copied; all of them if nothing is waited for.
    fn look_at_samples(&mut self, ends: bool) {
        for (record, sample) in std::mem::take(&mut self.sampled) {
            match self.process.sampler.look(sample) {
                Ok(finding) => self.call(&record, finding),
                Err(_) if ends => self.call(&record, None),
                Err(sample) => self.sampled.push((record, sample)),
            }
        }
    }

    fn call(&mut self, record: &Record, finding: Option<Finding>) {
        let Record { time, call, communicator, group, is_capturing, is_eligible, .. } = record;
        _ = write!(
            self.line,
            r#"{{"kind":"op","t":{},"op":"{}","count":{},"bytes":{}"#,
            seconds(*time),
            call.op.name(),
            call.count,
            call.bytes(),
        );
        _ = match type_of(call.dtype) {
            Some((name, _)) => write!(self.line, r#","dtype":"{name}""#),
            None => write!(self.line, r#","dtype":{}"#, call.dtype),
        };
        if let Some(name) = call.op.peer_name() {
            _ = write!(self.line, r#","{name}":{}"#, call.peer);
        }
        if call.op.is_reduction() {
            _ = write!(self.line, r#","redop":"{}""#, reduction_of(call.redop));
        }
        self.communicator(communicator);
        if *group != 0 {
            _ = write!(self.line, r#","group":{group}"#);
        }
        let stream = call.stream;
        _ = write!(
            self.line,
            r#","stream":"{stream:#x}","capturing":{is_capturing},"eligible":{is_eligible}"#
        );
        if let Some((bytes, is_resent)) = record.wire {
            _ = write!(self.line, r#","wire_bytes":{bytes},"resent":{is_resent}"#);
        }
        if let Some(Finding { bytes, entropy, ratio }) = finding {
            self.samples += 1;
            _ = write!(
                self.line,
                r#","sample":{{"bytes":{bytes},"exponent_bits":{entropy:.3},"ratio":{ratio:.4}}}"#
            );
        }
        self.line.push('}');
        self.put();
    }

    fn communicator(&mut self, communicator: &Communicator) {
        let id = communicator.id;
        _ = match id {
            0 => write!(self.line, r#","comm":null"#),
            _ => write!(self.line, r#","comm":"{id:016x}""#),
        };
        _ = write!(
            self.line,
            r#","rank":{},"nranks":{}"#,
            Number(communicator.rank()),
            Number(communicator.rank_count())
        );
    }

    /// Writes the line that has been made.
    fn put(&mut self) {
        self.line.push('\n');
        // A line is never cut by what other processes append.
        let room = self.file.capacity() - self.file.buffer().len();
        if self.line.len() > room {
            self.failed |= self.file.flush().is_err();
        }
        match self.file.write_all(self.line.as_bytes()) {
            Ok(()) => self.lines += 1,
            Err(_) => _ = self.process.journal.lost.fetch_add(1, Ordering::Relaxed),
        }
        self.line.clear();
    }

    /// Writes the last line.
    fn end(&mut self) {
        let journal = &self.process.journal;
        _ = write!(self.line, r#"{{"kind":"end","t":{},"ops":{{"#, seconds(SystemTime::now()));
        let mut comma = "";
        for (op, (count, bytes)) in Op::ALL.iter().zip(&journal.calls) {
            let [count, bytes] = [count, bytes].map(|number| number.load(Ordering::Relaxed));
            if count > 0 {
                _ = write!(self.line, r#"{comma}"{}":{{"calls":{count},"bytes":{bytes}}}"#, op.name());
                comma = ",";
            }
        }
        let lost = journal.lost.load(Ordering::Relaxed);
        _ = write!(self.line, r#"}},"lines":{},"lost":{lost},"samples":{}}}"#, self.lines + 1, self.samples);
        self.put();
        self.failed |= self.file.flush().is_err();
        if self.failed {
            tell("the journal could not be written whole");
        }
    }
}

/// A number that is -1 where it is not known.
struct Number(i32);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 < 0 { f.write_str("null") } else { self.0.fmt(f) }
    }
}

/// Path of the journal of this process, if there is one. Forked children have one of their own.
fn path(process: &Process) -> Option<String> {
    let pid = std::process::id().to_string();
    let rank = rank_of_environment().map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let pattern = settings().log.as_deref()?;
    let path = pattern.replace("%h", &host()).replace("%p", &pid).replace("%r", &rank);
    let is_shared = !pattern.contains("%p") && (process.is_forked || !pattern.contains("%r"));
    Some(if is_shared { format!("{path}.{pid}") } else { path })
}

/// Name of the host, up to its first dot.
fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: there is room for one byte more than it writes, which stays zero.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = name.split(|byte| matches!(byte, 0 | b'.' | b'/')).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Rank of the process, as launchers tell it: torchrun, SLURM, Open MPI, PMI.
fn rank_of_environment() -> Option<u32> {
    let names = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Seconds since 1970 with microseconds.
fn seconds(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}", since.as_secs(), since.subsec_micros())
}
