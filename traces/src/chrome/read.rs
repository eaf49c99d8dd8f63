//! Our own traces, read back.
//!
//! Checks what it reads and takes nothing for granted, but it is no reader of Chrome traces in general: files of other
//! programs are refused. Threads, arrows and counters of ranks only draw what the spans say and are skipped.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use zipwire_schedule::{Lane, OpId, Rank, Stage};

use super::event::{CALL, MERGED};
use super::links::UNIT;
use super::{Sampling, TraceMeta};
use crate::{TraceError, read_input};

/// A timeline as its file tells it. Times are whole nanoseconds, since the file has no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Scenario, variant and executor that ran.
    pub meta: TraceMeta,
    /// Number of ranks.
    pub rank_count: u32,
    /// Part of the run that the trace holds; `None` if it holds everything.
    pub sampling: Option<Sampling>,
    /// Begin of each iteration that it holds, in nanoseconds since the start of the run.
    pub begins_ns: Vec<i64>,
    /// Length of each of them, in nanoseconds.
    pub iterations_ns: Vec<i64>,
    /// In the order of the file: by begin.
    pub spans: Vec<TracedSpan>,
    /// Links that are drawn, in the order of the file; none of real runs.
    pub links: Vec<TracedLink>,
}

/// Use of a link over time, as a file tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedLink {
    /// Name: `nic 1 down`.
    pub name: Arc<str>,
    /// Its capacity: `% of 25 GB/s`.
    pub unit: Arc<str>,
    /// Nanoseconds since the start of the run, and the percentage of the capacity that is in use from then on.
    pub changes: Vec<(i64, f64)>,
}

/// A [`Span`](zipwire_timeline::Span) as a file tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSpan {
    /// Iteration, from 0.
    pub iteration: u32,
    /// Name of the collective call or compute phase.
    pub segment: Arc<str>,
    /// Where it ran.
    pub rank: Rank,
    /// The resource that it occupied.
    pub lane: Lane,
    /// The op of that rank's program.
    pub op: OpId,
    /// Stage that the exchange carries; `None` for compute and codec ops.
    pub stage: Option<Stage>,
    /// The other end of a transfer; `None` for everything else.
    pub peer: Option<Rank>,
    /// Tells transfers of one exchange between the same two ranks apart.
    pub tag: u32,
    /// Name as viewers show it, stage included: `send static`.
    pub name: Arc<str>,
    /// Nanoseconds since the start of its iteration.
    pub begin_ns: i64,
    /// Nanoseconds since the start of its iteration, not before `begin_ns`.
    pub end_ns: i64,
    /// Bytes as [`Span::bytes`](zipwire_timeline::Span::bytes) defines them.
    pub bytes: u64,
    /// Coded bytes of a codec op; `None` for everything else.
    pub bytes_coded: Option<u64>,
}

impl Trace {
    /// Leaves out what `other` does not hold of the run, so that what is missing in one of two traces is not taken for a
    /// difference of the runs. Of ranks whose spans are merged in either trace, nothing is left.
    pub fn keep_what_is_in(&mut self, other: &Self) {
        let (own, others) = (self.sampling.clone(), other.sampling.as_ref());
        let is_in = |sampling: Option<&Sampling>, rank: u32, iteration: u32| {
            sampling.is_none_or(|drawn| {
                drawn.ranks.binary_search(&rank).is_ok() && drawn.iterations.binary_search(&iteration).is_ok()
            })
        };
        self.spans.retain(|span| {
            [own.as_ref(), others].iter().all(|sampling| is_in(*sampling, span.rank.0, span.iteration))
        });
        if let Some(others) = others {
            let all = 0..self.iterations_ns.len() as u32;
            let held: Vec<u32> = own.map_or_else(|| all.collect(), |own| own.iterations);
            for times in [&mut self.begins_ns, &mut self.iterations_ns] {
                let mut is_kept =
                    held.iter().map(|iteration| others.iterations.binary_search(iteration).is_ok());
                times.retain(|_| is_kept.next().unwrap_or(false));
            }
        }
    }
}

impl TracedSpan {
    /// Nanoseconds.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.begin_ns
    }
}

/// Longest file that is read, in bytes: far above what is written ([`Limit::BYTES`](super::Limit::BYTES)).
const LONGEST: u64 = 4 << 30;

/// Reads a trace that [`write_chrome`](super::write_chrome) wrote. Times are exact to the nanosecond for runs of up to
/// 12 days.
///
/// # Errors
/// If the file cannot be read, is not JSON, is truncated, or is not such a trace; the error names the place.
pub fn read_chrome(path: &Path) -> Result<Trace, TraceError> {
    let text = read_input(path, LONGEST).map_err(TraceError::io(path))?;
    let file: File<'_> = serde_json::from_slice(&text).map_err(|error| not_read(path, &text, &error))?;
    file.trace().map_err(|(event, reason)| TraceError::NotTimeline {
        path: path.to_owned(),
        place: event.map_or_else(|| "`traceEvents`".to_owned(), |index| format!("`traceEvents[{index}]`")),
        reason,
    })
}

fn not_read(path: &Path, text: &[u8], error: &serde_json::Error) -> TraceError {
    let (path, line, column) = (path.to_owned(), error.line(), error.column());
    let reason = TraceError::json_reason(error);
    match error.classify() {
        Category::Eof => TraceError::Truncated { path, line, column },
        Category::Syntax if is_cut_number(text, error) => TraceError::Truncated { path, line, column },
        Category::Data => {
            TraceError::NotTimeline { path, place: format!("line {line} column {column}"), reason }
        }
        Category::Syntax | Category::Io => TraceError::NotJson { path, line, column, reason },
    }
}

/// Whether `text` ends behind the sign or the point of a number: to the parser no number, whatever may have followed.
fn is_cut_number(text: &[u8], error: &serde_json::Error) -> bool {
    let lines = text.split(|&byte| byte == b'\n');
    let is_at_end = lines
        .enumerate()
        .last()
        .is_some_and(|(index, last)| error.line() == index + 1 && error.column() >= last.len());
    is_at_end && matches!(text.last(), Some(b'.' | b'-'))
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `traceEvents` and `otherData`")]
struct File<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Events<'a>,
    #[serde(rename = "otherData")]
    meta: Meta,
}

#[derive(Deserialize)]
struct Meta {
    scenario: String,
    variant: String,
    executor: String,
    seed: u64,
    plan_digest: String,
    clock: Clock,
    codec: Option<String>,
    sampled: Option<Sampling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Clock {
    Virtual,
    Monotonic,
    Device,
}

impl From<Meta> for TraceMeta {
    fn from(meta: Meta) -> Self {
        let Meta { scenario, variant, executor, seed, plan_digest, clock, codec, sampled: _ } = meta;
        let clock = match clock {
            Clock::Virtual => "virtual",
            Clock::Monotonic => "monotonic",
            Clock::Device => "device",
        };
        Self { scenario, variant, executor, seed, plan_digest, clock, codec }
    }
}

/// The events that matter, with their indices in the file; or the first that is wrong.
struct Events<'a>(Result<Vec<(usize, Event<'a>)>, Wrong>);

/// Index of the event that is wrong, or `None` if it is their whole, and what is wrong.
type Wrong = (Option<usize>, String);

/// Times are nanoseconds since the start of the run.
enum Event<'a> {
    Rank { rank: u32 },
    IterationBegin { iteration: u32, ns: i64 },
    IterationEnd { ns: i64 },
    Slice(Slice<'a>),
    LinkUse { name: Cow<'a, str>, unit: Cow<'a, str>, ns: i64, percent: f64 },
}

struct Slice<'a> {
    rank: u32,
    lane: Lane,
    stage: Option<Stage>,
    name: Cow<'a, str>,
    begin_ns: i64,
    end_ns: i64,
    iteration: u32,
    segment: Cow<'a, str>,
    op: u32,
    args: RawArgs<'a>,
}

/// Any event, absent strings empty.
#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    pid: Option<u32>,
    /// Microseconds.
    ts: Option<f64>,
    /// Microseconds.
    dur: Option<f64>,
    #[serde(borrow, default)]
    args: RawArgs<'a>,
}

#[derive(Default)]
struct RawArgs<'a> {
    iteration: Option<u32>,
    segment: Cow<'a, str>,
    op: Option<u32>,
    stage: Cow<'a, str>,
    peer: Option<u32>,
    tag: u32,
    bytes: u64,
    bytes_coded: Option<u64>,
    name: Cow<'a, str>,
    /// Unit and value of a link's counter.
    link_use: Option<(Cow<'a, str>, f64)>,
}

/// A text of the file, without a copy where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for RawArgs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = RawArgs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the arguments of an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut args = RawArgs::default();
                while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
                    match &*key {
                        "iteration" => args.iteration = map.next_value()?,
                        "segment" => args.segment = map.next_value::<Text<'de>>()?.0,
                        "op" => args.op = map.next_value()?,
                        "stage" => args.stage = map.next_value::<Text<'de>>()?.0,
                        "peer" => args.peer = map.next_value()?,
                        "tag" => args.tag = map.next_value()?,
                        "bytes" => args.bytes = map.next_value()?,
                        "bytes_coded" => args.bytes_coded = map.next_value()?,
                        "name" => args.name = map.next_value::<Text<'de>>()?.0,
                        unit if unit.starts_with(UNIT) => {
                            let percent = map.next_value()?;
                            args.link_use = Some((key, percent));
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(args)
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Events<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Events<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Self::Value, A::Error> {
                let mut kept = Ok(Vec::new());
                let mut index = 0;
                // What is wrong with an event waits: that the file is no JSON further down comes first.
                while let Some(raw) = events.next_element::<RawEvent<'de>>()? {
                    kept = kept.and_then(|mut kept| {
                        let event = Event::of(raw).map_err(|reason| (Some(index), reason))?;
                        kept.extend(event.map(|event| (index, event)));
                        Ok(kept)
                    });
                    index += 1;
                }
                Ok(Events(kept))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

impl<'a> Event<'a> {
    /// `None` for what is skipped.
    fn of(raw: RawEvent<'a>) -> Result<Option<Self>, String> {
        let event = match (&*raw.ph, &*raw.cat, &*raw.name) {
            // The others hold counters.
            ("M", _, "process_name") if raw.args.name.starts_with("rank ") => {
                Self::Rank { rank: given(raw.pid, "pid")? }
            }
            ("b", "iteration", _) => Self::IterationBegin {
                iteration: given(raw.args.iteration, "args.iteration")?,
                ns: whole_ns(raw.ts, "ts")?,
            },
            ("e", "iteration", _) => Self::IterationEnd { ns: whole_ns(raw.ts, "ts")? },
            // Stand for several spans and are none.
            ("X", MERGED | CALL, _) => return Ok(None),
            ("X", ..) => Self::Slice(Slice::of(raw)?),
            ("C", ..) => {
                // Other counters are of ranks.
                let Some((unit, percent)) = raw.args.link_use else { return Ok(None) };
                Self::LinkUse { name: raw.name, unit, ns: whole_ns(raw.ts, "ts")?, percent }
            }
            _ => return Ok(None),
        };
        Ok(Some(event))
    }
}

impl<'a> Slice<'a> {
    fn of(raw: RawEvent<'a>) -> Result<Self, String> {
        let mut args = raw.args;
        let lane = Lane::ALL.into_iter().find(|lane| lane.name() == raw.cat);
        let lane = lane.ok_or_else(|| format!("`cat` is `{}`, not a lane", raw.cat))?;
        let stage = Stage::ALL.into_iter().find(|stage| stage.name() == args.stage);
        if stage.is_none() && !args.stage.is_empty() {
            return Err(format!("`args.stage` is `{}`, not a stage", args.stage));
        }
        let begin_ns = whole_ns(raw.ts, "ts")?;
        let duration_ns = whole_ns(raw.dur, "dur")?;
        if duration_ns < 0 {
            return Err("`dur` is negative".to_owned());
        }
        let segment = std::mem::take(&mut args.segment);
        Ok(Self {
            rank: given(raw.pid, "pid")?,
            lane,
            stage,
            name: given(Some(raw.name).filter(|name| !name.is_empty()), "name")?,
            begin_ns,
            end_ns: begin_ns + duration_ns,
            iteration: given(args.iteration, "args.iteration")?,
            segment: given(Some(segment).filter(|segment| !segment.is_empty()), "args.segment")?,
            op: given(args.op, "args.op")?,
            args,
        })
    }
}

fn given<T>(value: Option<T>, key: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("the event has no `{key}`"))
}

/// 30 years, so that sums of two times do not overflow.
const LONGEST_US: f64 = 1e15;

fn whole_ns(micros: Option<f64>, key: &str) -> Result<i64, String> {
    let micros = given(micros, key)?;
    if micros.abs() > LONGEST_US {
        return Err(format!("`{key}` is out of range"));
    }
    Ok((micros * 1e3).round() as i64)
}

impl File<'_> {
    fn trace(self) -> Result<Trace, Wrong> {
        let events = self.events.0?;
        let mut meta = self.meta;
        let sampling = meta.sampled.take();
        let begins = iteration_begins(&events, sampling.as_ref())?;
        let iterations_ns = iteration_lengths(&events, &begins)?;
        let ranks = events.iter().filter_map(|(_, event)| match event {
            Event::Rank { rank } => Some(rank.saturating_add(1)),
            _ => None,
        });
        let drawn = ranks.max().unwrap_or(0);
        let rank_count = sampling.as_ref().map_or(drawn, |sampling| sampling.rank_count.max(drawn));

        let mut names = HashSet::new();
        let mut spans = Vec::with_capacity(events.len());
        let mut links: Vec<TracedLink> = Vec::new();
        let mut places = HashMap::new();
        for (index, event) in events {
            match event {
                Event::Slice(slice) => {
                    let span = slice.span(&begins, rank_count, &mut names);
                    spans.push(span.map_err(|reason| (Some(index), reason))?);
                }
                Event::LinkUse { name, unit, ns, percent } => {
                    let name = shared(&name, &mut names);
                    let place = *places.entry(Arc::clone(&name)).or_insert_with(|| {
                        links.push(TracedLink { name, unit: unit.into(), changes: Vec::new() });
                        links.len() - 1
                    });
                    links[place].changes.push((ns, percent));
                }
                Event::Rank { .. } | Event::IterationBegin { .. } | Event::IterationEnd { .. } => {}
            }
        }
        let begins_ns = begins.into_values().collect();
        Ok(Trace { meta: meta.into(), rank_count, sampling, begins_ns, iterations_ns, spans, links })
    }
}

/// When each iteration that the trace holds begins, in nanoseconds.
fn iteration_begins(
    events: &[(usize, Event<'_>)],
    sampling: Option<&Sampling>,
) -> Result<BTreeMap<u32, i64>, Wrong> {
    let mut begins = BTreeMap::new();
    for (index, event) in events {
        if let &Event::IterationBegin { iteration, ns } = event {
            let count = begins.len();
            let expected = sampling.map_or(Some(count as u32), |drawn| drawn.iterations.get(count).copied());
            if expected != Some(iteration) || begins.insert(iteration, ns).is_some() {
                let expected = expected.map_or("none".to_owned(), |expected| format!("`{expected}`"));
                return Err((Some(*index), format!("iteration `{iteration}` where {expected} comes next")));
            }
            if begins.last_key_value().is_some_and(|(&last, _)| last > iteration) {
                return Err((Some(*index), format!("iteration `{iteration}` comes behind a later one")));
            }
        }
    }
    let drawn = sampling.map_or(begins.len(), |drawn| drawn.iterations.len());
    if drawn != begins.len() {
        let reason = format!("`{}` iterations begin, and `otherData.sampled` lists `{drawn}`", begins.len());
        return Err((None, reason));
    }
    Ok(begins)
}

/// Length of each of these iterations, in nanoseconds.
fn iteration_lengths(events: &[(usize, Event<'_>)], begins: &BTreeMap<u32, i64>) -> Result<Vec<i64>, Wrong> {
    let ends = events.iter().filter_map(|(index, event)| match event {
        Event::IterationEnd { ns } => Some((*index, *ns)),
        _ => None,
    });
    let ends: Vec<(usize, i64)> = ends.collect();
    if ends.len() != begins.len() {
        return Err((None, format!("`{}` iterations begin and `{}` end", begins.len(), ends.len())));
    }
    let length = |((iteration, begin_ns), (index, end_ns)): ((&u32, &i64), (usize, i64))| {
        if end_ns < *begin_ns {
            return Err((Some(index), format!("iteration `{iteration}` ends before it begins")));
        }
        Ok(end_ns - begin_ns)
    };
    begins.iter().zip(ends).map(length).collect()
}

impl Slice<'_> {
    fn span(
        self,
        begins: &BTreeMap<u32, i64>,
        rank_count: u32,
        names: &mut HashSet<Arc<str>>,
    ) -> Result<TracedSpan, String> {
        let iteration = self.iteration;
        let begin_ns = begins.get(&iteration);
        let begin_ns = begin_ns.ok_or_else(|| format!("the trace has no iteration `{iteration}`"))?;
        if let Some(rank) = [Some(self.rank), self.args.peer].into_iter().flatten().find(|&r| r >= rank_count)
        {
            return Err(format!("the trace has no rank `{rank}`"));
        }
        Ok(TracedSpan {
            iteration,
            segment: shared(&self.segment, names),
            rank: Rank(self.rank),
            lane: self.lane,
            op: OpId(self.op),
            stage: self.stage,
            peer: self.args.peer.map(Rank),
            tag: self.args.tag,
            name: shared(&self.name, names),
            begin_ns: self.begin_ns - begin_ns,
            end_ns: self.end_ns - begin_ns,
            bytes: self.args.bytes,
            bytes_coded: self.args.bytes_coded,
        })
    }
}

/// One copy of each name, however many spans bear it.
fn shared(name: &str, names: &mut HashSet<Arc<str>>) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: Arc<str> = name.into();
    names.insert(new.clone());
    new
}
