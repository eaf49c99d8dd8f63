//! `[cluster]`: how many GPUs, and what connects them.

use zipwire_schedule::{HostCost, Topology};

use crate::error::Result;
use crate::problem::Problem;
use crate::reader::Field;

/// Most ranks of a cluster: plans are held whole, and a matrix of rank pairs takes 128 MiB at this size.
const RANK_LIMIT: u32 = 4096;

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
    let host = HostCost { launch_s: time("launch")?, sync_s: time("host_sync")? };
    let topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth,
        nic_bandwidth,
        latency_intra_s,
        latency_inter_s,
    };
    Ok((topology, host))
}
