//! Clusters that are drawn vertex by vertex: routes are looked up in a table that is made once.

use petgraph::algo::dijkstra;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeRef, Reversed};

use super::{LinkId, Route};
use crate::Rank;

/// GPUs and switches, directed links between them, and the route of every pair of ranks.
///
/// A route has as few links as possible. Of several such, it is the one that leaves each vertex over the link that was given
/// first. GPUs may be crossed, as in a ring without switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    ranks: u32,
    switches: Vec<String>,
    links: Vec<GraphLink>,
    /// By source, then destination; latencies are those of the links alone.
    routes: Vec<Route>,
}

/// A place in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vertex {
    /// A rank.
    Gpu(Rank),
    /// A switch, by position in the list of switches.
    Switch(u32),
}

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphLink {
    /// Where it begins.
    pub src: Vertex,
    /// Where it ends; another vertex than `src`.
    pub dst: Vertex,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds that it adds to the latency of every route over it.
    pub latency_s: f64,
}

/// Why a graph is no cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum GraphError {
    /// A table of all routes would be too large.
    #[error("a graph has at most `{}` ranks, not `{ranks}`", Graph::MAX_RANKS)]
    Ranks { ranks: u32 },
    /// Two ranks that are not connected in this direction.
    #[error("no route leads from `gpu {src}` to `gpu {dst}`")]
    Disconnected { src: Rank, dst: Rank },
    /// Even the shortest route of two ranks has too many links.
    #[error(
        "the route from `gpu {src}` to `gpu {dst}` has `{links}` links, and at most `{}` are possible",
        Route::MAX_LINKS
    )]
    Long { src: Rank, dst: Rank, links: usize },
}

impl Graph {
    /// Most ranks of a graph: the table of all routes takes 13 MB at this size.
    pub const MAX_RANKS: u32 = 512;

    /// A graph of `ranks` GPUs and these switches.
    ///
    /// # Errors
    /// If there are too many ranks, or two of them have no route or too long a one.
    ///
    /// # Panics
    /// If a link names a vertex that does not exist, or leads from a vertex to itself.
    pub fn new(ranks: u32, switches: Vec<String>, links: Vec<GraphLink>) -> Result<Self, GraphError> {
        if ranks > Self::MAX_RANKS {
            return Err(GraphError::Ranks { ranks });
        }
        let mut graph = Self { ranks, switches, links, routes: Vec::new() };
        graph.routes = graph.all_routes()?;
        Ok(graph)
    }

    /// The same graph with all bandwidths and all latencies multiplied. Routes stay, as they have the fewest links.
    #[must_use]
    pub fn scaled(&self, bandwidth: f64, latency: f64) -> Self {
        let mut scaled = self.clone();
        for link in &mut scaled.links {
            link.bandwidth *= bandwidth;
            link.latency_s *= latency;
        }
        scaled.routes.iter_mut().for_each(|route| route.latency_s *= latency);
        scaled
    }

    /// Ranks of the graph.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Bytes per second of each link.
    pub(super) fn bandwidths(&self) -> impl ExactSizeIterator<Item = f64> {
        self.links.iter().map(|link| link.bandwidth)
    }

    /// Name of a vertex.
    pub fn vertex_name(&self, vertex: Vertex) -> String {
        match vertex {
            Vertex::Gpu(rank) => format!("gpu {rank}"),
            Vertex::Switch(index) => self.switches[index as usize].clone(),
        }
    }

    pub(super) fn link_name(&self, link: LinkId) -> String {
        let GraphLink { src, dst, .. } = self.links[link.index()];
        format!("{} -> {}", self.vertex_name(src), self.vertex_name(dst))
    }

    /// Links of a GPU, and of a NIC if the graph has vertices that are called so.
    pub(super) fn is_port(&self, link: LinkId) -> bool {
        let is_end = |vertex| match vertex {
            Vertex::Gpu(_) => true,
            Vertex::Switch(index) => self.switches[index as usize].split(' ').next() == Some("nic"),
        };
        let GraphLink { src, dst, .. } = self.links[link.index()];
        is_end(src) || is_end(dst)
    }

    /// The route, with the latencies of its links alone.
    pub(super) fn route(&self, src: Rank, dst: Rank) -> Route {
        self.routes[src.index() * self.ranks as usize + dst.index()]
    }

    /// Whether the route between two ranks leads through other GPUs.
    pub fn crosses_gpus(&self, src: Rank, dst: Rank) -> bool {
        let route = self.route(src, dst);
        let mut ends = route.links().iter().map(|link| self.links[link.index()].dst);
        ends.any(|end| matches!(end, Vertex::Gpu(rank) if rank != dst))
    }

    fn all_routes(&self) -> Result<Vec<Route>, GraphError> {
        let graph = self.petgraph();
        let count = self.ranks as usize;
        let mut routes = vec![Route::over(&[], 0.0); count * count];
        for dst in 0..self.ranks {
            // Links from each vertex to the destination; looked up, never iterated.
            let hops = dijkstra(Reversed(&graph), NodeIndex::from(dst), None, |_| 1_usize);
            for src in (0..self.ranks).filter(|&src| src != dst) {
                let ends = (Rank(src), Rank(dst));
                let &links = hops
                    .get(&NodeIndex::from(src))
                    .ok_or(GraphError::Disconnected { src: ends.0, dst: ends.1 })?;
                if links > Route::MAX_LINKS {
                    return Err(GraphError::Long { src: ends.0, dst: ends.1, links });
                }
                let nearer = |vertex: NodeIndex| {
                    let edges = graph.edges(vertex);
                    let nearer =
                        edges.filter(|edge| hops.get(&edge.target()).is_some_and(|&n| n < hops[&vertex]));
                    nearer
                        .min_by_key(|edge| edge.weight().0)
                        .expect("some link leads on, as the distance is known")
                };
                let mut way = Vec::with_capacity(links);
                let mut vertex = NodeIndex::from(src);
                while vertex.index() != dst as usize {
                    let edge = nearer(vertex);
                    way.push(*edge.weight());
                    vertex = edge.target();
                }
                let latency_s = way.iter().map(|link| self.links[link.index()].latency_s).sum();
                routes[src as usize * count + dst as usize] = Route::over(&way, latency_s);
            }
        }
        Ok(routes)
    }

    /// GPUs first, then switches; edges are links.
    fn petgraph(&self) -> DiGraph<(), LinkId> {
        let vertices = self.ranks as usize + self.switches.len();
        let mut graph = DiGraph::with_capacity(vertices, self.links.len());
        for _ in 0..vertices {
            graph.add_node(());
        }
        for (id, link) in (0..).map(LinkId).zip(&self.links) {
            let [src, dst] = [link.src, link.dst].map(|vertex| self.index(vertex));
            assert!(src != dst, "a link leads from `{}` to itself", self.vertex_name(link.src));
            graph.add_edge(src, dst, id);
        }
        graph
    }

    fn index(&self, vertex: Vertex) -> NodeIndex {
        let (index, count) = match vertex {
            Vertex::Gpu(rank) => (rank.0, self.ranks),
            Vertex::Switch(index) => (self.ranks + index, self.ranks + self.switches.len() as u32),
        };
        assert!(index < count, "a link names vertex {vertex:?}, which the graph has not");
        NodeIndex::from(index)
    }
}
