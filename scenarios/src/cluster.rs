//! `[cluster]`: how many GPUs, and what connects them.

use std::collections::{BTreeMap, HashMap};

use zipwire_schedule::{HostCost, LinkId, Slowdown, Topology};

use crate::document::Place;
use crate::error::Result;
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::reader::Field;
use crate::schema::{Condition, Rule, Schema, bandwidth, count, integer, map, needed, optional, table, time};
use crate::slowdown;

/// Most ranks of a cluster: plans are held whole, and a matrix of rank pairs takes 128 MiB at this size.
pub(crate) const RANK_LIMIT: u32 = 4096;

const KEYS: &[&str] = &[
    "nodes",
    "gpus_per_node",
    "gpu_bandwidth",
    "nic_bandwidth",
    "nics_per_node",
    "latency_intra",
    "latency_inter",
    "launch",
    "host_sync",
    "compute_slowdown",
    "links",
];

/// Reads the table. At least 2 ranks.
pub(crate) fn read(field: &Field<'_>) -> Result<(Topology, HostCost)> {
    let table = field.table(KEYS)?;
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

    let gpu_bandwidth = table.need("gpu_bandwidth", "\"25 GB/s\"")?.bandwidth()?;
    let latency_intra_s = table.need("latency_intra", "\"5 us\"")?.time()?;
    // One node has no use for the keys of the network between nodes; they may stay, to be scaled up again.
    let is_unused = |key| nodes == 1 && table.get(key).is_none();
    let nic_bandwidth = match "nic_bandwidth" {
        key if is_unused(key) => gpu_bandwidth,
        key => table.need(key, "\"25 GB/s\"")?.bandwidth()?,
    };
    let latency_inter_s = match "latency_inter" {
        key if is_unused(key) => latency_intra_s,
        key => table.need(key, "\"10 us\"")?.time()?,
    };
    let nics_per_node = match table.get("nics_per_node") {
        Some(field) => field.integer_u32(1..=gpus_per_node)?,
        None => 1,
    };
    let time = |key| table.get(key).map_or(Ok(0.0), |field| field.time());
    let compute_slowdown =
        table.get("compute_slowdown").map_or(Ok(Slowdown::default()), |field| slowdown::read(&field))?;
    let host = HostCost { launch_s: time("launch")?, sync_s: time("host_sync")?, compute_slowdown };
    let mut topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth,
        nic_bandwidth,
        latency_intra_s,
        latency_inter_s,
        link_bandwidths: BTreeMap::new(),
    };
    if let Some(field) = table.get("links") {
        topology.link_bandwidths = links(&field, &topology)?;
    }
    Ok((topology, host))
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        needed("nodes", "number of nodes; nodes x GPUs from 2 to 4096", integer(1..=RANK_LIMIT)),
        needed("gpus_per_node", "GPUs of each node; a rank is a GPU", integer(1..=RANK_LIMIT)),
        needed("gpu_bandwidth", "bandwidth of a GPU's link, in each direction", bandwidth()),
        optional("nic_bandwidth", "bandwidth of one NIC, in each direction; needed for 2 nodes and more", bandwidth()),
        optional("nics_per_node", "NICs of each node, at most one per GPU; 1 by default", count()),
        needed("latency_intra", "time before the first byte moves within a node", time()),
        optional("latency_inter", "time before the first byte moves between nodes; needed for 2 nodes and more", time()),
        optional("links", "single links that differ, by name: `gpu 3 up`, `nic 0 down`", map(bandwidth())),
        optional("launch", "time from issuing a compute phase or an exchange until it begins; none by default", time()),
        optional("host_sync", "time from the arrival of an exchange's last size until the host knows it; none by default", time()),
        optional("compute_slowdown", "how many times as long compute takes while other lanes of its rank are busy; 1 by default", slowdown::schema()),
    ];
    let several = || Condition::Is("nodes", integer(2..=RANK_LIMIT));
    table(KEYS, keys).when(several(), Rule::Needs(&["nic_bandwidth", "latency_inter"]))
}

/// Single links that differ, by name.
fn links(field: &Field<'_>, topology: &Topology) -> Result<BTreeMap<LinkId, f64>> {
    let by_name: HashMap<String, LinkId> =
        topology.links().map(|link| (topology.link_name(link), link)).collect();
    let bandwidth = |(name, place, value): (&str, &Place, Field<'_>)| match by_name.get(name) {
        Some(&link) => Ok((link, value.bandwidth()?)),
        None => Err(unknown_link(name, topology).at(place.clone())),
    };
    field.entries()?.into_iter().map(bandwidth).collect()
}

fn unknown_link(name: &str, topology: &Topology) -> Problem {
    let names: Vec<String> = topology.links().map(|link| topology.link_name(link)).collect();
    Problem::UnknownLink {
        name: name.to_owned(),
        nearest: nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
        gpus: topology.ranks(),
        nics: topology.nodes * topology.nics_per_node,
    }
}
