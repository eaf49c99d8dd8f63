//! zipwire: lossless compressed collectives as schedules that are both simulated and run for real.
//!
//! The command line is a thin shell over this facade: a scenario becomes an [`Experiment`](scenarios::Experiment),
//! [`Prepared`] plans its variants, and each plan runs on any [`Executor`], of which [`executors`] is the list.

mod adaptive;
mod available;
pub mod bench;
mod cancel;
mod codebook;
mod compare;
mod execute;
pub mod executors;
mod faults;
mod footprint;
mod hint;
pub mod inspect;
mod memory;
mod output;
mod real_run;
pub mod reproduce;
mod simd;
mod simulate;
mod slots;
mod split;
mod storage;
pub mod sweep;
mod timelines;
mod validate;

pub use zipwire_calibrate as calibrate;
pub use zipwire_codec as codec;
pub use zipwire_engine as engine;
pub use zipwire_kernels as kernels;
pub use zipwire_scenarios as scenarios;
pub use zipwire_schedule as schedule;
pub use zipwire_sim as sim;
pub use zipwire_traces as traces;

pub use cancel::{Cancel, Hold, STOPPED};
pub use codebook::{CodebookFileError, read_codebook, write_codebook};
pub use compare::{Compared, Failed, Ran, Unfired, compare};
pub use execute::{ExecuteError, Outcome, Planned, Prepared, SIMULATED, Shared};
pub use executors::Executor;
pub use hint::with_hint;
pub use output::{Output, OutputError};
pub use simd::{SIMD_VARIABLE, SimdError, simd_from_environment};
pub use split::add_splits;
pub use timelines::{write_run, write_trace};
pub use validate::{Validation, ValidationSetup, VariantValidation, validate};
