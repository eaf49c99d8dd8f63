//! Profiles of real jobs: what ranks sent when, and what they computed meanwhile, as one table for all formats.
//!
//! [`read_kineto`] reads the trace that PyTorch's profiler wrote for one rank, [`merge`] puts the ranks of a job together: a [`Profile`]. Ranks
//! are matched by group and sequence, their clocks are aligned where collectives end, and the time of a transfer is the least over its
//! ranks, so that waiting for the last one is not counted. Nothing here opens files: streams go in, read once and in bounded memory.

mod clocks;
mod dtype;
mod error;
mod intervals;
mod kineto;
mod merge;
mod names;
mod op;
mod profile;
mod scan;
mod summary;
mod trace;

pub use error::ProfileError;
pub use kineto::read_kineto;
pub use merge::merge;
pub use op::CollectiveOp;
pub use profile::{
    Format, GroupRecord, MissingRanks, NotUsed, OpRecord, PROFILE_MARK, PROFILE_VERSION, Profile, RankRecord,
    Timing,
};
pub use summary::{OpSummary, summarise};
pub use trace::RankTrace;
