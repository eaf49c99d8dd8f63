//! The JSON text of a trace, event by event.
//!
//! Written by hand around `serde_json`'s strings and objects, because times are microseconds with exactly three
//! decimals: as floats, nanoseconds are lost after a few hours.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use zipwire_timeline::Note;

use super::links::LinkTracks;
use super::track::{Track, Tracks};
use super::{Sampling, TraceMeta};

/// Category of slices that stand for several spans.
pub(super) const MERGED: &str = "merged";
/// Category of slices that stand for all spans of a segment on a rank.
pub(super) const CALL: &str = "call";

/// Arguments of a slice, which viewers show when it is clicked. Absent where they do not apply.
#[derive(Serialize)]
pub(super) struct Args<'a> {
    pub(super) iteration: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segment: Option<&'a str>,
    /// Absent where a slice stands for several spans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) op: Option<u32>,
    /// How many spans a slice stands for; absent for 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spans: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<u32>,
    /// Absent for 0, which nearly all transfers have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_coded: Option<u64>,
    /// Raw bytes / coded bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) codec: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct CallArgs {
    pub(super) iteration: u32,
}

/// An instant on a track.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pid: u32,
    tid: u64,
    ns: i64,
}

impl Point {
    /// The instant `ns` on the track of the span with index `span`.
    pub(super) fn of(tracks: &Tracks, span: usize, ns: i64) -> Self {
        Self::on(&tracks.tracks[tracks.slices[span].track], ns)
    }

    /// The instant `ns` on `track`.
    pub(super) fn on(track: &Track, ns: i64) -> Self {
        Self { pid: track.rank.0, tid: track.tid, ns }
    }
}

/// Writes the file from its first byte to its last.
pub(super) struct Writer<W> {
    out: W,
    first: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { out, first: true })
    }

    /// Names a process that is shown above all others.
    pub(super) fn first_process(&mut self, pid: u64, name: impl fmt::Display) -> io::Result<()> {
        self.process_at(-1, pid, name)
    }

    /// Names a process; processes are shown in the order of their ids.
    pub(super) fn process(&mut self, pid: u64, name: impl fmt::Display) -> io::Result<()> {
        self.process_at(i128::from(pid), pid, name)
    }

    fn process_at(&mut self, place: i128, pid: u64, name: impl fmt::Display) -> io::Result<()> {
        self.line(format_args!(
            r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{name}"}}}}"#
        ))?;
        self.line(format_args!(
            r#"{{"ph":"M","name":"process_sort_index","pid":{pid},"args":{{"sort_index":{place}}}}}"#
        ))
    }

    pub(super) fn thread(&mut self, track: &Track) -> io::Result<()> {
        let (pid, tid, name) = (track.rank.0, track.tid, track.name());
        self.line(format_args!(
            r#"{{"ph":"M","name":"thread_name","pid":{pid},"tid":{tid},"args":{{"name":"{name}"}}}}"#
        ))?;
        self.line(format_args!(
            r#"{{"ph":"M","name":"thread_sort_index","pid":{pid},"tid":{tid},"args":{{"sort_index":{tid}}}}}"#
        ))
    }

    /// A slice from `begin` to `end_ns`.
    pub(super) fn slice(
        &mut self,
        begin: Point,
        end_ns: i64,
        name: &str,
        category: &str,
        args: &impl Serialize,
    ) -> io::Result<()> {
        let Point { pid, tid, ns } = begin;
        let (ts, dur) = (Micros(ns), Micros(end_ns - ns));
        self.line(format_args!(
            r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"cat":"{category}","name":"#
        ))?;
        serde_json::to_writer(&mut self.out, name)?;
        self.out.write_all(b",\"args\":")?;
        serde_json::to_writer(&mut self.out, args)?;
        self.out.write_all(b"}")
    }

    /// One end of arrow `id`: phase `s` where it begins, `f` where it ends.
    pub(super) fn flow(&mut self, phase: &str, id: usize, at: Point) -> io::Result<()> {
        let Point { pid, tid, ns } = at;
        let ts = Micros(ns);
        // Bound to the slice around it, not to the next one.
        let binding = if phase == "f" { r#""bp":"e","# } else { "" };
        self.line(format_args!(
            r#"{{"ph":"{phase}",{binding}"id":{id},"pid":{pid},"tid":{tid},"ts":{ts},"cat":"transfer","name":"transfer"}}"#
        ))
    }

    /// A counter that belongs to no rank has this value from now on.
    pub(super) fn counter(
        &mut self,
        ns: i64,
        pid: u64,
        name: &str,
        unit: &str,
        value: fmt::Arguments<'_>,
    ) -> io::Result<()> {
        let ts = Micros(ns);
        self.line(format_args!(
            r#"{{"ph":"C","pid":{pid},"ts":{ts},"name":"{name}","args":{{"{unit}":{value}}}}}"#
        ))
    }

    /// An instant of a process that is no rank.
    pub(super) fn note(&mut self, ns: i64, pid: u64, note: &Note) -> io::Result<()> {
        let ts = Micros(ns);
        self.line(format_args!(
            r#"{{"ph":"i","s":"p","pid":{pid},"tid":{pid},"ts":{ts},"cat":"switcher","name":"#
        ))?;
        serde_json::to_writer(&mut self.out, &note.name)?;
        self.out.write_all(b",\"args\":")?;
        self.out.write_all(note.args.as_bytes())?;
        self.out.write_all(b"}")
    }

    pub(super) fn in_flight(&mut self, ns: i64, rank: u32, bytes: u64) -> io::Result<()> {
        let ts = Micros(ns);
        self.line(format_args!(
            r#"{{"ph":"C","pid":{rank},"ts":{ts},"name":"bytes in flight","args":{{"tx":{bytes}}}}}"#
        ))
    }

    /// Iterations are asynchronous events, which belong to no thread: viewers show them above the ranks. The
    /// format wants a process for them nevertheless.
    pub(super) fn iteration_begin(&mut self, ns: i64, pid: u64, iteration: u32) -> io::Result<()> {
        let ts = Micros(ns);
        self.line(format_args!(
            r#"{{"ph":"b","id":0,"pid":{pid},"ts":{ts},"cat":"iteration","name":"iteration","args":{{"iteration":{iteration}}}}}"#
        ))
    }

    pub(super) fn iteration_end(&mut self, ns: i64, pid: u64) -> io::Result<()> {
        let ts = Micros(ns);
        self.line(format_args!(
            r#"{{"ph":"e","id":0,"pid":{pid},"ts":{ts},"cat":"iteration","name":"iteration"}}"#
        ))
    }

    pub(super) fn end(
        mut self,
        meta: &TraceMeta,
        links: Option<&LinkTracks>,
        sampling: Option<&Sampling>,
    ) -> io::Result<()> {
        self.out.write_all(b"\n],\"otherData\":")?;
        let mut other = json!(meta);
        if let Some(links) = links {
            other["links"] = json!({
                "busy": links.busy,
                "drawn": links.tracks.len(),
                "samples": links.samples,
                "values": "percent of the capacity in use at the moment of the sample",
                "left_out": "of the states that last less than `least_distance_us`, some",
                "least_distance_us": 1e6 * links.least_distance_s,
            });
        }
        if let Some(sampling) = sampling {
            other["sampled"] = json!(sampling);
        }
        serde_json::to_writer(&mut self.out, &other)?;
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }

    /// Begins the line of an event.
    fn line(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        self.out.write_fmt(text)
    }
}

/// Nanoseconds, shown as microseconds with three decimals.
struct Micros(i64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", ns / 1000, ns % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_have_three_decimals() {
        let shown = [0, 7, 1000, 1_234_567, 86_400_000_000_001, -1, -1500].map(|ns| Micros(ns).to_string());
        assert_eq!(shown, ["0.000", "0.007", "1.000", "1234.567", "86400000000.001", "-0.001", "-1.500"]);
    }
}
