//! Calls of a plan as NCCL's own collectives: parts of all ranks are equal there, so they are copied to such parts and from them.

use zipwire_kernels::{DeviceRegion, GpuError, Stream};
use zipwire_nccl::{Communicator, NcclError};
use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{Content, OpKind, Region};
use zipwire_schedule::{Collective, OpId, Rank};

use crate::cuda::device_state::Launch;
use crate::cuda::wire::{End, Own};

type Copy = (DeviceRegion, DeviceRegion);

/// An All-Gather, or a broadcast.
pub(super) struct Gathering {
    /// The rank whose bytes are broadcast.
    root: Option<Rank>,
    from: DeviceRegion,
    to: DeviceRegion,
    before: Vec<Copy>,
    behind: Vec<Copy>,
    is_begun: bool,
}

impl Gathering {
    /// The call that an op is; `None` if it is none, or moves nothing.
    pub(super) fn of(own: &Own<'_>, machine: &Machine, op: OpId) -> Option<Self> {
        let OpKind::Library(library) = &machine.op(op).kind else { return None };
        let Launch::Call(staging) = &own.device_state.op(op).launch else {
            unreachable!("calls have room for their parts")
        };
        let part = library.shares().map(|share| machine.content_bytes(&share.content)).max().unwrap_or(0);
        if part == 0 {
            return None;
        }
        let is_broadcast = library.collective == Collective::Broadcast;
        let root = library.shares().next().map(|share| share.chunk.origin).filter(|_| is_broadcast);
        let parts = if is_broadcast { 1 } else { u64::from(library.ranks) };
        let (from, to) = (staging.from.part(0..part), staging.to.part(0..parts * part));
        let copies = |content: &Content, part: &DeviceRegion| -> Vec<Copy> {
            let mut offset = 0;
            let places = end(machine, content).places(own.device_state).into_iter();
            let pairs = places.map(|place| {
                let range = offset..offset + place.len();
                offset = range.end;
                (place, part.part(range))
            });
            pairs.collect()
        };
        let before = library.inputs.iter().flat_map(|share| copies(&share.content, &from)).collect();
        let behind = library.outputs.iter().flat_map(|share| {
            let number = if is_broadcast { 0 } else { u64::from(share.chunk.origin.0) };
            let place = to.part(number * part..(number + 1) * part);
            copies(&share.content, &place).into_iter().map(|(to, from)| (from, to))
        });
        Some(Self { root, before, behind: behind.collect(), from, to, is_begun: false })
    }

    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    pub(super) fn begin(&mut self, communicator: &Communicator, stream: &Stream) -> Result<(), NcclError> {
        self.is_begun = true;
        self.before.iter().try_for_each(|(from, to)| stream.copy(from, to))?;
        match self.root {
            Some(root) => communicator.broadcast(&self.from, &self.to, root.0, stream),
            None => communicator.all_gather(&self.from, &self.to, stream),
        }
    }

    /// Copies what has come to where it belongs, behind the collective.
    pub(super) fn end(&self, stream: &Stream) -> Result<(), GpuError> {
        self.behind.iter().try_for_each(|(from, to)| stream.copy(from, to))
    }
}

/// The bytes of a share, of which regions may be longer.
fn end(machine: &Machine, content: &Content) -> End {
    let bytes = content.region().map(|region| match content.measured_by() {
        Some(_) => Region { len: machine.content_bytes(content), ..region },
        None => region,
    });
    End { bytes, size: content.brings() }
}
