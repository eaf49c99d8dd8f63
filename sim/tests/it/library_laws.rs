//! Laws of native calls on thousands of random clusters: none ends before the bytes that must cross each link could, and alone on nominal links
//! each takes what its cost says.
//!
//! The bound follows from what an operation is, and not from an algorithm: what some ranks have and others need must leave the former and
//! reach the latter.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::library::{Generation, LibraryModel};
use zipwire_cluster::{
    Collective, CrossRail, DeclaredCost, Fabric, FatTree, Graph, GraphLink, HostCost, LibraryCost, LinkId,
    NetworkModel, Pods, Rail, Topology, Uplink, Vertex,
};
use zipwire_codec::DType;
use zipwire_schedule::{
    Algorithm, CallKind, Choice, CostModel, Durations, Protocol, Rank, RankRange, Slot, Work, plan,
};

use crate::common::{assert_close, job, log_uniform, nodes, seconds, setup};

const CASES: u64 = 3000;

/// Ranks of a cut, and its links out and in.
struct Cut {
    ranks: u32,
    /// Whether rank 0 is one of them.
    has_root: bool,
    links: Vec<[LinkId; 2]>,
}

/// Each GPU, each node, each leaf; of links with an up and a down end, by name.
fn cuts(topology: &Topology) -> Vec<Cut> {
    let by_name: BTreeMap<String, LinkId> =
        topology.links().map(|link| (topology.link_name(link), link)).collect();
    let link = |name: &str, way: &str| by_name.get(&format!("{name} {way}")).copied();
    let pair = |name: String| Some([link(&name, "up")?, link(&name, "down")?]);
    let gpus = (0..topology.ranks()).map(|rank| Cut {
        ranks: 1,
        has_root: rank == 0,
        links: pair(format!("gpu {rank}")).into_iter().collect(),
    });
    let nics = topology.nics_per_node;
    let nodes = (0..topology.nodes).map(|node| Cut {
        ranks: topology.gpus_per_node,
        has_root: node == 0,
        links: (node * nics..(node + 1) * nics).filter_map(|nic| pair(format!("nic {nic}"))).collect(),
    });
    let leaves = (0..topology.nodes).map(|leaf| {
        let nodes = match &topology.fabric {
            Fabric::FatTree(tree) => {
                tree.nodes_per_leaf.min(topology.nodes.saturating_sub(leaf * tree.nodes_per_leaf))
            }
            _ => 0,
        };
        Cut {
            ranks: nodes * topology.gpus_per_node,
            has_root: leaf == 0,
            links: pair(format!("leaf {leaf}")).into_iter().collect(),
        }
    });
    let all = gpus.chain(nodes).chain(leaves);
    all.filter(|cut| cut.ranks < topology.ranks() && !cut.links.is_empty()).collect()
}

/// Bytes that must leave `inside` of `ranks` ranks, and reach them, at the least; of shards of so many bytes.
fn least(collective: Collective, ranks: u32, cut: &Cut, shard: f64) -> [f64; 2] {
    let inside = cut.ranks;
    let (inside, outside) = (f64::from(inside) * shard, f64::from(ranks - inside) * shard);
    match collective {
        Collective::AllGather => [inside, outside],
        Collective::ReduceScatter => [outside, inside],
        Collective::AllReduce => [inside + outside; 2],
        // Rank 0 has one shard for all.
        Collective::Broadcast if cut.has_root => [shard, 0.0],
        Collective::Broadcast => [0.0, shard],
    }
}

fn fabric(random: &mut ChaCha8Rng, nodes: u32) -> Fabric {
    let uplink = |random: &mut ChaCha8Rng| match random.random_range(0..2) {
        0 => Uplink::Oversubscribed(log_uniform(random, 1.0, 16.0)),
        _ => Uplink::Bandwidth(log_uniform(random, 1e9, 1e12)),
    };
    match random.random_range(0..6) {
        0 => Fabric::Flat,
        1 => Fabric::Host { bandwidth: log_uniform(random, 1e9, 1e12) },
        2 => Fabric::Rail(Rail {
            uplink: uplink(random),
            cross_rail: CrossRail::ALL[random.random_range(0..2)],
        }),
        3 => Fabric::FatTree(FatTree {
            nodes_per_leaf: random.random_range(1..=nodes),
            uplink: uplink(random),
            pods: None,
        }),
        4 => Fabric::FatTree(FatTree {
            nodes_per_leaf: random.random_range(1..=nodes),
            uplink: uplink(random),
            pods: Some(Pods { leaves_per_pod: random.random_range(1..=3), uplink: uplink(random) }),
        }),
        _ => Fabric::Nodes,
    }
}

fn cluster(random: &mut ChaCha8Rng) -> Topology {
    let gpus_per_node = random.random_range(1..=8);
    let nodes = random.random_range(if gpus_per_node == 1 { 2..=6 } else { 1..=6 });
    let mut topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node: random.random_range(1..=gpus_per_node),
        gpu_bandwidth: log_uniform(random, 1e10, 1e12),
        nic_bandwidth: log_uniform(random, 1e9, 1e11),
        latency_intra_s: 5e-6,
        latency_inter_s: 2e-5,
        fabric: fabric(random, nodes),
        nodes_per_domain: 1,
        link_bandwidths: BTreeMap::new(),
    };
    let count = topology.links().count() as u32;
    for _ in 0..random.random_range(0..3) {
        let link = LinkId(random.random_range(0..count));
        topology.link_bandwidths.insert(link, log_uniform(random, 1e8, 1e12));
    }
    topology
}

/// One whose links are all as its constants say.
fn nominal(random: &mut ChaCha8Rng) -> Topology {
    let mut topology =
        Topology { fabric: Fabric::Nodes, link_bandwidths: BTreeMap::new(), ..cluster(random) };
    // The model of a GPU alone in its node asks its NIC only.
    topology.gpu_bandwidth = topology.gpu_bandwidth.max(topology.nic_bandwidth);
    topology
}

fn library(random: &mut ChaCha8Rng, topology: &Topology) -> LibraryCost {
    if random.random_bool(0.25) {
        let bytes_per_s = log_uniform(random, 1e9, 1e12);
        let cost = Some(DeclaredCost { latency_s: 20e-6, per_rank_s: 1e-6, bytes_per_s });
        return LibraryCost {
            all_gather: cost,
            reduce_scatter: cost,
            all_reduce: cost,
            broadcast: cost,
            model: None,
        };
    }
    let constants = Generation::ALL[random.random_range(0..4)].constants();
    LibraryCost {
        model: Some(LibraryModel { hardware: topology.hardware(), constants }),
        ..LibraryCost::default()
    }
}

/// One whose cost is known.
fn collective(random: &mut ChaCha8Rng, library: &LibraryCost) -> Collective {
    let known: Vec<Collective> = Collective::ALL.into_iter().filter(|of| library.knows(*of)).collect();
    known[random.random_range(0..known.len())]
}

/// Seconds of a call of shards of so many bytes, simulated; and the call's cost among equal ranks.
fn call_s(
    topology: &Topology,
    library: LibraryCost,
    collective: Collective,
    shard: u64,
    model: NetworkModel,
) -> [f64; 2] {
    let ranks = topology.ranks();
    let shards = vec![shard; ranks as usize];
    let kind = match collective {
        Collective::AllGather => CallKind::AllGather { bytes: shards },
        Collective::ReduceScatter => CallKind::ReduceScatter { bytes: shards },
        Collective::AllReduce => CallKind::AllReduce { bytes: shard * u64::from(ranks) },
        Collective::Broadcast => {
            CallKind::Broadcast { bytes: shard, root: Rank(0), to: RankRange::all(ranks) }
        }
    };
    let work = Work::of_call(DType::F32, [Slot(0), Slot(1)], kind);
    let plan = plan(
        &job(ranks, [("call", work)]),
        &Choice { algorithm: Some(Algorithm::Library), ..Choice::of(Protocol::Native, None) },
    );
    let durations = Durations::zeros(1, 1, ranks);
    let host = HostCost { library, ..HostCost::default() };
    let costs = CostModel { host, codec: None };
    let simulated = zipwire_sim::SimSetup { costs, model, ..setup(&plan, topology, &durations) };
    let count = if collective == Collective::AllReduce { shard * u64::from(ranks) } else { shard };
    let cost = library.of(collective, ranks).unwrap();
    [seconds(&simulated), cost.seconds(ranks, collective.ring_bytes(ranks, count))]
}

#[test]
fn no_native_call_ends_before_the_bytes_that_must_cross_each_link_could() {
    for seed in 0..CASES {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let topology = cluster(random);
        let library = library(random, &topology);
        let collective = collective(random, &library);
        let shard = 4 * log_uniform(random, 1.0, 1e8) as u64;
        let [seconds, cost_s] = call_s(&topology, library, collective, shard, NetworkModel::MaxMin);
        assert!(seconds >= cost_s * (1.0 - 1e-9), "seed {seed}: {seconds} s, alone and nominal {cost_s} s");
        let capacities = topology.capacities();
        for cut in cuts(&topology) {
            let ends = least(collective, topology.ranks(), &cut, shard as f64);
            for (way, bytes) in ends.into_iter().enumerate() {
                let bytes_per_s: f64 = cut.links.iter().map(|ends| capacities[ends[way].index()]).sum();
                let bound_s = bytes / bytes_per_s;
                assert!(
                    seconds >= bound_s * (1.0 - 1e-9),
                    "seed {seed}: {collective:?} takes {seconds} s where {bytes} bytes over {} take {bound_s} s: {topology:?}",
                    topology.link_name(cut.links[0][way])
                );
            }
        }
    }
}

/// Losses of the library are in its time: the links of a nominal cluster do not lengthen it, whatever the model of links.
#[test]
fn alone_on_nominal_links_a_call_takes_what_its_cost_says() {
    for seed in 0..CASES / 5 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let topology = nominal(random);
        let library = library(random, &topology);
        if library.model.is_none() {
            continue;
        }
        let collective = collective(random, &library);
        let shard = 4 * log_uniform(random, 1.0, 1e8) as u64;
        let model = NetworkModel::ALL[random.random_range(0..3)];
        let [seconds, cost_s] = call_s(&topology, library, collective, shard, model);
        assert_close(seconds, cost_s);
    }
}

/// Grouped sends of equal parts take what the model says of an All-to-All, unless a GPU's port has to carry what stays within its node and
/// what leaves it, and that takes longer; a hot receiver has its whole port.
#[test]
fn grouped_sends_take_what_the_model_says() {
    for seed in 0..CASES / 10 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut topology = nominal(random);
        // NICs are shared evenly.
        topology.nics_per_node = if topology.gpus_per_node.is_multiple_of(topology.nics_per_node) {
            topology.nics_per_node
        } else {
            1
        };
        let Some(model) = library(random, &topology).model else { continue };
        let ranks = topology.ranks();
        let part = log_uniform(random, 1.0, 1e7).round() as u64 * 4;
        let bytes =
            Array2::from_shape_fn(
                (ranks as usize, ranks as usize),
                |(src, dst)| {
                    if src == dst { 0 } else { part }
                },
            );
        let seconds = grouped_s(&topology, &model, bytes);
        let own = u64::from(ranks - 1) * part;
        let cost = model.cost(zipwire_cluster::library::Operation::AllToAll, ranks);
        let cost_s = cost.seconds((own + part) as f64);
        let sends = model.sends(&topology, own, ranks - topology.gpus_per_node);
        let near = f64::from(topology.gpus_per_node - 1) * part as f64 * sends.within;
        let far = f64::from(ranks - topology.gpus_per_node) * part as f64 * sends.beyond;
        let port_s = sends.latency_s + (near + far) / topology.gpu_bandwidth;
        if topology.nodes == 1 || 2.0 * port_s < cost_s {
            assert_close(seconds, cost_s.max(port_s));
        } else {
            // Both kinds share the port: NICs are not full while they do.
            let least_s = cost_s.max(port_s);
            assert!(
                (1.0 - 1e-9..1.25).contains(&(seconds / least_s)),
                "seed {seed}: {seconds} and {least_s} s"
            );
        }
    }
}

fn grouped_s(topology: &Topology, model: &LibraryModel, bytes: Array2<u64>) -> f64 {
    let work = Work::of_call(
        DType::Bf16,
        [Slot(0), Slot(1)],
        CallKind::AllToAll { bytes: bytes.into(), tokens: None },
    );
    let job = job(topology.ranks(), [("call", work)]);
    let plan = plan(&job, &Choice { grouped: true, ..Choice::of(Protocol::Native, None) });
    let durations = Durations::zeros(1, 1, topology.ranks());
    let library = LibraryCost { model: Some(*model), ..LibraryCost::default() };
    let costs = CostModel { host: HostCost { library, ..HostCost::default() }, codec: None };
    seconds(&zipwire_sim::SimSetup { costs, ..setup(&plan, topology, &durations) })
}

/// Hopper's library, fitted on a topology.
fn hopper(fitted: &Topology) -> LibraryCost {
    let model = LibraryModel { hardware: fitted.hardware(), constants: Generation::Hopper.constants() };
    LibraryCost { model: Some(model), ..LibraryCost::default() }
}

/// GPUs in a row without a switch: sums in switches are what the library would take, and links of GPUs are where they cross.
#[test]
fn calls_on_graphs_cross_the_links_of_gpus() {
    let link = |src: u32, dst: u32| GraphLink {
        src: Vertex::Gpu(Rank(src)),
        dst: Vertex::Gpu(Rank(dst)),
        bandwidth: 50e9,
        latency_s: 0.0,
    };
    let links = (0..7).flat_map(|rank| [link(rank, rank + 1), link(rank + 1, rank)]).collect();
    let fabric = Fabric::Graph(Arc::new(Graph::new(8, Vec::new(), links).unwrap()));
    let fitted = nodes(1, 8, [450e9; 2], [5e-6; 2]);
    let topology = Topology { fabric, ..fitted.clone() };
    for collective in Collective::ALL {
        let shard = 1 << 27;
        let [seconds, cost_s] = call_s(&topology, hopper(&fitted), collective, shard, NetworkModel::MaxMin);
        assert!(seconds >= cost_s && seconds >= shard as f64 / 50e9, "{collective:?}: {seconds}");
    }
}

/// A NIC that has become slower than the hardware of the model makes a call slower by as much, losses and all.
#[test]
fn losses_do_not_give_way_to_slow_nics() {
    let shard = 1 << 26;
    let fitted = Topology { nics_per_node: 8, ..nodes(4, 8, [450e9, 50e9], [5e-6; 2]) };
    let call_s = |nic_bandwidth: f64| {
        let topology = Topology { nic_bandwidth, ..fitted.clone() };
        call_s(&topology, hopper(&fitted), Collective::AllGather, shard, NetworkModel::MaxMin)[0]
    };
    // A quarter of the speed, and an eighth.
    let (slow_s, slower_s) = (call_s(50e9 / 4.0), call_s(50e9 / 8.0));
    assert!((1.9..2.1).contains(&(slower_s / slow_s)) && slow_s > 3.0 * call_s(50e9), "{slow_s} {slower_s}");
}
