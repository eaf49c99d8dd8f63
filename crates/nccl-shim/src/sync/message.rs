//! A call whose values are compressed: what is coded where, and what NCCL is asked to move instead.

#![allow(unsafe_code, reason = "memory of the program is coded")]

use std::ffi::c_int;
use std::sync::Arc;

use zipwire_kernels::{Block, Device, DeviceRegion, GpuError, HostBuffer, Stream};

use super::gpu::Desk;
use super::handshake::BYTES;
use super::wire::Wire;
use crate::abi::SUCCESS;
use crate::communicators::Communicator;
use crate::exports::{Call, Op};

/// Alignment of values that kernels read and write.
const VALUES_ALIGN: u64 = 16;

/// A message that is compressed.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) call: Call,
    pub(super) communicator: Arc<Communicator>,
    pub(super) wire: Wire,
    /// Number of the lane that it is in.
    pub(super) lane: usize,
    /// Places for lengths, from the first one: for an all-gather this rank's and that of every rank, else one.
    pub(super) places: Vec<DeviceRegion>,
    pub(super) first_place: u64,
    pub(super) encoded: Option<Coded>,
    pub(super) decoded: Vec<Coded>,
    /// Part of this rank, kept while an all-gather without memory receives over it.
    pub(super) kept: Option<HostBuffer>,
}

/// Values and their frame.
#[derive(Debug)]
pub(super) struct Coded {
    /// Values of the program.
    pub(super) values: DeviceRegion,
    /// Copy of them at an address that kernels take, if theirs is none.
    pub(super) aligned: Option<DeviceRegion>,
    /// The frame, with room for coders; or the wire only, in the place of values, where there was no memory for it.
    pub(super) frame: DeviceRegion,
    pub(super) is_staged: bool,
    pub(super) place: DeviceRegion,
    /// Number of the place among those of the communicator.
    pub(super) place_index: u64,
}

impl Coded {
    /// The frame as kernels take it; `None` if it is not staged.
    pub(super) fn block(&self, wire: &Wire) -> Option<Block> {
        self.is_staged.then(|| Block {
            values: self.aligned.as_ref().unwrap_or(&self.values).clone(),
            static_section: self.frame.part(0..wire.static_len),
            dynamic_section: self.frame.part(wire.dynamic_at..wire.room),
            size: self.place.clone(),
        })
    }
}

impl Message {
    /// Finds memory for a call.
    pub(super) fn new(
        (call, communicator, wire): (Call, Arc<Communicator>, Wire),
        (lane, device, desk): (usize, &Device, &mut Desk),
        (places, first_place): (Vec<DeviceRegion>, u64),
    ) -> Self {
        let (encoded, decoded, kept) = (None, Vec::new(), None);
        let mut message =
            Self { call, communicator, wire, lane, places, first_place, encoded, decoded, kept };
        let (send, recv) = (call.send as u64, call.recv as u64);
        let is_root = call.peer == message.communicator.rank();
        match call.op {
            Op::Send => message.encoded = message.coded(device, desk, send, 0),
            Op::Recv => message.decoded.extend(message.received(device, desk, recv)),
            Op::AllGather => message.gathered(device, desk),
            // A broadcast: nothing else is compressed.
            _ if is_root => message.encoded = message.coded(device, desk, send, 0),
            _ => message.decoded.extend(message.received(device, desk, recv)),
        }
        message
    }

    /// Places that a call needs.
    pub(super) fn place_count(call: &Call, communicator: &Communicator) -> u64 {
        match call.op {
            Op::AllGather => 1 + u64::try_from(communicator.rank_count()).unwrap_or(0),
            _ => 1,
        }
    }

    /// Values at an address, and memory for their frame.
    fn coded(&self, device: &Device, desk: &mut Desk, address: u64, place: usize) -> Option<Coded> {
        let frame = desk.take(device, self.wire.room)?;
        self.coded_in(device, desk, address, frame, place)
    }

    /// Values at an address, and their frame.
    fn coded_in(
        &self,
        device: &Device,
        desk: &mut Desk,
        address: u64,
        frame: DeviceRegion,
        place: usize,
    ) -> Option<Coded> {
        // SAFETY: the program gives NCCL these values for the time that the call takes on the stream.
        let values = unsafe { DeviceRegion::foreign(device, address, self.wire.values_len) };
        let aligned = match address % VALUES_ALIGN {
            0 => None,
            _ => Some(desk.take(device, self.wire.values_len)?),
        };
        let (place, place_index) = (self.places[place].clone(), self.first_place + place as u64);
        Some(Coded { values, aligned, frame, is_staged: true, place, place_index })
    }

    /// Values to be received. Without memory for the frame, the wire is received in their place.
    fn received(&self, device: &Device, desk: &mut Desk, address: u64) -> Option<Coded> {
        if let Some(coded) = self.coded(device, desk, address, 0) {
            return Some(coded);
        }
        // SAFETY: as above.
        let values = unsafe { DeviceRegion::foreign(device, address, self.wire.values_len) };
        let frame = values.part(0..self.wire.len());
        let (place, place_index) = (self.places[0].clone(), self.first_place);
        Some(Coded { values, aligned: None, frame, is_staged: false, place, place_index })
    }

    /// An all-gather: one frame out, one in for each other rank. All or none of them have memory.
    fn gathered(&mut self, device: &Device, desk: &mut Desk) {
        let (rank, ranks) = (self.communicator.rank() as u64, self.communicator.rank_count() as u64);
        let Wire { values_len, room, .. } = self.wire;
        let Some(encoded) = self.coded(device, desk, self.call.send as u64, 0) else { return };
        let Some(all) = desk.take(device, (ranks - 1) * self.wire.len() + room) else { return };
        let coded = |other: u64, desk: &mut Desk| {
            let at = other * self.wire.len();
            let address = self.call.recv as u64 + other * values_len;
            self.coded_in(device, desk, address, all.part(at..at + room), 1 + other as usize)
        };
        let others = (0..ranks).filter(|other| *other != rank);
        let Some(decoded) = others.map(|other| coded(other, desk)).collect() else { return };
        (self.encoded, self.decoded) = (Some(encoded), decoded);
    }

    /// Asks NCCL to move the lengths and the wires.
    pub(super) fn issue(&self) -> c_int {
        let Self { call, wire, places, .. } = self;
        let place = |index: usize| places[index].address() as usize;
        // Without memory the wire is anything: nobody reads it, because its length says so.
        let out = self.encoded.as_ref().map_or(call.send, |coded| coded.frame.address() as usize);
        let into = match (call.op, self.decoded.first()) {
            // The first frame of all, whichever rank that is.
            (Op::AllGather, Some(first)) => {
                let number = first.place_index - self.first_place - 1;
                (first.frame.address() - number * wire.len()) as usize
            }
            (Op::Broadcast | Op::Bcast, None) if self.encoded.is_some() => out,
            (_, Some(first)) => first.frame.address() as usize,
            (_, None) => call.recv,
        };
        let bytes = |send: usize, recv: usize, count: u64| {
            let op = if call.op == Op::Bcast { Op::Broadcast } else { call.op };
            Call { op, send, recv, count: count as usize, dtype: BYTES, ..*call }.made()
        };
        let last = places.len().min(2) - 1;
        match bytes(place(0), place(last), 8) {
            SUCCESS => bytes(out, into, wire.len()),
            failed => failed,
        }
    }

    /// Whether it is an all-gather whose wires are received over the values that this rank sends.
    pub(super) fn is_received_over_own(&self) -> bool {
        let Self { call, communicator, wire, .. } = self;
        let own = call.recv + communicator.rank() as usize * wire.values_len as usize;
        call.op == Op::AllGather && self.encoded.is_none() && call.send == own
    }

    /// Values that this rank sends.
    pub(super) fn own_part(&self, device: &Device) -> DeviceRegion {
        // SAFETY: the program gives NCCL these values for this call.
        unsafe { DeviceRegion::foreign(device, self.call.send as u64, self.wire.values_len) }
    }

    /// Queues this rank's own part of what a call leaves in the memory of the program.
    pub(super) fn copy_own(&self, device: &Device, stream: &Stream) -> Result<(), GpuError> {
        let Self { call, communicator, wire, .. } = self;
        let to = match call.op {
            Op::AllGather => call.recv + communicator.rank() as usize * wire.values_len as usize,
            Op::Broadcast if call.peer == communicator.rank() => call.recv,
            _ => call.send,
        };
        if to == call.send {
            return Ok(());
        }
        // SAFETY: the program gives NCCL both for this call.
        let region =
            |address: usize| unsafe { DeviceRegion::foreign(device, address as u64, wire.values_len) };
        stream.copy(&region(call.send), &region(to))
    }

    /// Bytes that this rank sends as wires, with their lengths.
    pub(super) fn wire_bytes(&self) -> u64 {
        8 + self.wire.len()
    }
}
