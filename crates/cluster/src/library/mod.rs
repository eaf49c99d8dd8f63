//! A communication library's own collectives, each one opaque call: what they are, what moves in them, and what they cost.
//!
//! Plans know nothing of the steps of such a call. What it costs is either declared, as a latency and a bandwidth
//! ([`DeclaredCost`]), or follows from a model of the library on the cluster's hardware ([`LibraryModel`]).

mod constants;
mod cost;
mod model;
mod operation;
mod shape;

pub use constants::{Constant, ConstantUnit, Constants, Generation};
pub use cost::{Algorithm, CallCost, Candidate, DeclaredCost, LibraryCost, ModelledCost, WireProtocol};
pub use model::LibraryModel;
pub use operation::{Collective, Operation};
pub use shape::{Hardware, Shape};
