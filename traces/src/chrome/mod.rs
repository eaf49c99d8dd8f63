//! A timeline as a Chrome trace: the JSON that Perfetto (`ui.perfetto.dev`) and `chrome://tracing` open.
//!
//! The first process has a counter of all ranks for each kind of work. Any other process is a rank and a thread is a lane. Spans that overlap on a lane are dealt to sub-rows (`tx`, `tx 2`, ...),
//! because viewers drop complete events that overlap on a thread. Above the lanes of a rank are its calls. An arrow
//! leads from each send to its receive, a counter per rank shows the bytes of its open sends, and a track of the first process
//! shows the iterations. Below the ranks, a process of its own has a counter per link of the cluster ([`links`]); another one
//! has the notes, as instants.
//!
//! A file has a limit. Bounds of what events take are known before anything is written; if all of them together exceed the limit,
//! only some ranks and iterations are drawn ([`sampling`]).
//!
//! Times are rounded to whole nanoseconds *before* anything is decided, so that what does not overlap here does not
//! overlap in the viewer. The same timeline gives the same bytes.

mod event;
mod links;
mod read;
mod sampling;
mod selection;
#[cfg(test)]
mod tests;
mod track;

use std::io::{self, BufWriter, Write};

use event::{Args, CallArgs, Point, Writer};
use links::LinkTrack;
pub use read::{Trace, TracedLink, TracedSpan, read_chrome};
pub use sampling::Sampling;
use selection::{Event, Selection};
use track::Call;
use zipwire_timeline::{Span, Timeline};

/// Facts that a timeline does not hold about itself; they go to the trace's `otherData`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceMeta {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// Name of the executor.
    pub executor: String,
    /// Seed of the run.
    pub seed: u64,
    /// Digest of the plan that ran.
    pub plan_digest: String,
    /// Clock of the times: `virtual` in simulation, `monotonic` on threads, `device` where GPUs tell them.
    pub clock: &'static str,
    /// Codec of the variant; `None` if nothing was coded.
    pub codec: Option<String>,
}

/// How large a trace may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of the file. Less than 64 KiB count as 64 KiB.
    pub bytes: u64,
    /// Ranks that are drawn together if not all can be: those of a node.
    pub ranks_per_node: u32,
}

impl Limit {
    /// Most bytes of a file, by default: viewers in a browser become slow beyond.
    pub const BYTES: u64 = 50_000_000;
}

/// Writes `timeline` as a Chrome trace, one event a line, in the order of time. Needs a few words of memory per span;
/// the text is never held. If it would exceed the limit, some ranks and iterations are written; returns which.
///
/// # Errors
/// If `out` fails.
pub fn write_chrome(
    timeline: &Timeline,
    meta: &TraceMeta,
    limit: &Limit,
    out: impl Write,
) -> io::Result<Option<Sampling>> {
    let selection = Selection::of(timeline, meta, limit);
    let mut writer = Writer::begin(BufWriter::new(out))?;
    let pids = Pids::of(&selection);
    write_names(&mut writer, &selection, &pids)?;
    for (ns, event) in selection.events() {
        write_event(&mut writer, &selection, &pids, meta, (ns, event))?;
    }
    writer.end(meta, selection.links.as_ref(), selection.sampling.as_ref())?;
    Ok(selection.sampling)
}

/// Ids of the processes that are no rank: behind all ranks, and no ids of threads.
struct Pids {
    links: u64,
    gpu_links: u64,
    states: u64,
    notes: u64,
}

impl Pids {
    fn of(selection: &Selection<'_>) -> Self {
        let links = u64::from(selection.timeline.rank_count) + selection.tracks.tracks.len() as u64;
        Self { links, gpu_links: links + 1, states: links + 2, notes: links + 3 }
    }

    fn link(&self, link: &LinkTrack) -> u64 {
        if link.is_of_gpu { self.gpu_links } else { self.links }
    }
}

fn write_names(writer: &mut Writer<impl Write>, selection: &Selection<'_>, pids: &Pids) -> io::Result<()> {
    match &selection.sampling {
        None => writer.first_process(pids.states, "all ranks")?,
        Some(sampling) => writer.first_process(pids.states, format_args!("all ranks; drawn: {sampling}"))?,
    }
    for &rank in &selection.ranks {
        let note = if selection.is_merged(rank) { " (spans merged)" } else { "" };
        writer.process(rank.into(), format_args!("rank {rank}{note}"))?;
    }
    selection.tracks.tracks.iter().try_for_each(|track| writer.thread(track))?;
    for (pid, name) in [(pids.links, "links"), (pids.gpu_links, "links of GPUs")] {
        if selection.link_tracks().iter().any(|link| pids.link(link) == pid) {
            writer.process(pid, name)?;
        }
    }
    if !selection.notes().is_empty() {
        writer.process(pids.notes, "switcher")?;
    }
    Ok(())
}

fn write_event(
    writer: &mut Writer<impl Write>,
    selection: &Selection<'_>,
    pids: &Pids,
    meta: &TraceMeta,
    (ns, event): (i64, Event),
) -> io::Result<()> {
    let Selection { timeline, tracks, .. } = selection;
    match event {
        Event::IterationEnd { .. } => writer.iteration_end(ns, pids.states),
        Event::IterationBegin { iteration } => writer.iteration_begin(ns, pids.states, iteration),
        Event::Call { call } => {
            let Call { iteration, segment, slice, .. } = tracks.calls[call];
            let point = Point::on(&tracks.tracks[slice.track], ns);
            let name = timeline.segments.get(segment.index()).map_or("", |name| &**name);
            writer.slice(point, slice.end_ns, name, event::CALL, &CallArgs { iteration })
        }
        Event::Slice { end_ns, span: index } => {
            let (span, count) = (&selection.spans[index], selection.count(index));
            let (name, args) = (name(span, count), args(span, count, timeline, meta));
            let category = if count > 1 { event::MERGED } else { span.lane.name() };
            writer.slice(Point::of(tracks, index, ns), end_ns, &name, category, &args)
        }
        Event::FlowBegin { id, span } => writer.flow("s", id, Point::of(tracks, span, ns)),
        Event::FlowEnd { id, span } => writer.flow("f", id, Point::of(tracks, span, ns)),
        Event::InFlight { rank, bytes } => writer.in_flight(ns, rank, bytes),
        Event::Link { track, used } => {
            let link = &selection.link_tracks()[track];
            let value = format_args!("{}.{}", used / 10, used % 10);
            writer.counter(ns, pids.link(link), &link.name, &link.unit, value)
        }
        Event::RankStates { state, ranks } => {
            let unit = format!("of {}", timeline.members());
            writer.counter(ns, pids.states, selection::STATES[state], &unit, format_args!("{ranks}"))
        }
        Event::Note { note } => writer.note(ns, pids.notes, &selection.notes()[note]),
    }
}

/// Few different names, so that viewers colour and aggregate by them: `send static`, `exchange sizes`, `encode`.
fn name(span: &Span, count: u32) -> String {
    let name =
        span.stage.map_or_else(|| span.name.to_owned(), |stage| format!("{} {}", span.name, stage.name()));
    if count > 1 { format!("{name} (merged)") } else { name }
}

fn args<'a>(span: &Span, count: u32, timeline: &'a Timeline, meta: &'a TraceMeta) -> Args<'a> {
    let bytes_coded = span.bytes_coded;
    Args {
        iteration: span.iteration,
        segment: timeline.segments.get(span.segment.index()).map(|name| &**name),
        op: (count == 1).then_some(span.op.0),
        spans: (count > 1).then_some(count),
        stage: span.stage.map(zipwire_schedule::Stage::name),
        peer: span.peer.map(|rank| rank.0),
        tag: (span.tag > 0).then_some(span.tag),
        bytes: (span.bytes > 0 || span.stage.is_some() || bytes_coded.is_some()).then_some(span.bytes),
        bytes_coded,
        ratio: bytes_coded.filter(|&coded| coded > 0).map(|coded| span.bytes as f64 / coded as f64),
        codec: bytes_coded.and(meta.codec.as_deref()),
    }
}
