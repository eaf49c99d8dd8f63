//! Explicit flows that are coded, against closed forms: what one takes alone, and what it waits for where there are others.

use crate::common::{flat, job, setup};
use zipwire_cluster::{CodecCost, HostCost, TransferStart};
use zipwire_codec::DType;
use zipwire_schedule::{Choice, CostModel, Durations, Flow, Pace, Protocol, Rank, Slot, Work, plan};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::Span;

const CODEC: CodecCost = CodecCost { encode_bytes_per_s: 2e9, decode_bytes_per_s: 4e9, launch_s: 3e-6 };
const BANDWIDTH: f64 = 1e9;
const LATENCY_S: f64 = 5e-6;
const LAUNCH_S: f64 = 2e-6;
const SYNC_S: f64 = 60e-6;
const BYTES: u64 = 1_000_000;
const RATIO: f64 = 1.25;

/// From the begin of a flow's coding until its sender has made a frame.
fn encode_s() -> f64 {
    CODEC.launch_s + BYTES as f64 / CODEC.encode_bytes_per_s
}

fn decode_s() -> f64 {
    CODEC.launch_s + BYTES as f64 / CODEC.decode_bytes_per_s
}

/// Seconds of the exchanges of a flow that has its links to itself: each is launched and crosses the cluster once, they move the
/// frame and its size, and one of them ends when the receiver's host knows that.
fn exchanges_s(count: f64) -> f64 {
    count * (LAUNCH_S + LATENCY_S) + (BYTES as f64 / RATIO + 8.0) / BANDWIDTH + SYNC_S
}

fn flow(src: u32, dst: u32, not_before_s: f64) -> Flow {
    Flow { src: Rank(src), dst: Rank(dst), bytes: BYTES, not_before_s }
}

/// When the last value of each flow is decoded, in their order.
fn finish_s(flows: &[Flow], pace: Pace, protocol: Protocol, start: TransferStart) -> Vec<f64> {
    let topology = flat(4, BANDWIDTH, LATENCY_S);
    let (dtype, input, output) = (DType::Bf16, Slot(0), Slot(1));
    let work = Work::Transfers { dtype, flows: flows.to_vec(), pace, input, output };
    let job = job(4, [("transfers", work)]);
    let plan = plan(&job, &Choice::of(protocol, Some(crate::window7())));
    plan.validate_for(&job).unwrap();
    let durations = Durations::zeros(1, 1, 4);
    let host = HostCost { launch_s: LAUNCH_S, sync_s: SYNC_S, ..HostCost::default() };
    let setup = SimSetup {
        costs: CostModel { host, codec: Some(CODEC) },
        sizes: FrameSizes::Ratio(RATIO),
        start,
        ..setup(&plan, &topology, &durations)
    };
    let timeline = run(&setup, &|| true).unwrap();
    let decodes = |flow: u32, span: &&Span| {
        let op = &plan.programs[span.rank.index()].ops[span.op.index()];
        let mut blocks = op.kind.batch().into_iter().flat_map(|batch| &batch.blocks);
        span.name == "decode" && blocks.any(|block| block.chunk.flow == flow)
    };
    let end_s = |flow| timeline.spans.iter().rfind(|span| decodes(flow, span)).unwrap().end_s;
    (0..flows.len() as u32).map(end_s).collect()
}

fn burst(flows: &[Flow], protocol: Protocol) -> Vec<f64> {
    finish_s(flows, Pace::Burst, protocol, TransferStart::Rendezvous)
}

fn assert_close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let is_close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= 1e-9 * expected;
    assert!(got.iter().zip(expected).all(is_close), "{got:?}, expected {expected:?}");
}

#[test]
fn a_flow_alone_is_encoded_when_it_is_ready_announced_moved_and_decoded() {
    for ready_s in [0.0, 1.0] {
        let flows = [flow(0, 1, ready_s)];
        let all_s = |exchanges: f64| ready_s + encode_s() + exchanges_s(exchanges) + decode_s();
        assert_close(&burst(&flows, Protocol::SizeFirst), &[all_s(2.0)]);
        assert_close(&burst(&flows, Protocol::InBand), &[all_s(2.0)]);
        assert_close(&burst(&flows, Protocol::StaticFirst), &[all_s(3.0)]);
    }
}

#[test]
fn flows_of_other_pairs_and_flows_that_are_not_ready_are_not_waited_for() {
    let alone_s = encode_s() + exchanges_s(2.0) + decode_s();
    for protocol in [Protocol::SizeFirst, Protocol::InBand] {
        // Rank 1 waits for the first flow, which is late; rank 0 has two for the same rank, of which the later one is listed first.
        let flows = [flow(0, 1, 1.0), flow(1, 2, 0.0), flow(2, 3, 0.0), flow(0, 1, 0.0)];
        assert_close(&burst(&flows, protocol), &[1.0 + alone_s, alone_s, alone_s, alone_s]);
    }
}

#[test]
fn flows_of_a_chain_are_encoded_while_those_before_them_travel() {
    for start in [TransferStart::Rendezvous, TransferStart::Barrier] {
        let flows = [flow(0, 1, 0.0), flow(0, 2, 0.0), flow(3, 2, 10e-3)];
        let finish_s = finish_s(&flows, Pace::Chain, Protocol::SizeFirst, start);
        let sent_s = |flows: f64| encode_s() + flows * exchanges_s(2.0);
        let last_s = 10e-3 + sent_s(1.0) + decode_s();
        assert_close(&finish_s, &[sent_s(1.0) + decode_s(), sent_s(2.0) + decode_s(), last_s]);
    }
}

/// In each of two steps all ranks send to the next one; the second step of a rank that gets something late is late.
#[test]
fn a_step_begins_when_both_flows_of_the_one_before_have_moved() {
    let late_s = 20e-3;
    let step =
        |ready_s: f64| (0..4).map(move |src| flow(src, (src + 1) % 4, if src == 0 { ready_s } else { 0.0 }));
    let flows: Vec<Flow> = step(late_s).chain(step(0.0)).collect();
    let finish_s = finish_s(&flows, Pace::SendReceive, Protocol::SizeFirst, TransferStart::Rendezvous);
    let sent_s = |flows: f64| encode_s() + flows * exchanges_s(2.0);
    let first = [late_s + sent_s(1.0), sent_s(1.0), sent_s(1.0), sent_s(1.0)];
    // Rank 0 is late as a sender and rank 1 as a receiver, so what they have a part in is, too.
    let second = [late_s + sent_s(2.0), late_s + sent_s(2.0), sent_s(2.0), late_s + sent_s(2.0)];
    let decoded: Vec<f64> = first.iter().chain(&second).map(|sent_s| sent_s + decode_s()).collect();
    assert_close(&finish_s, &decoded);
}
