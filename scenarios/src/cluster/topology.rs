//! `cluster.topology`: what connects GPUs and nodes, by name or as a table with sizes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use zipwire_cluster::{CrossRail, Fabric, FatTree, Pods, Rail, Uplink};

use super::{RANK_LIMIT, graph};
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Key, Schema, bandwidth, integer, names, needed, number, one_of, optional, table};

/// One would add bandwidth that the level below cannot use.
const OVERSUBSCRIPTION: RangeInclusive<f64> = 1.0..=1e6;

/// The keys of a switch's uplink: one or none of both.
const UPLINK: [&str; 2] = ["oversubscription", "uplink_bandwidth"];
const POD_UPLINK: [&str; 2] = ["pod_oversubscription", "pod_uplink_bandwidth"];

/// The key of what GPUs of a node share within it.
const HOST: &str = "host_bandwidth";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flat,
    Nodes,
    Rail,
    FatTree,
    Graph,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Flat, Self::Nodes, Self::Rail, Self::FatTree, Self::Graph];

    fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Nodes => "nodes",
            Self::Rail => "rail",
            Self::FatTree => "fat-tree",
            Self::Graph => "graph",
        }
    }

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

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Flat => &["kind"],
            Self::Nodes => &["kind", HOST],
            Self::Rail => &["kind", UPLINK[0], UPLINK[1], "cross_rail"],
            Self::FatTree => &[
                "kind",
                "nodes_per_leaf",
                UPLINK[0],
                UPLINK[1],
                "leaves_per_pod",
                POD_UPLINK[0],
                POD_UPLINK[1],
            ],
            Self::Graph => &["kind", "switches", "edges"],
        }
    }

    fn schema(self) -> Schema {
        let mut keys = vec![needed("kind", "what connects GPUs and nodes", names([self.name()]))];
        match self {
            Self::Flat => {}
            Self::Nodes => keys.push(optional(
                HOST,
                "what all transfers between GPUs of a node share, in each direction; nothing by default",
                bandwidth(),
            )),
            Self::Rail => {
                keys.extend(uplink_keys(UPLINK, "of each rail switch to the spine"));
                let ways = names(CrossRail::ALL.map(CrossRail::name));
                keys.push(optional(
                    "cross_rail",
                    "where traffic changes rails: `spine`, the default, or inside the node, `pxn`",
                    ways,
                ));
            }
            Self::FatTree => {
                keys.push(needed("nodes_per_leaf", "nodes below each leaf switch", integer(1..=RANK_LIMIT)));
                keys.extend(uplink_keys(UPLINK, "of each leaf to the spine"));
                keys.push(optional(
                    "leaves_per_pod",
                    "leaves of each pod; no pods by default",
                    integer(1..=RANK_LIMIT),
                ));
                keys.extend(uplink_keys(POD_UPLINK, "of each pod to the core"));
            }
            Self::Graph => keys.extend(graph::keys()),
        }
        table(self.keys(), keys)
    }
}

/// Reads a name or a table, for a cluster of `ranks`.
pub(super) fn read(field: &Field<'_>, ranks: u32) -> Result<Fabric> {
    if field.as_string().is_some() {
        let kind = field.choice("topology", &Kind::ALL, Kind::name)?;
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
    let kind = match field.peek("kind")? {
        Some(kind) => kind.choice("topology", &Kind::ALL, Kind::name)?,
        None => {
            let (key, table, example) = ("kind".to_owned(), field.path.clone(), "\"rail\"".to_owned());
            return Err(field.error(Problem::MissingKey { key, table, example }));
        }
    };
    let table = field.table(kind.keys())?;
    Ok(match kind {
        Kind::Flat => Fabric::Flat,
        Kind::Nodes => match table.get(HOST) {
            Some(field) => Fabric::Host { bandwidth: field.bandwidth()? },
            None => Fabric::Nodes,
        },
        Kind::Rail => {
            let cross_rail = table.get("cross_rail").map_or(Ok(CrossRail::default()), |field| {
                field.choice("way between rails", &CrossRail::ALL, CrossRail::name)
            })?;
            Fabric::Rail(Rail { uplink: uplink(&table, UPLINK)?, cross_rail })
        }
        Kind::FatTree => Fabric::FatTree(FatTree {
            nodes_per_leaf: table.need("nodes_per_leaf", "4")?.integer_u32(1..=RANK_LIMIT)?,
            uplink: uplink(&table, UPLINK)?,
            pods: pods(&table)?,
        }),
        Kind::Graph => Fabric::Graph(Arc::new(graph::read(&table, field, ranks)?)),
    })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    let bare = Kind::ALL.into_iter().filter(|kind| kind.example().is_none()).map(Kind::name);
    one_of([names(bare)].into_iter().chain(Kind::ALL.map(Kind::schema)))
}

/// A topology of one of these kinds, by name or as a table, whatever else is in it.
pub(super) fn of_kind(kinds: &[&'static str]) -> Schema {
    let kind = names(kinds.iter().copied());
    let table = Schema::with_key("kind", &kind);
    one_of([kind, table])
}

/// The topologies whose routes are in no table.
pub(crate) fn without_limit_of_ranks() -> impl Iterator<Item = &'static str> {
    Kind::ALL.into_iter().filter(|&kind| kind != Kind::Graph).map(Kind::name)
}

fn uplink_keys([factor, declared]: [&'static str; 2], whose: &str) -> [Key; 2] {
    let oversubscription =
        format!("bandwidth of all links below over that of the uplink {whose}; 1 by default");
    let bandwidth_of = format!("bandwidth of the uplink {whose}, in each direction, instead");
    [
        optional(factor, &oversubscription, number(OVERSUBSCRIPTION)),
        optional(declared, &bandwidth_of, bandwidth()),
    ]
}

fn uplink(table: &Reader<'_>, [factor, declared]: [&'static str; 2]) -> Result<Uplink> {
    let factor_field = table.get(factor);
    Ok(match table.get(declared) {
        Some(_) if factor_field.is_some() => {
            table.refuse(factor, "the bandwidth of the uplink is given")?;
            Uplink::default()
        }
        Some(declared) => Uplink::Bandwidth(declared.bandwidth()?),
        None => factor_field.map_or(Ok(Uplink::default()), |factor| {
            Ok(Uplink::Oversubscribed(factor.number(OVERSUBSCRIPTION)?))
        })?,
    })
}

fn pods(table: &Reader<'_>) -> Result<Option<Pods>> {
    let Some(leaves) = table.get("leaves_per_pod") else {
        POD_UPLINK
            .iter()
            .try_for_each(|key| table.refuse(key, "without `leaves_per_pod` there are no pods"))?;
        return Ok(None);
    };
    let leaves_per_pod = leaves.integer_u32(1..=RANK_LIMIT)?;
    Ok(Some(Pods { leaves_per_pod, uplink: uplink(table, POD_UPLINK)? }))
}
