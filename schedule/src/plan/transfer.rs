//! Exchanges, and the transfers between two ranks that they open together: the ends of a transfer, its content, and the key that both ends know it by.

use super::{Chunk, Effects, Region};
use crate::{Channel, Order, Rank, SegmentId, SizeId, Stage, Window};

/// A set of transfers that are opened together.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Channel whose previous exchanges it waits for; exchanges of explicit flows that have steps also wait for those of the step
    /// before.
    pub channel: Channel,
    /// Whether it is opened as soon as the previous exchange of its channel is open, instead of when that has completed.
    /// Both then share the window, and transfers of the earlier one come first.
    pub joins_previous: bool,
    /// Whether it is a further step of the kernel that the exchange before it has launched, as in the ring of a library: then it has
    /// no launch of its own.
    pub fused: bool,
    /// Stage that it carries.
    pub stage: Stage,
    /// The order in which transfers enter the window. `sends` and `receives` are listed in it, as far as it is known
    /// beforehand: [`Order::AnyReady`] starts from the rotation.
    pub order: Order,
    /// How many transfers are open at a time.
    pub window: Window,
    /// Transfers that leave this rank.
    pub sends: Vec<Transfer>,
    /// Transfers that arrive.
    pub receives: Vec<Transfer>,
}

impl Exchange {
    pub(super) fn effects(&self) -> Effects {
        let Self { sends, receives, .. } = self;
        let sizes = sends.iter().filter_map(|t| t.content.brings().or(t.content.measured_by()));
        let measured = |t: &Transfer| t.content.measured_by();
        let values = |transfers: &[Transfer]| {
            transfers.iter().filter_map(|t| Some((t.chunk, t.content.values()?))).collect()
        };
        Effects {
            reads: sends.iter().filter_map(|t| t.content.region()).collect(),
            writes: receives.iter().filter_map(|t| t.content.region()).collect(),
            defines: receives.iter().filter_map(|t| t.content.brings()).collect(),
            uses: sizes.chain(receives.iter().filter_map(measured)).collect(),
            peers: sends.iter().chain(receives).map(|t| t.peer).collect(),
            takes: values(sends),
            delivers: values(receives),
            ..Effects::default()
        }
    }
    /// The key of a transfer that leaves `rank` in this exchange, which belongs to `segment`.
    pub fn key_of_send(&self, rank: Rank, segment: SegmentId, send: &Transfer) -> TransferKey {
        TransferKey { segment, stage: self.stage, src: rank, dst: send.peer, number: send.number }
    }

    /// The key of a transfer that arrives at `rank` in this exchange, which belongs to `segment`.
    pub fn key_of_receive(&self, rank: Rank, segment: SegmentId, receive: &Transfer) -> TransferKey {
        TransferKey { segment, stage: self.stage, src: receive.peer, dst: rank, number: receive.number }
    }
}

/// One end of a transfer. Both ends agree on its [`TransferKey`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// The other end.
    pub peer: Rank,
    /// The chunk that the content belongs to. Its origin need not be the sender, who may forward it.
    pub chunk: Chunk,
    /// Bytes that move.
    pub content: Content,
    /// Its number among all transfers of the iteration from its sender to its receiver, counted from 0:
    /// [`ProgramBuilder::push`](crate::ProgramBuilder::push) assigns it.
    pub number: u32,
    /// Seconds after the iteration's start before which it does not start.
    pub not_before_s: f64,
}

impl Transfer {
    /// A transfer that may start at once, and that has no number yet.
    pub fn new(peer: Rank, chunk: Chunk, content: Content) -> Self {
        Self { peer, chunk, content, number: 0, not_before_s: 0.0 }
    }
}

/// Content of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Values as the model has them.
    Values(Region),
    /// A whole region of a frame.
    Whole(Region),
    /// The live prefix of a region. Both ends know its size before the exchange opens.
    Prefix(Region, SizeId),
    /// The size itself, as a `u64`; a receive defines it.
    Size(SizeId),
    /// A whole region and a size behind it, as a `u64`; a receive defines it.
    Announced(Region, SizeId),
    /// Rest of a dynamic section that did not fit into its slot: the region, which begins behind the slot, has as many live bytes
    /// as the size exceeds those of the slot.
    Overflow {
        /// Room for what the slot does not hold.
        region: Region,
        /// Bytes of the slot.
        slot: u64,
        /// Live bytes of the whole dynamic section. Both ends know them before the exchange opens.
        size: SizeId,
    },
}

impl Content {
    /// Bytes that a size takes on the wire.
    pub const SIZE_BYTES: u64 = 8;

    /// The region that moves, if it is not a size.
    pub fn region(&self) -> Option<Region> {
        match *self {
            Self::Values(region)
            | Self::Whole(region)
            | Self::Prefix(region, _)
            | Self::Announced(region, _)
            | Self::Overflow { region, .. } => Some(region),
            Self::Size(_) => None,
        }
    }

    /// The values that move as they are.
    pub fn values(&self) -> Option<Region> {
        match *self {
            Self::Values(region) => Some(region),
            Self::Whole(_)
            | Self::Prefix(..)
            | Self::Size(_)
            | Self::Announced(..)
            | Self::Overflow { .. } => None,
        }
    }

    /// The size that moves, and that a receive defines.
    pub fn brings(&self) -> Option<SizeId> {
        match *self {
            Self::Size(size) | Self::Announced(_, size) => Some(size),
            Self::Values(_) | Self::Whole(_) | Self::Prefix(..) | Self::Overflow { .. } => None,
        }
    }

    /// The size on which its length depends.
    pub fn measured_by(&self) -> Option<SizeId> {
        match *self {
            Self::Prefix(_, size) | Self::Overflow { size, .. } => Some(size),
            Self::Values(_) | Self::Whole(_) | Self::Size(_) | Self::Announced(..) => None,
        }
    }

    /// Bytes that move; `value` is asked for the size on which the length depends.
    pub fn bytes(&self, value: impl FnOnce(SizeId) -> u64) -> u64 {
        match *self {
            Self::Values(region) | Self::Whole(region) => region.len,
            Self::Prefix(_, size) => value(size),
            Self::Size(_) => Self::SIZE_BYTES,
            Self::Announced(region, _) => region.len + Self::SIZE_BYTES,
            Self::Overflow { slot, size, .. } => value(size).saturating_sub(slot),
        }
    }
}

/// Identity of a transfer, on which both its ends agree. Sender, receiver and number alone tell it from all others of an iteration;
/// segment and stage describe it in reports and in faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TransferKey {
    /// The segment of the exchange.
    pub segment: SegmentId,
    /// Stage of the exchange.
    pub stage: Stage,
    /// Sender.
    pub src: Rank,
    /// Receiver.
    pub dst: Rank,
    /// [`Transfer::number`]: what a library that matches messages calls their tag.
    pub number: u32,
}
