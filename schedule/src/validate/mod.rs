//! Checks of a plan before anything runs: each program for itself, the transfers of all, and that all ranks get
//! to their ends.

mod deliveries;
mod library;
mod program;
mod progress;
mod transfers;

pub(crate) use library::pair as pair_calls;
pub(crate) use transfers::{Pair, pair as pair_transfers};

use crate::plan::{CallKey, Plan, TransferKey};
use crate::{Job, OpId, Rank, SizeId};
use deliveries::Deliveries;

/// Checks across ranks hold the whole plan; above this rank count only the checks of each program run.
pub const WHOLE_PLAN_RANKS: u32 = 256;

/// Why a plan cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A program or an op is not where its id says.
    #[error("program {position} is that of rank {rank}, and its ops are not in the order of their ids")]
    Misplaced {
        /// Position of the program.
        position: usize,
        /// Its rank.
        rank: Rank,
    },
    /// A region reaches beyond its buffer.
    #[error("op `{op}` of rank {rank} uses `{region}` beyond the end of its buffer")]
    OutOfBuffer {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The region, as text.
        region: String,
    },
    /// Two parts of an op write the same bytes.
    #[error("op `{op}` of rank {rank} writes `{region}` twice")]
    WrittenTwice {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The second of the overlapping regions, as text.
        region: String,
    },
    /// What a rank does by itself contradicts itself.
    #[error("op `{op}` of rank {rank} {defect}")]
    BadLocal {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// What is wrong with it.
        defect: &'static str,
    },
    /// The dependencies of an op are not those that its hazards demand.
    #[error("op `{op}` of rank {rank} has the dependencies {found:?}, its hazards demand {expected:?}")]
    Dependencies {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// What the plan says.
        found: Vec<OpId>,
        /// What follows from the regions and sizes.
        expected: Vec<OpId>,
    },
    /// A size is read before an op defines it, or does not exist.
    #[error("op `{op}` of rank {rank} reads size `{size}` before its definition")]
    SizeNotDefined {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The size.
        size: SizeId,
    },
    /// A size has no definition or several.
    #[error("size `{size}` of rank {rank} has {definitions} definitions, expected 1")]
    SizeNotDefinedOnce {
        /// Where.
        rank: Rank,
        /// The size.
        size: SizeId,
        /// How many definitions it has.
        definitions: usize,
    },
    /// A maximum of no sizes, of sizes that come after it, or of other maxima.
    #[error(
        "size `{size}` of rank {rank} is the largest of sizes that do not precede it, of maxima, or of none"
    )]
    BadMaximum {
        /// Where.
        rank: Rank,
        /// The maximum.
        size: SizeId,
    },
    /// A rank hands on what it has not received, or something else than that.
    #[error("exchange `{op}` of rank {rank} hands on what it has not received as the chunk of rank {origin}")]
    NotReceived {
        /// Where.
        rank: Rank,
        /// The exchange.
        op: OpId,
        /// The rank that contributes the chunk.
        origin: Rank,
    },
    /// A rank does not get what the job wants it to have.
    #[error(
        "rank {rank} waits for {expected} bytes that are of rank {of} in `{segment}`, and the plan brings it {found} of them"
    )]
    Undelivered {
        /// The rank that waits.
        rank: Rank,
        /// Name of the segment.
        segment: String,
        /// Whose values they are, or, of a reduction, whose shard.
        of: Rank,
        /// Bytes that the job says, of values as ranks give them.
        expected: u64,
        /// Bytes that the plan brings.
        found: u64,
    },
    /// A rank sends to itself or to a rank that does not exist.
    #[error("op `{op}` of rank {rank} names peer {peer}, which is not another rank of the plan")]
    BadPeer {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
        /// The peer.
        peer: Rank,
    },
    /// A window that admits nothing.
    #[error("exchange `{op}` of rank {rank} has a window of zero")]
    EmptyWindow {
        /// Where.
        rank: Rank,
        /// The exchange.
        op: OpId,
    },
    /// Two transfers of one exchange with the same peer have the same chunk: nothing says which of them comes first.
    #[error("exchange `{op}` of rank {rank} lists the same chunk twice for peer {peer}")]
    ListedTwice {
        /// Where.
        rank: Rank,
        /// The exchange.
        op: OpId,
        /// The peer.
        peer: Rank,
    },
    /// A transfer has another number than its place in the program gives it.
    #[error(
        "exchange `{op}` of rank {rank} has a transfer with peer {peer} as number {found}, and its place in the program \
         makes it number {expected}"
    )]
    Misnumbered {
        /// Where.
        rank: Rank,
        /// The exchange.
        op: OpId,
        /// The peer.
        peer: Rank,
        /// What the plan says.
        found: u32,
        /// What follows from the exchanges before it and from the chunks.
        expected: u32,
    },
    /// A transfer of which one end is missing, or that several ends claim to be.
    #[error(
        "transfer {number} from rank {src} to rank {dst}, {stage} of segment {segment}: {sends} sends and {receives} \
         receives, expected one each",
        stage = .key.stage.name(), number = .key.number, segment = .key.segment.0, src = .key.src, dst = .key.dst
    )]
    Unmatched {
        /// The transfer, as the ends that there are name it.
        key: TransferKey,
        /// Sends found.
        sends: usize,
        /// Receives found.
        receives: usize,
    },
    /// The ends of a transfer mean different things: segment, stage, chunk, kind, capacity, or frames whose size it is.
    #[error(
        "the ends of transfer {number} from rank {src} to rank {dst} disagree about {about}\n\
         the sender: {sent}\n\
         the receiver: {received}"
    )]
    Disagreement {
        /// Sender.
        src: Rank,
        /// Receiver.
        dst: Rank,
        /// The number under which both have it.
        number: u32,
        /// The first thing that they plan differently.
        about: &'static str,
        /// What the sender plans, in words.
        sent: String,
        /// What the receiver plans.
        received: String,
    },
    /// More transfers than the executor can tell apart by its tags ([`Plan::check_tags`]).
    #[error(
        "rank {src} sends {count} messages to rank {dst} in one iteration, and this executor has the tags 0 to {largest} \
         to tell them apart\n\
         help: cut calls into fewer chunks, or plan fewer layers or flows per iteration"
    )]
    TooManyTransfers {
        /// Sender.
        src: Rank,
        /// Receiver.
        dst: Rank,
        /// Transfers from one to the other.
        count: u32,
        /// The largest tag.
        largest: u32,
    },
    /// A call of a library that is not what its collective is.
    #[error(
        "op `{op}` of rank {rank} calls a collective of a library for another number of ranks, or with what does not go into \
         it or does not come out"
    )]
    BadCall {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
    },
    /// Ranks disagree about a call of a library, or one has it twice or not at all.
    #[error(
        "rank {rank} does not call the library as rank 0 does for the {stage} call {part} of segment {segment}",
        stage = .key.stage.name(), part = .key.part, segment = .key.segment.0
    )]
    UnmatchedCall {
        /// The call.
        key: CallKey,
        /// The first rank that differs.
        rank: Rank,
    },
    /// Ranks depend on one another in a circle.
    #[error("ranks wait for one another for ever: op `{op}` of rank {rank} is part of a cycle")]
    Cycle {
        /// A rank in the circle.
        rank: Rank,
        /// Its op.
        op: OpId,
    },
    /// The windows let no transfer through.
    #[error(
        "ranks wait for one another for ever: no window admits both ends of a transfer; rank {rank} is in `{op}`"
    )]
    Blocked {
        /// A rank that waits.
        rank: Rank,
        /// Its exchange.
        op: OpId,
    },
}

/// What a check came to that found nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The plan is executable.
    Valid,
    /// The caller ended the check before that was known.
    Stopped,
}

impl Plan {
    /// Checks the plan: regions, frames, dependencies, sizes, peers, windows and numbers of transfers of every program; and,
    /// up to 256 ranks, that every send has its receive under the same number, that all ranks call a library alike, and
    /// that all get to their ends.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.check(None, &|| true).map(|_| ())
    }

    /// As [`validate`](Self::validate), and that every rank gets what a job says, no more and no less.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_for(&self, job: &Job) -> Result<(), PlanError> {
        self.validate_while(job, &|| true).map(|_| ())
    }

    /// As [`validate_for`](Self::validate_for), for as long as `proceed` says so. It is asked now and then; `false` ends the check
    /// with [`Checked::Stopped`], and nothing is known of the plan.
    ///
    /// # Errors
    /// The first thing that is wrong.
    ///
    /// # Panics
    /// If the job has another number of ranks.
    pub fn validate_while(&self, job: &Job, proceed: &dyn Fn() -> bool) -> Result<Checked, PlanError> {
        assert_eq!(job.rank_count, self.rank_count(), "the plan is one of the job");
        self.check(Some(&Deliveries::new(job)), proceed)
    }

    fn check(
        &self,
        deliveries: Option<&Deliveries<'_>>,
        proceed: &dyn Fn() -> bool,
    ) -> Result<Checked, PlanError> {
        for (position, program) in self.programs.iter().enumerate() {
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            program::check(position, program, self.rank_count(), deliveries)?;
        }
        if self.rank_count() <= WHOLE_PLAN_RANKS {
            let transfers = transfers::pair(self)?;
            let calls = library::pair(self)?;
            if !proceed() {
                return Ok(Checked::Stopped);
            }
            progress::find_cycle(self, &transfers, &calls)?;
            drop(transfers);
            return progress::play(self, proceed);
        }
        Ok(Checked::Valid)
    }
}
