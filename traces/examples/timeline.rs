//! Writes the timeline of two iterations of a compressed All-to-All between four ranks, with invented times.
//!
//! `cargo run -p zipwire-traces --example timeline > timeline.trace.json`, then open it in `ui.perfetto.dev`.

use std::io;

use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_traces::{Span, Timeline, TraceMeta, write_chrome};

const RANKS: u32 = 4;
const ITERATION_S: f64 = 400e-6;

fn main() -> io::Result<()> {
    let mut spans = Vec::new();
    for iteration in 0..2 {
        for rank in 0..RANKS {
            spans.extend(one_rank(iteration, Rank(rank)));
        }
    }
    spans.sort_by(|a, b| a.end_s.total_cmp(&b.end_s));
    let timeline = Timeline {
        spans,
        rank_count: RANKS,
        segments: vec!["dispatch", "expert"],
        iterations: vec![(0.0, ITERATION_S), (ITERATION_S, 2.0 * ITERATION_S)],
    };
    let meta = TraceMeta {
        scenario: "timeline example".to_owned(),
        variant: "static-first".to_owned(),
        executor: "sim".to_owned(),
        seed: 7,
        plan_digest: "none".to_owned(),
        clock: "virtual",
        codec: Some("window7".to_owned()),
    };
    write_chrome(&timeline, &meta, io::stdout().lock())
}

/// Encode, three exchanges, decode, expert.
fn one_rank(iteration: u32, rank: Rank) -> Vec<Span> {
    let start_s = f64::from(iteration) * ITERATION_S;
    let op = |op: u32, lane, name, begin_us: f64, end_us: f64| Span {
        iteration,
        segment: SegmentId(u32::from(name == "expert")),
        rank,
        lane,
        op: OpId(op),
        stage: None,
        peer: None,
        name,
        begin_s: start_s + begin_us * 1e-6,
        end_s: start_s + end_us * 1e-6,
        bytes: 0,
        bytes_coded: None,
    };
    let codec = |id, name, begin_us, end_us| Span {
        bytes: 3_000_000,
        bytes_coded: Some(2_100_000),
        ..op(id, Lane::Codec, name, begin_us, end_us)
    };

    let mut spans = vec![codec(0, "encode", 0.0, 30.0)];
    let stages =
        [(1, Stage::Static, 30.0, 500_000), (2, Stage::Sizes, 130.0, 8), (3, Stage::Dynamic, 150.0, 200_000)];
    for (id, stage, begin_us, bytes) in stages {
        let mut last_us = begin_us;
        for step in 1..RANKS {
            let (to, from) = (Rank((rank.0 + step) % RANKS), Rank((rank.0 + RANKS - step) % RANKS));
            for (lane, name, src, dst, peer) in
                [(Lane::Tx, "send", rank, to, to), (Lane::Rx, "receive", from, rank, from)]
            {
                // Both ends must name the same time: it depends on the pair alone.
                let end_us =
                    begin_us + 10.0 + f64::from(bytes) * 4e-5 * f64::from(1 + (src.0 + 2 * dst.0) % 4);
                last_us = f64::max(last_us, end_us);
                let transfer = op(id, lane, name, begin_us, end_us);
                spans.push(Span { stage: Some(stage), peer: Some(peer), bytes: bytes as u64, ..transfer });
            }
        }
        let sent = bytes as u64 * u64::from(RANKS - 1);
        let exchange = op(id, Lane::Exchange, "exchange", begin_us, last_us);
        spans.push(Span { stage: Some(stage), bytes: sent, ..exchange });
    }
    spans.push(codec(4, "decode", 200.0, 220.0));
    spans.push(op(5, Lane::Compute, "expert", 220.0, 300.0 + 30.0 * f64::from(rank.0)));
    spans
}
