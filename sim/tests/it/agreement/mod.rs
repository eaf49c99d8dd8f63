//! Whole simulations against an oracle: random jobs on random clusters, every transfer compared.
//!
//! The rules of the oracle's inputs (who sends what in which order, and when a rank waits) are written down here once
//! more, from the documents, not taken from plans.

mod ranks;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{self, log_uniform, setup};
use ndarray::Array2;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{
    CrossRail, Fabric, FatTree, Graph, GraphLink, HostCost, Pods, Rail, Topology, Uplink, Vertex,
};
use zipwire_codec::DType;
use zipwire_schedule::{
    Choice, CostModel, Durations, Flow, Job, Lane, Order, Pace, Plan, Protocol, Rank, Slot, Work, plan,
};
use zipwire_sim::{SimSetup, run};
use zipwire_timeline::Timeline;

use ranks::{Exchange, Phase, Transfer, play};

const AGREEMENT: f64 = 1e-9;

// Clusters.

/// A cluster of 2 to 12 ranks.
fn cluster(random: &mut ChaCha8Rng) -> Topology {
    let gpus_per_node = random.random_range(1..=6);
    let nodes = match gpus_per_node {
        1 => random.random_range(2..=8),
        _ => random.random_range(1..=12 / gpus_per_node),
    };
    let fabric = fabric(random, nodes * gpus_per_node);
    let mut topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node: random.random_range(1..=gpus_per_node),
        gpu_bandwidth: log_uniform(random, 1e9, 1e11),
        nic_bandwidth: log_uniform(random, 1e9, 1e11),
        latency_intra_s: *[0.0, 5e-6].choose(random).unwrap(),
        latency_inter_s: *[0.0, 1e-5, 1e-3].choose(random).unwrap(),
        fabric,
        nodes_per_domain: 1,
        link_bandwidths: BTreeMap::new(),
    };
    if random.random_bool(0.3) {
        let links: Vec<_> = topology.links().filter(|_| random.random_bool(0.3)).collect();
        for link in links {
            topology.link_bandwidths.insert(link, log_uniform(random, 1e8, 1e11));
        }
    }
    topology
}

/// One of every kind.
fn fabric(random: &mut ChaCha8Rng, ranks: u32) -> Fabric {
    let uplink = |random: &mut ChaCha8Rng| match random.random_bool(0.5) {
        true => Uplink::Oversubscribed(log_uniform(random, 1.0, 8.0)),
        false => Uplink::Bandwidth(log_uniform(random, 1e9, 1e11)),
    };
    match random.random_range(0..5) {
        0 => Fabric::Flat,
        1 => Fabric::Nodes,
        2 => {
            Fabric::Rail(Rail { uplink: uplink(random), cross_rail: *CrossRail::ALL.choose(random).unwrap() })
        }
        3 => Fabric::FatTree(FatTree {
            nodes_per_leaf: random.random_range(1..=3),
            uplink: uplink(random),
            pods: random
                .random_bool(0.5)
                .then(|| Pods { leaves_per_pod: random.random_range(1..=2), uplink: uplink(random) }),
        }),
        _ => Fabric::Graph(Arc::new(graph(random, ranks))),
    }
}

/// GPUs on switches that form a line.
fn graph(random: &mut ChaCha8Rng, ranks: u32) -> Graph {
    let switches = random.random_range(1..=3);
    let mut links = Vec::new();
    let mut join = |random: &mut ChaCha8Rng, ends: [Vertex; 2]| {
        for (src, dst) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let latency_s = *[0.0, 2e-6].choose(random).unwrap();
            links.push(GraphLink { src, dst, bandwidth: log_uniform(random, 1e9, 1e11), latency_s });
        }
    };
    for rank in 0..ranks {
        let switch = random.random_range(0..switches);
        join(random, [Vertex::Gpu(Rank(rank)), Vertex::Switch(switch)]);
    }
    for switch in 1..switches {
        join(random, [Vertex::Switch(switch - 1), Vertex::Switch(switch)]);
    }
    let names = (0..switches).map(|switch| format!("switch {switch}")).collect();
    Graph::new(ranks, names, links).unwrap()
}

// Jobs, for both sides.

/// A job and what the oracle is told of it.
struct Case {
    topology: Topology,
    host: HostCost,
    job: Job,
    choice: Choice,
    /// Seconds that each rank spends in the first segment, if that computes.
    start_s: Vec<f64>,
    transfers: Vec<Transfer>,
    programs: Vec<Vec<Phase>>,
}

fn transfer(topology: &Topology, src: usize, dst: usize, bytes: u64, not_before_s: f64) -> Transfer {
    let route = topology.route(Rank(src as u32), Rank(dst as u32));
    Transfer { src, dst, bytes, links: route.links().to_vec(), latency_s: route.latency_s, not_before_s }
}

fn native(order: Order, window: Option<u32>) -> Choice {
    Choice { order, window, ..Choice::of(Protocol::Native, None) }
}

/// An All-to-All of ranks that start at their own times, in any order with any window.
fn all_to_all(random: &mut ChaCha8Rng) -> Case {
    let topology = cluster(random);
    let ranks = topology.ranks() as usize;
    let order = *Order::ALL.choose(random).unwrap();
    let window = random.random_bool(0.7).then(|| random.random_range(1..ranks.max(2)));
    // Times at which several ranks have a choice are one moment only if nobody could have chosen before: under any-ready
    // sizes and starts all differ, the start of all at once excepted.
    let has_ties = order != Order::AnyReady && random.random_bool(0.3);
    let most = log_uniform(random, 1.0, 1e8);
    let mut size = |_| match (random.random_bool(0.15), has_ties) {
        (true, _) => 0,
        (false, true) => 2 * random.random_range(1..=3) * most as u64,
        (false, false) => 2 * (log_uniform(random, 1.0, most) as u64 + random.random_range(1..1_000_000)),
    };
    let bytes = Array2::from_shape_fn((ranks, ranks), &mut size);
    let late_s = log_uniform(random, 1e-6, 1e-2);
    let start = |_| if random.random_bool(0.4) { 0.0 } else { late_s * random.random::<f64>() };
    let start_s: Vec<f64> = (0..ranks).map(start).collect();
    let host =
        HostCost { launch_s: *[0.0, 3e-6].choose(random).unwrap(), sync_s: 1e-4, ..HostCost::default() };

    let segments = [("start", common::start()), ("exchange", common::all_to_all(bytes.clone()))];
    let job = common::job(topology.ranks(), segments);

    let mut transfers = Vec::new();
    let mut numbers = BTreeMap::new();
    for (src, dst) in (0..ranks).flat_map(|src| (0..ranks).map(move |dst| (src, dst))) {
        if src != dst && bytes[[src, dst]] > 0 {
            numbers.insert((src, dst), transfers.len());
            transfers.push(transfer(&topology, src, dst, bytes[[src, dst]], 0.0));
        }
    }
    let program = |rank: usize| {
        let in_order = |ends: Vec<(usize, usize)>| {
            let mut list: Vec<usize> = ends.iter().filter_map(|ends| numbers.get(ends).copied()).collect();
            if order == Order::LargestFirst {
                list.sort_by(|&a, &b| transfers[b].bytes.cmp(&transfers[a].bytes));
            }
            list
        };
        let peers = if order == Order::ShiftedRounds { 1 } else { window.unwrap_or(ranks - 1) };
        let exchange = Exchange {
            launch_s: host.launch_s,
            sends: in_order((1..ranks).map(|step| (rank, (rank + step) % ranks)).collect()),
            receives: in_order((1..ranks).map(|step| ((rank + ranks - step) % ranks, rank)).collect()),
            windows: [peers; 2],
            any_ready: order == Order::AnyReady,
        };
        let busy_s = host.launch_s + start_s[rank];
        vec![Phase::Busy(busy_s), Phase::Exchange(exchange)]
    };
    let programs = (0..ranks).map(program).collect();
    let choice = native(order, window.map(|window| window as u32));
    Case { topology, host, job, choice, start_s, transfers, programs }
}

/// Explicit flows at any pace. Steps of sends and receives may make ranks wait for one another for ever.
fn explicit_flows(random: &mut ChaCha8Rng) -> Case {
    let topology = cluster(random);
    let ranks = topology.ranks() as usize;
    let pace = *[Pace::Burst, Pace::Chain, Pace::SendReceive].choose(random).unwrap();
    let late_s = *[0.0, 1e-5, 1e-3].choose(random).unwrap();
    let ready_s: Vec<f64> = (0..ranks).map(|_| late_s * random.random::<f64>()).collect();
    let is_rank_ready = random.random_bool(0.5);
    let most = log_uniform(random, 1.0, 1e8);
    let mut transfers = Vec::new();
    for _ in 0..random.random_range(1..=6) {
        // A round: most ranks send to different ones.
        let mut dsts: Vec<usize> = (0..ranks).collect();
        dsts.shuffle(random);
        let gap = *[0.0, 0.0, 0.2].choose(random).unwrap();
        for (src, &dst) in dsts.iter().enumerate().filter(|(src, dst)| src != *dst) {
            if random.random_bool(1.0 - gap) {
                let bytes = log_uniform(random, 1.0, most).round() as u64;
                let given_s = late_s * random.random::<f64>();
                let not_before_s = if is_rank_ready { ready_s[src].max(ready_s[dst]) } else { given_s };
                transfers.push(transfer(&topology, src, dst, bytes, not_before_s));
            }
        }
    }
    let host =
        HostCost { launch_s: *[0.0, 3e-6].choose(random).unwrap(), sync_s: 1e-4, ..HostCost::default() };

    let flow = |transfer: &Transfer| Flow {
        src: Rank(transfer.src as u32),
        dst: Rank(transfer.dst as u32),
        bytes: transfer.bytes,
        not_before_s: transfer.not_before_s,
    };
    let flows = transfers.iter().map(flow).collect();
    let work = Work::Transfers { dtype: DType::Bf16, flows, pace, input: Slot(0), output: Slot(1) };
    let job = common::job(topology.ranks(), [("transfers", work)]);

    let program = |rank: usize| {
        let list = |end: fn(&Transfer) -> usize| -> Vec<usize> {
            (0..transfers.len()).filter(|&i| end(&transfers[i]) == rank).collect()
        };
        let (sends, receives) = (list(|transfer| transfer.src), list(|transfer| transfer.dst));
        let exchange = |sends: &[usize], receives: &[usize], windows: [usize; 2]| {
            let (mut sends, mut receives) = (sends.to_vec(), receives.to_vec());
            // What may go on offer at any time does so at its own time.
            for (list, window) in [(&mut sends, windows[0]), (&mut receives, windows[1])] {
                if window == usize::MAX {
                    list.sort_by(|&a, &b| transfers[a].not_before_s.total_cmp(&transfers[b].not_before_s));
                }
            }
            Phase::Exchange(Exchange { launch_s: host.launch_s, sends, receives, windows, any_ready: false })
        };
        match pace {
            Pace::Burst => vec![exchange(&sends, &receives, [usize::MAX; 2])],
            Pace::Chain => vec![exchange(&sends, &receives, [1, usize::MAX])],
            Pace::SendReceive => (0..sends.len().max(receives.len()))
                .map(|step| {
                    let at = |list: &[usize]| list.get(step).copied().into_iter().collect::<Vec<_>>();
                    exchange(&at(&sends), &at(&receives), [1; 2])
                })
                .collect(),
        }
    };
    let programs = (0..ranks).map(program).collect();
    let start_s = Vec::new();
    Case { topology, host, job, choice: native(Order::Rotation, None), start_s, transfers, programs }
}

// Comparison.

impl Case {
    fn simulate(&self, plan: &Plan) -> Timeline {
        let mut durations = Durations::zeros(1, self.job.segments.len(), self.job.rank_count);
        for (rank, &seconds) in (0..).zip(&self.start_s) {
            durations.set(0, 0, Rank(rank), seconds);
        }
        let setup = SimSetup {
            costs: CostModel { host: self.host, codec: None },
            ..setup(plan, &self.topology, &durations)
        };
        run(&setup, &|| true).unwrap()
    }

    /// Start and end of each transfer as simulated, in the order of the oracle's list.
    fn times(&self, timeline: &Timeline) -> Vec<(f64, f64)> {
        // Flows are told apart by their place among those between the same two ranks; of a collective there is one.
        let is_explicit = self.start_s.is_empty();
        let sent = timeline.spans.iter().filter(|span| span.lane == Lane::Tx);
        let mut times = BTreeMap::new();
        for span in sent {
            let number = if is_explicit { span.tag as usize } else { 0 };
            let key = (span.rank.index(), span.peer.unwrap().index(), number);
            assert!(times.insert(key, (span.begin_s, span.end_s)).is_none(), "{key:?} moves twice");
        }
        assert_eq!(times.len(), self.transfers.len(), "every transfer moves");
        let mut numbers: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut key = |transfer: &Transfer| {
            let number = numbers.entry((transfer.src, transfer.dst)).or_default();
            *number += 1;
            (transfer.src, transfer.dst, *number - 1)
        };
        self.transfers.iter().map(|transfer| times[&key(transfer)]).collect()
    }

    /// The worst relative difference of starts and ends, or `None` where both sides find that ranks wait for ever.
    fn disagreement(&self) -> Option<f64> {
        let plan = plan(&self.job, &self.choice);
        let expected = play(&self.topology.capacities(), &self.transfers, &self.programs);
        assert_eq!(plan.validate().is_ok(), expected.is_some(), "whether it ends: {:?}", plan.validate());
        let expected = expected?;
        let found = self.times(&self.simulate(&plan));
        let difference = |(found, expected): (&(f64, f64), &(f64, f64))| {
            f64::max((found.0 - expected.0).abs(), (found.1 - expected.1).abs()) / expected.1
        };
        Some(found.iter().zip(&expected).map(difference).fold(0.0, f64::max))
    }
}

/// Compares this many cases that end.
fn compare(case: impl Fn(&mut ChaCha8Rng) -> Case, count: usize) {
    let (mut worst, mut compared, mut stuck) = (0.0, 0, 0);
    for seed in 0.. {
        if compared == count {
            break;
        }
        let case = case(&mut ChaCha8Rng::seed_from_u64(seed));
        match case.disagreement() {
            Some(difference) => {
                let Case { topology, choice, .. } = &case;
                assert!(difference <= AGREEMENT, "seed {seed}: {difference:e}\n{topology:?}\n{choice:?}");
                worst = f64::max(worst, difference);
                compared += 1;
            }
            None => stuck += 1,
        }
    }
    println!("{compared} cases agree to {worst:.1e}; in {stuck} more both find that ranks wait for ever");
}

#[test]
fn all_to_alls_in_every_order_with_any_window() {
    compare(all_to_all, 600);
}

#[test]
fn explicit_flows_at_every_pace() {
    compare(explicit_flows, 400);
}
