//! Replays: from calls that were made to programs of ranks that make the same calls, as jobs of a simulation.
//!
//! A rank has a *main lane*, which computes, and calls beside it. The time of the main lane is that of the profile without the stretches in
//! which it waited for calls: so a call is made when the rank has come as far as it had when it made the call, and what waited for a call
//! waits for it again, however long it takes.

mod calls;
mod lanes;
mod period;
mod program;
mod steps;

use std::sync::Arc;

use thiserror::Error;
use zipwire_cluster::Groups;
use zipwire_codec::DType;

use crate::dtype::ValueType;
use crate::op::CollectiveOp;
use crate::profile::Profile;

use self::calls::Nodes;
use self::lanes::Lane;
use self::program::Programs;
use self::steps::Steps;

/// When a call was made that its stream carried out right behind another one: no profile says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queued {
    /// Together with the call in front of it, the earliest that it can have been.
    Early,
    /// When its kernel began, the latest.
    #[default]
    Late,
}

/// Part of a profile that is replayed, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaySetup {
    /// Steps, counted from 0, each an iteration; all if there are none.
    pub steps: Vec<usize>,
    /// Calls behind others on their stream.
    pub queued: Queued,
}

/// Programs of all ranks of a job: calls and stretches of compute in an order in which each rank does its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Ranks of the job.
    pub world_size: u32,
    /// Every step that the profile has.
    pub steps: Vec<StepTimes>,
    /// Calls, which [`Item::Call`] names by their place.
    pub calls: Vec<ReplayCall>,
    /// Calls and compute, each behind all that its ranks do before it.
    pub program: Vec<Item>,
    /// Remarks on what is assumed or not replayed.
    pub notes: Vec<String>,
}

/// Measured times of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTimes {
    /// Seconds from its begin to its end, on the rank that took longest; `None` if the profile has no times of kernels.
    pub span_s: Option<f64>,
    /// Seconds of the transfers of its calls that are replayed, without waiting for ranks that are in the profile: the mean over these ranks.
    pub calls_s: f64,
    /// Seconds in which ranks compute nothing because they wait for calls: the mean over ranks.
    pub stalled_s: f64,
}

/// One call of each of some groups.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayCall {
    /// Operation and group, alike for all calls that a choice concerns: `all_reduce dp`.
    pub class: Arc<str>,
    /// Operation: All-Reduce, All-Gather, Reduce-Scatter, All-to-All, broadcast, send or barrier.
    pub op: CollectiveOp,
    /// Groups of which each makes it.
    pub groups: Groups,
    /// Largest number of bytes that a rank gives.
    pub bytes_in: u64,
    /// Largest number of bytes that a rank gets.
    pub bytes_out: u64,
    /// All-to-All with uneven splits: shares of a rank's bytes, by position of the sender and of the receiver, in rows; `None` if they are even.
    pub splits: Option<Vec<Vec<u64>>>,
    /// Send: position of the sender in its pair.
    pub from: u32,
    /// Type of the values, as the profiler spells it.
    pub dtype: String,
    /// Whether it is on a stream beside the one that has most of the rank's calls.
    pub is_beside: bool,
    /// Seconds of the transfer by step of the profile, the mean over groups; all 0 without times.
    pub transfers_s: Vec<f64>,
    /// Seconds in a step in which a rank waits for it and computes nothing: the mean over steps and ranks.
    pub stalled_s: f64,
    /// Bytes after compression over those before, the mean of samples if there are some.
    pub coded_share: Option<f64>,
}

impl ReplayCall {
    /// Type of its values, if codecs know it; BF16, as most of what is trained and served, if none is stated.
    pub fn float(&self) -> Option<DType> {
        match ValueType::named(&self.dtype) {
            Some(ValueType::Float(dtype)) => Some(dtype),
            _ if self.dtype.is_empty() => Some(DType::Bf16),
            _ => None,
        }
    }

    /// Type of its values, if a codec can shorten them, and add them up if it adds: sums are of BF16 or FP32.
    pub fn codable(&self) -> Option<DType> {
        let is_sum = matches!(self.op, CollectiveOp::AllReduce | CollectiveOp::ReduceScatter);
        let is_added = |dtype: &DType| matches!(dtype, DType::Bf16 | DType::F32);
        self.float().filter(|dtype| self.op != CollectiveOp::Barrier && (!is_sum || is_added(dtype)))
    }
}

/// Part of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Ranks compute, or do something else that is no call.
    Compute {
        /// Ranks, as groups of one.
        ranks: Groups,
        /// Calls that have to end first.
        waits: Vec<usize>,
        /// Calls that are made behind it.
        allows: Vec<usize>,
        /// Seconds, by step of the setup and by rank in the order of [`ranks`](Groups::position).
        seconds: Vec<Vec<f64>>,
    },
    /// A call, by its place.
    Call(usize),
}

/// Reasons for which a profile cannot be replayed. Their last line says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ReplayError {
    #[error(
        "no call of the profile can be replayed{reasons}\n\
         help: import a profile with sizes and groups of its calls"
    )]
    NoCalls { reasons: String },
    #[error("the profile has no step {step}: {found}\nhelp: choose steps from 0 on")]
    NoStep { step: usize, found: String },
    #[error(
        "ranks of the profile wait for one another in a circle: {first} and {second} are made in one order on some ranks, and in the other \
         one on others\n\
         help: import the same steps of one job, profiled on all ranks at the same time"
    )]
    Circle { first: String, second: String },
    #[error(
        "{calls} calls of {ranks} ranks in a step are more than are replayed\nhelp: import fewer ranks: others have twins"
    )]
    TooMany { calls: usize, ranks: u32 },
}

impl Replay {
    /// Programs that do what a profile shows.
    ///
    /// # Errors
    /// If no call can be replayed, or ranks contradict one another, or a step of the setup is not there.
    pub fn of(profile: &Profile, setup: &ReplaySetup) -> Result<Self, ReplayError> {
        let mut notes = Vec::new();
        let ranks = calls::of_ranks(profile, &mut notes)?;
        let steps = Steps::of(profile, &ranks, &mut notes);
        let chosen = steps.choose(&setup.steps)?;
        let nodes = Nodes::of(profile, &ranks, &steps, &chosen, &mut notes)?;
        let lane = |rank: usize, step: usize| {
            Lane::of(profile, &ranks[rank], &steps.of_rank(rank, step), &nodes.is_kept[rank], setup.queued)
        };
        let lanes = |steps: &[usize]| -> Vec<Vec<Lane>> {
            (0..ranks.len()).map(|rank| steps.iter().map(|step| lane(rank, *step)).collect()).collect()
        };
        let every: Vec<usize> = (0..steps.count).collect();
        let times = every.iter().map(|step| steps.times(profile, &ranks, &nodes, *step, &lanes(&[*step])));
        let times = times.collect();
        let programs = Programs::of(&nodes, &lanes(&chosen))?;
        if profile.ops.iter().all(|op| op.dtype.is_empty()) {
            notes.push("the profile has no types of values: BF16 is assumed".to_owned());
        }
        let (calls, program) = programs.finish(profile, &ranks, &steps, &nodes);
        Ok(Self { world_size: profile.world_size, steps: times, calls, program, notes })
    }
}
