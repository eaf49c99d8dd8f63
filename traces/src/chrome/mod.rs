//! A timeline as a Chrome trace: the JSON that Perfetto (`ui.perfetto.dev`) and `chrome://tracing` open.
//!
//! The first process has a counter of all ranks for each kind of work ([`rank_states`]). Any other process is a rank and a thread is a lane. Spans that overlap on a lane are dealt to sub-rows (`tx`, `tx 2`, ...),
//! because viewers drop complete events that overlap on a thread. Above the lanes of a rank are its [`calls`]. An arrow
//! leads from each send to its receive, a counter per rank shows the bytes of its open sends, and a track of the first process
//! shows the iterations. Below the ranks, a process of its own has a counter per link of the cluster ([`links`]); another one
//! has the notes, as instants.
//!
//! A file has a limit. What every event takes is known before anything is written ([`price`]); if all of them take more
//! than the limit, some ranks and iterations are chosen ([`sampling`]) and drawn.
//!
//! Times are rounded to whole nanoseconds *before* anything is decided, so that what does not overlap here does not
//! overlap in the viewer. The same timeline gives the same bytes.

mod by_rank;
mod calls;
mod event;
mod flow;
mod in_flight;
mod links;
mod merge;
mod rank_states;
mod read;
mod sampling;
mod selection;
mod size_estimate;
#[cfg(test)]
mod tests;
mod track;

use std::io::{self, BufWriter, Write};

use calls::Call;
use event::{Args, CallArgs, Point, Writer};
use links::LinkTrack;
pub use read::{Trace, TracedSpan, read_chrome};
pub use sampling::Sampling;
use selection::{Event, Selection};
use zipwire_timeline::{Span, Timeline};

/// What a timeline does not say about itself; it goes to the trace's `otherData`.
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
    /// What the times are: `virtual` in simulation, `monotonic` on threads, `device` where GPUs tell them.
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
    /// Most bytes of a file, unless somebody wants another limit: viewers in a browser become slow beyond.
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
    // Behind all ranks, and no ids of threads.
    let links_pid = u64::from(timeline.rank_count) + selection.tracks.tracks.len() as u64;
    let (gpu_links_pid, states_pid) = (links_pid + 1, links_pid + 2);
    match &selection.sampling {
        None => writer.first_process(states_pid, "all ranks")?,
        Some(sampling) => writer.first_process(states_pid, format_args!("all ranks; drawn: {sampling}"))?,
    }
    for &rank in &selection.ranks {
        let note = if selection.is_merged(rank) { " (spans merged)" } else { "" };
        writer.process(rank.into(), format_args!("rank {rank}{note}"))?;
    }
    for track in &selection.tracks.tracks {
        writer.thread(track)?;
    }
    let states_unit = format!("of {}", timeline.rank_count);
    let pid_of = |link: &LinkTrack| if link.is_of_gpu { gpu_links_pid } else { links_pid };
    for (pid, name) in [(links_pid, "links"), (gpu_links_pid, "links of GPUs")] {
        if selection.link_tracks().iter().any(|link| pid_of(link) == pid) {
            writer.process(pid, name)?;
        }
    }
    let notes_pid = states_pid + 1;
    if !selection.notes().is_empty() {
        writer.process(notes_pid, "switcher")?;
    }
    for (ns, event) in selection.events() {
        match event {
            Event::IterationEnd { .. } => writer.iteration_end(ns, states_pid)?,
            Event::IterationBegin { iteration } => writer.iteration_begin(ns, states_pid, iteration)?,
            Event::Call { call } => {
                let Call { iteration, segment, slice, .. } = selection.tracks.calls[call];
                let point = Point::on(&selection.tracks.tracks[slice.track], ns);
                let name = timeline.segments.get(segment.index()).map_or("", |name| &**name);
                writer.slice(point, slice.end_ns, name, event::CALL, &CallArgs { iteration })?;
            }
            Event::Slice { end_ns, span: index } => {
                let (span, count) = (&selection.spans[index], selection.count(index));
                let point = Point::of(&selection.tracks, index, ns);
                let (name, args) = (name(span, count), args(span, count, timeline, meta));
                let category = if count > 1 { event::MERGED } else { span.lane.name() };
                writer.slice(point, end_ns, &name, category, &args)?;
            }
            Event::FlowBegin { id, span } => writer.flow("s", id, Point::of(&selection.tracks, span, ns))?,
            Event::FlowEnd { id, span } => writer.flow("f", id, Point::of(&selection.tracks, span, ns))?,
            Event::InFlight { rank, bytes } => writer.in_flight(ns, rank, bytes)?,
            Event::Link { track, used } => {
                let link = &selection.link_tracks()[track];
                let LinkTrack { name, unit, .. } = link;
                writer.counter(ns, pid_of(link), name, unit, format_args!("{}.{}", used / 10, used % 10))?;
            }
            Event::Note { note } => writer.note(ns, notes_pid, &selection.notes()[note])?,
            Event::RankStates { state, ranks } => {
                writer.counter(
                    ns,
                    states_pid,
                    rank_states::STATES[state],
                    &states_unit,
                    format_args!("{ranks}"),
                )?;
            }
        }
    }
    writer.end(meta, selection.links.as_ref(), selection.sampling.as_ref())?;
    Ok(selection.sampling)
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
