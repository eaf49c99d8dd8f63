//! A timeline as a Chrome trace: the JSON that Perfetto (`ui.perfetto.dev`) and `chrome://tracing` open.
//!
//! A process is a rank and a thread is a lane. Spans that overlap on a lane are dealt to sub-lanes (`tx`, `tx 2`, ...),
//! because viewers drop complete events that overlap on a thread. An arrow leads from each send to its receive,
//! a counter per rank shows the bytes of its open sends, and a track above the ranks shows the iterations. Below the ranks,
//! a process of its own has a counter per link of the cluster ([`links`]).
//!
//! Times are rounded to whole nanoseconds *before* anything is decided, so that what does not overlap here does not
//! overlap in the viewer. The same timeline gives the same bytes.

mod event;
mod flight;
mod flow;
mod links;
mod read;
#[cfg(test)]
mod tests;
mod track;

use std::io::{self, BufWriter, Write};

use event::{Args, Point, Writer};
use links::{LinkTrack, LinkTracks};
pub use read::{Trace, TracedSpan, read_chrome};
use track::{Tracks, nanoseconds};

use crate::{IterationTime, Span, Timeline};

/// What a timeline does not say about itself; it goes to the trace's `otherData`.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Most bytes of the counters of links.
const LINK_BYTES: u64 = 6_000_000;

/// Writes `timeline` as a Chrome trace, one event a line, in the order of time. Needs a few words of memory per span;
/// the text is never held.
///
/// # Errors
/// If `out` fails.
pub fn write_chrome(timeline: &Timeline, meta: &TraceMeta, out: impl Write) -> io::Result<()> {
    let tracks = Tracks::assign(timeline);
    let mut writer = Writer::begin(BufWriter::new(out))?;
    for rank in 0..timeline.rank_count {
        writer.process(rank.into(), format_args!("rank {rank}"))?;
    }
    // Behind all ranks, and no id of a thread.
    let links_pid = u64::from(timeline.rank_count) + tracks.tracks.len() as u64;
    let links = timeline.link_usage.as_ref().map(|usage| LinkTracks::of(usage, LINK_BYTES));
    let links = links.filter(|links| !links.tracks.is_empty());
    if links.is_some() {
        writer.process(links_pid, "links")?;
    }
    for track in &tracks.tracks {
        writer.thread(track)?;
    }
    for (ns, event) in events(timeline, &tracks, links.as_ref()) {
        match event {
            Event::IterationEnd { .. } => writer.iteration_end(ns)?,
            Event::IterationBegin { iteration } => writer.iteration_begin(ns, iteration)?,
            Event::Slice { end_ns, span: index } => {
                let (span, point) = (&timeline.spans[index], Point::of(&tracks, index, ns));
                writer.slice(point, end_ns, &name(span), span.lane.name(), &args(span, timeline, meta))?;
            }
            Event::FlowBegin { id, span } => writer.flow("s", id, Point::of(&tracks, span, ns))?,
            Event::FlowEnd { id, span } => writer.flow("f", id, Point::of(&tracks, span, ns))?,
            Event::InFlight { rank, bytes } => writer.in_flight(ns, rank, bytes)?,
            Event::Link { track, used } => {
                let LinkTrack { name, unit, .. } =
                    &links.as_ref().expect("links that are drawn").tracks[track];
                writer.counter(ns, links_pid, name, unit, used)?;
            }
        }
    }
    writer.end(meta, links.as_ref())
}

/// What happens at one instant. Events of the same instant come in the order of the variants: a slice is open
/// before an arrow is bound to it, and an arrow begins before it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    IterationEnd { iteration: usize },
    IterationBegin { iteration: usize },
    Slice { end_ns: i64, span: usize },
    FlowBegin { id: usize, span: usize },
    FlowEnd { id: usize, span: usize },
    InFlight { rank: u32, bytes: u64 },
    Link { track: usize, used: u32 },
}

/// All events with their times in nanoseconds, in the order of time.
fn events(timeline: &Timeline, tracks: &Tracks, links: Option<&LinkTracks>) -> Vec<(i64, Event)> {
    let mut events = Vec::with_capacity(4 * timeline.spans.len());
    for (iteration, &IterationTime { begin_s, length_s }) in timeline.iterations.iter().enumerate() {
        let begin_ns = nanoseconds(begin_s);
        events.push((begin_ns, Event::IterationBegin { iteration }));
        events.push((nanoseconds(begin_s + length_s).max(begin_ns + 1), Event::IterationEnd { iteration }));
    }
    for (span, slice) in tracks.slices.iter().enumerate() {
        events.push((slice.begin_ns, Event::Slice { end_ns: slice.end_ns, span }));
    }
    for (id, flow) in flow::pair(&timeline.spans, &tracks.slices).into_iter().enumerate() {
        events.push((flow.begin_ns, Event::FlowBegin { id, span: flow.send }));
        events.push((flow.end_ns, Event::FlowEnd { id, span: flow.receive }));
    }
    for (ns, rank, bytes) in flight::bytes_in_flight(&timeline.spans, &tracks.slices) {
        events.push((ns, Event::InFlight { rank, bytes }));
    }
    for (track, link) in links.iter().flat_map(|links| &links.tracks).enumerate() {
        events.extend(link.changes.iter().map(|&(ns, used)| (ns, Event::Link { track, used })));
    }
    events.sort_unstable();
    events
}

/// Few different names, so that viewers colour and aggregate by them: `send static`, `exchange sizes`, `encode`.
fn name(span: &Span) -> String {
    span.stage.map_or_else(|| span.name.to_owned(), |stage| format!("{} {}", span.name, stage.name()))
}

fn args<'a>(span: &Span, timeline: &Timeline, meta: &'a TraceMeta) -> Args<'a> {
    let bytes_coded = span.bytes_coded;
    Args {
        iteration: span.iteration,
        segment: timeline.segments.get(span.segment.index()).copied(),
        op: span.op.0,
        stage: span.stage.map(zipwire_schedule::Stage::name),
        peer: span.peer.map(|rank| rank.0),
        tag: (span.tag > 0).then_some(span.tag),
        bytes: (span.bytes > 0 || span.stage.is_some() || bytes_coded.is_some()).then_some(span.bytes),
        bytes_coded,
        ratio: bytes_coded.filter(|&coded| coded > 0).map(|coded| span.bytes as f64 / coded as f64),
        codec: bytes_coded.and(meta.codec.as_deref()),
    }
}
