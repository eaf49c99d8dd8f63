//! Bandwidths of one collective call in the sense of nccl-tests (its `doc/PERFORMANCE.md`), for raw and for coded bytes.

use serde::Serialize;
use zipwire_schedule::{CallKind, Job, Work};

use crate::Metrics;

/// Bandwidths of one collective call in GB/s, 10^9 bytes per second; its time is the mean iteration time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bandwidths {
    /// Algorithm bandwidth: the buffer of a rank, as nccl-tests counts it, over the time.
    pub algbw_gbps: f64,
    /// Bus bandwidth of the bytes on the wire, coded ones with headers and sizes: what the links carried.
    pub busbw_gbps: f64,
    /// Bus bandwidth of the raw bytes, the `busbw` of nccl-tests: `algbw` x the collective's factor. Coding that pays can lift
    /// it above the bandwidth of the links.
    pub effective_busbw_gbps: f64,
}

impl Bandwidths {
    /// The bandwidths of a job that is one collective call, compute phases aside; `None` for other jobs, and for a
    /// call that takes no time or sends nothing.
    pub fn of(job: &Job, metrics: &Metrics) -> Option<Self> {
        let mut calls = job.segments.iter().filter(|segment| !matches!(segment.work, Work::Compute { .. }));
        let (Some(call), None) = (calls.next(), calls.next()) else { return None };
        if call.among.is_some() {
            return None;
        }
        let ranks = f64::from(job.rank_count);
        let factor = bus_factor(&call.work, ranks)?;
        let time_s = metrics.iteration_s.mean;
        if time_s <= 0.0 || metrics.bytes_raw == 0 {
            return None;
        }
        let buffer = match call.work.call()? {
            // Partial sums have another type than what is contributed.
            CallKind::ReduceScatter { .. } | CallKind::AllReduce { .. } => {
                call.work.shards(job.rank_count).iter().sum::<u64>() as f64
            }
            // Whoever gets it.
            CallKind::Broadcast { bytes, .. } => *bytes as f64,
            CallKind::Send { .. } => return None,
            CallKind::AllToAll { .. } | CallKind::AllGather { .. } => {
                buffer_bytes(metrics.bytes_raw, job.rank_count)
            }
        };
        let algbw = buffer / time_s / 1e9;
        let effective_busbw = algbw * factor;
        let wire_over_raw = if call.work.is_reduction() {
            metrics.bytes_wire as f64 / (buffer * factor * ranks)
        } else {
            metrics.bytes_wire as f64 / metrics.bytes_raw as f64
        };
        Some(Self {
            algbw_gbps: algbw,
            busbw_gbps: effective_busbw * wire_over_raw,
            effective_busbw_gbps: effective_busbw,
        })
    }
}

/// `busbw` over `algbw` on `n` ranks: the share of a rank's buffer that its link has to carry. `None` for work that is no
/// collective.
fn bus_factor(work: &Work, n: f64) -> Option<f64> {
    match work.call()? {
        CallKind::AllToAll { .. } | CallKind::AllGather { .. } | CallKind::ReduceScatter { .. } => {
            Some((n - 1.0) / n)
        }
        CallKind::AllReduce { .. } => Some(2.0 * (n - 1.0) / n),
        CallKind::Broadcast { .. } | CallKind::Send { .. } => Some(1.0),
    }
}

/// Bytes `S` of a rank's buffer in a call whose ranks together send `bytes_raw`, what stays on a rank excluded.
///
/// In an All-to-All each of `n` ranks sends (n-1)/n of its buffer: n-1 buffers in all. The same holds for an all-gather, in
/// which n chunks of `S`/n bytes reach n-1 ranks each. Where chunks are unequal, this is
/// the buffer of the call with equal chunks that moves as many bytes.
fn buffer_bytes(bytes_raw: u64, rank_count: u32) -> f64 {
    bytes_raw as f64 / (f64::from(rank_count) - 1.0)
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use zipwire_codec::DType;
    use zipwire_schedule::{Rank, RankRange, Segment, Slot};

    use super::*;
    use crate::Spread;

    fn all_to_all(bytes: Array2<u64>) -> Work {
        Work::of_call(
            DType::Bf16,
            [Slot(0), Slot(1)],
            CallKind::AllToAll { bytes: bytes.into(), tokens: None },
        )
    }

    fn job(rank_count: u32, works: Vec<Work>) -> Job {
        let segments = works.into_iter().map(|work| Segment::new("call", work)).collect();
        Job { name: "collective", rank_count, slots: vec!["input", "output"], segments }
    }

    /// Metrics of a call that moves all of `bytes` off the diagonal, as `wire` bytes.
    fn metrics(bytes: &Array2<u64>, wire: u64, mean: f64) -> Metrics {
        let bytes_raw = bytes.sum() - bytes.diag().sum();
        let iteration_s = Spread { mean, ..Spread::default() };
        Metrics { iteration_s, bytes_raw, bytes_wire: wire, ..Metrics::default() }
    }

    #[test]
    fn equal_chunks_give_what_nccl_tests_prints() {
        // 4 ranks, buffers of 4 x 1 GB, 2 s: algbw = 4 GB / 2 s; busbw = algbw x 3/4.
        let bytes = Array2::from_elem((4, 4), 1_000_000_000);
        let native = metrics(&bytes, 12_000_000_000, 2.0);
        let expected = Bandwidths { algbw_gbps: 2.0, busbw_gbps: 1.5, effective_busbw_gbps: 1.5 };
        assert_eq!(Bandwidths::of(&job(4, vec![all_to_all(bytes)]), &native), Some(expected));
    }

    #[test]
    fn coding_lowers_what_the_links_carry_and_nothing_else() {
        let bytes = Array2::from_elem((4, 4), 1_000_000_000);
        let coded = metrics(&bytes, 8_000_000_000, 2.0);
        let expected = Bandwidths { algbw_gbps: 2.0, busbw_gbps: 1.0, effective_busbw_gbps: 1.5 };
        assert_eq!(Bandwidths::of(&job(4, vec![all_to_all(bytes)]), &coded), Some(expected));
    }

    #[test]
    fn unequal_chunks_count_by_the_mean_that_a_rank_sends() {
        // The ranks send 2, 4 and 0 GB, 2 GB on average, in 1 s; diagonals never move.
        let giga = 1_000_000_000;
        let bytes = Array2::from_shape_vec((3, 3), [9, 2, 0, 1, 9, 3, 0, 0, 9].map(|n| n * giga).to_vec());
        let bytes = bytes.unwrap();
        let sent = metrics(&bytes, 3 * giga, 1.0);
        let expected = Bandwidths { algbw_gbps: 3.0, busbw_gbps: 1.0, effective_busbw_gbps: 2.0 };
        assert_eq!(Bandwidths::of(&job(3, vec![all_to_all(bytes)]), &sent), Some(expected));
    }

    #[test]
    fn a_broadcast_has_the_buffer_of_its_root_whoever_gets_it() {
        for (begin, receivers) in [(0, 3), (2, 2)] {
            let to = RankRange { begin: Rank(begin), end: Rank(4) };
            let kind = CallKind::Broadcast { bytes: 1_000_000_000, root: Rank(0), to };
            let job = job(4, vec![Work::of_call(DType::Bf16, [Slot(0), Slot(1)], kind)]);
            let iteration_s = Spread { mean: 2.0, ..Spread::default() };
            let bytes_raw = receivers * 1_000_000_000;
            let metrics = Metrics { iteration_s, bytes_raw, bytes_wire: bytes_raw / 2, ..Metrics::default() };
            let expected = Bandwidths { algbw_gbps: 0.5, busbw_gbps: 0.25, effective_busbw_gbps: 0.5 };
            assert_eq!(Bandwidths::of(&job, &metrics), Some(expected), "{receivers} receivers");
        }
    }

    #[test]
    fn only_a_single_collective_call_that_moves_something_has_bandwidths() {
        let bytes = Array2::from_elem((2, 2), 1000);
        let (call, sent) = (all_to_all(bytes.clone()), metrics(&bytes, 2000, 1.0));
        let compute = Work::Compute { phase: "expert", reads: vec![], writes: vec![] };
        let of = |works, metrics: &Metrics| Bandwidths::of(&job(2, works), metrics);
        assert!(of(vec![compute.clone(), call.clone()], &sent).is_some(), "a late start is part of the time");
        assert_eq!(of(vec![call.clone(), compute.clone(), call.clone()], &sent), None);
        assert_eq!(of(vec![compute], &sent), None);
        let flows = Work::Transfers {
            dtype: DType::Bf16,
            flows: vec![],
            pace: zipwire_schedule::Pace::Burst,
            input: Slot(0),
            output: Slot(1),
        };
        assert_eq!(of(vec![flows], &sent), None);
        assert_eq!(of(vec![call.clone()], &metrics(&bytes, 2000, 0.0)), None);
        assert_eq!(of(vec![call], &metrics(&Array2::zeros((2, 2)), 0, 1.0)), None);
    }
}
