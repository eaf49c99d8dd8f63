//! A topology that is drawn vertex by vertex: `switches` by name, and `edges` between them and the GPUs, `gpu 0`, `gpu 1`, ...

use std::collections::{BTreeMap, HashMap};

use zipwire_cluster::{Graph, GraphError, GraphLink, Vertex};
use zipwire_schedule::Rank;
use zipwire_traces::nearest;

use crate::document::Place;
use crate::error::Result;
use crate::language::{
    Condition, Field, Raw, Reader, Rule, Schema, array, bandwidth, keys, raw, string, table, time,
};
use crate::problem::{GraphProblem, Problem};

/// Most switches, and most edges: several for each pair of the most ranks would be no network.
const LIMIT: usize = 1 << 16;

keys! { pub(super) static KEYS =
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
pub(super) fn read(
    table: &Reader<'_>,
    field: &Field<'_>,
    ranks: u32,
    others: Vec<&'static str>,
) -> Result<Graph> {
    let vertices = Vertices::read(table.field(KEYS.switches).as_ref(), ranks)?;
    let edges = table.need_field(KEYS.edges)?;
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
