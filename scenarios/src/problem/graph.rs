//! What can be wrong with a topology that is drawn vertex by vertex.

use thiserror::Error;
use zipwire_cluster::GraphError;

use crate::words::{counted, list, meant, shortened_names};

/// What is wrong with a graph. `Display` gives one line; `help` of the problem that it is says what would be right.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphProblem {
    /// A vertex that the graph does not have.
    #[error("the graph has no vertex `{name}`")]
    UnknownVertex {
        /// The name.
        name: String,
        /// The vertex that was probably meant.
        nearest: Option<String>,
        /// GPUs of the cluster.
        gpus: u32,
        /// Names of the switches.
        switches: Vec<String>,
    },
    /// A switch that cannot be called so.
    #[error("a switch cannot be called `{name}`")]
    BadSwitch {
        /// The name.
        name: String,
    },
    /// Two switches of one name.
    #[error("two switches are called `{name}`")]
    TwoSwitches {
        /// The name.
        name: String,
    },
    /// An edge with one end, or with three.
    #[error("`{path}` names {found} ends of an edge, and it has two")]
    NotTwoEnds {
        /// Path of the key.
        path: String,
        /// Ends found.
        found: usize,
    },
    /// An edge that leads nowhere.
    #[error("an edge from `{vertex}` to itself")]
    Loop {
        /// The vertex.
        vertex: String,
    },
    /// Two edges of a graph from one vertex to another.
    #[error("two edges lead from `{src}` to `{dst}`")]
    TwoEdges {
        /// Where they begin.
        src: String,
        /// Where they end.
        dst: String,
    },
    /// More ranks than routes of graphs are computed for.
    #[error("{error}")]
    Ranks {
        /// What the graph says.
        error: GraphError,
        /// Topologies that take more.
        others: Vec<&'static str>,
    },
    /// A graph that is no cluster.
    #[error(transparent)]
    Graph(GraphError),
}

impl GraphProblem {
    /// What would be right.
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
