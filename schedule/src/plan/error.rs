//! Errors of plans.

use super::{CallKey, TransferKey};
use crate::{OpId, Rank, SizeId};

/// Why a plan cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum PlanError {
    /// A program or an op is not where its id says.
    #[error("program {position} is that of rank {rank}, and its ops are not in the order of their ids")]
    Misplaced { position: usize, rank: Rank },
    /// A region reaches beyond its buffer.
    #[error("op `{op}` of rank {rank} uses `{region}` beyond the end of its buffer")]
    OutOfBuffer { rank: Rank, op: OpId, region: String },
    /// Two parts of an op write the same bytes.
    #[error("op `{op}` of rank {rank} writes `{region}` twice")]
    WrittenTwice { rank: Rank, op: OpId, region: String },
    /// Local work that contradicts itself.
    #[error("op `{op}` of rank {rank} {defect}")]
    BadLocal { rank: Rank, op: OpId, defect: &'static str },
    /// The dependencies of an op are not those that its hazards demand.
    #[error("op `{op}` of rank {rank} has the dependencies {found:?}, its hazards demand {expected:?}")]
    Dependencies { rank: Rank, op: OpId, found: Vec<OpId>, expected: Vec<OpId> },
    /// A size is read before an op defines it, or does not exist.
    #[error("op `{op}` of rank {rank} reads size `{size}` before its definition")]
    SizeNotDefined { rank: Rank, op: OpId, size: SizeId },
    /// A size has no definition or several.
    #[error("size `{size}` of rank {rank} has {definitions} definitions, expected 1")]
    SizeNotDefinedOnce { rank: Rank, size: SizeId, definitions: usize },
    /// A maximum of no sizes, of sizes that come after it, or of other maxima.
    #[error(
        "size `{size}` of rank {rank} is the largest of sizes that do not precede it, of maxima, or of none"
    )]
    BadMaximum { rank: Rank, size: SizeId },
    /// A rank hands on what it has not received, or something else than that.
    #[error("exchange `{op}` of rank {rank} hands on what it has not received as the chunk of rank {origin}")]
    NotReceived { rank: Rank, op: OpId, origin: Rank },
    /// A rank does not get what the job wants it to have.
    #[error(
        "rank {rank} waits for {expected} bytes that are of rank {of} in `{segment}`, and the plan brings it {found} of them"
    )]
    Undelivered {
        rank: Rank,
        segment: String,
        /// Rank whose values they are, or, in a reduction, whose shard.
        of: Rank,
        expected: u64,
        found: u64,
    },
    /// A rank sends to itself or to a rank that does not exist.
    #[error("op `{op}` of rank {rank} names peer {peer}, which is not another rank of the plan")]
    BadPeer { rank: Rank, op: OpId, peer: Rank },
    /// A window that admits nothing.
    #[error("exchange `{op}` of rank {rank} has a window of zero")]
    EmptyWindow { rank: Rank, op: OpId },
    /// Two transfers of one exchange with the same peer have the same chunk: nothing says which of them comes first.
    #[error("exchange `{op}` of rank {rank} lists the same chunk twice for peer {peer}")]
    ListedTwice { rank: Rank, op: OpId, peer: Rank },
    /// A transfer has another number than its place in the program gives it.
    #[error(
        "exchange `{op}` of rank {rank} has a transfer with peer {peer} as number {found}, and its place in the program \
         makes it number {expected}"
    )]
    Misnumbered { rank: Rank, op: OpId, peer: Rank, found: u32, expected: u32 },
    /// A transfer of which one end is missing, or that several ends claim to be.
    #[error(
        "transfer {number} from rank {src} to rank {dst}, {stage} of segment {segment}: {sends} sends and {receives} \
         receives, expected one each",
        stage = .key.stage.name(), number = .key.number, segment = .key.segment.0, src = .key.src, dst = .key.dst
    )]
    Unmatched { key: TransferKey, sends: usize, receives: usize },
    /// The ends of a transfer mean different things: segment, stage, chunk, kind, capacity, or frames whose size it is.
    #[error(
        "the ends of transfer {number} from rank {src} to rank {dst} disagree about {about}\n\
         the sender: {sent}\n\
         the receiver: {received}"
    )]
    Disagreement { src: Rank, dst: Rank, number: u32, about: &'static str, sent: String, received: String },
    /// More transfers than the executor can tell apart by its tags ([`Plan::check_tags`](super::Plan::check_tags)).
    #[error(
        "rank {src} sends {count} messages to rank {dst} in one iteration, and this executor has the tags 0 to {largest} \
         to tell them apart\n\
         help: cut calls into fewer chunks, or plan fewer layers or flows per iteration"
    )]
    TooManyTransfers { src: Rank, dst: Rank, count: u32, largest: u32 },
    /// A call of a library that is not what its collective is.
    #[error(
        "op `{op}` of rank {rank} calls a collective of a library for another number of ranks, or with what does not go into \
         it or does not come out"
    )]
    BadCall { rank: Rank, op: OpId },
    /// Ranks disagree about a call of a library, or one has it twice or not at all.
    #[error(
        "rank {rank} does not call the library as rank 0 does for the {stage} call {part} of segment {segment}",
        stage = .key.stage.name(), part = .key.part, segment = .key.segment.0
    )]
    UnmatchedCall { key: CallKey, rank: Rank },
    /// Ranks depend on one another in a circle.
    #[error("ranks wait for one another for ever: op `{op}` of rank {rank} is part of a cycle")]
    Cycle { rank: Rank, op: OpId },
    /// The windows let no transfer through.
    #[error(
        "ranks wait for one another for ever: no window admits both ends of a transfer; rank {rank} is in `{op}`"
    )]
    Blocked { rank: Rank, op: OpId },
}
