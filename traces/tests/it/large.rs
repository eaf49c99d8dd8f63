//! Large timelines: whatever they hold, the trace stays below its limit, says what it leaves out, and is read back.

use std::fs;
use std::io::{self, Write};

use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_timeline::{IterationTime, Link, LinkUsage, Span, Timeline};
use zipwire_traces::{Diff, Limit, Sampling, Trace, TraceMeta, read_chrome, write_chrome};

fn meta() -> TraceMeta {
    TraceMeta {
        scenario: "large".to_owned(),
        variant: "static-first".to_owned(),
        executor: "sim".to_owned(),
        seed: 7,
        plan_digest: "0123abcd".to_owned(),
        clock: "virtual",
        codec: Some("window7".to_owned()),
    }
}

/// Iterations in which every rank encodes, exchanges `transfers` messages each way, all open at once, and computes. Rank 5
/// ends last, rank 6 waits most, and iteration 2 is the longest.
fn timeline(ranks: u32, iterations: u32, transfers: u32) -> Timeline {
    let mut timeline = Timeline {
        rank_count: ranks,
        segments: vec!["dispatch".into(), "expert".into()],
        ..Timeline::default()
    };
    let mut begin_s = 0.0;
    for iteration in 0..iterations {
        let length_s = if iteration == 2 { 1.5e-3 } else { 1e-3 };
        for rank in 0..ranks {
            let base = Span { iteration, rank: Rank(rank), ..encode() };
            timeline.spans.extend(spans(&base, ranks, transfers, length_s));
        }
        timeline.iterations.push(IterationTime { begin_s, length_s });
        begin_s += length_s;
    }
    let link = |index: u32| Link { name: format!("nic {index} up"), bytes_per_s: 25e9, is_of_gpu: false };
    let mut usage = LinkUsage::new((0..ranks.div_ceil(8)).map(link).collect());
    for sample in 0..2000_u32 {
        let rates: Vec<f64> =
            (0..ranks.div_ceil(8)).map(|i| 1e7 * f64::from((sample * 7 + i) % 2500)).collect();
        usage.add(begin_s * f64::from(sample) / 2000.0, &rates);
    }
    timeline.link_usage = Some(usage);
    timeline
}

fn encode() -> Span {
    Span {
        iteration: 0,
        segment: SegmentId(0),
        rank: Rank(0),
        lane: Lane::Codec,
        op: OpId(0),
        stage: None,
        peer: None,
        tag: 0,
        name: "encode",
        begin_s: 0.0,
        end_s: 1e-4,
        bytes: 1 << 20,
        bytes_coded: Some(700_000),
    }
}

/// Spans of a rank in an iteration, from its `encode` span.
fn spans(encode: &Span, ranks: u32, transfers: u32, length_s: f64) -> Vec<Span> {
    let Rank(rank) = encode.rank;
    let (op, stage) = (OpId(1), Some(Stage::Dynamic));
    let mut spans = vec![encode.clone()];
    let (begin_s, moving_s) = (f64::from(rank).mul_add(1e-9, 1.1e-4), if rank == 6 { 1e-4 } else { 3e-4 });
    for step in 1..=transfers {
        let end_s = begin_s + moving_s * f64::from(step) / f64::from(transfers);
        let (bytes, bytes_coded, tag) = (1000, None, step / ranks);
        let to = |peer: u32| Span {
            op,
            stage,
            bytes,
            bytes_coded,
            begin_s,
            end_s,
            tag,
            peer: Some(Rank(peer % ranks)),
            ..encode.clone()
        };
        spans.push(Span { lane: Lane::Tx, name: "send", ..to(rank + step) });
        spans.push(Span { lane: Lane::Rx, name: "receive", ..to(rank + ranks - step % ranks) });
    }
    let (lane, name, bytes_coded) = (Lane::Exchange, "exchange", None);
    spans.push(Span { lane, name, stage, op, begin_s: 1e-4, end_s: 7.1e-4, bytes_coded, ..encode.clone() });
    let end_s = if rank == 5 { length_s } else { 0.9 * length_s };
    let (segment, lane, name, op, bytes) = (SegmentId(1), Lane::Compute, "expert", OpId(2), 0);
    spans.push(Span {
        segment,
        lane,
        name,
        op,
        begin_s: 7.1e-4,
        end_s,
        bytes,
        bytes_coded,
        ..encode.clone()
    });
    spans
}

/// The trace as a file has it, and what it leaves out.
fn written(timeline: &Timeline, bytes: u64, ranks_per_node: u32) -> (Vec<u8>, Option<Sampling>) {
    let mut text = Vec::new();
    let sampling = write_chrome(timeline, &meta(), &Limit { bytes, ranks_per_node }, &mut text).unwrap();
    assert!(text.len() as u64 <= bytes, "{} bytes with a limit of {bytes}: {sampling:?}", text.len());
    (text, sampling)
}

fn read(text: &[u8]) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, text).unwrap();
    read_chrome(&path).unwrap()
}

#[test]
fn what_fits_is_drawn_in_full() {
    let timeline = Timeline { link_usage: None, ..timeline(8, 30, 7) };
    let (text, sampling) = written(&timeline, u64::MAX, 8);
    assert_eq!(sampling, None);
    let (again, sampling) = written(&timeline, text.len() as u64 * 12 / 10, 8);
    assert_eq!(sampling, None, "{} bytes", text.len());
    // Counters of all ranks have a part of the limit.
    let without = |text: Vec<u8>| -> Vec<String> {
        let text = String::from_utf8(text).unwrap();
        text.lines().filter(|line| !line.contains(r#""name":"ranks "#)).map(str::to_owned).collect()
    };
    assert!(without(again) == without(text));
}

#[test]
fn iterations_are_thinned_out_before_ranks() {
    let timeline = timeline(8, 40, 7);
    let (text, sampling) = written(&timeline, 400_000, 8);
    let sampling = sampling.expect("40 iterations do not fit");
    assert_eq!((sampling.ranks.len(), &sampling.merged), (8, &vec![]));
    let drawn = &sampling.iterations;
    assert!((4..40).contains(&drawn.len()) && drawn.is_sorted(), "{drawn:?}");
    assert!([0, 2, 39].iter().all(|iteration| drawn.contains(iteration)), "{drawn:?}");
    assert!(text.len() > 250_000, "as many as fit: {}", text.len());
    let trace = read(&text);
    assert_eq!(trace.iterations_ns.len(), drawn.len());
    assert_eq!(trace.spans.len(), drawn.len() * 8 * 17);
}

#[test]
fn notable_ranks_and_whole_nodes_are_drawn() {
    let timeline = timeline(64, 5, 63);
    let (text, sampling) = written(&timeline, 2_000_000, 4);
    let sampling = sampling.expect("64 ranks do not fit");
    assert_eq!(sampling.iterations, [0, 2, 4], "first, slowest, last");
    assert!([0, 5, 6].iter().all(|rank| sampling.ranks.contains(rank)), "{:?}", sampling.ranks);
    let nodes = sampling.ranks.chunk_by(|a, b| a / 4 == b / 4);
    let partly: Vec<&[u32]> = nodes.filter(|node| node.len() < 4).collect();
    assert!(
        sampling.ranks.len() > 8 && partly.iter().all(|node| node.iter().all(|rank| [5, 6].contains(rank)))
    );
    let text = String::from_utf8(text).unwrap();
    let visible = format!("drawn: {sampling}");
    assert!(text.contains(&visible) && text.contains("ranks waiting"), "{visible}");
    let trace = read(text.as_bytes());
    assert_eq!((trace.rank_count, trace.sampling.as_ref()), (64, Some(&sampling)));
    assert_eq!(trace.spans.len(), sampling.ranks.len() * 3 * (3 + 2 * 63));
}

#[test]
fn a_rank_that_is_too_large_is_merged() {
    let timeline = timeline(16, 3, 5000);
    let (text, sampling) = written(&timeline, 1_000_000, 8);
    let sampling = sampling.expect("16 ranks do not fit");
    assert_eq!((&sampling.ranks, &sampling.merged), (&vec![], &vec![0, 5, 6]));
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("rank 5 (spans merged)") && text.contains("send dynamic (merged)"));
    let trace = read(text.as_bytes());
    // All sends of rank 0 are there, in slices.
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let slices = json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let sends = slices.filter(|slice| slice["pid"] == 0 && slice["name"] == "send dynamic (merged)");
    let of = |key: &str| sends.clone().map(|slice| slice["args"][key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((of("spans"), of("bytes")), (2 * 5000, 2 * 5000 * 1000));
    assert!(trace.spans.iter().all(|span| span.lane != Lane::Tx), "no transfer can be told apart");
    // Calls are whole.
    let calls = json["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "call");
    let us = |call: &serde_json::Value, key: &str| call[key].as_f64().unwrap();
    let of_5 = calls.filter(|call| call["pid"] == 5);
    let drawn: Vec<_> =
        of_5.map(|call| (call["name"].as_str().unwrap(), us(call, "ts"), us(call, "dur"))).collect();
    let expected = [
        ("dispatch", 0.0, 710.0),
        ("expert", 710.0, 290.0),
        ("dispatch", 2000.0, 710.0),
        ("expert", 2710.0, 790.0),
    ];
    assert_eq!(drawn, expected);
}

#[test]
fn the_limit_holds_for_all_shapes() {
    for (ranks, iterations, transfers) in [(4, 300, 3), (16, 16, 40), (300, 2, 9), (2, 1, 9000), (2000, 1, 1)]
    {
        let timeline = timeline(ranks, iterations, transfers);
        for bytes in [1 << 16, 200_000, 1 << 20] {
            for ranks_per_node in [1, 8, ranks] {
                let (text, sampling) = written(&timeline, bytes, ranks_per_node);
                let trace = read(&text);
                assert_eq!(trace.sampling, sampling);
                assert!(text.len() as u64 > bytes / 4 || sampling.is_none(), "{} of {bytes}", text.len());
            }
        }
    }
}

#[test]
fn traces_are_compared_in_what_both_hold() {
    let timeline = timeline(64, 5, 63);
    let (whole, sampled) = (written(&timeline, u64::MAX, 4).0, written(&timeline, 2_000_000, 4).0);
    let (mut a, mut b) = (read(&whole), read(&sampled));
    let held = b.spans.len();
    a.keep_what_is_in(&b);
    b.keep_what_is_in(&a);
    assert_eq!((a.spans.len(), b.spans.len(), a.iterations_ns.len()), (held, held, 3));
    let diff = Diff::of(&a, &b);
    assert!(diff.is_empty() && diff.paired == held);
}

/// 2 million spans, some 600 MB of text if everything were drawn.
#[test]
fn a_thousand_ranks_stay_below_the_usual_limit() {
    struct Count(u64);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let timeline = timeline(1024, 1, 1000);
    let mut count = Count(0);
    let limit = Limit { bytes: Limit::BYTES, ranks_per_node: 8 };
    let sampling = write_chrome(&timeline, &meta(), &limit, &mut count).unwrap().expect("it is sampled");
    assert!((Limit::BYTES / 2..=Limit::BYTES).contains(&count.0), "{}", count.0);
    assert!(sampling.ranks.len() > 24 && sampling.merged.is_empty(), "{}", sampling.ranks.len());
}
