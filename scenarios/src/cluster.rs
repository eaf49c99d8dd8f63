//! `[cluster]`: how many GPUs, what connects them, and how the network is modelled.

pub(crate) mod codec_speed;
mod graph;
pub(crate) mod library;
mod links;
mod preset;
mod topology;

use std::collections::BTreeMap;

use zipwire_cluster::library::Hardware;
use zipwire_cluster::{Fabric, HostCost, LibraryCost, NetworkModel, Slowdown, Topology, TransferStart};

pub(crate) use codec_speed::CodecSpeeds;
pub use codec_speed::{DeclaredSpeed, SpeedBasis};
pub(crate) use links::read as read_links;
pub use preset::{Preset, presets};
pub(crate) use topology::without_limit_of_ranks;

use crate::error::Result;
use crate::files::Files;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{
    Condition, Rule, Schema, bandwidth, count, integer, map, names, optional, string, table, time,
};
use crate::slowdown;

/// Most ranks of a cluster: plans are held whole, and a matrix of rank pairs takes 128 MiB at this size.
pub(crate) const RANK_LIMIT: u32 = 4096;

/// Where the keys that are left out come from, and then the keys of the hardware.
const KEYS: &[&str] = &[
    "preset",
    "file",
    "nodes",
    "gpus_per_node",
    "topology",
    "gpu_bandwidth",
    "nic_bandwidth",
    "nics_per_node",
    "latency_intra",
    "latency_inter",
    "launch",
    "host_sync",
    "compute_slowdown",
    "reduce",
    "library",
    "codec_speed",
    "links",
    "model",
    "start",
];

/// What a hardware file may say: all but where the rest comes from.
const FILE_KEYS: &[&str] = KEYS.split_at(2).1;

/// A resolved `[cluster]`.
pub(crate) struct Cluster {
    /// At least 2 ranks.
    pub(crate) topology: Topology,
    pub(crate) host: HostCost,
    /// How fast its GPUs code, as far as it says so.
    pub(crate) codec_speeds: CodecSpeeds,
    pub(crate) model: NetworkModel,
    pub(crate) start: TransferStart,
}

/// Reads the table.
pub(crate) fn read(field: &Field<'_>, files: &Files) -> Result<Cluster> {
    let merged = preset::merge(field, files)?;
    let table = Field::at(&field.path, &merged).table(FILE_KEYS)?;
    let nodes_field = table.need("nodes", "1")?;
    let nodes = nodes_field.integer_u32(1..=RANK_LIMIT)?;
    let gpus_field = table.need("gpus_per_node", "8")?;
    let gpus_per_node = gpus_field.integer_u32(1..=RANK_LIMIT)?;

    let ranks = u64::from(nodes) * u64::from(gpus_per_node);
    if !(2..=u64::from(RANK_LIMIT)).contains(&ranks) {
        let path = format!("{} x {}", nodes_field.path, gpus_field.path);
        let limits = format!("from 2 to {RANK_LIMIT} ranks");
        let problem = Problem::OutOfRange { path, value: ranks.to_string(), limits };
        return Err(gpus_field.error(problem).with(nodes_field.place(), "times this"));
    }
    let fabric = match table.get("topology") {
        Some(field) => topology::read(&field, nodes * gpus_per_node)?,
        None => Fabric::default(),
    };

    // The keys of another topology, or of the network between nodes where there is one node, have no use here. They may stay,
    // so that topologies can be swapped and clusters scaled.
    let is_unused = |key, is_used: bool| !is_used && table.get(key).is_none();
    let gpu_bandwidth = match "gpu_bandwidth" {
        key if is_unused(key, !matches!(fabric, Fabric::Graph(_))) => 0.0,
        key => table.need(key, "\"25 GB/s\"")?.bandwidth()?,
    };
    let latency_intra_s = table.need("latency_intra", "\"5 us\"")?.time()?;
    let nic_bandwidth = match "nic_bandwidth" {
        key if is_unused(key, nodes > 1 && fabric.has_nics()) => gpu_bandwidth,
        key => table.need(key, "\"25 GB/s\"")?.bandwidth()?,
    };
    let latency_inter_s = match "latency_inter" {
        key if is_unused(key, nodes > 1) => latency_intra_s,
        key => table.need(key, "\"10 us\"")?.time()?,
    };
    let nics_per_node = match table.get("nics_per_node") {
        Some(nics_field) => {
            let is_own = |key| field.peek(key).map(|own| own.is_some());
            read_nics(&nics_field, &gpus_field, !is_own("nics_per_node")? && is_own("gpus_per_node")?)?
        }
        None => 1,
    };
    let time = |key| table.get(key).map_or(Ok(0.0), |field| field.time());
    let compute_slowdown =
        table.get("compute_slowdown").map_or(Ok(Slowdown::default()), |field| slowdown::read(&field))?;
    let reduce_bytes_per_s =
        table.get("reduce").map_or(Ok(HostCost::REDUCE_BYTES_PER_S), |field| field.bandwidth())?;
    let hardware = Hardware {
        nodes,
        gpus_per_node,
        gpu_bytes_per_s: gpu_bandwidth,
        node_bytes_per_s: nic_bandwidth * f64::from(nics_per_node),
        nvlink_domain: 0,
    };
    let library =
        table.get("library").map_or(Ok(LibraryCost::default()), |field| library::read(&field, hardware))?;
    let codec_speeds =
        table.get("codec_speed").map_or(Ok(CodecSpeeds::new()), |field| codec_speed::read(&field))?;
    let (launch_s, sync_s) = (time("launch")?, time("host_sync")?);
    let host = HostCost { launch_s, sync_s, compute_slowdown, reduce_bytes_per_s, library };
    let mut topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth,
        nic_bandwidth,
        latency_intra_s,
        latency_inter_s,
        fabric,
        link_bandwidths: BTreeMap::new(),
    };
    if let Some(field) = table.get("links") {
        topology.link_bandwidths = links::read(&field, &topology)?;
    }
    let model = match table.get("model") {
        Some(field) => field.choice("network model", &NetworkModel::ALL, NetworkModel::name)?,
        None => NetworkModel::default(),
    };
    let start = match table.get("start") {
        Some(field) => field.choice("start of transfers", &TransferStart::ALL, TransferStart::name)?,
        None => TransferStart::default(),
    };
    Ok(Cluster { topology, host, codec_speeds, model, start })
}

/// NICs of each node: at most one per GPU. Whoever takes fewer GPUs than the hardware has is told so there, and not where the
/// hardware has its NICs.
fn read_nics(nics: &Field<'_>, gpus: &Field<'_>, are_gpus_own: bool) -> Result<u32> {
    let most = gpus.integer_u32(1..=RANK_LIMIT)?;
    if !are_gpus_own {
        return nics.integer_u32(1..=most);
    }
    match nics.integer_u32(1..=RANK_LIMIT)? {
        count if count > most => {
            let problem = Problem::NicsPerNode { gpus: most, nics: count };
            Err(gpus.error(problem).with(nics.place(), "the NICs"))
        }
        count => Ok(count),
    }
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        optional("preset", "hardware that comes with zipwire, for the keys that are left out", names(preset::names())),
        optional("file", "a hardware file with the keys that are left out, relative to the scenario", string()),
        optional("nodes", "number of nodes; nodes x GPUs from 2 to 4096", integer(1..=RANK_LIMIT)),
        optional("gpus_per_node", "GPUs of each node; a rank is a GPU", integer(1..=RANK_LIMIT)),
        optional("topology", "what connects GPUs and nodes; `nodes` by default", topology::schema()),
        optional("gpu_bandwidth", "bandwidth of a GPU's link, in each direction; not for a graph", bandwidth()),
        optional("nic_bandwidth", "bandwidth of one NIC, in each direction; needed for 2 nodes and more, if they have NICs", bandwidth()),
        optional("nics_per_node", "NICs of each node, at most one per GPU; 1 by default", count()),
        optional("latency_intra", "time before the first byte moves within a node", time()),
        optional("latency_inter", "time before the first byte moves between nodes; needed for 2 nodes and more", time()),
        optional("links", "single links that differ, by name: `gpu 3 up`, `nic 0 down`, `leaf 1 up`", map(bandwidth())),
        optional("model", "how the rates of transfers follow from the links that they share; `max-min` by default", names(NetworkModel::ALL.map(NetworkModel::name))),
        optional("start", "whom a transfer waits for once its exchange is open: its two ranks, or all that take part; `rendezvous` by default", names(TransferStart::ALL.map(TransferStart::name))),
        optional("launch", "time from issuing a compute phase or an exchange until it begins; none by default", time()),
        optional("host_sync", "time from the arrival of an exchange's last size until the host knows it; none by default", time()),
        optional("reduce", "bytes per second that a GPU reads where it adds values up; `400 GB/s` by default", bandwidth()),
        optional("library", "what calls of a communication library's own collectives cost; needed where a variant has the algorithm `library`", library::schema()),
        optional("codec_speed", "how fast the GPUs code, by codec; for scenarios whose `[codec]` has no `speed`", codec_speed::schema()),
        optional("compute_slowdown", "how many times as long compute takes while other lanes of its rank are busy; 1 by default", slowdown::schema()),
    ];
    // With a preset or a file, only what they leave open is needed, and that is not in the scenario.
    let alone = || vec![Condition::Lacks("preset"), Condition::Lacks("file")];
    let and = |conditions: Vec<Condition>| Condition::All([alone(), conditions].concat());
    let several = || Condition::Is("nodes", integer(2..=RANK_LIMIT));
    let other_than = |kinds: &[&'static str]| Condition::IsNot("topology", topology::of_kind(kinds));
    table(KEYS, keys)
        .when(Condition::Has("preset"), Rule::Refuses(&["file"]))
        .when(and(vec![]), Rule::Needs(&["nodes", "gpus_per_node", "latency_intra"]))
        .when(and(vec![other_than(&["graph"])]), Rule::Needs(&["gpu_bandwidth"]))
        .when(and(vec![several()]), Rule::Needs(&["latency_inter"]))
        .when(and(vec![several(), other_than(&["flat", "graph"])]), Rule::Needs(&["nic_bandwidth"]))
}
