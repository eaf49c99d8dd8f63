//! What the coordinator and ranks tell one another: plain data of fixed size, which any transport takes. Times are seconds of the run.

use serde::{Deserialize, Serialize};
use zipwire_schedule::Rank;
use zipwire_schedule::plan::TransferKey;
use zipwire_serving::RequestId;

/// A shard of a flow, numbered over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u32);

/// What those who serve tell one another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// From the coordinator.
    Command(Command),
    /// To the coordinator, from a rank.
    Report(Rank, Report),
    /// To a receiver: a group is on its way.
    Offer(Offer),
    /// To a sender, where it cannot see that: a group is here.
    Taken {
        /// The shard.
        shard: ShardId,
    },
    /// To a receiver: nobody waits for a shard any more. Of its groups no more than so many are offered.
    Withdrawn {
        /// The shard.
        shard: ShardId,
        /// The rank that says so.
        src: Rank,
        /// Groups that were offered in all.
        offered: u32,
    },
}

/// What a rank is to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// The run begins: its time is 0 when the transport's clock is there.
    Begin {
        /// Seconds of that clock.
        origin_s: f64,
    },
    /// Computes tokens of a prompt.
    Prefill {
        /// When it begins.
        at_s: f64,
        /// Number of this work on the instance.
        work: u32,
        /// The request.
        request: RequestId,
        /// The first token and the one behind the last.
        tokens: [u32; 2],
    },
    /// Computes a step of a batch.
    Decode {
        /// When it begins.
        at_s: f64,
        /// Number of this work on the instance.
        work: u32,
        /// Sequences of the batch.
        sequences: u32,
        /// Tokens that they have.
        context_tokens: u64,
    },
    /// Sends a shard.
    Send(Order),
    /// Nobody waits for a shard any more.
    Stop(ShardId),
    /// A rank is gone: nothing comes from it, and nothing that was sent to it is waited for.
    Lost(Rank),
    /// All is decided: whoever has nothing under way says goodbye.
    End,
}

/// A shard that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Which.
    pub shard: ShardId,
    /// Of whose cache.
    pub request: RequestId,
    /// Which part of each token: its position in the list of shards.
    pub part: u32,
    /// To whom.
    pub dst: Rank,
    /// The first layer and the one behind the last.
    pub layers: [u32; 2],
    /// The same of tokens.
    pub tokens: [u32; 2],
    /// When the first group may be encoded, or sent as it is.
    pub at_s: f64,
    /// Number of the flow, and of the transfer between its ends, in the timeline.
    pub numbers: [u32; 2],
}

/// A group on its way to the rank that is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The transfer.
    pub key: TransferKey,
    /// Bytes of it.
    pub bytes: u64,
    /// Of which shard.
    pub shard: ShardId,
    /// Groups of the shard.
    pub groups: u32,
    /// Of whose cache.
    pub request: RequestId,
    /// Which part of each token.
    pub part: u32,
    /// The layer.
    pub layer: u32,
    /// The first token and the one behind the last.
    pub tokens: [u32; 2],
    /// As in [`Order::numbers`].
    pub numbers: [u32; 2],
}

/// What a rank has done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// It is there.
    Alive,
    /// A part of the work on its instance is computed.
    Computed {
        /// Number of the work.
        work: u32,
        /// Which part.
        part: u32,
        /// When it was.
        at_s: f64,
    },
    /// All groups of a shard are decoded here.
    Arrived {
        /// Which shard.
        shard: ShardId,
        /// When the last one was.
        at_s: f64,
        /// Bytes of it on the wire.
        bytes_wire: u64,
    },
    /// It has nothing under way, and what it has done.
    Ended(Totals),
}

/// What ranks have done; of several, the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Groups that were encoded, or sent as they are.
    pub groups: u64,
    /// Bytes of values that were compared with what must have come.
    pub bytes_verified: u64,
    /// Seconds of a core for encoding, and for drawing what is encoded or sent as it is.
    pub encode_s: f64,
    /// Seconds of a core for decoding, and for comparing.
    pub decode_s: f64,
    /// Groups of a paced run that took longer than declared, and by how many seconds of the run together: the dilation is too small if these
    /// are many.
    pub late: (u64, f64),
    /// Bytes of buffers in which groups are sent and received, when these were most on each rank.
    pub buffer_bytes: u64,
    /// Buffers that are not free at the end.
    pub buffers_in_use: u32,
    /// Spans that were left out.
    pub spans_left_out: u64,
}

impl Totals {
    /// Adds those of another rank.
    pub(super) fn add(&mut self, other: &Self) {
        self.groups += other.groups;
        self.bytes_verified += other.bytes_verified;
        self.encode_s += other.encode_s;
        self.decode_s += other.decode_s;
        self.late = (self.late.0 + other.late.0, self.late.1 + other.late.1);
        self.buffer_bytes += other.buffer_bytes;
        self.buffers_in_use += other.buffers_in_use;
        self.spans_left_out += other.spans_left_out;
    }
}
