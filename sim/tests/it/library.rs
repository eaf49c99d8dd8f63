//! Calls of a communication library's own collectives in virtual time, against closed forms: they begin with the last rank, take
//! their declared time if links allow it, end everywhere at once, and share links with one another and with transfers.

use crate::common::{assert_close, call, nodes, setup};
use zipwire_cluster::{
    CodecCost, DeclaredCost, Fabric, FatTree, HostCost, LibraryCost, LinkId, Slowdown, Topology, Uplink,
};
use zipwire_codec::DType;
use zipwire_schedule::{
    Algorithm, CallKind, Choice, CostModel, Durations, Job, Lane, Protocol, Rank, Segment, Slot, Work, plan,
};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::{Metrics, Span, Timeline};

const RANKS: u32 = 4;
const LATENCY_S: f64 = 30e-6;
const PER_RANK_S: f64 = 6e-6;
const BUS: f64 = 2e9;
/// Bytes per second of links that hold no call back, nor two.
const LINK: f64 = 1e10;
/// Seconds of every call that moves nothing.
const FIXED_S: f64 = LATENCY_S + 3.0 * PER_RANK_S;
const CODEC: CodecCost = CodecCost { encode_bytes_per_s: 2e9, decode_bytes_per_s: 4e9, launch_s: 3e-6 };
const REDUCE: f64 = 8e9;
const SYNC_S: f64 = 60e-6;
const SHARD: u64 = 1_000_000;

fn host() -> HostCost {
    let cost = Some(DeclaredCost { latency_s: LATENCY_S, per_rank_s: PER_RANK_S, bytes_per_s: BUS });
    let library = LibraryCost {
        all_gather: cost,
        reduce_scatter: cost,
        all_reduce: cost,
        broadcast: cost,
        model: None,
    };
    HostCost { library, reduce_bytes_per_s: REDUCE, sync_s: SYNC_S, ..HostCost::default() }
}

/// Phases of `start_s` seconds, then segments; all in the algorithm `library`, on links that are faster than it.
fn simulated(
    start_s: [f64; RANKS as usize],
    calls: Vec<Segment>,
    protocol: Protocol,
    host: HostCost,
) -> Timeline {
    simulated_on(&nodes(2, 2, [LINK; 2], [0.0; 2]), start_s, calls, protocol, host)
}

fn simulated_on(
    topology: &Topology,
    start_s: [f64; RANKS as usize],
    calls: Vec<Segment>,
    protocol: Protocol,
    host: HostCost,
) -> Timeline {
    let writes = (0..4).map(Slot).collect();
    let start = Work::Compute { phase: "start", reads: Vec::new(), writes };
    let segments: Vec<Segment> = [Segment::new("start", start)].into_iter().chain(calls).collect();
    let mut durations = Durations::zeros(1, segments.len(), RANKS);
    (0..).zip(start_s).for_each(|(rank, seconds)| durations.set(0, 0, Rank(rank), seconds));
    if let Some(last) =
        segments.iter().rposition(|segment| !segment.work.is_collective()).filter(|&last| last > 0)
    {
        (0..RANKS).for_each(|rank| durations.set(0, last, Rank(rank), 1e-3));
    }
    let slots = vec!["input", "output", "other input", "other output"];
    let job = Job { name: "case", rank_count: RANKS, slots, segments };
    let codec = Some(crate::window7());
    let plan = plan(&job, &Choice { algorithm: Some(Algorithm::Library), ..Choice::of(protocol, codec) });
    plan.validate().unwrap();
    let setup = SimSetup {
        costs: CostModel { host, codec: Some(CODEC) },
        sizes: FrameSizes::Ratio(1.25),
        ..setup(&plan, topology, &durations)
    };
    run(&setup, &|| true).unwrap()
}

fn all_gather(bytes: [u64; RANKS as usize]) -> Segment {
    Segment::new("gather", call(CallKind::AllGather { bytes: bytes.to_vec() }))
}

fn reduce_scatter(dtype: DType, input: u32) -> Segment {
    let (input, output, bytes) = (Slot(input), Slot(input + 1), vec![SHARD; RANKS as usize]);
    Segment::new("scatter", Work::of_call(dtype, [input, output], CallKind::ReduceScatter { bytes }))
}

fn seconds(call: Segment) -> f64 {
    simulated([0.0; 4], vec![call], Protocol::Native, host()).iterations[0].length_s
}

#[test]
fn a_call_takes_a_latency_and_its_ring_bytes_at_bus_bandwidth() {
    let s = SHARD as f64;
    assert_close(seconds(all_gather([SHARD; 4])), FIXED_S + 3.0 * s / BUS);
    assert_close(seconds(all_gather([8, SHARD, 0, 8])), FIXED_S + 3.0 * s / BUS);
    assert_close(seconds(reduce_scatter(DType::F32, 0)), FIXED_S + 3.0 * s / BUS);
    let widened_s = 4.0 * s / REDUCE;
    assert_close(seconds(reduce_scatter(DType::Bf16, 0)), widened_s + FIXED_S + 3.0 * 2.0 * s / BUS);
    let work = call(CallKind::AllReduce { bytes: 4 * SHARD });
    assert_close(seconds(Segment::new("reduce", work)), FIXED_S + 2.0 * 3.0 * s / BUS);
}

/// No rank has anything, which all of them know: nobody calls, and nobody waits for a late one.
#[test]
fn a_call_of_nothing_takes_no_time() {
    let late_s = [0.0, 2e-3, 0.0, 0.0];
    let nothing = vec![0; RANKS as usize];
    let scatter = Work::of_call(DType::F32, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes: nothing });
    let reduce = call(CallKind::AllReduce { bytes: 0 });
    let calls = [all_gather([0; 4]), Segment::new("scatter", scatter), Segment::new("reduce", reduce)];
    for call in calls {
        for protocol in [Protocol::Native, Protocol::SizeFirst] {
            if protocol.is_coded() && call.work.is_reduction() {
                continue;
            }
            let timeline = simulated(late_s, vec![call.clone()], protocol, host());
            assert_close(timeline.iterations[0].length_s, 2e-3);
            assert!(timeline.spans.iter().all(|span| span.name == "start"), "{protocol:?}");
        }
    }
}

/// All wait for the last rank, and all end together: a ring of exchanges would let the others begin.
#[test]
fn a_call_begins_with_the_last_rank() {
    let late_s = 2e-3;
    let timeline =
        simulated([0.0, late_s, 1e-3, 0.0], vec![all_gather([SHARD; 4])], Protocol::Native, host());
    let call_s = FIXED_S + 3e6 / BUS;
    assert_close(timeline.iterations[0].length_s, late_s + call_s);
    let calls: Vec<&Span> = timeline.spans.iter().filter(|span| span.lane == Lane::Exchange).collect();
    assert_eq!(calls.len(), 4);
    assert!(
        calls
            .iter()
            .all(|span| (span.name, span.bytes, span.end_s) == ("library", 3_000_000, calls[0].end_s))
    );
    let metrics = Metrics::of(&timeline, 0);
    assert_close(metrics.comm_s, call_s);
    assert_close(metrics.wait_s, (late_s + 1e-3 + 0.0 + late_s) / 4.0);
    assert_eq!(metrics.bytes_wire, 4 * 3 * SHARD);
}

#[test]
fn frames_are_padded_to_the_longest_and_sizes_go_straight() {
    let bytes = [SHARD / 2, SHARD, SHARD, SHARD];
    let timeline = simulated([0.0; 4], vec![all_gather(bytes)], Protocol::SizeFirst, host());
    let s = SHARD as f64;
    let encode_s = CODEC.launch_s + s / CODEC.encode_bytes_per_s;
    let decode_s = CODEC.launch_s + 3.0 * s / CODEC.decode_bytes_per_s;
    // Eight bytes each from two ranks of a node to the other two, over one NIC.
    let sizes_s = 4.0 * 8.0 / LINK + SYNC_S;
    let call_s = FIXED_S + 3.0 * s / 1.25 / BUS;
    assert_close(timeline.iterations[0].length_s, encode_s + sizes_s + call_s + decode_s);
}

/// Sizes that come with what a call moves are known to the host later.
#[test]
fn sizes_in_band_are_synchronised() {
    let sized = |sync_s| {
        let host = HostCost { sync_s, ..host() };
        simulated([0.0; 4], vec![all_gather([SHARD; 4])], Protocol::InBand, host).iterations[0].length_s
    };
    assert_close(sized(SYNC_S) - sized(0.0), SYNC_S);
}

/// On a channel of its own a call runs beside that of the main channel; where links have room for both, as fast as alone.
#[test]
fn calls_of_two_communicators_share_links_and_those_of_one_follow_one_another() {
    let length_s = |link: f64, calls: Vec<Segment>| {
        let topology = nodes(2, 2, [LINK, link], [0.0; 2]);
        simulated_on(&topology, [0.0; 4], calls, Protocol::Native, host()).iterations[0].length_s
    };
    let both = || vec![reduce_scatter(DType::F32, 2).in_background(), all_gather([SHARD; 4])];
    let twice = || vec![all_gather([SHARD; 4]), all_gather([SHARD; 4])];
    assert_close(length_s(LINK, both()), FIXED_S + 3e6 / BUS);
    assert_close(length_s(LINK, twice()), 2.0 * (FIXED_S + 3e6 / BUS));
    // A NIC that one call fills: both at once have half of it each.
    assert_close(length_s(BUS, both()), FIXED_S + 2.0 * 3e6 / BUS);
    assert_close(length_s(BUS, twice()), 2.0 * (FIXED_S + 3e6 / BUS));
    assert_close(length_s(BUS / 5.0, twice()), 2.0 * (FIXED_S + 5.0 * 3e6 / BUS));
}

/// A NIC of a tenth of the others' speed holds every call back that crosses it, and so does a switch above the nodes.
#[test]
fn a_call_is_as_fast_as_its_slowest_link() {
    let call_s = |topology: &Topology| {
        let calls = vec![all_gather([SHARD; 4])];
        simulated_on(topology, [0.0; 4], calls, Protocol::Native, host()).iterations[0].length_s - FIXED_S
    };
    let mut topology = nodes(2, 2, [LINK; 2], [0.0; 2]);
    assert_close(call_s(&topology), 3e6 / BUS);
    // Links of four GPUs come first, up and down, then those of the first NIC.
    topology.link_bandwidths.insert(LinkId(8), 1e8);
    assert_close(call_s(&topology), 3e6 / 1e8);
    let uplink = Uplink::Bandwidth(5e8);
    let tree = FatTree { nodes_per_leaf: 1, uplink, pods: None };
    let topology = Topology { fabric: Fabric::FatTree(tree), ..nodes(2, 2, [LINK; 2], [0.0; 2]) };
    assert_close(call_s(&topology), 3e6 / 5e8);
}

/// A call slows compute like an exchange, from when it begins.
#[test]
fn a_call_slows_compute_beside_it() {
    let slowdown = Slowdown { exchange: 2.0, ..Slowdown::default() };
    let work = Work::Compute { phase: "work", reads: Vec::new(), writes: vec![] };
    let calls = vec![all_gather([SHARD; 4]), Segment::new("work", work)];
    let host = HostCost { compute_slowdown: slowdown, ..host() };
    // Work of 1 ms begins at once; ranks 1 to 3 have it behind them for half a millisecond when rank 0 comes to the call.
    let timeline = simulated([0.5e-3, 0.0, 0.0, 0.0], calls, Protocol::Native, host);
    let ends: Vec<f64> =
        timeline.spans.iter().filter(|span| span.name == "work").map(|span| span.end_s).collect();
    let call_s = FIXED_S + 3e6 / BUS;
    assert!(call_s > 1e-3, "the call outlasts the half that is left at half the speed");
    let expected = [1.5e-3, 1.5e-3, 1.5e-3, 0.5e-3 + call_s + (1e-3 - call_s / 2.0)];
    let mut sorted = ends.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.iter().zip(expected).for_each(|(&got, expected)| assert_close(got, expected));
}
