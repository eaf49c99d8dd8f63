//! The profile: one table of calls for all formats, with the ranks and groups that they name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::op::CollectiveOp;

/// Version of the form of profiles.
pub const PROFILE_VERSION: u32 = 2;

/// First bytes of every profile that zipwire writes.
pub const PROFILE_MARK: &str = "{\"zipwire_profile\":";

/// Format that a profile was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Traces of PyTorch's profiler.
    Kineto,
    /// Dumps of PyTorch's Flight Recorder.
    Flight,
    /// Lines of NCCL's profiler plugin Inspector.
    Inspector,
    /// Execution traces of MLCommons Chakra.
    Chakra,
    /// Lines of `libzipwire_nccl.so` in mode `stats`.
    Shim,
}

impl Format {
    /// Its name, as the command spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kineto => "kineto",
            Self::Flight => "flight",
            Self::Inspector => "inspector",
            Self::Chakra => "chakra",
            Self::Shim => "shim",
        }
    }
}

/// Meaning of the times of calls in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Begin and duration of kernels.
    Kernels,
    /// Durations are of kernels; begins are only in the right order.
    Durations,
    /// Begins are when the CPU made the calls; there are no durations.
    Issued,
    /// Nothing but the order of calls.
    Order,
}

impl Timing {
    /// Whether durations of calls are known.
    pub fn has_durations(self) -> bool {
        matches!(self, Self::Kernels | Self::Durations)
    }
}

/// Profile of a job. Times are nanoseconds on the clock of the lowest rank, from the first moment of any rank on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`PROFILE_VERSION`]; first, so that files begin with [`PROFILE_MARK`].
    pub zipwire_profile: u32,
    /// Format that it was read from.
    pub format: Format,
    /// Meaning of the times of calls: the least that all ranks have.
    pub timing: Timing,
    /// Whether what ranks compute is known: where it is not, all times of compute are 0.
    pub is_compute_known: bool,
    /// GPU, as its driver names it, if all ranks that say one have the same.
    pub gpu: Option<String>,
    /// GPUs of each node, if ranks agree.
    pub gpus_per_node: Option<u32>,
    /// Ranks of the job, with those that are missing.
    pub world_size: u32,
    /// Ranks that are here, in order.
    pub ranks: Vec<RankRecord>,
    /// Ranks of the job that are not here, and who stands for them.
    pub ranks_missing: Vec<MissingRanks>,
    /// Groups of ranks; calls name them by their place here.
    pub groups: Vec<GroupRecord>,
    /// Calls, rank by rank in the order in which they begin.
    pub ops: Vec<OpRecord>,
    /// Everything that was left out.
    pub not_used: Vec<NotUsed>,
    /// Everything that is worth knowing of how it was read, for people.
    pub notes: Vec<String>,
}

/// One rank, and its times over all of its trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Its number in the job.
    pub rank: u32,
    /// File that it was read from.
    pub source: String,
    /// From the first begin to the last end of a kernel.
    pub span_ns: i64,
    /// Time in which it communicates, also while it waits for others.
    pub communication_ns: i64,
    /// Part of [`communication_ns`](Self::communication_ns) in which it computes nothing.
    pub exposed_ns: i64,
    /// Time in which it computes.
    pub compute_ns: i64,
    /// Part of [`compute_ns`](Self::compute_ns) from the begin of its last call on.
    pub compute_after_ns: i64,
    /// Time of its calls beyond what their transfers take, summed over calls: waiting for other ranks.
    pub wait_ns: i64,
    /// How far its clock is ahead of that of the lowest rank; null if they have no call in common by which to tell.
    pub clock_offset_ns: Option<i64>,
    /// Mean distance of the ends of collectives from that offset.
    pub clock_spread_ns: Option<i64>,
}

/// Ranks that are missing, from one to another, and the rank that stands for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRanks {
    /// The first of them.
    pub from: u32,
    /// The last of them.
    pub to: u32,
    /// Rank that is there, whose calls are theirs, too.
    pub twin: u32,
}

/// Group of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Its name in the profiler; empty for calls of which it has recorded none.
    pub name: String,
    /// Purpose, as the job names it.
    pub description: String,
    /// Ranks that it has, if that is known.
    pub size: Option<u32>,
    /// Global ranks in order; null if they are not known, or not all.
    pub ranks: Option<Vec<u32>>,
}

/// One call of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpRecord {
    /// Rank that made it.
    pub rank: u32,
    /// Place of its group among [`groups`](Profile::groups).
    pub group: usize,
    /// Number of the call in its group: that of the library if all ranks have it, or the place in order from 0.
    pub seq: u64,
    /// Operation.
    pub op: CollectiveOp,
    /// Bytes that the rank gives; null if the profile does not say it.
    pub bytes_in: Option<u64>,
    /// Bytes that the rank gets; null if the profile does not say it.
    pub bytes_out: Option<u64>,
    /// All-to-All: rows of the first dimension for each rank of the group; empty if they are even.
    pub splits_in: Vec<u64>,
    /// All-to-All: rows from each rank of the group; empty if they are even.
    pub splits_out: Vec<u64>,
    /// Other rank of a send or a receive, if the profile says it.
    pub peer: Option<u32>,
    /// Type of the values, as the profiler spells it; empty if it does not.
    pub dtype: String,
    /// Begin of its kernel.
    pub start_ns: i64,
    /// Duration of its kernel, which includes waiting for other ranks.
    pub duration_ns: i64,
    /// Least duration among the ranks that made this call: the time of the transfer itself.
    pub transfer_ns: i64,
    /// Ranks whose durations were compared for that; 1 means that waiting is not told from moving.
    pub ranks_seen: u32,
    /// Stream of the GPU.
    pub stream: u64,
    /// Time that the rank has computed since its previous call began, or since the trace did.
    pub compute_before_ns: i64,
    /// Time that the rank computes while this call lasts.
    pub compute_beside_ns: i64,
    /// Time up to its end in which the rank computes nothing and this call or those right in front of it on the stream last, if the rank goes on to
    /// compute within 20 us of the end: then compute waits for the call.
    pub stall_ns: i64,
    /// Bytes of its values after compression over those before, if they were sampled.
    pub coded_share: Option<f64>,
    /// Format and file that it comes from: a place among [`ranks`](Profile::ranks).
    pub source: usize,
}

/// Something that was left out, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotUsed {
    /// File.
    pub source: String,
    /// Its name for people.
    pub what: String,
    /// How many of them.
    pub count: u64,
}

impl NotUsed {
    pub(crate) fn all<'a>(
        source: &'a str,
        counts: &'a BTreeMap<String, u64>,
    ) -> impl Iterator<Item = Self> + 'a {
        counts.iter().map(move |(what, count)| Self {
            source: source.to_owned(),
            what: what.clone(),
            count: *count,
        })
    }
}
