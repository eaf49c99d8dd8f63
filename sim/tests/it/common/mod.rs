//! Setups, jobs and clusters that tests of the simulator share.

use std::collections::BTreeMap;

use ndarray::Array2;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{Fabric, HostCost, NetworkModel, Topology, TransferStart};
use zipwire_codec::DType;
use zipwire_schedule::{
    CallKind, Capabilities, CostModel, Durations, Job, Plan, Readiness, Segment, Slot, TransferOrder, Work,
};
use zipwire_sim::{FrameSizes, SimSetup, run};

/// Capabilities of an executor that completes ops and lets the machine order transfers.
pub(crate) const THREADS: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };

/// One iteration of an uncoded plan without host costs and faults.
pub(crate) fn setup<'a>(plan: &'a Plan, topology: &'a Topology, durations: &'a Durations) -> SimSetup<'a> {
    SimSetup {
        plan,
        topology,
        model: NetworkModel::MaxMin,
        start: TransferStart::Rendezvous,
        costs: CostModel { host: HostCost::default(), codec: None },
        sizes: FrameSizes::None,
        durations,
        iterations: 0..1,
        capabilities: THREADS,
        faults: &[],
        fired: None,
        deadlines: None,
    }
}

pub(crate) fn seconds(setup: &SimSetup<'_>) -> f64 {
    run(setup, &|| true).unwrap().iterations[0].length_s
}

/// Nodes with one NIC each: bytes per second of a GPU's link and of a NIC, seconds of latency within a node and between nodes.
pub(crate) fn nodes(
    nodes: u32,
    gpus_per_node: u32,
    [gpu_bandwidth, nic_bandwidth]: [f64; 2],
    [latency_intra_s, latency_inter_s]: [f64; 2],
) -> Topology {
    Topology {
        nodes,
        gpus_per_node,
        nics_per_node: 1,
        gpu_bandwidth,
        nic_bandwidth,
        latency_intra_s,
        latency_inter_s,
        fabric: Fabric::Nodes,
        nodes_per_domain: 1,
        link_bandwidths: BTreeMap::new(),
    }
}

/// One node, whose links all have this bandwidth and latency.
pub(crate) fn flat(ranks: u32, bandwidth: f64, latency_s: f64) -> Topology {
    nodes(1, ranks, [bandwidth; 2], [latency_s; 2])
}

/// A call of BF16 values from the first slot to the second.
pub(crate) fn call(kind: CallKind) -> Work {
    Work::of_call(DType::Bf16, [Slot(0), Slot(1)], kind)
}

pub(crate) fn all_to_all(bytes: Array2<u64>) -> Work {
    call(CallKind::AllToAll { bytes: bytes.into(), tokens: None })
}

/// A phase for which ranks may be late: it claims both slots, so a late rank neither sends nor receives.
pub(crate) fn start() -> Work {
    Work::Compute { phase: "start", reads: Vec::new(), writes: vec![Slot(0), Slot(1)] }
}

pub(crate) fn job<const N: usize>(rank_count: u32, segments: [(&'static str, Work); N]) -> Job {
    let segments = segments.map(|(name, work)| Segment::new(name, work)).into();
    Job { name: "case", rank_count, slots: vec!["in", "out"], segments }
}

/// Uniform in the exponent.
pub(crate) fn log_uniform(random: &mut ChaCha8Rng, low: f64, high: f64) -> f64 {
    libm::pow(10.0, random.random_range(libm::log10(low)..=libm::log10(high)))
}

#[track_caller]
pub(crate) fn assert_close(got: f64, expected: f64) {
    let error = (got - expected).abs() / expected;
    assert!(error <= 1e-9, "got {got}, expected {expected}, relative error {error:e}");
}
