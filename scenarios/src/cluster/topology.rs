//! `cluster.topology`: what connects GPUs and nodes, by name or as a table with sizes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use zipwire_cluster::{CrossRail, Fabric, FatTree, Pods, Rail, Uplink};

use super::{RANK_LIMIT, graph};
use crate::error::Result;
use crate::language::{
    AnyKey, Field, Key, Reader, Schema, bandwidth, choice, integer, keys, named, names, number, one_of, table,
};
use crate::problem::Problem;

/// One would add bandwidth that the level below cannot use.
const OVERSUBSCRIPTION: RangeInclusive<f64> = 1.0..=1e6;

keys! { static KEYS =
    kind: Kind = choice("topology", &Kind::ALL, Kind::name), "what connects GPUs and nodes", needed = "\"rail\"";
}

keys! { static NODES =
    host_bandwidth: f64 = bandwidth(), "what all transfers between GPUs of a node share, in each direction; nothing by default";
}

keys! { static RAIL =
    oversubscription: f64 = number(OVERSUBSCRIPTION), "bandwidth of all links below over that of the uplink of each rail switch to the spine; 1 by default";
    uplink_bandwidth: f64 = bandwidth(), "bandwidth of the uplink of each rail switch to the spine, in each direction, instead";
    cross_rail: CrossRail = choice("way between rails", &CrossRail::ALL, CrossRail::name), "where traffic changes rails: `spine`, the default, or inside the node, `pxn`";
}

keys! { static FAT_TREE =
    nodes_per_leaf: u32 = integer(1..=RANK_LIMIT), "nodes below each leaf switch", needed = "4";
    oversubscription: f64 = number(OVERSUBSCRIPTION), "bandwidth of all links below over that of the uplink of each leaf to the spine; 1 by default";
    uplink_bandwidth: f64 = bandwidth(), "bandwidth of the uplink of each leaf to the spine, in each direction, instead";
    leaves_per_pod: u32 = integer(1..=RANK_LIMIT), "leaves of each pod; no pods by default";
    pod_oversubscription: f64 = number(OVERSUBSCRIPTION), "bandwidth of all links below over that of the uplink of each pod to the core; 1 by default";
    pod_uplink_bandwidth: f64 = bandwidth(), "bandwidth of the uplink of each pod to the core, in each direction, instead";
}

named! {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Flat = "flat",
        Nodes = "nodes",
        Rail = "rail",
        FatTree = "fat-tree",
        Graph = "graph",
    }
}

impl Kind {
    /// A table of this kind that can stand as it is; `None` if the name is enough.
    fn example(self) -> Option<&'static str> {
        match self {
            Self::Flat | Self::Nodes | Self::Rail => None,
            Self::FatTree => Some("{ kind = \"fat-tree\", nodes_per_leaf = 4, oversubscription = 2.0 }"),
            Self::Graph => Some(
                "{ kind = \"graph\", switches = [\"s\"], edges = [{ between = [\"gpu 0\", \"s\"], \
                 bandwidth = \"25 GB/s\" }, ...] }",
            ),
        }
    }

    fn keys(self) -> Vec<&'static dyn AnyKey> {
        let own = match self {
            Self::Flat => &[],
            Self::Nodes => NODES.all,
            Self::Rail => RAIL.all,
            Self::FatTree => FAT_TREE.all,
            Self::Graph => graph::KEYS.all,
        };
        [KEYS.all, own].concat()
    }

    fn schema(self) -> Schema {
        table(&self.keys()).only(KEYS.kind.name, [self.name()])
    }
}

/// Reads a name or a table, for a cluster of `ranks`.
pub(super) fn read(field: &Field<'_>, ranks: u32) -> Result<Fabric> {
    if field.as_string().is_some() {
        let kind = KEYS.kind.kind.read(field)?;
        return match (kind, kind.example()) {
            (Kind::Flat, _) => Ok(Fabric::Flat),
            (Kind::Rail, _) => Ok(Fabric::Rail(Rail::default())),
            (_, None) => Ok(Fabric::Nodes),
            (_, Some(example)) => {
                let (path, name) = (field.path.clone(), kind.name());
                Err(field.error(Problem::BareTopology { path, name, example }))
            }
        };
    }
    let kind = field.tag(KEYS.kind)?;
    let table = field.table(&kind.keys())?;
    Ok(match kind {
        Kind::Flat => Fabric::Flat,
        Kind::Nodes => {
            table.get(NODES.host_bandwidth)?.map_or(Fabric::Nodes, |bandwidth| Fabric::Host { bandwidth })
        }
        Kind::Rail => {
            let cross_rail = table.get(RAIL.cross_rail)?.unwrap_or_default();
            Fabric::Rail(Rail {
                uplink: uplink(&table, RAIL.oversubscription, RAIL.uplink_bandwidth)?,
                cross_rail,
            })
        }
        Kind::FatTree => Fabric::FatTree(FatTree {
            nodes_per_leaf: table.need(FAT_TREE.nodes_per_leaf)?,
            uplink: uplink(&table, FAT_TREE.oversubscription, FAT_TREE.uplink_bandwidth)?,
            pods: pods(&table)?,
        }),
        Kind::Graph => Fabric::Graph(Arc::new(graph::read(&table, field, ranks, without_limit_of_ranks())?)),
    })
}

/// Schema of the values that [`read`] accepts.
pub(super) fn schema() -> Schema {
    let bare = Kind::ALL.into_iter().filter(|kind| kind.example().is_none()).map(Kind::name);
    one_of([names(bare)].into_iter().chain(Kind::ALL.map(Kind::schema)))
}

/// A topology of one of these kinds, by name or as a table, whatever else is in it.
pub(super) fn of_kind(kinds: &[&'static str]) -> Schema {
    let kind = names(kinds.iter().copied());
    let table = Schema::with_key(KEYS.kind.name, &kind);
    one_of([kind, table])
}

/// The topologies whose routes are in no table.
fn without_limit_of_ranks() -> Vec<&'static str> {
    Kind::ALL.into_iter().filter(|&kind| kind != Kind::Graph).map(Kind::name).collect()
}

/// An uplink's bandwidth by one or none of two keys.
fn uplink(table: &Reader<'_>, factor: &Key<f64>, declared: &Key<f64>) -> Result<Uplink> {
    if table.field(declared).is_some() {
        table.refuse(factor, "the bandwidth of the uplink is given")?;
    }
    let (declared, factor) = (table.get(declared)?, table.get(factor)?);
    Ok(match declared {
        Some(bandwidth) => Uplink::Bandwidth(bandwidth),
        None => factor.map_or(Uplink::default(), Uplink::Oversubscribed),
    })
}

fn pods(table: &Reader<'_>) -> Result<Option<Pods>> {
    let (factor, declared) = (FAT_TREE.pod_oversubscription, FAT_TREE.pod_uplink_bandwidth);
    let Some(leaves_per_pod) = table.get(FAT_TREE.leaves_per_pod)? else {
        table.refuse_all(&[factor, declared], "without `leaves_per_pod` there are no pods")?;
        return Ok(None);
    };
    Ok(Some(Pods { leaves_per_pod, uplink: uplink(table, factor, declared)? }))
}
