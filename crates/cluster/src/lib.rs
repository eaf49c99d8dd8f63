//! Clusters: ranks, links and routes, the model by which flows share links, and the costs of ops and of calls of a library.
//!
//! Hardware only: no plan, no clock, no I/O. A [`Topology`] knows the links between GPUs and the route of each transfer;
//! [`NetworkModel`] says how flows share them; [`CodecCost`] and [`HostCost`] state the costs of ops; [`library`] what a communication
//! library's own collectives cost.

mod cost;
mod group;
pub mod library;
mod network_model;
mod slowdown;
mod symmetry;
mod topology;

pub use cost::{CodecCost, HostCost};
pub use group::{Dimension, Group, Groups, Layout};
pub use library::{CallCost, Collective, DeclaredCost, LibraryCost};
pub use network_model::{NetworkModel, TransferStart};
pub use slowdown::{Progress, Slowdown};
pub use symmetry::{FoldedLink, FoldedLinks, Symmetry};
pub use topology::{
    CrossRail, Fabric, FatTree, Graph, GraphError, GraphLink, LinkId, Part, Pods, Rail, Rank, Route,
    Topology, Uplink, Vertex,
};
