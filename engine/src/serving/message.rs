//! Messages between the coordinator and ranks: plain data of fixed size, which any transport takes. Times are seconds of the run.

use serde::{Deserialize, Serialize};
use zipwire_schedule::Rank;
use zipwire_schedule::plan::TransferKey;
use zipwire_serving::RequestId;

use crate::transport;

/// A message that a transport carries without knowing what it says.
pub(super) fn wrap(message: &Message) -> transport::Message {
    let bytes = postcard::to_allocvec(message).expect("messages are plain data");
    transport::Message::Client(bytes.into())
}

/// The message that a transport has carried; `None` if it is none of a serving run.
pub(super) fn unwrap(message: &transport::Message) -> Option<Message> {
    let transport::Message::Client(bytes) = message else { return None };
    postcard::from_bytes(bytes).ok()
}

/// A shard of a flow, numbered over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u32);

/// A message of a serving run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// From the coordinator to a rank.
    Command(Command),
    /// To the coordinator, from a rank.
    Report(Rank, ServingReport),
    /// To a receiver: a group is on its way.
    Offer(Offer),
    /// To a sender over a transport that sends early: the receiver has a group.
    Taken {
        /// The shard.
        shard: ShardId,
    },
    /// To a receiver: a cancelled shard ends after the groups that are already on offer.
    Withdrawn {
        /// The shard.
        shard: ShardId,
        /// The rank that says so.
        src: Rank,
        /// Groups that were offered in all.
        offered: u32,
    },
}

/// An instruction from the coordinator to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// The run begins: its time 0 is `origin_s` of the transport's clock.
    Begin {
        /// Transport time at which the run begins, in seconds.
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
        /// Context tokens of all sequences.
        context_tokens: u64,
    },
    /// Sends a shard.
    Send(Order),
    /// A shard is cancelled.
    Stop(ShardId),
    /// A rank was declared lost: nothing comes from it, and nobody waits for what was sent to it.
    Lost(Rank),
    /// The run is over, and nothing new is sent: a rank says [`ServingReport::Idle`] as soon as it has nothing under way.
    End,
    /// All ranks have said so, so nothing more is on its way to anybody: a rank leaves once what came behind its word has ended.
    Leave,
}

/// A shard that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The shard.
    pub shard: ShardId,
    /// The request that owns the cache.
    pub request: RequestId,
    /// Part of each token: its position in the list of shards.
    pub part: u32,
    /// The receiving rank.
    pub dst: Rank,
    /// The first layer and the one behind the last.
    pub layers: [u32; 2],
    /// The first token and the one behind the last.
    pub tokens: [u32; 2],
    /// When the first group may be encoded, or sent as it is.
    pub at_s: f64,
    /// Numbers in the timeline of the flow, and of the transfer between its two ranks.
    pub numbers: [u32; 2],
}

/// A group on its way to the rank that is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The transfer.
    pub key: TransferKey,
    /// Bytes of it.
    pub bytes: u64,
    /// The shard.
    pub shard: ShardId,
    /// Groups of the shard.
    pub groups: u32,
    /// The request that owns the cache.
    pub request: RequestId,
    /// Part of each token.
    pub part: u32,
    /// The layer.
    pub layer: u32,
    /// The first token and the one behind the last.
    pub tokens: [u32; 2],
    /// See [`Order::numbers`].
    pub numbers: [u32; 2],
}

/// A rank's report to the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServingReport {
    /// Heartbeat.
    Alive,
    /// After [`Command::End`]: this rank offers nothing more.
    Idle,
    /// This rank has computed a part of its instance's work.
    Computed {
        /// Number of the work.
        work: u32,
        /// The part, from 0.
        part: u32,
        /// When it ended.
        at_s: f64,
    },
    /// All groups of a shard have been received and decoded.
    Arrived {
        /// The shard.
        shard: ShardId,
        /// When the last group was decoded.
        at_s: f64,
        /// Bytes of it on the wire.
        bytes_wire: u64,
    },
    /// The rank has nothing under way; its counters.
    Ended(Totals),
}

/// Counters of a rank, or summed over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Groups that were encoded, or sent uncoded.
    pub groups: u64,
    /// Bytes of values that were compared with what must have come.
    pub bytes_verified: u64,
    /// Core seconds for encoding, and for drawing the values of groups.
    pub encode_s: f64,
    /// Core seconds for decoding and comparing.
    pub decode_s: f64,
    /// Groups of a paced run that took longer than declared, and by how many seconds of the run together: the dilation is too small if these
    /// are many.
    pub late: (u64, f64),
    /// Peak bytes of the buffers in which groups are sent and received, summed over ranks.
    pub buffer_bytes: u64,
    /// Buffers that are not free at the end.
    pub buffers_in_use: u32,
    /// Spans beyond the limit, which were left out.
    pub spans_left_out: u64,
}

impl Totals {
    /// Adds the counters of another rank.
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
