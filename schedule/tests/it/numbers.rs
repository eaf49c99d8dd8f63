//! Numbers of transfers: dense for each pair of ranks, equal at both ends, and what plans that break this are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{choice, flow, layer, native_transfers, uniform};
use ndarray::Array2;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_schedule::plan::{Chunk, Content, Exchange, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Flow, Job, Order, Pace, PlanError, Protocol, Rank, RankRange, Segment,
    Selection, Slot, Stage, SumType, TokenMap, Work, plan, plan_each,
};

/// Description of a transfer by one of its ends.
type Said = (u32, &'static str, Chunk, &'static str);

/// Descriptions by both ends of each pair of ranks, by number.
#[derive(Default)]
struct Pair {
    sends: BTreeMap<u32, Said>,
    receives: BTreeMap<u32, Said>,
}

/// Walks all programs, and finds the ends of a transfer by sender, receiver and number alone.
fn check(plan: &Plan) {
    let mut pairs: BTreeMap<(Rank, Rank), Pair> = BTreeMap::new();
    let mut largest = None;
    for program in &plan.programs {
        for op in &program.ops {
            let Some(exchange) = op.kind.exchange() else { continue };
            let mut add = |src, dst, is_send: bool, number, chunk, content: &Content| {
                let pair = pairs.entry((src, dst)).or_default();
                let end = if is_send { &mut pair.sends } else { &mut pair.receives };
                let said = (op.segment.0, exchange.stage.name(), chunk, kind(content));
                assert_eq!(end.insert(number, said), None, "number {number} from {src} to {dst} comes twice");
                largest = largest.max(Some(number));
            };
            for t in &exchange.sends {
                add(program.rank, t.peer, true, t.number, t.chunk, &t.content);
            }
            for t in &exchange.receives {
                add(t.peer, program.rank, false, t.number, t.chunk, &t.content);
            }
        }
    }
    for ((src, dst), Pair { sends, receives }) in &pairs {
        assert_eq!(sends, receives, "from {src} to {dst}: {}", plan.text(None));
        assert!(sends.keys().copied().eq(0..u32::try_from(sends.len()).unwrap()), "{:?}", sends.keys());
    }
    assert_eq!(plan.transfer_numbers(), largest.map_or(0, |largest| largest + 1));
    plan.validate().unwrap_or_else(|error| panic!("{error}: {}", plan.text(None)));
}

fn kind(content: &Content) -> &'static str {
    match content {
        Content::Values(_) => "values",
        Content::Whole(_) => "whole",
        Content::Prefix(..) => "prefix",
        Content::Size(_) => "size",
        Content::Announced(..) => "announced",
        Content::Overflow { .. } => "overflow",
    }
}

/// Bytes of BF16 values, now and then none.
fn bytes(random: &mut ChaCha8Rng) -> u64 {
    if random.random_bool(0.2) { 0 } else { 2 * random.random_range(1..3000) }
}

const ROW_BYTES: u64 = 128;

fn random_work(random: &mut ChaCha8Rng, ranks: u32) -> Work {
    let (dtype, input, output) = (DType::Bf16, Slot(0), Slot(1));
    let of_each = |random: &mut ChaCha8Rng| (0..ranks).map(|_| bytes(random)).collect::<Vec<_>>();
    let call = |kind| Work::of_call(dtype, [input, output], kind);
    match random.random_range(0..7) {
        0 => {
            let n = ranks as usize;
            let bytes = Array2::from_shape_fn((n, n), |_| bytes(random));
            call(CallKind::AllToAll { bytes: bytes.into(), tokens: None })
        }
        1 => {
            let copies = 3;
            let destinations = (0..ranks * 10 * copies).map(|_| random.random_range(0..ranks)).collect();
            let tokens = TokenMap::new(ranks, copies, ROW_BYTES, destinations);
            call(CallKind::AllToAll { bytes: tokens.bytes().into(), tokens: Some(Arc::new(tokens)) })
        }
        2 => call(CallKind::AllGather { bytes: of_each(random) }),
        3 => {
            let root = Rank(random.random_range(0..ranks));
            let begin = random.random_range(0..ranks);
            let some = RankRange { begin: Rank(begin), end: Rank(random.random_range(begin + 1..=ranks)) };
            let to = if random.random() { RankRange::all(ranks) } else { some };
            call(CallKind::Broadcast { bytes: bytes(random), root, to })
        }
        4 => call(CallKind::ReduceScatter { bytes: of_each(random) }),
        5 => call(CallKind::AllReduce { bytes: bytes(random) }),
        _ => {
            let flow = |random: &mut ChaCha8Rng| {
                let src = random.random_range(0..ranks);
                let dst = (src + random.random_range(1..ranks)) % ranks;
                let not_before_s = f64::from(random.random_range(0..3));
                Flow { src: Rank(src), dst: Rank(dst), bytes: bytes(random), not_before_s }
            };
            let flows = (0..random.random_range(0..40)).map(|_| flow(random)).collect();
            // Steps of sends and receives may make ranks wait in a circle; the test of their own has some that do not.
            let pace = *[Pace::Burst, Pace::Chain].choose(random).unwrap();
            Work::Transfers { dtype: DType::Bf16, flows, pace, input, output }
        }
    }
}

fn random_choice(random: &mut ChaCha8Rng, work: &Work, ranks: u32) -> Choice {
    let divisors: Vec<u32> = (1..=ranks).filter(|n| ranks.is_multiple_of(*n)).collect();
    let ranks_per_node = *divisors.choose(random).unwrap();
    let protocol = *Protocol::ALL.choose(random).unwrap();
    let is_reduction = matches!(
        work,
        Work::Call { kind: CallKind::ReduceScatter { .. }, .. }
            | Work::Call { kind: CallKind::AllReduce { .. }, .. }
    );
    let can_be = |algorithm: &&Algorithm| match protocol.is_coded() {
        true => algorithm.takes_frames(is_reduction),
        false => **algorithm != Algorithm::PaddedRing,
    };
    let algorithms: Vec<&Algorithm> = work.algorithms().iter().filter(can_be).collect();
    Choice {
        algorithm: algorithms.choose(random).map(|algorithm| **algorithm),
        order: *Order::ALL.choose(random).unwrap(),
        selection: Selection {
            least_bytes: *[0, 2000].choose(random).unwrap(),
            ranks_per_node: random.random_bool(0.3).then_some(ranks_per_node),
        },
        parts: *[1, 2, 5].choose(random).unwrap(),
        ranks_per_node,
        channels: random.random_range(1..4),
        slices: random.random_range(1..4),
        sums: *SumType::ALL.choose(random).unwrap(),
        dedup: random.random_bool(0.7).then_some(ranks_per_node),
        ..choice(protocol, *[None, Some(1), Some(3)].choose(random).unwrap())
    }
}

/// Several segments, each with a collective, algorithm, protocol, order, selection and number of parts of its own, some in the
/// background.
#[test]
fn numbers_are_dense_for_each_pair_and_equal_at_both_ends() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let mut seen: BTreeMap<(&'static str, Option<&'static str>), u32> = BTreeMap::new();
    for _ in 0..400 {
        let ranks = random.random_range(2..=6);
        let count = random.random_range(1..=4);
        let works: Vec<Work> = (0..count).map(|_| random_work(&mut random, ranks)).collect();
        let choices: Vec<Choice> = works.iter().map(|work| random_choice(&mut random, work, ranks)).collect();
        let name = |algorithm: Algorithm| algorithm.name();
        choices.iter().for_each(|choice| {
            *seen.entry((choice.protocol.name(), choice.algorithm.map(name))).or_default() += 1;
        });
        let segments = works.into_iter().enumerate().map(|(index, work)| {
            let is_background = random.random_bool(0.3) && !matches!(work, Work::Transfers { .. });
            let segment = Segment::new(format!("call {index}"), work);
            if is_background { segment.in_background() } else { segment }
        });
        let segments: Vec<Segment> = segments.collect();
        let job = Job { name: "random", rank_count: ranks, slots: vec!["input", "output"], segments };
        check(&plan_each(&job, &choices.iter().collect::<Vec<_>>()));
    }
    let algorithms = Algorithm::ALL
        .into_iter()
        .filter(|algorithm| !seen.keys().any(|(_, seen)| *seen == Some(algorithm.name())));
    assert_eq!(algorithms.collect::<Vec<_>>(), []);
}

/// The sender of a chain lists flows as given, the receiver by their start.
#[test]
fn flows_are_numbered_as_given_in_whatever_order_their_ends_list_them() {
    let flows = vec![flow(0, 1, 10, 2.0), flow(0, 2, 10, 0.0), flow(0, 1, 0, 0.0), flow(0, 1, 10, 0.0)];
    for pace in [Pace::Burst, Pace::Chain, Pace::SendReceive] {
        let plan = native_transfers(3, &flows, pace);
        check(&plan);
        let to_1 = plan.programs[0].ops.iter().filter_map(|op| op.kind.exchange());
        let mut numbers: Vec<_> =
            to_1.flat_map(|exchange| &exchange.sends).filter(|t| t.peer == Rank(1)).collect();
        numbers.sort_unstable_by_key(|t| t.number);
        let flows: Vec<_> = numbers.iter().map(|t| (t.number, t.chunk.flow)).collect();
        assert_eq!(flows, [(0, 0), (1, 3)], "{pace:?}");
    }
}

/// Numbers count the transfers of a pair, whatever these are: 65 536 flows are no second part of a call.
#[test]
fn plans_with_more_transfers_than_tags_are_refused_with_their_number() {
    let of = |count: usize| {
        let rest = [flow(1, 2, 8, 0.0), flow(1, 2, 8, 0.0)];
        let flows: Vec<Flow> = std::iter::repeat_n(flow(0, 1, 8, 0.0), count).chain(rest).collect();
        native_transfers(3, &flows, Pace::Burst)
    };
    assert_eq!(of(0).transfer_numbers(), 2);
    assert_eq!(of(32_768).check_tags(Plan::MPI_TAG_LIMIT), Ok(()));
    let many = of(70_000);
    assert_eq!(many.transfer_numbers(), 70_000);
    assert_eq!(many.check_tags(69_999), Ok(()));
    let error = many.check_tags(Plan::MPI_TAG_LIMIT).unwrap_err();
    insta::assert_snapshot!(error, @r"
    rank 0 sends 70000 messages to rank 1 in one iteration, and this executor has the tags 0 to 32767 to tell them apart
    help: cut calls into fewer chunks, or plan fewer layers or flows per iteration
    ");
    let one_too_many =
        PlanError::TooManyTransfers { src: Rank(0), dst: Rank(1), count: 32_769, largest: 32_767 };
    assert_eq!(of(32_769).check_tags(Plan::MPI_TAG_LIMIT), Err(one_too_many));
    assert_eq!(native_transfers(3, &[], Pace::Burst).check_tags(0), Ok(()));
}

/// The plan of four ranks with one exchange of rank 1 changed.
fn tampered(change: impl FnOnce(&mut Exchange)) -> String {
    let mut plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::Native, None));
    let ops = &mut Arc::make_mut(&mut plan.programs[1]).ops;
    let OpKind::Exchange(exchange) = &mut ops.last_mut().unwrap().kind else { panic!("it ends with one") };
    change(exchange);
    plan.validate().unwrap_err().to_string()
}

#[test]
fn ends_that_disagree_are_told_what_about() {
    let renumbered = tampered(|exchange| exchange.sends[0].number += 1);
    insta::assert_snapshot!(renumbered, @"exchange `%2` of rank 1 has a transfer with peer 2 as number 2, and its place in the program makes it number 1");
    let twice = tampered(|exchange| exchange.sends[1] = exchange.sends[0]);
    insta::assert_snapshot!(twice, @"exchange `%2` of rank 1 lists the same chunk twice for peer 2");
    let other_stage = tampered(|exchange| exchange.stage = Stage::Forward);
    insta::assert_snapshot!(other_stage, @r"
    the ends of transfer 1 from rank 0 to rank 1 disagree about its stage
    the sender: 2048 bytes of what rank 0 has for rank 1: raw of combine
    the receiver: 2048 bytes of what rank 0 has for rank 1: forward of combine
    ");
    let other_chunk = tampered(|exchange| exchange.receives[0].chunk.part = 1);
    insta::assert_snapshot!(other_chunk, @r"
    the ends of transfer 1 from rank 0 to rank 1 disagree about its chunk
    the sender: 2048 bytes of what rank 0 has for rank 1: raw of combine
    the receiver: 2048 bytes of what rank 0 has for rank 1, part 1: raw of combine
    ");
    let shorter = tampered(|exchange| {
        let Content::Values(region) = &mut exchange.receives[0].content else {
            panic!("native plans move values")
        };
        region.len -= 2;
    });
    insta::assert_snapshot!(shorter, @r"
    the ends of transfer 1 from rank 0 to rank 1 disagree about its capacity
    the sender: 2048 bytes of what rank 0 has for rank 1: raw of combine
    the receiver: 2046 bytes of what rank 0 has for rank 1: raw of combine
    ");
    // One send fewer: the numbers of the others stay right.
    let missing = tampered(|exchange| {
        exchange.sends.pop();
    });
    insta::assert_snapshot!(missing, @"transfer 1 from rank 1 to rank 0, raw of segment 2: 0 sends and 1 receives, expected one each");
}
