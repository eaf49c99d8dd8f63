//! Jobs that several tests plan.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Choice, Job, Protocol, Segment, Slot, Work};

/// A layer of experts: dispatch, compute, combine. `bytes` goes from source (row) to destination.
pub(crate) fn layer(bytes: Array2<u64>) -> Job {
    let rank_count = u32::try_from(bytes.nrows()).unwrap();
    let all_to_all = |bytes, input, output| Work::Call {
        dtype: DType::Bf16,
        input,
        output,
        kind: CallKind::AllToAll { bytes, tokens: None },
    };
    let combined = bytes.t().to_owned();
    Job {
        name: "layer",
        rank_count,
        slots: vec!["tokens", "expert", "combined"],
        segments: vec![
            Segment::new("dispatch", all_to_all(bytes, Slot(0), Slot(1))),
            Segment::new(
                "expert",
                Work::Compute { phase: "expert", reads: vec![Slot(1)], writes: vec![Slot(1)] },
            ),
            Segment::new("combine", all_to_all(combined, Slot(1), Slot(2))),
        ],
    }
}

pub(crate) fn uniform(rank_count: usize, bytes: u64) -> Array2<u64> {
    Array2::from_elem((rank_count, rank_count), bytes)
}

pub(crate) fn choice(protocol: Protocol, window: Option<u32>) -> Choice {
    Choice {
        window,
        speculative_capacity: Some(0.5),
        ..Choice::of(protocol, Some("window7".parse().unwrap()))
    }
}
