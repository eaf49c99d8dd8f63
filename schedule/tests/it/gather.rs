//! Plans of All-Gather and broadcast: what each algorithm holds, how it reads, and what of it crosses between nodes.

use std::sync::Arc;

use crate::common::{self, STREAMS, THREADS, choice, collective, exchange_of};
use zipwire_codec::DType;
use zipwire_schedule::machine::{Input, Machine, Step};
use zipwire_schedule::plan::{Batch, Content, Exchange, Local, Op, OpKind, Plan, Program};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Job, OpId, Order, Protocol, Rank, RankRange, SizeId, Stage, plan,
};

const CODED: [Protocol; 2] = [Protocol::SizeFirst, Protocol::StaticFirst];

fn all_gather(bytes: &[u64]) -> Job {
    collective(u32::try_from(bytes.len()).unwrap(), common::all_gather(bytes))
}

fn broadcast(rank_count: u32, bytes: u64, root: u32) -> Job {
    let kind = CallKind::Broadcast { bytes, root: Rank(root), to: RankRange::all(rank_count) };
    collective(rank_count, common::call(DType::Bf16, kind))
}

fn planned(job: &Job, protocol: Protocol, algorithm: Algorithm) -> Plan {
    plan(job, &Choice { algorithm: Some(algorithm), ..choice(protocol, None) })
}

fn protocols(algorithm: Algorithm) -> impl Iterator<Item = Protocol> {
    Protocol::ALL
        .into_iter()
        .filter(move |protocol| protocol.is_coded() || algorithm != Algorithm::PaddedRing)
}

fn exchanges(program: &Program) -> impl Iterator<Item = &Exchange> {
    program.ops.iter().filter_map(|op| op.kind.exchange())
}

#[test]
fn a_ring_reads_as_written() {
    let plan = planned(&all_gather(&[600, 2000, 26]), Protocol::Native, Algorithm::Ring);
    insta::assert_snapshot!(plan.text(Some(Rank(1))), @"
    plan collective, native, 3 ranks
    segment 0 call
    digest e73522746e53e791fd0a5669b0d714d8

    rank 1
      b0 input 2000 bytes
      b1 output 666 bytes
      %0 [0] exchange raw, rotation window 1/1
        to 2: b0[0..2000] of rank 1
        from 0: b1[0..600] of rank 0
      %1 [0] exchange raw, rotation window 1/1, fused, after %0
        to 2: b1[0..600] of rank 0
        from 0: b1[640..666] of rank 2
    ");
    let plan = planned(&all_gather(&[600, 2000, 26]), Protocol::StaticFirst, Algorithm::Ring);
    insta::assert_snapshot!(plan.text(Some(Rank(0))), @"
    plan collective, static-first, 3 ranks, codec window7
    segment 0 call
    digest ddd7d4632b28c9aab508484b8f55189f

    rank 0
      b0 input 600 bytes
      b1 output 2074 bytes
      b2 frames-out-0 820 bytes
      b3 frames-in-0 2536 bytes
      %0 [0] encode split BF16
        to all: values b0[0..600] static b2[0..548] dynamic b2[640..820] s0
      %1 [0] exchange static, rotation window 1/1, after %0
        to 1: b2[0..548] of rank 0
        from 2: b3[0..153] of rank 2
      %2 [0] exchange static, rotation window 1/1, after %1
        to 1: b3[0..153] of rank 2
        from 2: b3[384..1896] of rank 1
      %3 [0] exchange sizes, rotation window 2/2, after %0 %2
        to 1: size s0 of rank 0
        to 2: size s0 of rank 0
        from 2: size s1 of rank 2
        from 1: size s2 of rank 1
      %4 [0] exchange dynamic, rotation window 1/1, after %0 %3
        to 1: s0 bytes of b2[640..820] of rank 0
        from 2: s1 bytes of b3[256..257] of rank 2
      %5 [0] exchange dynamic, rotation window 1/1, after %3 %4
        to 1: s1 bytes of b3[256..257] of rank 2
        from 2: s2 bytes of b3[1920..2536] of rank 1
      %6 [0] decode split BF16, after %1 %2 %3 %4 %5
        from 2: values b1[2048..2074] static b3[0..153] dynamic b3[256..257] s1
        from 1: values b1[0..2000] static b3[384..1896] dynamic b3[1920..2536] s2
    ");
}

#[test]
fn a_padded_ring_reads_as_written() {
    // Rank 1 has nothing, and its padding travels.
    let plan = planned(&all_gather(&[600, 0, 26]), Protocol::SizeFirst, Algorithm::PaddedRing);
    insta::assert_snapshot!(plan.text(Some(Rank(0))), @"
    plan collective, size-first, 3 ranks, codec window7
    segment 0 call
    digest babfbbf4b2723fb12bc665d8833b0c5d

    rank 0
      b0 input 600 bytes
      b1 output 26 bytes
      b2 frames-out-0 638 bytes
      b3 frames-in-0 1278 bytes
      s2 is the largest of s0 s1
      %0 [0] encode compact BF16
        to all: values b0[0..600] dynamic b2[0..638] s0
      %1 [0] exchange sizes, rotation window 2/2, after %0
        to 1: size s0 of rank 0
        to 2: size s0 of rank 0
        from 2: size s1 of rank 2
      %2 [0] exchange dynamic, rotation window 1/1, after %0 %1
        to 1: s2 bytes of b2[0..638] of rank 0
        from 2: s2 bytes of b3[0..638] of rank 2
      %3 [0] exchange dynamic, rotation window 1/1, fused, after %0 %1 %2
        to 1: s2 bytes of b3[0..638] of rank 2
        from 2: s2 bytes of b3[640..1278] of rank 1
      %4 [0] decode compact BF16, after %1 %2
        from 2: values b1[0..26] dynamic b3[0..64] s1
    ");
}

#[test]
fn a_group_reads_as_written() {
    let plan = planned(&all_gather(&[600, 2000, 26]), Protocol::SizeFirst, Algorithm::Direct);
    insta::assert_snapshot!(plan.text(Some(Rank(2))), @"
    plan collective, size-first, 3 ranks, codec window7
    segment 0 call
    digest 768b5935e4e2013c4ec66c8db8e338df

    rank 2
      b0 input 26 bytes
      b1 output 2688 bytes
      b2 frames-out-0 64 bytes
      b3 frames-in-0 2686 bytes
      %0 [0] encode compact BF16
        to all: values b0[0..26] dynamic b2[0..64] s0
      %1 [0] exchange sizes, rotation window 2/2, after %0
        to 0: size s0 of rank 2
        to 1: size s0 of rank 2
        from 1: size s1 of rank 1
        from 0: size s2 of rank 0
      %2 [0] exchange dynamic, rotation window 2/2, after %0 %1
        to 0: s0 bytes of b2[0..64] of rank 2
        to 1: s0 bytes of b2[0..64] of rank 2
        from 1: s1 bytes of b3[0..2038] of rank 1
        from 0: s2 bytes of b3[2048..2686] of rank 0
      %3 [0] decode compact BF16, after %1 %2
        from 1: values b1[640..2640] dynamic b3[0..2038] s1
        from 0: values b1[0..600] dynamic b3[2048..2686] s2
    ");
}

#[test]
fn a_tree_reads_as_written() {
    // Rank 3 is at distance 2 of rank 1: it gets the block in the second round and hands it on to rank 4.
    let plan = planned(&broadcast(5, 600, 1), Protocol::SizeFirst, Algorithm::Tree);
    insta::assert_snapshot!(plan.text(Some(Rank(3))), @"
    plan collective, size-first, 5 ranks, codec window7
    segment 0 call
    digest 66148dff63cd375752a6d22cc79f911d

    rank 3
      b0 input 0 bytes
      b1 output 600 bytes
      b2 frames-out-0 0 bytes
      b3 frames-in-0 638 bytes
      %0 [0] exchange sizes, rotation window 4/4
        from 1: size s0 of rank 1
      %1 [0] exchange dynamic, rotation window 1/1, after %0
        from 1: s0 bytes of b3[0..638] of rank 1
      %2 [0] exchange dynamic, rotation window 1/1, after %0 %1
        to 4: s0 bytes of b3[0..638] of rank 1
      %3 [0] decode compact BF16, after %0 %1
        from 1: values b1[0..600] dynamic b3[0..638] s0
    ");
}

#[test]
fn every_plan_is_valid() {
    let shards: [&[u64]; 6] = [&[512], &[0, 0], &[512, 2], &[2, 0, 40_000], &[0, 0, 0, 6], &[4096; 7]];
    for bytes in shards {
        for &algorithm in Algorithm::OF_ALL_GATHER {
            for protocol in protocols(algorithm) {
                let plan = planned(&all_gather(bytes), protocol, algorithm);
                plan.validate().unwrap_or_else(|error| panic!("{}: {error}", plan.text(None)));
                let delivered = (bytes.len() as u64 - 1) * bytes.iter().sum::<u64>();
                assert_eq!(plan.bytes_raw(), delivered, "each shard counts once for each other rank");
            }
        }
    }
    for (rank_count, bytes) in [(1, 2), (2, 512), (3, 0), (5, 40_000), (8, 2)] {
        for root in 0..rank_count {
            for (&algorithm, protocol) in
                Algorithm::OF_BROADCAST.iter().flat_map(|f| protocols(*f).map(move |p| (f, p)))
            {
                let plan = planned(&broadcast(rank_count, bytes, root), protocol, algorithm);
                plan.validate().unwrap_or_else(|error| panic!("{}: {error}", plan.text(None)));
                assert_eq!(plan.bytes_raw(), u64::from(rank_count - 1) * bytes);
            }
        }
    }
}

/// A frame is made once, where its values come from, and read once wherever they are wanted. In between it moves as it is,
/// out of the memory that it arrived in: nothing is copied, coded again, or kept twice.
#[test]
fn frames_are_coded_once_and_never_copied() {
    let shapes = |plan: &Plan| -> Vec<Vec<String>> {
        let name = |op: &Op| match &op.kind {
            OpKind::Exchange(exchange) => exchange.stage.name().to_owned(),
            kind @ (OpKind::Compute(_) | OpKind::Library(_) | OpKind::Local(_)) => kind.name().to_owned(),
        };
        plan.programs.iter().map(|program| program.ops.iter().map(name).collect()).collect()
    };
    let ring = planned(&all_gather(&[512; 4]), Protocol::StaticFirst, Algorithm::Ring);
    for shape in shapes(&ring) {
        let steps = |stage| [stage; 3];
        let expected =
            [&["encode"][..], &steps("static"), &["sizes"], &steps("dynamic"), &["decode"]].concat();
        assert_eq!(shape, expected);
    }
    let tree = shapes(&planned(&broadcast(4, 512, 0), Protocol::SizeFirst, Algorithm::Tree));
    assert_eq!(tree[0], ["encode", "sizes", "dynamic", "dynamic"]);
    assert_eq!(tree[2], ["sizes", "dynamic", "dynamic", "decode"]);
    assert_eq!(tree[3], ["sizes", "dynamic", "decode"]);
    for &algorithm in Algorithm::OF_ALL_GATHER {
        for protocol in CODED {
            for program in &planned(&all_gather(&[512, 2000, 26, 512]), protocol, algorithm).programs {
                let blocks = |name| -> usize {
                    let batches = program.ops.iter().filter_map(|op| match &op.kind {
                        OpKind::Local(Local::Encode(Batch { blocks, .. }))
                        | OpKind::Local(Local::Decode(Batch { blocks, .. }))
                            if op.kind.name() == name =>
                        {
                            Some(blocks.len())
                        }
                        _ => None,
                    });
                    batches.sum()
                };
                assert_eq!((blocks("encode"), blocks("decode")), (1, 3));
            }
        }
    }
}

/// Bytes that each node sends into the network in one stage, if the frame of each rank has this length.
fn network_bytes(plan: &Plan, gpus_per_node: usize, frames: &[u64]) -> Vec<u64> {
    let mut sent = vec![0; frames.len() / gpus_per_node];
    for program in &plan.programs {
        let node = program.rank.index() / gpus_per_node;
        let frame_of: std::collections::BTreeMap<SizeId, u64> = program
            .ops
            .iter()
            .filter_map(|op| op.kind.batch())
            .flat_map(|batch| &batch.blocks)
            .map(|block| (block.size, frames[block.chunk.origin.index()]))
            .collect();
        for t in exchanges(program).filter(|e| e.stage == Stage::Dynamic).flat_map(|e| &e.sends) {
            let Content::Prefix(_, size) = t.content else { panic!("frames have their own lengths") };
            let bytes = program.operands(&size).iter().map(|size| frame_of[size]).max().unwrap();
            if t.peer.index() / gpus_per_node != node {
                sent[node] += bytes;
            }
        }
    }
    sent
}

/// On two nodes of four ranks, a ring in rank order leaves a node at one place, which every block passes but that of the
/// rank behind it: 7 blocks. Sent straight, each of the 4 blocks of a node leaves it 4 times: 16. So the ring moves
/// fewer bytes between nodes also when it is padded, unless the longest frame is more than 16/7 of the mean.
#[test]
fn a_ring_crosses_between_nodes_less_often_than_a_group() {
    let frames = [700, 650, 720, 690, 710, 100, 705, 695];
    let job = all_gather(&frames.map(|len| 2 * len));
    let network = |algorithm| network_bytes(&planned(&job, Protocol::SizeFirst, algorithm), 4, &frames);
    let (exact, padded, grouped) =
        (network(Algorithm::Ring), network(Algorithm::PaddedRing), network(Algorithm::Direct));
    println!("bytes that leave each of two nodes: exact {exact:?}, padded {padded:?}, grouped {grouped:?}");
    let total: u64 = frames.iter().sum();
    assert_eq!(exact, [total - frames[4], total - frames[0]]);
    assert_eq!(padded, [7 * 720, 7 * 720]);
    assert_eq!(grouped, [4 * frames[..4].iter().sum::<u64>(), 4 * frames[4..].iter().sum::<u64>()]);
    assert!((0..2).all(|node| exact[node] < padded[node] && padded[node] < grouped[node]));
}

#[test]
fn a_padded_exchange_waits_for_the_largest_size() {
    let plan = planned(&all_gather(&[512; 3]), Protocol::SizeFirst, Algorithm::PaddedRing);
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), STREAMS, 0.0);
    let maximum = plan.programs[0].maxima[0].clone();
    assert_eq!(maximum.of.len(), 3, "its own frame and two others");
    assert_eq!([0, 1].map(|_| machine.poll(0.0)), [0, 1].map(|op| Step::Issue(OpId(op))), "encode and sizes");
    assert_eq!(machine.poll(0.0), Step::Wait { until_s: None }, "the host knows no size");
    machine.handle(Input::Completed { op: OpId(0), sizes: vec![(maximum.of[0], 300)] });
    assert_eq!((machine.poll(0.0), machine.size(maximum.size)), (Step::Wait { until_s: None }, None));
    let sizes = vec![(maximum.of[1], 450), (maximum.of[2], 20)];
    machine.handle(Input::Completed { op: OpId(1), sizes });
    assert_eq!(machine.size(maximum.size), Some(450));
    assert_eq!(machine.poll(0.0), Step::Issue(OpId(2)), "the first step of the ring");
}

#[test]
fn libraries_take_rings_and_trees_and_no_order_of_groups_that_overtakes() {
    let machine = |job: &Job, algorithm, order, capabilities| {
        let choice = Choice { algorithm: Some(algorithm), order, ..choice(Protocol::SizeFirst, None) };
        let program = Arc::clone(&plan(job, &choice).programs[0]);
        std::panic::catch_unwind(move || Machine::new(program, capabilities, 0.0)).is_ok()
    };
    let (gather, cast) = (all_gather(&[512; 3]), broadcast(3, 512, 0));
    for order in Order::ALL {
        // What a ring or a tree does next does not depend on the order.
        assert!(
            machine(&gather, Algorithm::PaddedRing, order, STREAMS)
                && machine(&cast, Algorithm::Tree, order, STREAMS)
        );
        for job in [&gather, &cast] {
            assert_eq!(machine(job, Algorithm::Direct, order, STREAMS), !order.reorders(), "{order:?}");
            assert!(machine(job, Algorithm::Direct, order, THREADS));
        }
    }
}

/// Verdict of `validate` on a plan after a change to rank 0 behind the planner's back.
fn tampered(protocol: Protocol, algorithm: Algorithm, change: impl FnOnce(&mut Program)) -> String {
    let mut plan = planned(&all_gather(&[512, 600, 700]), protocol, algorithm);
    change(Arc::make_mut(&mut plan.programs[0]));
    plan.validate().expect_err("the plan is wrong").to_string()
}

fn exchange(program: &mut Program, op: usize) -> &mut Exchange {
    exchange_of(&mut program.ops[op])
}

#[test]
fn broken_maxima_are_found() {
    let padded = |change: fn(&mut Program)| tampered(Protocol::SizeFirst, Algorithm::PaddedRing, change);
    insta::assert_snapshot!(padded(|program| program.maxima[0].of.clear()), @"size `s3` of rank 0 is the largest of sizes that do not precede it, of maxima, or of none");
    insta::assert_snapshot!(padded(|program| program.maxima[0].of[1] = SizeId(3)), @"size `s3` of rank 0 is the largest of sizes that do not precede it, of maxima, or of none");
    insta::assert_snapshot!(padded(|program| program.maxima[0].size = SizeId(9)), @"size `s9` of rank 0 is the largest of sizes that do not precede it, of maxima, or of none");
    insta::assert_snapshot!(padded(|program| program.maxima[0].size = SizeId(2)), @"size `s2` of rank 0 is the largest of sizes that do not precede it, of maxima, or of none");
    insta::assert_snapshot!(padded(|program| program.maxima.clear()), @"op `%2` of rank 0 reads size `s3` before its definition");
    insta::assert_snapshot!(
        padded(|program| {
            program.maxima[0].of.pop();
        }),
        @r"
        the ends of transfer 1 from rank 0 to rank 1 disagree about the frames that its length follows from
        the sender: up to 738 bytes of what rank 0 has for all: dynamic of call
        the receiver: up to 738 bytes of what rank 0 has for all: dynamic of call
        "
    );
    // The size of rank 2 never arrives.
    insta::assert_snapshot!(
        padded(|program| {
            exchange(program, 1).receives.remove(0);
        }),
        @"op `%2` of rank 0 reads size `s3` before its definition"
    );
}

#[test]
fn wrong_forwards_are_found() {
    let native = |change: fn(&mut Program)| tampered(Protocol::Native, Algorithm::Ring, change);
    // In the second step of the ring rank 0 hands on the block of rank 2, which it got in the first.
    insta::assert_snapshot!(
        native(|program| exchange(program, 1).sends[0].chunk.origin = Rank(1)),
        @"exchange `%1` of rank 0 hands on what it has not received as the chunk of rank 1"
    );
    insta::assert_snapshot!(
        native(|program| exchange(program, 1).sends[0].chunk.origin = Rank(0)),
        @r"
        the ends of transfer 1 from rank 0 to rank 1 disagree about its chunk
        the sender: 700 bytes of what rank 0 has for all: raw of call
        the receiver: 700 bytes of what rank 2 has for all: raw of call
        "
    );
    insta::assert_snapshot!(
        native(|program| exchange(program, 1).sends[0].content = exchange(program, 0).sends[0].content),
        @"exchange `%1` of rank 0 hands on what it has not received as the chunk of rank 2"
    );
}

/// A part that is a little shorter than a tile has longer static sections than a whole one: there is room for both.
#[test]
fn padded_parts_of_any_length_have_room() {
    let bytes = [32_660, 33_280, 0, 140, 16_384, 600];
    for protocol in Protocol::ALL.into_iter().filter(|protocol| protocol.is_coded()) {
        for channels in 1..=3 {
            let codec = Some("tiered".parse().unwrap());
            let choice = Choice { codec, channels, ranks_per_node: 3, ..choice(protocol, None) };
            let plan =
                plan(&all_gather(&bytes), &Choice { algorithm: Some(Algorithm::PaddedRing), ..choice });
            plan.validate().unwrap_or_else(|error| panic!("{protocol:?}, {channels} channels: {error}"));
        }
    }
}
