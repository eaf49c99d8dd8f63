//! The cases by name, and whole scenarios: read, planned, checked and simulated, with the timeline in memory.

use std::fmt::Write;

use tempfile::TempDir;
use zipwire_cluster::Topology;
use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, Prepared};
use zipwire_scenarios::{Source, load};
use zipwire_schedule::Lane;

use super::network::{MEAN_BYTES, Sizes, all_pairs};
use super::{Level, Run, SimBenchError};

#[derive(Clone, Copy, Debug)]
pub(super) enum Workload {
    /// Eight layers of a mixture of experts: 16 All-to-Alls of unequal sizes, each rank at its own time.
    Moe,
    /// All pairs as explicit flows, from a file.
    Unequal,
    /// An equal All-to-All in shifted rounds.
    Rounds,
}

pub(super) fn drawn(cluster: Cluster, workload: Workload, cancel: &Cancel) -> Result<Run, SimBenchError> {
    // Only as long as the run: the file of the flows.
    let folder = TempDir::new()
        .map_err(|error| SimBenchError::Folder { folder: std::env::temp_dir(), source: error })?;
    let text = match workload {
        // One iteration has two All-to-Alls.
        Workload::Moe => {
            "iterations = 8\n[workload]\nkind = \"moe\"\nmodel = \"deepseek-v3\"\nrouting = { dirichlet = 16.0 }\n\
             skew = { base = \"1 ms\", per_compute = 0.15 }\n[compute]\nexpert = \"500 us\"\n"
                .to_owned()
        }
        Workload::Unequal => {
            let flows = flows_csv(cluster.ranks());
            let file = folder.path().join("flows.csv");
            std::fs::write(&file, flows).map_err(|error| SimBenchError::Folder { folder: file, source: error })?;
            "[workload]\nkind = \"transfers\"\nfile = \"flows.csv\"\n".to_owned()
        }
        Workload::Rounds => {
            let bytes = MEAN_BYTES * u64::from(cluster.ranks());
            format!(
                "[workload]\nkind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"{bytes} B\"\n\
                 [[variant]]\nname = \"native\"\norder = \"shifted-rounds\"\n"
            )
        }
    };
    // Keys of the root come before tables.
    let (root, tables) = text.split_at(text.find('[').expect("a workload is a table"));
    let text = format!("name = \"bench\"\nseed = 1\n{root}{}{tables}", cluster.text());
    scenario(&Source::from_text("bench", text, folder.path()), cancel)
}

pub(super) fn scenario(source: &Source, cancel: &Cancel) -> Result<Run, SimBenchError> {
    let begin_s = cpu_s();
    let experiment = load(source, &[], None)?;
    let mut prepared = Prepared::new(&experiment, cancel)?;
    let prepared_s = cpu_s();
    let (mut transfers, mut simulated_s) = (0, 0.0);
    for index in 0..experiment.variants.len() {
        let timeline = prepared.run(index, SIM, cancel)?.timeline;
        transfers += timeline.spans.iter().filter(|span| span.lane == Lane::Tx).count() as u64;
        simulated_s += timeline.iterations.iter().map(|iteration| iteration.length_s).sum::<f64>();
    }
    let ranks = experiment.topology.ranks();
    let cpu_s = cpu_s() - prepared_s;
    Ok(Run { ranks, transfers, simulated_s, prepare_s: prepared_s - begin_s, cpu_s, work: None })
}

fn flows_csv(ranks: u32) -> String {
    let mut csv = "src,dst,bytes,start_us\n".to_owned();
    for transfer in all_pairs(ranks, Sizes::Unequal) {
        let (src, dst, bytes) = (transfer.src, transfer.dst, transfer.bytes);
        writeln!(csv, "{src},{dst},{bytes},0").expect("strings take everything");
    }
    csv
}

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

/// Seconds for which the system let this process run, in user and system mode. Only differences mean something.
#[cfg(unix)]
pub(super) fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds that have passed: what comes nearest where the system is not asked how long a process has run.
#[cfg(not(unix))]
pub(super) fn cpu_s() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

/// The most bytes that this process has had in memory at once, if the system says so.
pub(super) fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

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

    #[test]
    fn work_takes_time() {
        let begin_s = cpu_s();
        let sum = (0..10_000_000_u64).fold(0, |sum: u64, i| std::hint::black_box(sum.rotate_left(3) ^ i));
        assert!(cpu_s() > begin_s, "{sum} came for nothing");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_was_used_counts() {
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_bytes().is_some_and(|peak| peak >= block.len() as u64));
    }
}
