//! Problems with a topology that is drawn vertex by vertex.

use thiserror::Error;
use zipwire_cluster::GraphError;

use crate::words::{counted, list, meant, shortened_names};

/// A wrong graph. `Display` gives one line; [`Problem::help`](super::Problem::help) gives the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphProblem {
    /// A vertex that the graph does not have.
    #[error("the graph has no vertex `{name}`")]
    UnknownVertex { name: String, nearest: Option<String>, gpus: u32, switches: Vec<String> },
    /// A switch that cannot be called so.
    #[error("a switch cannot be called `{name}`")]
    BadSwitch { name: String },
    /// Two switches of one name.
    #[error("two switches are called `{name}`")]
    TwoSwitches { name: String },
    /// An edge with one end, or with three.
    #[error("`{path}` names {found} ends of an edge, and it has two")]
    NotTwoEnds { path: String, found: usize },
    /// An edge that leads nowhere.
    #[error("an edge from `{vertex}` to itself")]
    Loop { vertex: String },
    /// Two edges of a graph from one vertex to another.
    #[error("two edges lead from `{src}` to `{dst}`")]
    TwoEdges { src: String, dst: String },
    /// More ranks than routes of graphs are computed for.
    #[error("{error}")]
    Ranks { error: GraphError, others: Vec<&'static str> },
    /// A graph that is no cluster.
    #[error(transparent)]
    Graph(GraphError),
}

impl GraphProblem {
    /// The remedy.
    pub(crate) fn help(&self) -> String {
        let fixed = match self {
            Self::UnknownVertex { nearest, gpus, switches, .. } => {
                let (meant, gpus) = (meant(nearest.as_deref()), counted("gpu", *gpus));
                return match switches.as_slice() {
                    [] => format!("{meant}there are {gpus}; list others in `switches`"),
                    _ => format!("{meant}there are {gpus} and the switches {}", shortened_names(switches)),
                };
            }
            Self::Ranks { others, .. } => {
                return format!("take fewer, or one of the topologies {}", list(others.iter().copied()));
            }
            Self::BadSwitch { .. } => {
                "words of letters, digits, `-`, `_` and `.` with a blank between two of them; `gpu` is what ranks are \
                 called"
            }
            Self::TwoSwitches { .. } => "give each switch a name of its own",
            Self::NotTwoEnds { .. } => "like `between = [\"gpu 0\", \"gpu 1\"]`",
            Self::Loop { .. } => "leave it out: what stays where it is crosses no link",
            Self::TwoEdges { .. } => {
                "make them one with the bandwidth of both; `between` counts in both directions"
            }
            Self::Graph(GraphError::Disconnected { .. }) => {
                "every rank must reach every other one; `between` is an edge in both directions, `from` and `to` in one"
            }
            Self::Graph(_) => "leave out switches that only pass on what they get",
        };
        fixed.to_owned()
    }
}
