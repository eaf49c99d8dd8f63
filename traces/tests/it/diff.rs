//! Traces, written and read back: what differs is found exactly, what is no trace is refused by place.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_timeline::{IterationTime, Link, LinkUsage, Span, Timeline};
use zipwire_traces::{
    Comparison, Diff, Limit, Total, Trace, TraceError, TraceMeta, read_chrome, write_chrome,
};

const ITERATIONS: u32 = 2;
/// Each begins at another fraction of a nanosecond.
const ITERATION_S: f64 = 100.000_4e-6;

fn meta() -> TraceMeta {
    TraceMeta {
        scenario: "two \"ranks\"".to_owned(),
        variant: "static-first".to_owned(),
        executor: "sim".to_owned(),
        seed: u64::MAX,
        plan_digest: "0123abcd".to_owned(),
        clock: "virtual",
        codec: Some("window7".to_owned()),
    }
}

/// Two ranks, two iterations; in each, both encode and rank 0 sends two frames to rank 1.
fn timeline() -> Timeline {
    let span = |iteration: u32, rank: u32, lane: Lane, begin_us: f64, end_us: f64| Span {
        iteration,
        segment: SegmentId(0),
        rank: Rank(rank),
        lane,
        op: OpId(1),
        stage: Some(Stage::Static),
        peer: Some(Rank(1 - rank)),
        tag: 0,
        name: if lane == Lane::Tx { "send" } else { "receive" },
        begin_s: begin_us * 1e-6,
        end_s: end_us * 1e-6,
        bytes: 1000,
        bytes_coded: None,
    };
    let mut spans = Vec::new();
    for iteration in 0..ITERATIONS {
        for rank in 0..2 {
            let transfer = span(iteration, rank, Lane::Codec, 0.0, 10.25);
            let (op, stage, peer, name) = (OpId(0), None, None, "encode");
            spans.push(Span { op, stage, peer, name, bytes_coded: Some(700), ..transfer });
        }
        for tag in 0..2 {
            let begin_us = 10.25 + 20.0 * f64::from(tag);
            for (rank, lane) in [(0, Lane::Tx), (1, Lane::Rx)] {
                spans.push(Span { tag, ..span(iteration, rank, lane, begin_us, begin_us + 40.0) });
            }
        }
        let exchange = span(iteration, 0, Lane::Exchange, 10.25, 70.25);
        spans.push(Span { peer: None, name: "exchange", bytes: 2000, ..exchange });
        let expert = span(iteration, 1, Lane::Compute, 70.25, 90.0);
        let (segment, op) = (SegmentId(1), OpId(2));
        spans.push(Span { segment, op, stage: None, peer: None, name: "expert", bytes: 0, ..expert });
    }
    let iteration =
        |index: u32| IterationTime { begin_s: f64::from(index) * ITERATION_S, length_s: ITERATION_S };
    let iterations = (0..ITERATIONS).map(iteration).collect();
    Timeline {
        sends: Vec::new(),
        symmetry: None,
        spans,
        rank_count: 2,
        segments: vec!["dispatch".into(), "expert".into()],
        iterations,
        link_usage: None,
        with_lateness: Vec::new(),
        notes: Vec::new(),
    }
}

fn written(timeline: &Timeline) -> String {
    let mut text = Vec::new();
    write_chrome(timeline, &meta(), &Limit { bytes: u64::MAX, ranks_per_node: 1 }, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn read(text: impl AsRef<[u8]>) -> Result<Trace, TraceError> {
    let (_folder, path) = file(text);
    read_chrome(&path)
}

fn file(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.trace.json");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn trace(timeline: &Timeline) -> Trace {
    read(written(timeline)).unwrap()
}

/// The index of the span that `is` describes.
fn find(timeline: &Timeline, is: impl Fn(&Span) -> bool) -> usize {
    timeline.spans.iter().position(is).unwrap()
}

#[test]
fn every_field_is_read_back() {
    let timeline = timeline();
    let trace = trace(&timeline);
    assert_eq!((trace.meta, trace.rank_count), (meta(), 2));
    assert_eq!(trace.iterations_ns, [100_000, 100_001], "rounded ends, subtracted");
    assert_eq!((trace.begins_ns, trace.links), (vec![0, 100_000], Vec::new()));
    assert_eq!(trace.spans.len(), timeline.spans.len());
    for span in &timeline.spans {
        let same = |other: &&zipwire_traces::TracedSpan| {
            (other.iteration, other.rank, other.lane, other.op, other.stage, other.peer, other.tag)
                == (span.iteration, span.rank, span.lane, span.op, span.stage, span.peer, span.tag)
        };
        let found: Vec<_> = trace.spans.iter().filter(same).collect();
        assert_eq!(found.len(), 1, "{span:?}");
        let stage = span.stage.map_or_else(String::new, |stage| format!(" {}", stage.name()));
        assert_eq!(*found[0].name, format!("{}{stage}", span.name));
        assert_eq!(*found[0].segment, *timeline.segments[span.segment.index()]);
        assert_eq!((found[0].bytes, found[0].bytes_coded), (span.bytes, span.bytes_coded));
        for (ns, s) in [(found[0].begin_ns, span.begin_s), (found[0].end_ns, span.end_s)] {
            assert!((ns as f64 - s * 1e9).abs() <= 1.0, "{ns} ns, {s} s");
        }
    }
}

#[test]
fn use_of_links_is_read_back() {
    let link = |name: &str| Link { name: name.to_owned(), bytes_per_s: 25e9, is_of_gpu: false };
    let mut usage = LinkUsage::new(vec![link("nic 0 up"), link("idle"), link("nic 1 up")]);
    for (us, rates) in [(0.0, [25e9, 0.0, 5e9]), (2.0, [0.0, 0.0, 12.5e9]), (5.0, [0.0; 3])] {
        usage.add(us * 1e-6, &rates);
    }
    let trace = trace(&Timeline { link_usage: Some(usage), ..timeline() });
    let links: Vec<_> = trace.links.iter().map(|link| (&*link.name, &*link.unit, &*link.changes)).collect();
    let [full, half] = [&[(0, 100.0), (2000, 0.0)][..], &[(0, 20.0), (2000, 50.0), (5000, 0.0)]];
    assert_eq!(links, [("nic 0 up", "% of 25 GB/s", full), ("nic 1 up", "% of 25 GB/s", half)]);
}

/// Floats of microseconds are exact to the nanosecond for long enough.
#[test]
fn nanoseconds_survive_eleven_days() {
    let mut timeline = timeline();
    for iteration in &mut timeline.iterations {
        iteration.begin_s += 11.0 * 86_400.0;
    }
    let trace = trace(&timeline);
    let lengths: Vec<_> = trace.spans.iter().filter(|span| span.lane == Lane::Compute).collect();
    assert!(lengths.iter().all(|span| (19_749..=19_751).contains(&span.duration_ns())), "{lengths:?}");
}

mod differences {
    use super::*;

    #[test]
    fn identical_traces_have_none() {
        let (a, b) = (trace(&timeline()), trace(&timeline()));
        let diff = Diff::of(&a, &b);
        assert!(diff.is_empty(), "{diff:?}");
        assert_eq!(diff.paired, a.spans.len());
        let ratios = diff.groups.iter().map(|group| group.durations.ratio());
        assert!(ratios.chain([diff.iterations.ratio()]).all(|ratio| ratio == Some(1.0)));
        let names: Vec<_> = diff.groups.iter().map(|group| (group.segment, group.name)).collect();
        let dispatch = ["encode", "send static", "receive static", "exchange static"];
        assert_eq!(names[..2], [("dispatch", dispatch[0]), ("dispatch", dispatch[1])]);
        assert_eq!((names.len(), names[4]), (5, ("expert", "expert")));
    }

    #[test]
    fn one_span_longer() {
        let mut changed = timeline();
        let index = find(&changed, |span| span.iteration == 1 && span.lane == Lane::Tx && span.tag == 1);
        changed.spans[index].end_s += 5e-6;
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        assert_eq!((diff.durations.len(), diff.paired), (1, a.spans.len()));
        assert_eq!(diff.ends, diff.durations);
        assert!(diff.bytes.is_empty() && diff.only_a.is_empty() && diff.only_b.is_empty());
        let pair = diff.durations[0];
        assert_eq!((pair.longer_ns(), pair.later_ns()), (5000, 5000));
        assert_eq!((pair.a.iteration, pair.a.rank, pair.a.tag), (1, Rank(0), 1));
        for group in &diff.groups {
            let expected = if group.name == "send static" { 165.0 / 160.0 } else { 1.0 };
            assert!((group.durations.ratio().unwrap() - expected).abs() < 1e-4, "{group:?}");
        }
    }

    #[test]
    fn one_span_later_is_not_longer() {
        let mut changed = timeline();
        let index = find(&changed, |span| span.lane == Lane::Compute);
        changed.spans[index].begin_s += 1e-6;
        changed.spans[index].end_s += 1e-6;
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        assert_eq!((diff.durations.len(), diff.ends.len()), (0, 1));
        assert_eq!((diff.ends[0].longer_ns(), diff.ends[0].later_ns()), (0, 1000));
    }

    #[test]
    fn one_span_missing_on_either_side() {
        let mut changed = timeline();
        let index = find(&changed, |span| span.lane == Lane::Rx && span.tag == 1);
        changed.spans.remove(index);
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        assert_eq!((diff.only_a.len(), diff.only_b.len()), (1, 0));
        assert_eq!((diff.only_a[0].lane, diff.only_a[0].tag), (Lane::Rx, 1));
        assert!(diff.durations.is_empty() && diff.ends.is_empty() && diff.bytes.is_empty());
        let back = Diff::of(&b, &a);
        assert_eq!((&back.only_b, &back.only_a), (&diff.only_a, &diff.only_b));
    }

    #[test]
    fn other_bytes_raw_or_coded() {
        let mut changed = timeline();
        let send = find(&changed, |span| span.lane == Lane::Tx);
        changed.spans[send].bytes = 1001;
        let encode = find(&changed, |span| span.lane == Lane::Codec);
        changed.spans[encode].bytes_coded = Some(650);
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        let lanes: Vec<_> = diff.bytes.iter().map(|pair| pair.b.lane).collect();
        assert_eq!(lanes, [Lane::Codec, Lane::Tx], "largest difference first");
        assert!(diff.durations.is_empty() && diff.ends.is_empty());
    }

    #[test]
    fn lists_begin_with_the_largest() {
        let mut changed = timeline();
        for (index, span) in changed.spans.iter_mut().enumerate() {
            let change_us = index as f64 + 1.0;
            span.end_s +=
                if index % 2 == 0 || span.lane == Lane::Codec { change_us } else { -change_us } * 1e-6;
        }
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        let changes = |pairs: &[zipwire_traces::Pair<'_>]| -> Vec<_> {
            pairs.iter().map(|pair| (pair.longer_ns().abs() + 500) / 1000).collect()
        };
        let expected: Vec<_> = (1..=a.spans.len() as i64).rev().collect();
        assert_eq!((changes(&diff.durations), changes(&diff.ends)), (expected.clone(), expected));
    }

    /// The same spans, an iteration that begins elsewhere: durations and ends are off by the rounding of the file.
    #[test]
    fn rounding_is_no_difference() {
        let mut moved = timeline();
        for iteration in &mut moved.iterations {
            iteration.begin_s += 0.5e-9;
        }
        let (a, b) = (trace(&timeline()), trace(&moved));
        assert!(Diff::of(&a, &b).is_empty());
    }

    /// Between different plans, an op of one index may be other work.
    #[test]
    fn other_work_is_another_span() {
        let mut changed = timeline();
        let index = find(&changed, |span| span.lane == Lane::Codec);
        changed.spans[index].name = "decode";
        let (a, b) = (trace(&timeline()), trace(&changed));
        let diff = Diff::of(&a, &b);
        assert_eq!((&*diff.only_a[0].name, &*diff.only_b[0].name), ("encode", "decode"));
        let decode = diff.groups.last().unwrap();
        assert_eq!(
            (decode.name, decode.durations.a, decode.durations.ratio()),
            ("decode", Total::default(), None)
        );
    }

    #[test]
    fn ratios_of_nothing() {
        let of = |a_ns, b_ns| {
            let total = |sum_ns| Total { count: 2, sum_ns };
            Comparison { a: total(a_ns), b: total(b_ns) }.ratio()
        };
        assert_eq!([of(0, 0), of(0, 1), of(1, 0), of(2, 1)], [Some(1.0), None, Some(0.0), Some(0.5)]);
        assert_eq!(Comparison::default().ratio(), None);
    }
}

mod bad_files {
    use super::*;

    fn message(text: impl AsRef<[u8]>) -> String {
        let (folder, path) = file(text);
        let error = read_chrome(&path).expect_err("the file is wrong");
        let help = error.help().map_or_else(String::new, |help| format!("\nhelp: {help}"));
        format!("{error}{help}").replace(&format!("{}/", folder.path().display()), "")
    }

    /// The trace with `from` replaced, once.
    fn with(from: &str, to: &str) -> String {
        let text = written(&timeline());
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    }

    #[test]
    fn absent() {
        let error = read_chrome(Path::new("none.trace.json")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read `none.trace.json`: "), "{error}");
    }

    #[test]
    fn not_json() {
        let expected = "`x.trace.json` line 2 column 3 is not JSON: key must be a string";
        assert_eq!(message("{\n  name = \"moe\"\n}"), expected);
        let prose = message("A timeline of 1.\nNot of 2.");
        assert_eq!(prose, "`x.trace.json` line 1 column 1 is not JSON: expected value");
        let trailing = written(&timeline()) + "]";
        assert!(message(trailing).ends_with("is not JSON: trailing characters"));
        assert_eq!(
            message(b"{\"traceEvents\":[{\"ph\":\"\xff\"}]}"),
            "`x.trace.json` line 1 column 24 is not JSON: invalid unicode code point"
        );
    }

    #[test]
    fn truncated_anywhere() {
        assert_eq!(
            message(""),
            "`x.trace.json` ends too early, at line 1 column 0\n\
             help: the file is truncated; copy or download it again"
        );
        let mut early = timeline();
        early.spans[0].begin_s = -1e-6;
        early.spans.truncate(3);
        early.iterations.truncate(1);
        let text = written(&early);
        assert!(text.contains(":-1.000"));
        let (_folder, path) = file("");
        for length in 0..text.trim_end().len() {
            fs::write(&path, &text[..length]).unwrap();
            let error = read_chrome(&path).unwrap_err();
            assert!(matches!(error, TraceError::Truncated { .. }), "{length}: {error}");
        }
    }

    #[test]
    fn of_another_program() {
        let cases = [
            ("{\"traceEvents\":[]}", "line 1 column 18: missing field `otherData`"),
            ("{\"scenario\":\"moe\"}", "line 1 column 18: missing field `traceEvents`"),
            (
                "[]",
                "line 1 column 2: invalid length 0, expected an object with `traceEvents` and `otherData`",
            ),
            ("{\"traceEvents\":{}}", "line 1 column 15: invalid type: map, expected a list of events"),
            (
                "{\"traceEvents\":[\n{\"ph\":\"X\",\"name\":\"main\",\"cat\":\"cpu\",\"ts\":0}]}",
                "line 2 column 45: missing field `otherData`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), format!("`x.trace.json` is not a timeline of zipwire: {expected}"));
        }
    }

    #[test]
    fn wrong_events_are_named() {
        let cases = [
            ("\"stage\":\"static\"", "\"stage\":\"statics\"", "`args.stage` is `statics`, not a stage"),
            ("\"dur\":10.250", "\"dur\":-10.250", "`dur` is negative"),
            ("\"dur\":10.250", "\"dur\":1e300", "`dur` is out of range"),
            ("\"dur\":10.250,", "", "the event has no `dur`"),
            (",\"op\":0", "", "the event has no `args.op`"),
            ("\"segment\":\"dispatch\",", "", "the event has no `args.segment`"),
            ("\"args\":{\"iteration\":0}", "\"args\":{}", "the event has no `args.iteration`"),
            ("\"peer\":1", "\"peer\":2", "the trace has no rank `2`"),
            ("{\"iteration\":1,", "{\"iteration\":7,", "the trace has no iteration `7`"),
            ("{\"iteration\":1}", "{\"iteration\":3}", "iteration `3` where `1` comes next"),
        ];
        for (from, to, reason) in cases {
            // One event a line, after the first.
            let index = written(&timeline()).lines().position(|line| line.contains(from)).unwrap() - 1;
            let expected =
                format!("`x.trace.json` is not a timeline of zipwire: `traceEvents[{index}]`: {reason}");
            assert_eq!(message(with(from, to)), expected);
        }
        let early = written(&timeline());
        let (index, end) = early.lines().enumerate().find(|(_, line)| line.contains("\"ph\":\"e\"")).unwrap();
        let (before, after) = end.split_once("\"ts\":").unwrap();
        let after = after.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let said = message(early.replacen(end, &format!("{before}\"ts\":-1{after}"), 1));
        assert!(
            said.ends_with(&format!("`traceEvents[{}]`: iteration `0` ends before it begins", index - 1)),
            "{said}"
        );
        let endless = with("{\"ph\":\"e\"", "{\"ph\":\"n\"");
        assert!(message(endless).ends_with("`traceEvents`: `2` iterations begin and `1` end"));
    }

    #[test]
    fn iterations_are_those_that_the_sampling_lists() {
        let sampled = |iterations: &str| {
            let sampled = format!(
                "\"sampled\":{{\"rank_count\":2,\"ranks\":[0,1],\"merged\":[],\"iteration_count\":9,\"iterations\":{iterations}}},\"scenario\""
            );
            message(with("\"scenario\"", &sampled))
        };
        let said = sampled("[0,1,5]");
        assert!(said.ends_with("`2` iterations begin, and `otherData.sampled` lists `3`"), "{said}");
        let said = sampled("[0,2]");
        assert!(said.ends_with("iteration `1` where `2` comes next"), "{said}");
    }

    #[test]
    fn wrong_types_are_named_by_line() {
        let cases = [
            ("\"peer\":1", "\"peer\":-1", "invalid value: integer `-1`, expected u32"),
            ("\"ph\":\"X\"", "\"ph\":7", "invalid type: integer `7`, expected a string"),
            (
                "\"clock\":\"virtual\"",
                "\"clock\":\"sun\"",
                "unknown variant `sun`, expected one of `virtual`, `monotonic`, `device`",
            ),
        ];
        for (from, to, reason) in cases {
            let line = 1 + written(&timeline()).lines().position(|line| line.contains(from)).unwrap();
            let error = message(with(from, to));
            let start = format!("`x.trace.json` is not a timeline of zipwire: line {line} column ");
            assert!(error.starts_with(&start) && error.ends_with(reason), "{from}: {error}");
        }
    }
}
