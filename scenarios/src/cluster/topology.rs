//! `cluster.topology`: what connects GPUs and nodes, by name, as a table with sizes, or
//! drawn vertex by vertex.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use zipwire_cluster::{CrossRail, Fabric, FatTree, Graph, GraphError, GraphLink, Pods, Rail, Uplink, Vertex};
use zipwire_schedule::Rank;
use zipwire_traces::nearest;

use super::RANK_LIMIT;
use crate::error::Result;
use crate::language::{
    AnyKey, Condition, Field, Key, Raw, Reader, Rule, Schema, array, bandwidth, choice, integer, keys, named,
    names, number, one_of, raw, string, table, time,
};
use crate::problem::{GraphProblem, Problem};
use crate::tree::Place;

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
            Self::Graph => GRAPH.all,
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
        Kind::Graph => Fabric::Graph(Arc::new(read_graph(&table, field, ranks, without_limit_of_ranks())?)),
    })
}

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

/// Most switches, and most edges: several for each pair of the most ranks would be no network.
const LIMIT: usize = 1 << 16;

keys! { pub(super) static GRAPH =
    switches: Raw = raw(|| array(string()).at_most(LIMIT)), "names of all vertices that are no GPUs";
    edges: Raw = raw(|| array(edge_schema()).at_most(LIMIT)), "links between GPUs, `gpu 0`, and switches", needed = "[{ between = [\"gpu 0\", \"gpu 1\"], bandwidth = \"25 GB/s\" }]";
}

keys! { static EDGE =
    between: Raw = raw(|| array(string()).exactly(2)), "two ends, of an edge in both directions";
    from: Raw = raw(string), "where an edge in one direction begins";
    to: Raw = raw(string), "where it ends", example = "\"gpu 1\"";
    bandwidth: f64 = bandwidth(), "bandwidth in each direction that it has", needed = "\"25 GB/s\"";
    latency: f64 = time(), "time that it adds to the latency of every route over it; none by default";
}

fn edge_rules() -> Vec<Rule> {
    vec![
        Rule::one_of(&[EDGE.between, EDGE.from]),
        Condition::Has(EDGE.from).needs(&[EDGE.to]),
        Condition::Has(EDGE.between).refuses(&[EDGE.to], "`between` names both ends"),
    ]
}

fn edge_schema() -> Schema {
    table(EDGE.all).with(edge_rules())
}

/// Reads the keys of a graph; `field` is the table as a whole, `others` are the topologies that take more ranks.
fn read_graph(table: &Reader<'_>, field: &Field<'_>, ranks: u32, others: Vec<&'static str>) -> Result<Graph> {
    let vertices = Vertices::read(table.field(GRAPH.switches).as_ref(), ranks)?;
    let edges = table.need_field(GRAPH.edges)?;
    let items = limited(&edges)?;
    let (mut links, mut places) = (Vec::new(), BTreeMap::<(Vertex, Vertex), Place>::new());
    for item in &items {
        for link in edge(item, &vertices)? {
            if let Some(first) = places.insert((link.src, link.dst), item.place()) {
                let [src, dst] = [link.src, link.dst].map(|vertex| vertices.name(vertex));
                return Err(item.error(GraphProblem::TwoEdges { src, dst }.into()).with(first, "and here"));
            }
            links.push(link);
        }
    }
    Graph::new(ranks, vertices.switches, links).map_err(|error| match error {
        GraphError::Ranks { .. } => field.error(GraphProblem::Ranks { error, others }.into()),
        _ => edges.error(GraphProblem::Graph(error).into()),
    })
}

/// One link, or two if it goes both ways.
fn edge(item: &Field<'_>, vertices: &Vertices) -> Result<Vec<GraphLink>> {
    let table = item.table(EDGE.all)?;
    table.check(&edge_rules())?;
    let ends = match table.field(EDGE.between) {
        Some(field) => {
            let ends = field.array()?;
            <[_; 2]>::try_from(ends).map_err(|ends| {
                let (path, found) = (field.path.clone(), ends.len());
                field.error(GraphProblem::NotTwoEnds { path, found }.into())
            })?
        }
        None => [table.need_field(EDGE.from)?, table.need_field(EDGE.to)?],
    };
    let is_two_way = table.field(EDGE.between).is_some();
    let [src, dst] = [vertices.find(&ends[0])?, vertices.find(&ends[1])?];
    if src == dst {
        return Err(ends[1].error(GraphProblem::Loop { vertex: vertices.name(src) }.into()));
    }
    let bandwidth = table.need(EDGE.bandwidth)?;
    let latency_s = table.get(EDGE.latency)?.unwrap_or(0.0);
    let there = GraphLink { src, dst, bandwidth, latency_s };
    let back = GraphLink { src: dst, dst: src, ..there };
    Ok(if is_two_way { vec![there, back] } else { vec![there] })
}

/// All places of a graph, by name.
struct Vertices {
    ranks: u32,
    switches: Vec<String>,
    by_name: HashMap<String, Vertex>,
}

impl Vertices {
    fn read(field: Option<&Field<'_>>, ranks: u32) -> Result<Self> {
        let mut by_name: HashMap<String, Vertex> =
            (0..ranks).map(|rank| (format!("gpu {rank}"), Vertex::Gpu(Rank(rank)))).collect();
        let mut switches = Vec::new();
        for item in field.map_or(Ok(Vec::new()), limited)? {
            let name = item.string()?.to_owned();
            let is_word = |word: &str| {
                !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
            };
            if name.split(' ').next() == Some("gpu") || !name.split(' ').all(is_word) {
                return Err(item.error(GraphProblem::BadSwitch { name }.into()));
            }
            let vertex = Vertex::Switch(switches.len() as u32);
            if by_name.insert(name.clone(), vertex).is_some() {
                return Err(item.error(GraphProblem::TwoSwitches { name }.into()));
            }
            switches.push(name);
        }
        Ok(Self { ranks, switches, by_name })
    }

    fn find(&self, field: &Field<'_>) -> Result<Vertex> {
        let name = field.string()?;
        self.by_name.get(name).copied().ok_or_else(|| {
            let gpus: Vec<String> = (0..self.ranks).map(|rank| format!("gpu {rank}")).collect();
            let names = gpus.iter().chain(&self.switches).map(String::as_str);
            let nearest = nearest(name, names).map(str::to_owned);
            let (name, gpus, switches) = (name.to_owned(), self.ranks, self.switches.clone());
            field.error(GraphProblem::UnknownVertex { name, nearest, gpus, switches }.into())
        })
    }

    fn name(&self, vertex: Vertex) -> String {
        match vertex {
            Vertex::Gpu(rank) => format!("gpu {rank}"),
            Vertex::Switch(index) => self.switches[index as usize].clone(),
        }
    }
}

fn limited<'a>(field: &Field<'a>) -> Result<Vec<Field<'a>>> {
    let items = field.array()?;
    if items.len() > LIMIT {
        let what = format!("entries of `{}`", field.path);
        return Err(field.error(Problem::out_of_range(what, items.len(), format!("at most {LIMIT}"))));
    }
    Ok(items)
}
