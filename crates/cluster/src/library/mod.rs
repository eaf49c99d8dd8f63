//! A communication library's own collectives, each one opaque call: what they are, what moves in them, and what they cost.
//!
//! Plans know nothing of the steps of such a call. What it costs is either declared, as a latency and a bandwidth
//! ([`DeclaredCost`]), or follows from a model of the library on the cluster's hardware ([`LibraryModel`]).

mod candidate;
mod collective;
mod constants;
mod cost;
mod generation;
mod model;
mod operation;
mod shape;

pub use candidate::{Algorithm, Candidate, WireProtocol};
pub use collective::Collective;
pub use constants::{Constant, ConstantUnit, Constants};
pub use cost::{CallCost, DeclaredCost, LibraryCost, ModelledCost};
pub use generation::Generation;
pub use model::LibraryModel;
pub use operation::Operation;
pub use shape::{Hardware, Shape};
