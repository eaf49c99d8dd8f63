//! zipwire: lossless compressed collectives as schedules that are both simulated and run for real.
//!
//! A facade over the crates of the workspace: a scenario becomes an [`Experiment`](scenarios::Experiment), [`Prepared`] plans
//! its variants, and each plan runs on any [`Executor`], of which [`executors`] is the list. The command line ([`main`]) is
//! a thin shell over it.

#![warn(clippy::print_stderr, clippy::print_stdout)]

// Commands name the facade as programs do.
extern crate self as zipwire;

/// Writes a line to stderr, with control characters escaped: names and values come from files. If its reader is gone, nothing happens;
/// `eprintln!` would panic.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say_painted(&zipwire::traces::printable(&format!($($words)*)))
    };
}

mod cli;
mod commands;
mod error;
mod profile;
mod program;
mod progress;
mod shipped;
mod simd;
mod style;
mod table;
mod threads;

pub(crate) use program::{say_painted, say_styled};

pub use zipwire_advice as advice;
pub use zipwire_bench as bench;
pub use zipwire_calibrate as calibrate;
pub use zipwire_cluster as cluster;
pub use zipwire_codec as codec;
pub use zipwire_engine as engine;
pub use zipwire_kernels as kernels;
pub use zipwire_kv as kv;
pub use zipwire_models as models;
pub use zipwire_mpi as mpi;
pub use zipwire_nccl_binding as nccl;
pub use zipwire_paper_codecs as paper_codecs;
pub use zipwire_papers as papers;
pub use zipwire_payload as payload;
pub use zipwire_profiles as profiles;
pub use zipwire_report as report;
pub use zipwire_runner as runner;
pub use zipwire_scenarios as scenarios;
pub use zipwire_schedule as schedule;
pub use zipwire_serving as serving;
pub use zipwire_sim as sim;
pub use zipwire_timeline as timeline;
pub use zipwire_traces as traces;

pub use zipwire_kernels::IS_STATIC;

pub use program::{main, run_as};
pub use simd::{SIMD_VARIABLE, SimdError, simd_from_environment, with_help};
pub use zipwire_runner::*;

/// Pages for extenders whose examples are programs: these are compiled and run. `tests/extending.rs` has the patches of the others.
#[cfg(doctest)]
mod extending {
    #[doc = include_str!("../docs/extending/codec.md")]
    mod codec {}

    #[doc = include_str!("../docs/extending/executor.md")]
    mod executor {}

    #[doc = include_str!("../docs/extending/workload.md")]
    mod workload {}
}
