//! Calls of a plan as NCCL's own collectives: parts of all ranks are equal there, so they are copied to such parts and from them.

use zipwire_codec::DType;
use zipwire_kernels::{DeviceRegion, GpuError, Stream};
use zipwire_nccl_binding::{Communicator, Element, NcclError};
use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{Content, Library, OpKind, Shares};
use zipwire_schedule::{Collective, OpId, Rank};

use crate::cuda::device_state::Launch;
use crate::cuda::wire::{End, Own};

type Copy = (DeviceRegion, DeviceRegion);

/// A call, and the copies before and behind it.
pub(super) struct Call {
    collective: Collective,
    /// The rank whose bytes are broadcast; of others the first of all.
    root: Rank,
    /// Type of sums.
    element: Element,
    from: DeviceRegion,
    to: DeviceRegion,
    before: Vec<Copy>,
    behind: Vec<Copy>,
    is_begun: bool,
}

impl Call {
    /// The call that an op is; `None` if it is none, or moves nothing.
    pub(super) fn of(own: &Own<'_>, machine: &Machine, op: OpId) -> Option<Self> {
        let OpKind::Library(library) = &machine.op(op).kind else { return None };
        let Launch::Call(staging) = &own.device_state.op(op).launch else {
            unreachable!("calls have room for their parts")
        };
        let first = library.shares().next()?;
        let part = library.shares().map(|share| machine.content_bytes(&share.content)).max().unwrap_or(0);
        if part == 0 {
            return None;
        }
        let all = part * u64::from(library.group.count);
        let (given, got) = match library.collective {
            Collective::AllGather => (part, all),
            Collective::Broadcast => (part, part),
            Collective::ReduceScatter => (all, part),
            Collective::AllReduce => (all, all),
        };
        let (from, to) = (staging.from.part(0..given), staging.to.part(0..got));
        let copies = |shares: &Shares, room: &DeviceRegion| -> Vec<Copy> {
            let copies = shares.iter().flat_map(|share| {
                // A room for one part has that of one share.
                let number = if room.len() == part { 0 } else { u64::from(share.chunk.shard().0) };
                copies(own, machine, &share.content, &room.part(number * part..(number + 1) * part))
            });
            copies.collect()
        };
        let behind = copies(&library.outputs, &to).into_iter().map(|(place, part)| (part, place));
        Some(Self {
            collective: library.collective,
            root: first.chunk.origin,
            element: element(library).unwrap_or(Element::U8),
            before: copies(&library.inputs, &from),
            behind: behind.collect(),
            from,
            to,
            is_begun: false,
        })
    }

    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    pub(super) fn begin(&mut self, communicator: &Communicator, stream: &Stream) -> Result<(), NcclError> {
        let Self { root, element, from, to, .. } = self;
        self.is_begun = true;
        self.before.iter().try_for_each(|(from, to)| stream.copy(from, to))?;
        match self.collective {
            Collective::AllGather => communicator.all_gather(from, to, stream),
            Collective::Broadcast => communicator.broadcast(from, to, root.0, stream),
            Collective::ReduceScatter => communicator.reduce_scatter(from, to, *element, stream),
            Collective::AllReduce => communicator.all_reduce(from, to, *element, stream),
        }
    }

    /// Copies what has come to where it belongs, behind the collective.
    pub(super) fn end(&self, stream: &Stream) -> Result<(), GpuError> {
        self.behind.iter().try_for_each(|(from, to)| stream.copy(from, to))
    }
}

/// Whether NCCL has the call: it adds up values of a type that contributions and sums share.
pub(super) fn is_known(library: &Library) -> bool {
    !library.collective.is_reduction() || element(library).is_some()
}

/// Type of the values that are added up.
fn element(library: &Library) -> Option<Element> {
    match library.outputs.iter().next()?.chunk.sum?.dtype() {
        DType::Bf16 => Some(Element::Bf16),
        DType::F32 => Some(Element::F32),
        DType::F16 | DType::F8E4M3 | DType::F8E5M2 => None,
    }
}

/// Copies between the places of a content and the beginning of a part.
fn copies(own: &Own<'_>, machine: &Machine, content: &Content, part: &DeviceRegion) -> Vec<Copy> {
    let mut offset = 0;
    let places = End::of_content(machine, content).places(own.device_state).into_iter();
    let pairs = places.map(|place| {
        let range = offset..offset + place.len();
        offset = range.end;
        (place, part.part(range))
    });
    pairs.collect()
}
