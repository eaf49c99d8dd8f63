//! Executors that run zipwire plans for real: real bytes, real codec.
//!
//! One loop ([`run_program`]) and one trait ([`Backend`]) serve all of them. Ranks in the memory of the host ([`host`]) are a worker,
//! which carries out local ops, and a transport ([`transport`]), which connects it with its peers: threads of
//! one process ([`threads`]), or whatever implements [`transport::Transport`]. [`cuda`] runs ranks on the streams of GPUs.
//!
//! [`serving`] moves KV caches of requests instead of running a plan: transfers are decided while it runs.

mod chunks;
mod control;
pub mod cuda;
mod error;
mod event_queue;
mod faulty;
pub mod host;
#[cfg(all(test, shuttle))]
mod interleavings;
mod iterations;
mod memory;
pub mod mpi;
pub mod nccl;
mod pace;
mod report;
mod run_program;
pub mod serving;
mod sync;
pub mod threads;
pub mod transport;

pub use error::EngineError;
pub use memory::{Memory, Reading, Writing};
pub use report::{Hello, RankReport, STUCK_AFTER, conclude};
pub use run_program::{Action, Backend, Completion, Event, Outcome, run_program};
