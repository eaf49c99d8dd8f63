//! Exchanges, and the transfers between two ranks that they open together: the ends of a transfer, its content, and the key and number
//! that both ends know it by. Beside them calls of a communication library's own collectives, of which a plan knows what goes in and
//! what comes out.

use std::cmp::Reverse;

use zipwire_cluster::Group;
use zipwire_cluster::library::Collective;

use super::{Chunk, Effects, Plan, PlanError, Region, Share, Shares, Values};
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
    /// The ranks of the call, if its transfers are grouped sends and receives of a library, which take what its model says where there is one.
    pub grouped: Option<Group>,
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
    /// The same by ranks of a group, whose positions its ranks are.
    pub(super) fn within(mut self, group: &Group) -> Self {
        for transfer in self.sends.iter_mut().chain(&mut self.receives) {
            transfer.peer = group.at(transfer.peer.0);
            transfer.chunk = transfer.chunk.within(group);
        }
        Self { grouped: self.grouped.map(|_| *group), ..self }
    }

    pub(super) fn effects(&self) -> Effects {
        let Self { sends, receives, .. } = self;
        let sizes = sends.iter().filter_map(|t| t.content.brings().or(t.content.measured_by()));
        let measured = |t: &Transfer| t.content.measured_by();
        Effects {
            reads: sends.iter().filter_map(|t| t.content.region()).collect(),
            writes: receives.iter().filter_map(|t| t.content.region()).collect(),
            defines: receives.iter().filter_map(|t| t.content.brings()).collect(),
            uses: sizes.chain(receives.iter().filter_map(measured)).collect(),
            peers: sends.iter().chain(receives).map(|t| t.peer).collect(),
        }
    }

    pub(super) fn values(&self) -> Values {
        let values = |transfers: &[Transfer]| {
            transfers.iter().filter_map(|t| Some((t.chunk, t.content.values()?))).collect()
        };
        Values { takes: values(&self.sends), delivers: values(&self.receives), ..Values::default() }
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
    /// Transfers like it that it stands for, itself among them: 1, but where ranks stand for others.
    pub times: u32,
}

impl Transfer {
    /// A transfer that may start at once, and that has no number yet.
    pub fn new(peer: Rank, chunk: Chunk, content: Content) -> Self {
        Self { peer, chunk, content, number: 0, not_before_s: 0.0, times: 1 }
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

/// One call of a library's collective, in which the ranks of a group take part. It begins when the last of them has issued it, and ends on
/// all of them at the same time. Links know of it as a whole ([`CostModel::call`](crate::CostModel::call)).
#[derive(Clone, Debug, PartialEq)]
pub struct Library {
    /// Collective that is called.
    pub collective: Collective,
    /// Ranks that take part.
    pub group: Group,
    /// The exchanges and calls that it waits for are those of the same channel.
    pub channel: Channel,
    /// Stage that it carries.
    pub stage: Stage,
    /// Which part of a collective that is cut into parts it moves, counted from 0.
    pub part: u32,
    /// Shares of this rank that go in: into an All-Gather its own block, if it has one; into a reduction its values of each shard.
    pub inputs: Shares,
    /// Shares that come out: of an All-Gather the blocks of all other ranks; of a reduction the sums of this rank's shard, or of
    /// all. Sums are over all ranks, from rank 0 on, in FP32.
    pub outputs: Shares,
}

/// Identity of a call, on which all its ranks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct CallKey {
    /// The segment of the call.
    pub segment: SegmentId,
    /// Stage that the call carries.
    pub stage: Stage,
    /// The part that it moves.
    pub part: u32,
    /// The lowest of the ranks that take part.
    pub first: Rank,
}

impl Library {
    /// The same by ranks of a group, whose positions its ranks are.
    pub(super) fn within(self, group: &Group) -> Self {
        let Self { inputs, outputs, .. } = self;
        let (inputs, outputs) = (inputs.within(group), outputs.within(group));
        Self { group: *group, inputs, outputs, ..self }
    }

    /// Key of the call among those of its rank; `segment` is that of its op.
    pub fn key(&self, segment: SegmentId) -> CallKey {
        CallKey { segment, stage: self.stage, part: self.part, first: self.group.first }
    }

    /// All that goes in or comes out.
    pub fn shares(&self) -> impl Iterator<Item = Share> + '_ {
        self.inputs.iter().chain(self.outputs.iter())
    }

    /// Bytes that the call counts, equal on all ranks: of an All-Gather the longest of what ranks give, to which the others are
    /// padded; of a Reduce-Scatter the longest shard; of an All-Reduce all shards. `value` is asked for sizes.
    pub fn count(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        match self.collective {
            Collective::AllGather | Collective::Broadcast => {
                self.inputs.longest(&value).max(self.outputs.longest(&value))
            }
            Collective::ReduceScatter => self.inputs.longest(&value),
            Collective::AllReduce => self.inputs.bytes(&value),
        }
    }

    /// Bytes that this rank sends, and gets, if the library moves them around a ring.
    pub fn ring_bytes(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        self.collective.ring_bytes(self.group.count, self.count(value))
    }

    /// Bytes that a rank sends, and gets, of `ring_bytes`: of a broadcast the root gets none, and the last one, which is the one before the root, sends
    /// none.
    pub fn ends(&self, rank: Rank, ring_bytes: u64) -> [u64; 2] {
        let root = self.shares().next().map(|share| share.chunk.origin);
        let Some(root) = root.filter(|_| self.collective == Collective::Broadcast) else {
            return [ring_bytes; 2];
        };
        let is_last =
            self.group.position(rank).map(|at| (at + 1) % self.group.count) == self.group.position(root);
        [if is_last { 0 } else { ring_bytes }, if rank == root { 0 } else { ring_bytes }]
    }

    /// Bytes of values that this rank gets to add up, and sums that it gets from others, around a ring and without padding; none
    /// of an All-Gather, which delivers values.
    pub fn reduction_bytes(&self) -> u64 {
        match self.collective {
            Collective::AllGather | Collective::Broadcast => 0,
            // Partial sums of all shards but that of the rank before, whose sum begins here.
            Collective::ReduceScatter => {
                let known = |size| unreachable!("values have no size `{size}`");
                let origin = self.inputs.iter().next().map_or(self.group.first, |share| share.chunk.origin);
                let position = self.group.position(origin).unwrap_or(0);
                let begun =
                    self.inputs.of(self.group.at((position + self.group.count - 1) % self.group.count));
                self.inputs.bytes(known) - begun.map_or(0, |share| share.content.bytes(known))
            }
            Collective::AllReduce => self.ring_bytes(|size| unreachable!("values have no size `{size}`")),
        }
    }

    /// Bytes of values of other ranks that come out.
    pub(super) fn bytes_delivered(&self) -> u64 {
        if self.collective.is_reduction() { 0 } else { self.outputs.bytes_of_values() }
    }

    /// Bytes of sums that come out.
    pub(super) fn bytes_reduced(&self) -> u64 {
        if self.collective.is_reduction() { self.outputs.bytes_of_values() } else { 0 }
    }

    /// Sizes on which lengths depend.
    pub(super) fn measured_by(&self) -> impl Iterator<Item = SizeId> + '_ {
        let listed = self.inputs.listed().iter().chain(self.outputs.listed());
        listed.filter_map(|share| share.content.measured_by())
    }

    pub(super) fn effects(&self) -> Effects {
        let Self { inputs, outputs, .. } = self;
        let brings = |shares: &Shares| -> Vec<SizeId> {
            shares.listed().iter().filter_map(|share| share.content.brings()).collect()
        };
        Effects {
            reads: inputs.regions(),
            writes: outputs.regions(),
            defines: brings(outputs),
            uses: brings(inputs).into_iter().chain(self.measured_by()).collect(),
            // It names all ranks, its own too.
            peers: Vec::new(),
        }
    }

    pub(super) fn values(&self) -> Values {
        let values = |shares: &Shares| -> Vec<(Chunk, Region)> {
            shares.iter().filter_map(|s| Some((s.chunk, s.content.values()?))).collect()
        };
        let (takes, made) = (values(&self.inputs), values(&self.outputs));
        if self.collective.is_reduction() {
            Values { takes, sums: made, ..Values::default() }
        } else {
            Values { takes, delivers: made, ..Values::default() }
        }
    }
}

/// Numbers the transfers of one rank: to each peer, and from each peer, 0, 1, 2, ... in the order of its program, and
/// within one exchange in the order of the chunks. All ranks have the exchanges between two of them in the same order,
/// so both ends come to the same number without asking one another. The order in which an exchange lists its transfers
/// has no part in it: that is a matter of each end.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    sends: Next,
    receives: Next,
}

#[derive(Debug)]
pub(crate) enum Misnumbered {
    /// The same chunk is listed twice for this peer: nothing says which comes first.
    Twice(Rank),
    /// A transfer with this peer has another number than its place gives it.
    Number { peer: Rank, found: u32, expected: u32 },
}

impl Numbers {
    /// Numbers the transfers of the next exchange of the program.
    pub(crate) fn assign(&mut self, exchange: &mut Exchange) {
        for (next, transfers) in
            [(&mut self.sends, &mut exchange.sends), (&mut self.receives, &mut exchange.receives)]
        {
            for index in by_chunk(transfers) {
                transfers[index].number = next.take(transfers[index].peer);
            }
        }
    }

    /// Whether the transfers of the next exchange of the program have the numbers that [`Self::assign`] would give them.
    pub(crate) fn check(&mut self, exchange: &Exchange) -> Result<(), Misnumbered> {
        for (next, transfers) in
            [(&mut self.sends, &exchange.sends), (&mut self.receives, &exchange.receives)]
        {
            let order = by_chunk(transfers);
            let place = |index: usize| (transfers[index].peer, &transfers[index].chunk);
            if let Some(pair) = order.windows(2).find(|pair| place(pair[0]) == place(pair[1])) {
                return Err(Misnumbered::Twice(transfers[pair[0]].peer));
            }
            for Transfer { peer, number: found, .. } in order.into_iter().map(|index| &transfers[index]) {
                let (peer, found, expected) = (*peer, *found, next.take(*peer));
                if found != expected {
                    return Err(Misnumbered::Number { peer, found, expected });
                }
            }
        }
        Ok(())
    }
}

/// The next number of one direction, by peer.
#[derive(Debug, Default)]
struct Next(Vec<u32>);

impl Next {
    fn take(&mut self, peer: Rank) -> u32 {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, 0);
        }
        let next = &mut self.0[peer.index()];
        *next += 1;
        *next - 1
    }
}

/// Positions of transfers, by peer and then by chunk.
fn by_chunk(transfers: &[Transfer]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    // As a rule they are listed in a rotation of the ranks, which a stable sort takes in one pass.
    order.sort_by(|&a, &b| {
        let (a, b) = (&transfers[a], &transfers[b]);
        a.peer.cmp(&b.peer).then_with(|| a.chunk.cmp(&b.chunk))
    });
    order
}

impl Plan {
    /// The largest tag that every MPI library accepts: the least that the standard allows for the attribute `MPI_TAG_UB`
    /// (MPI 4.1, "Environmental Inquiries").
    pub const MPI_TAG_LIMIT: u32 = 32_767;

    /// How many numbers its transfers need: one more than the largest that a transfer has, 0 without transfers. It is the
    /// number of transfers that the busiest pair of ranks has, in one direction, in one iteration.
    pub fn transfer_numbers(&self) -> u32 {
        self.busiest_pair().map_or(0, |(_, _, count)| count)
    }

    /// Checks that an executor whose messages carry tags from 0 to `largest` can tell all transfers of an iteration apart
    /// that go from one rank to another: each travels under its number. [`Self::MPI_TAG_LIMIT`] is what any MPI library
    /// has.
    ///
    /// # Errors
    /// [`PlanError::TooManyTransfers`] for the pair of ranks that has the most of them.
    pub fn check_tags(&self, largest: u32) -> Result<(), PlanError> {
        match self.busiest_pair() {
            Some((src, dst, count)) if count - 1 > largest => {
                Err(PlanError::TooManyTransfers { src, dst, count, largest })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Sender and receiver of the transfer with the largest number, and that number plus one; of several the first.
    fn busiest_pair(&self) -> Option<(Rank, Rank, u32)> {
        let exchanges = self.programs.iter().flat_map(|program| {
            program.ops.iter().filter_map(|op| Some((program.rank, op.segment, op.kind.exchange()?)))
        });
        let keys = exchanges.flat_map(|(rank, segment, exchange)| {
            let sends = exchange.sends.iter().map(move |t| exchange.key_of_send(rank, segment, t));
            sends.chain(exchange.receives.iter().map(move |t| exchange.key_of_receive(rank, segment, t)))
        });
        let last = keys.max_by_key(|key| (key.number, Reverse((key.src, key.dst))))?;
        Some((last.src, last.dst, last.number + 1))
    }
}
