//! A topology that is drawn vertex by vertex: `switches` by name, and `edges` between them and the GPUs, `gpu 0`, `gpu 1`, ...

use std::collections::{BTreeMap, HashMap};

use zipwire_cluster::{Graph, GraphError, GraphLink, Vertex};
use zipwire_schedule::Rank;

use crate::document::Place;
use crate::error::Result;
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Condition, Key, Rule, array, bandwidth, needed, optional, string, table, time};

const EDGE_KEYS: &[&str] = &["between", "from", "to", "bandwidth", "latency"];

/// Most switches, and most edges: several for each pair of the most ranks would be no network.
const LIMIT: usize = 1 << 16;

/// The schema of the keys that only a graph has.
pub(super) fn keys() -> [Key; 2] {
    #[rustfmt::skip]
    let edge = [
        optional("between", "two ends, of an edge in both directions", array(string()).exactly(2)),
        optional("from", "where an edge in one direction begins", string()),
        optional("to", "where it ends", string()),
        needed("bandwidth", "bandwidth in each direction that it has", bandwidth()),
        optional("latency", "time that it adds to the latency of every route over it; none by default", time()),
    ];
    let edge = table(EDGE_KEYS, edge)
        .with_one_of(&["between", "from"])
        .when(Condition::Has("from"), Rule::Needs(&["to"]))
        .when(Condition::Has("between"), Rule::Refuses(&["to"]));
    [
        optional("switches", "names of all vertices that are no GPUs", array(string()).at_most(LIMIT)),
        needed("edges", "links between GPUs, `gpu 0`, and switches", array(edge).at_most(LIMIT)),
    ]
}

/// Reads the keys of a graph; `field` is the table as a whole.
pub(super) fn read(table: &Reader<'_>, field: &Field<'_>, ranks: u32) -> Result<Graph> {
    let vertices = Vertices::read(table.get("switches").as_ref(), ranks)?;
    let edges = table.need("edges", "[{ between = [\"gpu 0\", \"gpu 1\"], bandwidth = \"25 GB/s\" }]")?;
    let items = limited(&edges)?;
    let (mut links, mut places) = (Vec::new(), BTreeMap::<(Vertex, Vertex), Place>::new());
    for item in &items {
        for link in edge(item, &vertices)? {
            if let Some(first) = places.insert((link.src, link.dst), item.place()) {
                let [src, dst] = [link.src, link.dst].map(|vertex| vertices.name(vertex));
                return Err(item.error(Problem::TwoEdges { src, dst }).with(first, "and here"));
            }
            links.push(link);
        }
    }
    Graph::new(ranks, vertices.switches, links).map_err(|error| match error {
        GraphError::Ranks { .. } => field.error(Problem::Graph(error)),
        _ => edges.error(Problem::Graph(error)),
    })
}

/// One link, or two if it goes both ways.
fn edge(item: &Field<'_>, vertices: &Vertices) -> Result<Vec<GraphLink>> {
    let table = item.table(EDGE_KEYS)?;
    let (ends, is_two_way) = match table.one_of(&["between", "from"])? {
        ("between", field) => {
            table.refuse("to", "`between` names both ends")?;
            let ends = field.array()?;
            let [a, b] = ends.as_slice() else {
                let (path, found) = (field.path.clone(), ends.len());
                return Err(field.error(Problem::NotTwoEnds { path, found }));
            };
            ([a.clone(), b.clone()], true)
        }
        (_, field) => ([field, table.need("to", "\"gpu 1\"")?], false),
    };
    let [src, dst] = [vertices.find(&ends[0])?, vertices.find(&ends[1])?];
    if src == dst {
        return Err(ends[1].error(Problem::Loop { vertex: vertices.name(src) }));
    }
    let bandwidth = table.need("bandwidth", "\"25 GB/s\"")?.bandwidth()?;
    let latency_s = table.get("latency").map_or(Ok(0.0), |field| field.time())?;
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
                return Err(item.error(Problem::BadSwitch { name }));
            }
            let vertex = Vertex::Switch(switches.len() as u32);
            if by_name.insert(name.clone(), vertex).is_some() {
                return Err(item.error(Problem::TwoSwitches { name }));
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
            field.error(Problem::UnknownVertex {
                name: name.to_owned(),
                nearest: nearest(name, names).map(str::to_owned),
                gpus: self.ranks,
                switches: self.switches.clone(),
            })
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
        let (path, value) = (format!("entries of `{}`", field.path), items.len().to_string());
        return Err(field.error(Problem::OutOfRange { path, value, limits: format!("at most {LIMIT}") }));
    }
    Ok(items)
}
