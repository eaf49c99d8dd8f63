//! Jobs that several tests plan, and who carries them out.

use ndarray::Array2;
use zipwire_codec::{DType, Spec};
use zipwire_schedule::plan::{Exchange, Op, OpKind, Plan};
use zipwire_schedule::{
    CallKind, Capabilities, Choice, Flow, Job, Pace, Protocol, Rank, Readiness, Segment, Slot, TransferOrder,
    Work, plan,
};

pub(crate) const THREADS: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };
pub(crate) const STREAMS: Capabilities =
    Capabilities { readiness: Readiness::Issued, transfer_order: TransferOrder::Library, timed: true };

/// A layer of experts: dispatch, compute, combine. `bytes` goes from source (row) to destination.
/// The spec with this text, which may be that of a paper's codec.
pub(crate) fn spec(text: &str) -> Spec {
    zipwire_paper_codecs::register();
    text.parse().unwrap()
}

pub(crate) fn window7() -> Spec {
    spec("window7")
}

pub(crate) fn layer(bytes: Array2<u64>) -> Job {
    let rank_count = u32::try_from(bytes.nrows()).unwrap();
    let all_to_all = |bytes: Array2<u64>, input, output| {
        Work::of_call(DType::Bf16, [input, output], CallKind::AllToAll { bytes: bytes.into(), tokens: None })
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
    Choice { window, speculative_capacity: Some(0.5), ..Choice::of(protocol, Some(window7())) }
}

/// One call, from `input` to `output`.
pub(crate) fn collective(rank_count: u32, work: Work) -> Job {
    let segments = vec![Segment::new("call", work)];
    Job { name: "collective", rank_count, slots: vec!["input", "output"], segments }
}

/// Explicit flows, from `sent` to `received`.
pub(crate) fn transfers(rank_count: u32, flows: &[Flow], pace: Pace) -> Job {
    let (dtype, flows) = (DType::Bf16, flows.to_vec());
    let work = Work::Transfers { dtype, flows, pace, input: Slot(0), output: Slot(1) };
    let segments = vec![Segment::new("transfers", work)];
    Job { name: "transfers", rank_count, slots: vec!["sent", "received"], segments }
}

pub(crate) fn native_transfers(rank_count: u32, flows: &[Flow], pace: Pace) -> Plan {
    plan(&transfers(rank_count, flows, pace), &Choice::of(Protocol::Native, None))
}

pub(crate) fn flow(src: u32, dst: u32, bytes: u64, not_before_s: f64) -> Flow {
    Flow { src: Rank(src), dst: Rank(dst), bytes, not_before_s }
}

pub(crate) fn exchange_of(op: &mut Op) -> &mut Exchange {
    match &mut op.kind {
        OpKind::Exchange(exchange) => exchange,
        other => panic!("{other:?} is no exchange"),
    }
}

pub(crate) fn call(dtype: DType, kind: CallKind) -> Work {
    Work::of_call(dtype, [Slot(0), Slot(1)], kind)
}

pub(crate) fn all_gather(bytes: &[u64]) -> Work {
    call(DType::Bf16, CallKind::AllGather { bytes: bytes.to_vec() })
}

pub(crate) fn reduce_scatter(dtype: DType, bytes: &[u64]) -> Work {
    call(dtype, CallKind::ReduceScatter { bytes: bytes.to_vec() })
}

pub(crate) fn all_reduce(dtype: DType, bytes: u64) -> Work {
    call(dtype, CallKind::AllReduce { bytes })
}
