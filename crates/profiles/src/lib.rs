//! Profiles of real jobs: what ranks sent when, and what they computed meanwhile, as one table for all formats.
//!
//! [`read_kineto`], [`read_flight`] and [`read_chakra`] read the trace of one rank, [`read_inspector`] and [`read_shim`] the log of one process, whose
//! rank [`place`] finds out. [`merge`] puts the ranks of a job together: a [`Profile`]. Ranks
//! are matched by group and sequence, their clocks are aligned where collectives end, and the time of a transfer is the least over its
//! ranks, so that waiting for the last one is not counted. Nothing here opens files: streams go in, read once and in bounded memory.

mod chakra;
mod clocks;
mod communicators;
mod dtype;
mod error;
mod flight;
mod inspector;
mod intervals;
mod kineto;
mod merge;
mod names;
mod op;
mod parse;
mod profile;
mod replay;
mod scan;
mod shim;
mod source;
mod summary;
mod trace;

pub use chakra::read_chakra;
pub use communicators::{ProcessLog, place};
pub use error::ProfileError;
pub use flight::read_flight;
pub use inspector::read_inspector;
pub use kineto::read_kineto;
pub use merge::merge;
pub use op::CollectiveOp;
pub use parse::ParseError;
pub use profile::{
    Format, GroupRecord, MissingRanks, NotUsed, OpRecord, PROFILE_MARK, PROFILE_VERSION, Profile, RankRecord,
    Timing,
};
pub use replay::{Item, Queued, Replay, ReplayCall, ReplayError, ReplaySetup, StepTimes};
pub use shim::read_shim;
pub use summary::{OpSummary, summarise};
pub use trace::RankTrace;
