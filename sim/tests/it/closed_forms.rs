//! Whole plans in virtual time against closed forms: simulation.md of the design, ZipCCL Fig. 8, and the cost rules of
//! the protocols.

use std::sync::Arc;

use crate::common::{THREADS, all_to_all, assert_close, call, flat, job, nodes, setup, start};
use ndarray::Array2;
use zipwire_cluster::{CodecCost, Fabric, Graph, GraphLink, HostCost, Topology, TransferStart, Vertex};
use zipwire_schedule::{
    Algorithm, CallKind, Capabilities, Choice, CostModel, Durations, Lane, Order, Plan, Protocol, Rank,
    RankRange, Readiness, Stage, TransferOrder, Work, plan,
};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::{Span, Timeline};

/// One collective after a compute phase that lets ranks start at different times.
struct Case {
    topology: Topology,
    work: Work,
    start_s: Vec<f64>,
    choice: Choice,
    host: HostCost,
    codec: Option<CodecCost>,
    ratio: f64,
    capabilities: Capabilities,
    start: TransferStart,
}

impl Case {
    fn native(topology: Topology, bytes: Array2<u64>) -> Self {
        Self::of(topology, all_to_all(bytes))
    }

    fn of(topology: Topology, work: Work) -> Self {
        let (protocol, order) = (Protocol::Native, Order::Rotation);
        let choice = Choice { order, ..Choice::of(protocol, None) };
        let start_s = vec![0.0; topology.ranks() as usize];
        let (host, capabilities) = (HostCost::default(), THREADS);
        Self {
            topology,
            work,
            start_s,
            choice,
            host,
            codec: None,
            ratio: 1.0,
            capabilities,
            start: TransferStart::Rendezvous,
        }
    }

    fn all_gather(topology: Topology, bytes: Vec<u64>, algorithm: Algorithm) -> Self {
        let case = Self::of(topology, call(CallKind::AllGather { bytes }));
        Self { choice: Choice { algorithm: Some(algorithm), layout: None, ..case.choice }, ..case }
    }

    fn broadcast(topology: Topology, bytes: u64, root: u32, algorithm: Algorithm) -> Self {
        let (root, to) = (Rank(root), RankRange::all(topology.ranks()));
        Self::broadcast_to(topology, bytes, (root, to), algorithm)
    }

    fn broadcast_to(
        topology: Topology,
        bytes: u64,
        (root, to): (Rank, RankRange),
        algorithm: Algorithm,
    ) -> Self {
        let case = Self::of(topology, call(CallKind::Broadcast { bytes, root, to }));
        Self { choice: Choice { algorithm: Some(algorithm), layout: None, ..case.choice }, ..case }
    }

    fn coded(mut self, protocol: Protocol, codec: CodecCost, ratio: f64) -> Self {
        self.choice = Choice { protocol, codec: Some(crate::window7()), ..self.choice };
        (self.codec, self.ratio) = (Some(codec), ratio);
        self
    }

    fn plan(&self) -> Plan {
        let segments = [("start", start()), ("exchange", self.work.clone())];
        plan(&job(self.topology.ranks(), segments), &self.choice)
    }

    fn timeline(&self) -> Timeline {
        let plan = self.plan();
        plan.validate().unwrap();
        let mut durations = Durations::zeros(1, 2, self.topology.ranks());
        for (rank, &seconds) in (0..).zip(&self.start_s) {
            durations.set(0, 0, Rank(rank), seconds);
        }
        let sizes = if self.codec.is_some() { FrameSizes::Ratio(self.ratio) } else { FrameSizes::None };
        let setup = SimSetup {
            costs: CostModel { host: self.host, codec: self.codec },
            sizes,
            capabilities: self.capabilities,
            start: self.start,
            ..setup(&plan, &self.topology, &durations)
        };
        run(&setup, &|| true).unwrap()
    }

    fn seconds(&self) -> f64 {
        self.timeline().iterations[0].length_s
    }
}

fn equal(ranks: usize, bytes: u64) -> Array2<u64> {
    Array2::from_elem((ranks, ranks), bytes)
}

#[test]
fn flat_burst() {
    // a + (N - 1) S / B: every port carries N - 1 equal flows.
    for (ranks, bytes, bandwidth, latency_s) in
        [(2, 1_000_000, 1e9, 5e-6), (16, 1_048_576, 25e9, 5e-6), (9, 10, 1e3, 3.0)]
    {
        let case = Case::native(flat(ranks, bandwidth, latency_s), equal(ranks as usize, bytes));
        assert_close(case.seconds(), latency_s + f64::from(ranks - 1) * bytes as f64 / bandwidth);
    }
}

#[test]
fn shifted_rounds() {
    // (N - 1)(a + S / B): rotation with a window of one is a sequence of perfect rounds.
    for (ranks, bytes, bandwidth, latency_s) in [(2, 1_000_000, 1e9, 5e-6), (16, 1_048_576, 25e9, 5e-6)] {
        let mut case = Case::native(flat(ranks, bandwidth, latency_s), equal(ranks as usize, bytes));
        case.choice.window = Some(1);
        assert_close(case.seconds(), f64::from(ranks - 1) * (latency_s + bytes as f64 / bandwidth));
    }
}

#[test]
fn two_level_burst() {
    // a_inter + 8 (N - 8) S / B_nic: the NIC carries what eight GPUs send to the other nodes.
    let (bytes, gpu, nic, inter_s) = (1_048_576, 50e9, 25e9, 1e-5);
    for node_count in [2, 4] {
        let ranks = 8 * node_count;
        let topology = nodes(node_count, 8, [gpu, nic], [5e-6, inter_s]);
        let case = Case::native(topology, equal(ranks as usize, bytes));
        assert_close(case.seconds(), inter_s + f64::from(8 * (ranks - 8)) * bytes as f64 / nic);
    }
}

#[test]
fn all_gather_around_a_ring() {
    // (N - 1)(a + S / B): every link is busy in every step.
    for (ranks, bytes, bandwidth, latency_s) in [(2, 1_000_000, 1e9, 5e-6), (7, 1_048_576, 25e9, 5e-6)] {
        let topology = flat(ranks, bandwidth, latency_s);
        let case = Case::all_gather(topology, vec![bytes; ranks as usize], Algorithm::Ring);
        assert_close(case.seconds(), f64::from(ranks - 1) * (latency_s + bytes as f64 / bandwidth));
    }
}

#[test]
fn all_gather_all_at_once() {
    // a + (N - 1) S / B on one node; on several, a NIC carries the shards of its GPUs once for each rank elsewhere.
    let (bytes, latency_s) = (1_048_576, 5e-6);
    let case = Case::all_gather(flat(7, 25e9, latency_s), vec![bytes; 7], Algorithm::Direct);
    assert_close(case.seconds(), latency_s + 6.0 * bytes as f64 / 25e9);
    let topology = nodes(2, 4, [50e9, 25e9], [latency_s, 2.0 * latency_s]);
    let case = Case::all_gather(topology, vec![bytes; 8], Algorithm::Direct);
    assert_close(case.seconds(), 2.0 * latency_s + f64::from(4 * 4) * bytes as f64 / 25e9);
}

#[test]
fn broadcast_along_a_binomial_tree() {
    // ceil(log2 N)(a + S / B), from any root.
    let (bytes, bandwidth, latency_s) = (1_048_576, 25e9, 5e-6);
    for (ranks, root, rounds) in [(2, 1, 1.0), (3, 0, 2.0), (5, 4, 3.0), (8, 3, 3.0), (9, 0, 4.0)] {
        let case = Case::broadcast(flat(ranks, bandwidth, latency_s), bytes, root, Algorithm::Tree);
        assert_close(case.seconds(), rounds * (latency_s + bytes as f64 / bandwidth));
        let case = Case::broadcast(flat(ranks, bandwidth, latency_s), bytes, root, Algorithm::Direct);
        assert_close(case.seconds(), latency_s + f64::from(ranks - 1) * bytes as f64 / bandwidth);
    }
}

#[test]
fn a_tree_enters_each_node_once() {
    // The first round crosses to the other node, all later ones stay inside.
    let (bytes, gpu, nic, intra_s, inter_s) = (1_048_576, 50e9, 10e9, 5e-6, 1e-5);
    let case = Case::broadcast(nodes(2, 4, [gpu, nic], [intra_s, inter_s]), bytes, 0, Algorithm::Tree);
    assert_close(case.seconds(), inter_s + bytes as f64 / nic + 2.0 * (intra_s + bytes as f64 / gpu));
}

/// ZipCCL Fig. 8: four GPUs on unit links; pairs with GPU 1 carry x, all others 2x.
fn figure_8(x: u64, late_s: f64, all_wait: bool) -> Case {
    let bytes = Array2::from_shape_fn((4, 4), |(src, dst)| if src == 1 || dst == 1 { x } else { 2 * x });
    let mut case = Case::native(flat(4, 1.0, 0.0), bytes);
    case.start_s = (0..4).map(|rank| if rank == 1 || all_wait { late_s } else { 0.0 }).collect();
    case
}

#[test]
fn figure_8_of_zipccl() {
    let x = 1000;
    let x_s = x as f64;
    assert_close(figure_8(x, 0.0, false).seconds(), 5.0 * x_s);
    for late in [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 10.0] {
        let late_s = late * x_s;
        assert_close(figure_8(x, late_s, false).seconds(), f64::max(5.0 * x_s, late_s + 3.0 * x_s));
        assert_close(figure_8(x, late_s, true).seconds(), late_s + 5.0 * x_s);
    }
}

/// When the first byte leaves anybody.
fn first_send_s(case: &Case) -> f64 {
    let sends = case.timeline().spans.into_iter().filter(|span| span.lane == Lane::Tx);
    sends.map(|span| span.begin_s).fold(f64::INFINITY, f64::min)
}

#[test]
fn figure_8_with_a_barrier() {
    // L + 5x: nobody uses the time in which the late GPU is missing.
    let x = 1000;
    for late in [0.0, 0.5, 2.0, 3.0, 10.0] {
        let late_s = late * x as f64;
        let mut case = figure_8(x, late_s, false);
        case.start = TransferStart::Barrier;
        assert_close(case.seconds(), late_s + 5.0 * x as f64);
        // Ranks are there although a window holds their transfers back.
        case.choice.window = Some(1);
        assert_eq!(first_send_s(&case), late_s);
    }
}

#[test]
fn with_a_barrier_static_sections_gain_nothing() {
    // As if everybody were late: nothing moves before the late rank has encoded. It encodes less than the others.
    let (late_s, x) = (0.004, 1_000_000_u32);
    let seconds = |all_wait: bool, start| {
        let case = figure_8(x.into(), late_s, all_wait).coded(Protocol::StaticFirst, CODEC, 1.25);
        Case { topology: flat(4, 1e9, 5e-6), start, ..case }.seconds()
    };
    let all_late_s = seconds(true, TransferStart::Rendezvous);
    let encode_s = |sent| f64::from(sent * x) / CODEC.encode_bytes_per_s;
    assert_close(seconds(false, TransferStart::Barrier), all_late_s - encode_s(5) + encode_s(3));
    assert!(seconds(false, TransferStart::Rendezvous) < 0.9 * all_late_s);
}

#[test]
fn a_ring_waits_for_all_before_its_first_step_only() {
    let shards = vec![500_000, 1_000_000, 0, 250_000, 700_000];
    let mut case = Case::all_gather(flat(5, 1e9, 5e-6), shards, Algorithm::Ring);
    let without = case.timeline();
    case.start = TransferStart::Barrier;
    assert_eq!(case.timeline().spans, without.spans, "where nobody is late nobody waits");
    case.start_s[3] = 0.1;
    assert_eq!(first_send_s(&case), 0.1);
}

/// Four GPUs whose transfers all cross one link, of unit bandwidth.
fn bus() -> Topology {
    let (merge, split) = (Vertex::Switch(0), Vertex::Switch(1));
    let link = |src, dst, bandwidth| GraphLink { src, dst, bandwidth, latency_s: 0.0 };
    let gpus = (0..4).map(|rank| Vertex::Gpu(Rank(rank)));
    let ways = gpus.flat_map(|gpu| [link(gpu, merge, 100.0), link(split, gpu, 100.0)]);
    let links = ways.chain([link(merge, split, 1.0)]).collect();
    let graph = Graph::new(4, vec!["merge".to_owned(), "split".to_owned()], links).unwrap();
    Topology { fabric: Fabric::Graph(Arc::new(graph)), ..flat(4, 1.0, 0.0) }
}

/// x per pair makes 12x on the bus. While a GPU is late the six pairs of the others keep it busy for 6x: being late by as
/// much costs nothing.
#[test]
fn a_shared_bus_hides_a_late_gpu() {
    let x = 1000;
    for late in [0.0, 0.5, 3.0, 6.0, 6.5, 20.0] {
        let mut case = Case::native(bus(), equal(4, x));
        case.start_s[1] = late * x as f64;
        assert_close(case.seconds(), f64::max(12.0, late + 6.0) * x as f64);
    }
}

const CODEC: CodecCost = CodecCost { encode_bytes_per_s: 2e9, decode_bytes_per_s: 4e9, launch_s: 3e-6 };

#[test]
fn size_first_adds_codec_sizes_and_synchronisation() {
    let (ranks, bytes, bandwidth, latency_s) = (4_u32, 1_000_000_u64, 1e9, 5e-6);
    let mut case = Case::native(flat(ranks, bandwidth, latency_s), equal(4, bytes)).coded(
        Protocol::SizeFirst,
        CODEC,
        1.25,
    );
    case.host = HostCost { launch_s: 2e-6, sync_s: 60e-6, ..HostCost::default() };
    let raw = 3.0 * bytes as f64;
    let codec_s = 2.0 * CODEC.launch_s + raw / CODEC.encode_bytes_per_s + raw / CODEC.decode_bytes_per_s;
    let sizes_s = 2e-6 + latency_s + 3.0 * 8.0 / bandwidth + 60e-6;
    let data_s = 2e-6 + latency_s + raw / 1.25 / bandwidth;
    // The start phase launches too.
    assert_close(case.seconds(), 2e-6 + codec_s + sizes_s + data_s);
}

/// Encode, size exchange and decode of a call that decodes `decoded` bytes where most are decoded.
fn coding_s(encoded: u64, decoded: u64, peers: u32, bandwidth: f64, latency_s: f64) -> f64 {
    let sizes_s = latency_s + f64::from(8 * peers) / bandwidth;
    let (encode_s, decode_s) =
        (encoded as f64 / CODEC.encode_bytes_per_s, decoded as f64 / CODEC.decode_bytes_per_s);
    2.0 * CODEC.launch_s + encode_s + sizes_s + decode_s
}

#[test]
fn a_zipped_all_gather_encodes_once_and_decodes_what_it_lacks() {
    let (ranks, bytes, bandwidth, latency_s) = (5_u32, 1_000_000_u64, 1e9, 5e-6);
    let topology = flat(ranks, bandwidth, latency_s);
    let case = Case::all_gather(topology, vec![bytes; 5], Algorithm::Ring);
    let seconds = case.coded(Protocol::SizeFirst, CODEC, 1.25).seconds();
    let ring_s = 4.0 * (latency_s + bytes as f64 / 1.25 / bandwidth);
    assert_close(seconds, coding_s(bytes, 4 * bytes, 4, bandwidth, latency_s) + ring_s);
}

#[test]
fn a_padded_ring_moves_the_largest_frame_in_every_step() {
    let (bandwidth, latency_s) = (1e9, 5e-6);
    let shards = vec![500_000, 1_000_000, 0, 250_000];
    let largest = 1_000_000.0 / 1.25;
    let case = |algorithm| {
        let case = Case::all_gather(flat(4, bandwidth, latency_s), shards.clone(), algorithm);
        case.coded(Protocol::SizeFirst, CODEC, 1.25)
    };
    // Rank 1 encodes longest; ranks 0, 1 and 3 announce a size to three ranks each; rank 2 decodes most.
    let ring_s = 3.0 * (latency_s + largest / bandwidth);
    let seconds = case(Algorithm::PaddedRing).seconds();
    assert_close(seconds, coding_s(1_000_000, 1_750_000, 3, bandwidth, latency_s) + ring_s);
    let wire = |algorithm| -> u64 {
        let is_frame = |span: &&Span| span.lane == Lane::Tx && span.stage == Some(Stage::Dynamic);
        case(algorithm).timeline().spans.iter().filter(is_frame).map(|span| span.bytes).sum()
    };
    assert_eq!(wire(Algorithm::PaddedRing), 4 * 3 * 800_000, "also for the rank that has nothing");
    assert_eq!(wire(Algorithm::Ring), 3 * 1_400_000, "three steps of three frames each");
    assert_eq!(wire(Algorithm::Direct), wire(Algorithm::Ring), "the same bytes on other links");
}

#[test]
fn a_zipped_broadcast_encodes_and_decodes_once() {
    let (bytes, bandwidth, latency_s) = (1_000_000, 1e9, 5e-6);
    for protocol in [Protocol::SizeFirst, Protocol::StaticFirst] {
        let case = Case::broadcast(flat(6, bandwidth, latency_s), bytes, 4, Algorithm::Tree);
        let timeline = case.coded(protocol, CODEC, 1.25).timeline();
        let codec = |name| timeline.spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        assert_eq!(codec("encode").iter().map(|span| span.rank).collect::<Vec<_>>(), [Rank(4)]);
        assert_eq!(codec("decode").len(), 5, "on every other rank");
        if protocol == Protocol::SizeFirst {
            let tree_s = 3.0 * (latency_s + bytes as f64 / 1.25 / bandwidth);
            let seconds = timeline.iterations[0].length_s;
            assert_close(seconds, coding_s(bytes, bytes, 5, bandwidth, latency_s) + tree_s);
        }
    }
}

/// Nothing reaches a late rank before it is there, and so nothing goes through it.
#[test]
fn a_late_rank_hands_on_late() {
    for protocol in [Protocol::Native, Protocol::SizeFirst, Protocol::StaticFirst] {
        // Rank 2 hands on to rank 3.
        let mut case = Case::broadcast(flat(4, 1e9, 0.0), 1_000_000, 0, Algorithm::Tree);
        case.start_s[2] = 1.0;
        let timeline = case.coded(protocol, CODEC, 1.25).timeline();
        let late = timeline.spans.iter().filter(|span| span.rank == Rank(2) && span.lane != Lane::Compute);
        assert!(late.clone().count() > 0 && late.clone().all(|span| span.begin_s >= 1.0), "{protocol:?}");
    }
}

#[test]
fn static_first_moves_the_static_part_while_others_are_late() {
    let (x, late_s) = (1 << 20, 10e-3);
    let case = |protocol| {
        let late = figure_8(x, late_s, false);
        Case { topology: flat(4, 1e9, 0.0), ..late }.coded(protocol, CODEC, 1.3)
    };
    let (first, second) = (case(Protocol::SizeFirst), case(Protocol::StaticFirst));
    let moved = |timeline: &Timeline, stage| -> u64 {
        let before = |span: &&Span| span.lane == Lane::Tx && span.stage == Some(stage) && span.end_s < late_s;
        timeline.spans.iter().filter(before).map(|span| span.bytes).sum()
    };
    // Six transfers of 2x among the three early ranks, 11 bits of 16 each, and at most 1 % of front matter.
    let early = moved(&second.timeline(), Stage::Static) as f64;
    let planes = (6 * 2 * x) as f64 * 11.0 / 16.0;
    assert!((planes..planes * 1.01).contains(&early), "{early} bytes moved early, planes hold {planes}");
    assert_eq!(moved(&first.timeline(), Stage::Dynamic), 0, "frames wait for every size");
    // Fig. 8: the late rank has 3x left to move where all ranks together have 5x; of that, 2x of static sections is saved.
    let saved_s = first.seconds() - second.seconds();
    let planes_s = (2 * x) as f64 * 11.0 / 16.0 / 1e9;
    assert!((planes_s..planes_s * 1.01).contains(&saved_s), "saved {saved_s} s, planes take {planes_s} s");
}

#[test]
fn device_order_costs_the_same_time_without_host_costs() {
    let streams =
        Capabilities { readiness: Readiness::Issued, transfer_order: TransferOrder::Library, timed: true };
    for protocol in [Protocol::SizeFirst, Protocol::StaticFirst] {
        let bytes = Array2::from_shape_fn((6, 6), |(src, dst)| 1000 * (1 + (7 * src + 3 * dst) as u64 % 5));
        let topology = || nodes(2, 3, [2e9, 1e9], [1e-6, 2e-6]);
        let shards = vec![9000, 0, 2, 70_000, 4000, 9000];
        for case in [
            Case::native(topology(), bytes),
            Case::all_gather(topology(), shards.clone(), Algorithm::PaddedRing),
            Case::all_gather(topology(), shards, Algorithm::Direct),
            Case::broadcast(topology(), 70_000, 4, Algorithm::Tree),
        ] {
            let mut case = case.coded(protocol, CODEC, 1.3);
            case.start_s = (0..6).map(|rank| f64::from(rank) * 1e-6).collect();
            let threads_s = case.seconds();
            case.capabilities = streams;
            assert_close(case.seconds(), threads_s);
        }
    }
}

#[test]
fn a_rank_with_nothing_to_do_ends_at_once() {
    let mut bytes = equal(3, 0);
    bytes[[0, 1]] = 1000;
    let case = Case::native(flat(3, 1e3, 0.5), bytes);
    let timeline = case.timeline();
    assert_close(timeline.iterations[0].length_s, 1.5);
    assert!(timeline.spans.iter().all(|span| span.rank != Rank(2) || span.lane == Lane::Compute));
}

#[test]
fn a_rank_that_receives_no_sizes_waits_for_none() {
    // Rank 0 sends to rank 1, which sends nothing: only rank 1 receives a size.
    let mut bytes = equal(2, 0);
    bytes[[0, 1]] = 1_000_000;
    let mut case = Case::native(flat(2, 1e9, 0.0), bytes).coded(Protocol::SizeFirst, CODEC, 1.25);
    case.host.sync_s = 1.0;
    let timeline = case.timeline();
    let sizes_end = |rank| {
        let is_sizes =
            |s: &&Span| s.rank == Rank(rank) && s.lane == Lane::Exchange && s.stage == Some(Stage::Sizes);
        timeline.spans.iter().find(is_sizes).map(|span| span.end_s).unwrap()
    };
    assert!(sizes_end(0) < 0.1 && sizes_end(1) > 1.0, "{} {}", sizes_end(0), sizes_end(1));
}

#[test]
fn the_same_setup_gives_the_same_timeline() {
    let bytes = Array2::from_shape_fn((6, 6), |(src, dst)| 1000 * (1 + (5 * src + 3 * dst) as u64 % 7));
    let case =
        Case::native(nodes(2, 3, [2e9, 1e9], [1e-6, 2e-6]), bytes).coded(Protocol::StaticFirst, CODEC, 1.3);
    assert_eq!(case.timeline(), case.timeline());
}
