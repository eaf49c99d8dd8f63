//! What a cluster is: ranks, links and routes, which model shares links among flows, and what ops and calls of a library take on it.
//!
//! Hardware only: no plan, no clock, no I/O. A [`Topology`] knows the links between GPUs and the route of each transfer;
//! [`NetworkModel`] says how flows share them; [`CodecCost`] and [`HostCost`] state the costs of ops; [`library`] what a communication
//! library's own collectives cost.

mod cost;
pub mod library;
mod network_model;
mod rank;
mod slowdown;
mod topology;
mod transfer_start;

pub use cost::{CodecCost, HostCost};
pub use library::{CallCost, Collective, DeclaredCost, LibraryCost};
pub use network_model::NetworkModel;
pub use rank::Rank;
pub use slowdown::{Progress, Slowdown};
pub use topology::{
    CrossRail, Fabric, FatTree, Graph, GraphError, GraphLink, LinkId, Pods, Rail, Route, Topology, Uplink,
    Vertex,
};
pub use transfer_start::TransferStart;
