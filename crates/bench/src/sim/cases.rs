//! The cases by name: a cluster and what happens on it.

use zipwire_cluster::Topology;
use zipwire_scenarios::{Source, load};

use super::simulator::Workload;
use super::traffic::Sizes;
use super::{Level, SimBenchError};

/// Equal nodes of 25 GB/s per GPU and NIC; everything in one node is a flat network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: u32,
    pub(super) gpus_per_node: u32,
}

impl Cluster {
    /// Bytes per second of every link, each direction.
    pub(super) const BANDWIDTH: f64 = 25e9;

    pub(super) fn ranks(self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// The table of a scenario.
    pub(super) fn text(self) -> String {
        let Self { nodes, gpus_per_node } = self;
        format!(
            "[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus_per_node}\ngpu_bandwidth = \"25 GB/s\"\n\
             nic_bandwidth = \"25 GB/s\"\nlatency_intra = \"5 us\"\nlatency_inter = \"10 us\"\n"
        )
    }

    pub(super) fn topology(self) -> Result<Topology, SimBenchError> {
        let any = "[workload]\nkind = \"transfers\"\nflows = [{ src = 0, dst = 1, bytes = \"1 B\" }]\n";
        let text = format!("name = \"cluster\"\n{}{any}", self.text());
        Ok(load(&Source::from_text("cluster", text, ""), &[], None)?.topology)
    }
}

/// Traffic on the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Every pair of ranks, straight into the network.
    Flows(Sizes),
    /// Equal chunks in shifted rounds, straight into the network.
    Rounds,
    /// A whole scenario.
    Scenario(Workload),
}

/// A case that [`bench_sim`](super::bench_sim) measures.
#[derive(Clone, Copy, Debug)]
pub struct SimCase {
    /// Its name: what happens, on which kind of cluster, ranks.
    pub name: &'static str,
    /// Whether it takes seconds, not minutes, and is so measured by default.
    pub is_default: bool,
    pub(super) cluster: Cluster,
    pub(super) load: Load,
}

impl SimCase {
    /// The case of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn by_name(name: &str) -> Result<&'static Self, SimBenchError> {
        let found = CASES.iter().find(|case| case.name == name);
        found.ok_or_else(|| SimBenchError::UnknownCase { name: name.to_owned() })
    }

    /// Part of the simulator that it measures.
    pub fn level(&self) -> Level {
        match self.load {
            Load::Flows(_) | Load::Rounds => Level::Network,
            Load::Scenario(_) => Level::Simulator,
        }
    }
}

/// One node.
const fn flat(name: &'static str, ranks: u32, load: Load) -> SimCase {
    SimCase { name, is_default: true, cluster: Cluster { nodes: 1, gpus_per_node: ranks }, load }
}

/// Nodes of eight GPUs that share a NIC.
const fn nodes(name: &'static str, ranks: u32, load: Load) -> SimCase {
    SimCase { name, is_default: true, cluster: Cluster { nodes: ranks / 8, gpus_per_node: 8 }, load }
}

/// Only by name.
const fn long(case: SimCase) -> SimCase {
    SimCase { is_default: false, ..case }
}

const UNEQUAL: Load = Load::Flows(Sizes::Unequal);
const ZIPF: Load = Load::Flows(Sizes::Zipf);
const STAGGERED: Load = Load::Flows(Sizes::Staggered);
const EQUAL: Load = Load::Flows(Sizes::Equal);

/// All cases, in the order of the table.
pub const CASES: &[SimCase] = &[
    flat("unequal-flat-64", 64, UNEQUAL),
    flat("unequal-flat-128", 128, UNEQUAL),
    flat("unequal-flat-256", 256, UNEQUAL),
    long(flat("unequal-flat-512", 512, UNEQUAL)),
    nodes("unequal-nodes-64", 64, UNEQUAL),
    nodes("unequal-nodes-128", 128, UNEQUAL),
    nodes("unequal-nodes-256", 256, UNEQUAL),
    long(nodes("unequal-nodes-512", 512, UNEQUAL)),
    flat("zipf-flat-256", 256, ZIPF),
    nodes("zipf-nodes-256", 256, ZIPF),
    flat("staggered-flat-256", 256, STAGGERED),
    nodes("staggered-nodes-256", 256, STAGGERED),
    flat("equal-flat-1024", 1024, EQUAL),
    nodes("equal-nodes-1024", 1024, EQUAL),
    flat("rounds-flat-1024", 1024, Load::Rounds),
    nodes("rounds-nodes-1024", 1024, Load::Rounds),
    long(flat("rounds-flat-4096", 4096, Load::Rounds)),
    nodes("simulator-moe-64", 64, Load::Scenario(Workload::Moe)),
    nodes("simulator-unequal-64", 64, Load::Scenario(Workload::Unequal)),
    nodes("simulator-unequal-128", 128, Load::Scenario(Workload::Unequal)),
    nodes("simulator-unequal-256", 256, Load::Scenario(Workload::Unequal)),
    long(flat("simulator-rounds-1024", 1024, Load::Scenario(Workload::Rounds))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_ranks_and_are_unique() {
        for case in CASES {
            assert_eq!(case.name.rsplit('-').next(), Some(case.cluster.ranks().to_string().as_str()));
            assert_eq!(CASES.iter().filter(|other| other.name == case.name).count(), 1);
        }
    }

    #[test]
    fn the_cluster_is_what_its_text_says() {
        let topology = Cluster { nodes: 2, gpus_per_node: 8 }.topology().unwrap();
        assert_eq!(topology.ranks(), 16);
        assert!(topology.capacities().iter().all(|&capacity| capacity == Cluster::BANDWIDTH));
    }
}
