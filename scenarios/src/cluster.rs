//! `[cluster]`: how many GPUs, what connects them, and how the network is modelled.

pub(crate) mod codec_speed;
pub(crate) mod library;
mod preset;
mod topology;

use std::collections::{BTreeMap, HashMap};

use zipwire_cluster::library::Hardware;
use zipwire_cluster::{Fabric, HostCost, LinkId, NetworkModel, Slowdown, Topology, TransferStart};
use zipwire_traces::nearest;

use crate::error::Result;
use crate::files::Files;
use crate::language::{
    Condition, Field, Raw, Reader, Schema, bandwidth, choice, count, custom, integer, keys, map, number, raw,
    schema, table, time,
};
use crate::problem::Problem;
use crate::tree::Place;

pub(crate) use self::codec_speed::CodecSpeeds;
pub use self::codec_speed::{DeclaredSpeed, SpeedBasis};
pub use self::preset::{Preset, check_hardware, presets};

/// Most ranks of a cluster; kinds of workloads take fewer ([`Kind::rank_limit`](crate::workload::Kind::rank_limit)).
pub(crate) const RANK_LIMIT: u32 = 1 << 16;

// Of hardware: what a hardware file may say, too.
keys! { static KEYS =
    nodes: u32 = integer(1..=RANK_LIMIT), "number of nodes; nodes x GPUs from 2 to as many as the kind of workload takes, at most 65536", example = "1";
    gpus_per_node: u32 = integer(1..=RANK_LIMIT), "GPUs of each node; a rank is a GPU", example = "8";
    topology: Raw = raw(topology::schema), "what connects GPUs and nodes; `nodes` by default";
    gpu_bandwidth: f64 = bandwidth(), "bandwidth of a GPU's link, in each direction; not for a graph", example = "\"25 GB/s\"";
    nic_bandwidth: f64 = bandwidth(), "bandwidth of one NIC, in each direction; needed for 2 nodes and more, if they have NICs", example = "\"25 GB/s\"";
    nics_per_node: Raw = raw(count), "NICs of each node, at most one per GPU; 1 by default";
    latency_intra: f64 = time(), "time before the first byte moves within a node", example = "\"5 us\"";
    latency_inter: f64 = time(), "time before the first byte moves between nodes; needed for 2 nodes and more", example = "\"10 us\"";
    launch: f64 = time(), "time from issuing a compute phase or an exchange until it begins; none by default";
    host_sync: f64 = time(), "time from the arrival of an exchange's last size until the host knows it; none by default";
    compute_slowdown: Slowdown = custom(read_slowdown, || table(SLOWDOWN.all)), "how many times as long compute takes while other lanes of its rank are busy; 1 by default";
    reduce: f64 = bandwidth(), "bytes per second that a GPU reads where it adds values up; `400 GB/s` by default";
    gpu_memory: u64 = custom(|field| field.bytes(1), schema::bytes), "memory of a GPU; weights that have no room in it are refused; unknown by default", example = "\"80 GB\"";
    library: Raw = raw(library::schema), "what calls of a communication library's own collectives cost; needed where a variant has the algorithm `library`";
    codec_speed: CodecSpeeds = custom(codec_speed::read, codec_speed::schema), "how fast the GPUs code, by codec; for scenarios whose `[codec]` has no `speed`";
    links: Raw = raw(|| map(schema::bandwidth())), "single links that differ, by name: `gpu 3 up`, `nic 0 down`, `leaf 1 up`";
    model: NetworkModel = choice("network model", &NetworkModel::ALL, NetworkModel::name), "how the rates of transfers follow from the links that they share; `max-min` by default";
    start: TransferStart = choice("start of transfers", &TransferStart::ALL, TransferStart::name), "whom a transfer waits for once its exchange is open: its two ranks, or all that take part; `rendezvous` by default";
}

/// Other work on the rank makes nothing faster; and work that takes a thousand times as long does not overlap.
const SLOWDOWN_LIMITS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

keys! { static SLOWDOWN =
    codec: f64 = number(SLOWDOWN_LIMITS), "factor while the rank encodes or decodes; 1 by default";
    exchange: f64 = number(SLOWDOWN_LIMITS), "factor while a transfer of the rank is in latency or moving; 1 by default";
}

fn read_slowdown(field: &Field<'_>) -> Result<Slowdown> {
    let table = field.table(SLOWDOWN.all)?;
    let (codec, exchange) = (table.get(SLOWDOWN.codec)?, table.get(SLOWDOWN.exchange)?);
    Ok(Slowdown { codec: codec.unwrap_or(1.0), exchange: exchange.unwrap_or(1.0) })
}

pub(crate) struct Cluster {
    /// The hardware that it names.
    pub(crate) preset: Option<Preset>,
    /// At least 2 ranks.
    pub(crate) topology: Topology,
    pub(crate) host: HostCost,
    /// Most NVLink domains of a log that constants of the library's model are from, if that is known.
    pub(crate) fitted_domains: Option<u32>,
    /// Bytes of a GPU's memory, if they are known.
    pub(crate) gpu_memory: Option<u64>,
    /// Speeds of codecs on its GPUs, as far as they are stated.
    pub(crate) codec_speeds: CodecSpeeds,
    pub(crate) model: NetworkModel,
    pub(crate) start: TransferStart,
}

pub(crate) fn read(field: &Field<'_>, files: &Files) -> Result<Cluster> {
    let (merged, preset) = preset::merge(field, KEYS.all, files)?;
    let table = Field::at(&field.path, &merged).table(KEYS.all)?;
    let (nodes, gpus_per_node) = (table.need(KEYS.nodes)?, table.need(KEYS.gpus_per_node)?);

    let ranks = u64::from(nodes) * u64::from(gpus_per_node);
    let (nodes_field, gpus_field) = (table.need_field(KEYS.nodes)?, table.need_field(KEYS.gpus_per_node)?);
    if !(2..=u64::from(RANK_LIMIT)).contains(&ranks) {
        let what = format!("{} x {}", nodes_field.path, gpus_field.path);
        let problem = Problem::out_of_range(what, ranks, format!("from 2 to {RANK_LIMIT} ranks"));
        return Err(gpus_field.error(problem).with(nodes_field.place(), "times this"));
    }
    let fabric = match table.field(KEYS.topology) {
        Some(field) => topology::read(&field, nodes * gpus_per_node)?,
        None => Fabric::default(),
    };

    // The keys of another topology, or of the network between nodes where there is one node, have no use here. They may stay,
    // so that topologies can be swapped and clusters scaled.
    let gpu_bandwidth =
        table.get_or(KEYS.gpu_bandwidth, matches!(fabric, Fabric::Graph(_)).then_some(0.0))?;
    let latency_intra_s = table.need(KEYS.latency_intra)?;
    let nic_bandwidth =
        table.get_or(KEYS.nic_bandwidth, (nodes == 1 || !fabric.has_nics()).then_some(gpu_bandwidth))?;
    let latency_inter_s = table.get_or(KEYS.latency_inter, (nodes == 1).then_some(latency_intra_s))?;
    let nics_per_node = match table.field(KEYS.nics_per_node) {
        Some(nics_field) => {
            let is_own = |key| field.peek(key).map(|own| own.is_some());
            let are_gpus_own = !is_own(KEYS.nics_per_node)? && is_own(KEYS.gpus_per_node)?;
            read_nics(&nics_field, &gpus_field, gpus_per_node, are_gpus_own)?
        }
        None => 1,
    };
    let mut topology = Topology {
        nodes,
        gpus_per_node,
        nics_per_node,
        gpu_bandwidth,
        nic_bandwidth,
        latency_intra_s,
        latency_inter_s,
        fabric,
        nodes_per_domain: 1,
        link_bandwidths: BTreeMap::new(),
    };
    let (host, fitted_domains) = read_host(&table, topology.hardware())?;
    if let Some(model) = host.library.model {
        topology.nodes_per_domain = (model.hardware.nvlink_domain / gpus_per_node).clamp(1, nodes);
    }
    if let Some(field) = table.field(KEYS.links) {
        topology.link_bandwidths = read_links(&field, &topology)?;
    }
    Ok(Cluster {
        preset,
        topology,
        host,
        fitted_domains,
        gpu_memory: table.get(KEYS.gpu_memory)?,
        codec_speeds: table.get(KEYS.codec_speed)?.unwrap_or_default(),
        model: table.get(KEYS.model)?.unwrap_or_default(),
        start: table.get(KEYS.start)?.unwrap_or_default(),
    })
}

fn read_host(table: &Reader<'_>, hardware: Hardware) -> Result<(HostCost, Option<u32>)> {
    let library = table.field(KEYS.library).map(|field| library::read(&field, hardware)).transpose()?;
    let (library, fitted_domains) = library.unwrap_or_default();
    let host = HostCost {
        compute_slowdown: table.get(KEYS.compute_slowdown)?.unwrap_or_default(),
        reduce_bytes_per_s: table.get(KEYS.reduce)?.unwrap_or(HostCost::REDUCE_BYTES_PER_S),
        library,
        launch_s: table.get(KEYS.launch)?.unwrap_or(0.0),
        sync_s: table.get(KEYS.host_sync)?.unwrap_or(0.0),
    };
    Ok((host, fitted_domains))
}

/// NICs of each node: at most one per GPU. If the scenario takes fewer GPUs than the hardware has, the error points there, and not where the
/// hardware has its NICs.
fn read_nics(nics: &Field<'_>, gpus: &Field<'_>, most: u32, are_gpus_own: bool) -> Result<u32> {
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

pub(crate) fn schema() -> Schema {
    use Condition::{All, Fits, Lacks, Misfits};
    // With a preset or a file, only what they leave open is needed, and that is not in the scenario.
    let alone = |more: Option<Condition>, other: Option<Condition>| {
        let own = [Lacks(preset::KEYS.preset), Lacks(preset::KEYS.file)];
        All(own.into_iter().chain(more).chain(other).collect())
    };
    let several = || Some(Fits(KEYS.nodes, schema::integer(2..=RANK_LIMIT)));
    let other_than = |kinds: &[&'static str]| Some(Misfits(KEYS.topology, topology::of_kind(kinds)));
    table(&[preset::KEYS.all, KEYS.all].concat()).with(vec![
        alone(None, None).needs(&[KEYS.nodes, KEYS.gpus_per_node, KEYS.latency_intra]),
        alone(None, other_than(&["graph"])).needs(&[KEYS.gpu_bandwidth]),
        alone(several(), None).needs(&[KEYS.latency_inter]),
        alone(several(), other_than(&["flat", "graph"])).needs(&[KEYS.nic_bandwidth]),
    ])
}

/// Bytes per second of each link that the table names.
pub(crate) fn read_links(field: &Field<'_>, topology: &Topology) -> Result<BTreeMap<LinkId, f64>> {
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
        kinds: topology.kinds().collect(),
        edges: if matches!(topology.fabric, Fabric::Graph(_)) { names } else { Vec::new() },
    }
}
