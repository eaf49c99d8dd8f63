//! Barriers of all collectives, algorithms and protocols: no byte of a stage moves before all its ranks are there, and no rank waits
//! for ever. What they cost is in `closed_forms.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{all_to_all, call, job, nodes, setup, start};
use ndarray::Array2;
use zipwire_cluster::{CodecCost, HostCost, TransferStart};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, CostModel, Durations, Job, Lane, Order, Plan, Protocol, Rank, RankRange,
    SegmentId, Stage, Work, plan,
};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::Timeline;

const RANKS: u32 = 6;
const LAUNCH_S: f64 = 2e-6;

/// Calls with pieces of all lengths, some of them empty.
fn works() -> Vec<Work> {
    let shards: Vec<u64> = [40_000, 0, 1_000_000, 10, 300_000, 0].into();
    let ranks = RANKS as usize;
    let bytes = Array2::from_shape_fn((ranks, ranks), |(src, dst)| ((src * 5 + dst * 7) % 4) as u64 * 60_000);
    vec![
        all_to_all(bytes),
        call(CallKind::AllGather { bytes: shards.clone() }),
        call(CallKind::Broadcast { bytes: 500_000, root: Rank(4), to: RankRange::all(RANKS) }),
        call(CallKind::ReduceScatter { bytes: shards }),
        call(CallKind::AllReduce { bytes: 600_000 }),
    ]
}

/// A call behind a phase for which ranks are late, twice, so that calls follow one another.
fn twice(work: &Work) -> Job {
    let segments =
        [("start", start()), ("call", work.clone()), ("again", start()), ("call again", work.clone())];
    job(RANKS, segments)
}

fn simulate(plan: &Plan) -> Timeline {
    let topology = nodes(2, RANKS / 2, [20e9, 10e9], [5e-6, 1e-5]);
    let mut durations = Durations::zeros(1, 4, RANKS);
    for rank in 0..RANKS {
        durations.set(0, 0, Rank(rank), f64::from(rank * 7 % 5) * 1e-4);
        durations.set(0, 2, Rank(rank), f64::from(rank * 3 % 4) * 1e-4);
    }
    let setup = SimSetup {
        start: TransferStart::Barrier,
        costs: CostModel {
            host: HostCost { launch_s: LAUNCH_S, sync_s: 1e-5, ..HostCost::default() },
            codec: Some(CodecCost { encode_bytes_per_s: 2e10, decode_bytes_per_s: 4e10, launch_s: 3e-6 }),
        },
        sizes: FrameSizes::Ratio(1.25),
        ..setup(plan, &topology, &durations)
    };
    run(&setup, &|| true).unwrap()
}

/// Panics if a transfer begins before a rank of its stage and part has launched its first exchange of these.
fn check(plan: &Plan, timeline: &Timeline) {
    let mut there_s: BTreeMap<(SegmentId, Stage, u32), BTreeMap<Rank, f64>> = BTreeMap::new();
    let mut first_s = BTreeMap::new();
    for span in &timeline.spans {
        let op = &plan.programs[span.rank.index()].ops[span.op.index()];
        let Some(exchange) = op.kind.exchange() else { continue };
        let transfers = exchange.sends.iter().chain(&exchange.receives);
        let parts: BTreeSet<u32> = transfers.map(|transfer| transfer.chunk.part).collect();
        assert_eq!(parts.len(), 1, "an exchange is of one part");
        let stage = (span.segment, exchange.stage, *parts.first().unwrap());
        let least = |slot: &mut f64, time_s: f64| *slot = slot.min(time_s);
        match span.lane {
            Lane::Tx | Lane::Rx => least(first_s.entry(stage).or_insert(f64::INFINITY), span.begin_s),
            _ => {
                let ranks = there_s.entry(stage).or_default();
                least(ranks.entry(span.rank).or_insert(f64::INFINITY), span.begin_s + LAUNCH_S);
            }
        }
    }
    assert!(first_s.len() > 1, "both calls move something");
    for (stage, first_s) in first_s {
        let last_s = there_s[&stage].values().copied().fold(0.0, f64::max);
        assert!(first_s >= last_s, "{stage:?}: a byte moves at {first_s}, and a rank comes at {last_s}");
    }
}

/// Every way in which a call can travel, with and without parts and windows.
fn choices(work: &Work) -> impl Iterator<Item = Choice> + use<> {
    let algorithms: Vec<Option<Algorithm>> = match work.algorithms() {
        [] => vec![None],
        // A call of a library is a barrier by itself.
        algorithms => algorithms
            .iter()
            .copied()
            .filter(|algorithm| *algorithm != Algorithm::Library)
            .map(Some)
            .collect(),
    };
    let ways = [(1, None, Order::Rotation), (3, Some(2), Order::Rotation), (1, Some(1), Order::AnyReady)];
    // Values are never padded, and sums on the way are not coded.
    let is_reduction = work.is_reduction();
    let takes = move |algorithm: Option<Algorithm>, protocol: Protocol| match algorithm {
        Some(algorithm) if protocol.is_coded() => algorithm.takes_frames(is_reduction),
        algorithm => algorithm != Some(Algorithm::PaddedRing),
    };
    algorithms.into_iter().flat_map(move |algorithm| {
        let protocols = Protocol::ALL.into_iter().filter(move |&protocol| takes(algorithm, protocol));
        let all = protocols.flat_map(move |protocol| ways.map(|way| (protocol, way)));
        all.map(move |(protocol, (parts, window, order))| Choice {
            algorithm,
            parts,
            window,
            order,
            speculative_capacity: (protocol == Protocol::Speculative).then_some(0.7),
            ranks_per_node: RANKS / 2,
            ..Choice::of(protocol, Some(crate::window7()))
        })
    })
}

#[test]
fn nothing_moves_before_all_are_there() {
    for work in works() {
        for choice in choices(&work) {
            let plan = plan(&twice(&work), &choice);
            plan.validate().unwrap();
            check(&plan, &simulate(&plan));
        }
    }
}
