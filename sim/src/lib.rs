//! Discrete-event simulator of zipwire plans: what a schedule would do on a cluster that is not at hand.
//!
//! It drives the same machines as the real executors, over a flow-level network ([`Network`]) and declared
//! costs of compute, codec and host. It measures nothing: the same setup gives the same times on any machine.

mod hash;
mod iteration;
pub mod lateness;
mod network;
mod queue;
mod run;
pub mod serving;
mod size_cache;
mod sizes;

pub use network::{ActivityId, FlowId, Network, Work};
pub use run::{SimError, SimSetup, run};
pub use size_cache::SizeCache;
pub use sizes::{FrameSizes, Room, SizeError, SizeTable, calibrated_table, encoding_bytes, table_fit};
