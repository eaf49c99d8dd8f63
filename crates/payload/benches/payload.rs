//! Speed of filling and checking chunks, beside a plain copy in the same run.
//!
//! `cargo bench -p zipwire-payload --bench payload`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use zipwire_payload::{ChunkId, Payload, Rows};
use zipwire_schedule::{Rank, SegmentId};

const CHUNK_BYTES: usize = 64 << 20;
const RUNS: usize = 9;

fn main() {
    let source = Arc::new(Rows::gaussian(0.02, 1));
    let payload = Payload::new(7, vec![source]);
    let (segment, src, dst) = (SegmentId(0), Rank(0), Rank(1));
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut copy = vec![0; CHUNK_BYTES];

    let fill = median_gbps(|| payload.fill(ChunkId::new(segment, src, dst), black_box(&mut chunk)));
    let check = median_gbps(|| {
        assert_eq!(payload.mismatch(ChunkId::new(segment, src, dst), black_box(&chunk)), None);
    });
    let memcpy = median_gbps(|| black_box(&mut copy).copy_from_slice(black_box(&chunk)));
    println!("rows of 512 bytes, chunks of {} MiB, median of {RUNS} runs, one thread", CHUNK_BYTES >> 20);
    for (name, gbps) in [("fill", fill), ("mismatch", check), ("memcpy", memcpy)] {
        println!("{name:<9}{gbps:7.2} GB/s{:7.2} x memcpy", gbps / memcpy);
    }
}

/// Median speed of `work` on one chunk, in 10^9 bytes per second, after one run to warm up.
fn median_gbps(mut work: impl FnMut()) -> f64 {
    work();
    let mut speeds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            work();
            CHUNK_BYTES as f64 / begin.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    speeds[RUNS / 2]
}
