//! Plans in which a token crosses the network once for each node: who gets what, and that nothing blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{choice, layer, uniform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_schedule::plan::{Content, Exchange, Leg, Local, OpKind, Plan};
use zipwire_schedule::{CallKind, Choice, Job, Order, PlanError, Protocol, Stage, TokenMap, Work, plan};

const ROW_BYTES: u64 = 1000;

/// Destinations of `tokens` tokens of each rank, `copies` each, drawn with repetition: by source rank and token.
fn destinations(ranks: u32, tokens: u32, copies: u32, seed: u64) -> Vec<Vec<Vec<u32>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut token = |_| (0..copies).map(|_| rng.next_u32() % ranks).collect::<Vec<u32>>();
    (0..ranks).map(|_| (0..tokens).map(&mut token).collect()).collect()
}

/// A layer whose dispatch knows its tokens.
fn job(destinations: &[Vec<Vec<u32>>]) -> Job {
    let ranks = u32::try_from(destinations.len()).unwrap();
    let copies = u32::try_from(destinations[0][0].len()).unwrap();
    let flat = destinations.iter().flatten().flatten().copied().collect();
    let map = TokenMap::new(ranks, copies, ROW_BYTES, flat);
    let mut job = layer(map.bytes());
    let Work::Call { kind: CallKind::AllToAll { tokens, .. }, .. } = &mut job.segments[0].work else {
        panic!("dispatch comes first")
    };
    *tokens = Some(Arc::new(map));
    job
}

fn dedup(protocol: Protocol, ranks_per_node: u32, parts: u32) -> Choice {
    Choice { dedup: Some(ranks_per_node), parts, ..choice(protocol, None) }
}

fn exchanges(plan: &Plan) -> impl Iterator<Item = (u32, &Exchange)> {
    let ops = plan.programs.iter().flat_map(|program| program.ops.iter().map(|op| (program.rank.0, op)));
    ops.filter(|(_, op)| op.segment.0 == 0).filter_map(|(rank, op)| match &op.kind {
        OpKind::Exchange(exchange) => Some((rank, exchange)),
        _ => None,
    })
}

#[test]
fn every_plan_is_valid_and_delivers_as_much_as_the_plain_one() {
    for (ranks, ranks_per_node, tokens, copies) in
        [(6, 3, 20, 4), (8, 2, 7, 3), (4, 4, 5, 2), (4, 1, 9, 4), (6, 2, 1, 1)]
    {
        let job = job(&destinations(ranks, tokens, copies, u64::from(tokens)));
        let plain = plan(&job, &choice(Protocol::Native, None)).bytes_raw();
        for (protocol, parts) in Protocol::ALL.into_iter().flat_map(|p| [1, 3, 40].map(|parts| (p, parts))) {
            for (order, window) in
                Order::ALL.into_iter().flat_map(|o| [None, Some(1), Some(2)].map(|w| (o, w)))
            {
                let chosen = Choice { order, window, ..dedup(protocol, ranks_per_node, parts) };
                let plan = plan(&job, &chosen);
                let name = format!("{} {} {window:?} {parts}", protocol.name(), order.name());
                plan.validate().unwrap_or_else(|error| panic!("{name}: {error}\n{}", plan.text(None)));
                assert_eq!(plan.bytes_raw(), plain, "{name}");
            }
        }
    }
}

/// The oracle counts sets of (token, node).
#[test]
fn a_token_crosses_once_for_each_node_that_wants_it() {
    let (ranks, ranks_per_node) = (12, 4);
    let destinations = destinations(ranks, 50, 6, 3);
    let job = job(&destinations);
    let node = |rank: u32| rank / ranks_per_node;
    let mut wanted = 0;
    for (src, tokens) in (0..).zip(&destinations) {
        for token in tokens {
            let nodes: BTreeSet<u32> = token.iter().map(|&rank| node(rank)).collect();
            wanted += nodes.into_iter().filter(|&other| other != node(src)).count() as u64;
        }
    }
    for parts in [1, 4] {
        let plan = plan(&job, &dedup(Protocol::Native, ranks_per_node, parts));
        let mut crossing = 0;
        for (rank, exchange) in exchanges(&plan) {
            for t in exchange.sends.iter().filter(|t| node(t.peer.0) != node(rank)) {
                assert_eq!(t.peer.0 % ranks_per_node, rank % ranks_per_node, "on its own rail");
                assert_eq!(t.chunk.leg, Leg::ToGateway { ranks_per_node });
                crossing += t.content.region().unwrap().len;
            }
        }
        assert_eq!(crossing, wanted * ROW_BYTES);
    }
}

#[test]
fn what_is_handed_on_is_raw_and_stays_in_the_node() {
    let job = job(&destinations(8, 30, 4, 1));
    let plan = plan(&job, &dedup(Protocol::StaticFirst, 4, 2));
    let forwards: Vec<_> = exchanges(&plan).filter(|(_, e)| e.stage == Stage::Forward).collect();
    assert!(!forwards.is_empty());
    for (rank, exchange) in forwards {
        for t in exchange.sends.iter().chain(&exchange.receives) {
            assert_eq!(t.peer.0 / 4, rank / 4);
            assert!(matches!(t.content, Content::Values(_)));
        }
    }
}

#[test]
fn a_gateway_holds_exactly_these_ops() {
    let job = job(&destinations(6, 20, 4, 1));
    let shape = |choice: &Choice| -> Vec<String> {
        let ops = &plan(&job, choice).programs[2].ops;
        let describe = |kind: &OpKind| match kind {
            OpKind::Exchange(exchange) => format!("exchange {}", exchange.stage.name()),
            _ => kind.name().to_owned(),
        };
        ops.iter().map(|op| describe(&op.kind)).collect()
    };
    let native = shape(&dedup(Protocol::Native, 3, 2));
    let part = ["exchange raw", "gather-rows", "exchange forward"];
    assert_eq!(native, [&part[..], &part, &["expert", "exchange raw"]].concat());
    let coded = shape(&dedup(Protocol::InBand, 3, 1));
    let plain = ["encode", "exchange static", "exchange dynamic", "decode"];
    assert_eq!(coded, [&plain[..], &["gather-rows", "exchange forward", "expert"], &plain].concat());
}

#[test]
fn without_tokens_nothing_changes() {
    let job = layer(uniform(4, 2048));
    let plain = plan(&job, &choice(Protocol::StaticFirst, None));
    assert_eq!(plan(&job, &dedup(Protocol::StaticFirst, 2, 1)).digest(), plain.digest());
}

#[test]
fn rows_that_a_source_does_not_have_are_refused() {
    let mut plan = plan(&job(&destinations(6, 20, 4, 1)), &dedup(Protocol::Native, 3, 1));
    let mut program = (*plan.programs[0]).clone();
    let copy = program.ops.iter_mut().find_map(|op| match &mut op.kind {
        OpKind::Local(Local::GatherRows(copy)) => Some(copy),
        _ => None,
    });
    copy.unwrap().gathers[0].rows = vec![1_000_000; copy_len(&plan)].into();
    plan.programs[0] = Arc::new(program);
    assert!(matches!(plan.validate(), Err(PlanError::BadLocal { .. })), "{:?}", plan.validate());
}

fn copy_len(plan: &Plan) -> usize {
    let mut ops = plan.programs[0].ops.iter();
    let found = ops.find_map(|op| match &op.kind {
        OpKind::Local(Local::GatherRows(copy)) => Some(copy.gathers[0].rows.len()),
        _ => None,
    });
    found.unwrap()
}
