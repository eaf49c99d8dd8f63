//! The messages of a group, from their encoders to the raw ones that are sent once more.

#![allow(unsafe_code, reason = "streams of the program are used, and NCCL is called")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use zipwire_codec::DType;
use zipwire_kernels::{Block, DeviceRegion, Event, GpuError, Stream};

use super::Contexts;
use super::gpu::{Desk, Gpu, Places};
use super::handshake::{BYTES, one_line};
use super::message::{Coded, Message};
use super::wait::{Failure, wait_for};
use super::wire::Wire;
use crate::abi::{Comm, INTERNAL_ERROR, SUCCESS, SYSTEM_ERROR};
use crate::communicators::Communicator;
use crate::exports::{Call, Op};
use crate::process::tell;
use crate::real::real;

/// Messages of an outermost group of a thread.
#[derive(Debug, Default)]
pub(crate) struct Group {
    messages: Vec<Message>,
    lanes: Vec<Lane>,
    places: Vec<Taken>,
}

/// Messages of a group that are in a stream.
#[derive(Debug)]
struct Lane {
    gpu: Arc<Gpu>,
    handle: usize,
    stream: Stream,
    desk: Desk,
    /// Findings of the decoder, in the order of the frames; none if there was no decoder.
    faults: Vec<bool>,
}

/// Places of a communicator, while a group has them.
#[derive(Debug)]
struct Taken {
    communicator: Arc<Communicator>,
    places: Places,
    used: u64,
}

/// Call of a group, and whether it was sent once more.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) call: Call,
    pub(crate) communicator: Arc<Communicator>,
    /// Bytes that were sent or received for each message.
    pub(crate) wire_bytes: u64,
    pub(crate) is_resent: bool,
}

impl Group {
    /// Whether there are no messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message, and asks NCCL for its wire.
    pub(super) fn add(&mut self, call: Call, communicator: &Arc<Communicator>, wire: Wire) -> c_int {
        let contexts = Contexts::keep();
        let count = Message::place_count(&call, communicator);
        let places = match self.places(communicator, count) {
            Ok(places) => places,
            Err(why) => {
                tell(&format!("no memory for the lengths of messages: {}", one_line(&why)));
                spoil(&call);
                return SYSTEM_ERROR;
            }
        };
        let lane = self.lane(communicator, call.stream);
        let Lane { gpu, desk, .. } = &mut self.lanes[lane];
        let message = Message::new((call, communicator.clone(), wire), (lane, &gpu.device, desk), places);
        drop(contexts);
        let result = message.issue();
        self.messages.push(message);
        result
    }

    /// Takes places for lengths: their regions, and the number of the first.
    fn places(
        &mut self,
        communicator: &Arc<Communicator>,
        count: u64,
    ) -> Result<(Vec<DeviceRegion>, u64), GpuError> {
        let link = communicator.link.get().expect("messages of others are not compressed");
        let fits = |taken: &Taken| {
            Arc::ptr_eq(&taken.communicator, communicator)
                && taken.used + count <= taken.places.region.len() / 8
        };
        let found = self.places.iter().position(fits);
        let found = match found {
            Some(found) => found,
            None => {
                let kept = link.places.lock().unwrap_or_else(PoisonError::into_inner).take();
                let places = match kept {
                    Some(kept) => kept,
                    None => link.gpu.places(count)?,
                };
                self.places.push(Taken { communicator: communicator.clone(), places, used: 0 });
                self.places.len() - 1
            }
        };
        let Taken { places, used, .. } = &mut self.places[found];
        let first = *used;
        *used += count;
        let region = |index: u64| places.region.part(8 * index..8 * (index + 1));
        Ok(((first..*used).map(region).collect(), first))
    }

    /// Number of the lane for a stream.
    fn lane(&mut self, communicator: &Communicator, handle: usize) -> usize {
        let gpu = &communicator.link.get().expect("messages of others are not compressed").gpu;
        let known = self.lanes.iter().position(|lane| lane.handle == handle && Arc::ptr_eq(&lane.gpu, gpu));
        known.unwrap_or_else(|| {
            // SAFETY: the program gives NCCL this stream for a call that has not ended before the group has.
            let stream = unsafe { Stream::borrowed(&gpu.device, handle as *mut c_void) };
            self.lanes.push(Lane { gpu: gpu.clone(), handle, stream, desk: gpu.desk(), faults: Vec::new() });
            self.lanes.len() - 1
        })
    }

    /// Queues encoders, before the group of NCCL ends. A message without one has a length that says so. Returns whether the group can go on: not
    /// if that length cannot be written, because the one that is there may be an older message's.
    pub(crate) fn encode(&mut self) -> bool {
        let _contexts = Contexts::keep();
        let encoded = (0..self.lanes.len()).try_for_each(|number| {
            self.clear(number)?;
            // Whatever a failing encoder has got done is void.
            self.encode_lane(number).or_else(|_| self.clear(number))
        });
        let kept = encoded.and_then(|()| self.keep_own_parts());
        kept.inspect_err(|why| tell(&format!("messages cannot be sent: {}", one_line(why)))).is_ok()
    }

    /// Makes NCCL do nothing of the group that is open.
    pub(crate) fn spoil(&self) {
        self.messages.iter().take(1).for_each(|message| spoil(&message.call));
    }

    /// Queues copies of what all-gathers without memory receive their wires over: this rank's part, where it lies in the result.
    fn keep_own_parts(&mut self) -> Result<(), GpuError> {
        for message in self.messages.iter_mut().filter(|message| message.is_received_over_own()) {
            let Lane { gpu, stream, desk, .. } = &mut self.lanes[message.lane];
            let kept = desk.host_buffer(&gpu.device, message.wire.values_len)?;
            stream.download(&message.own_part(&gpu.device), &kept, 0)?;
            message.kept = Some(kept);
        }
        Ok(())
    }

    /// Says of all messages of a lane that they are not coded.
    fn clear(&self, lane: usize) -> Result<(), GpuError> {
        self.place_ranges(lane).iter().try_for_each(|(region, ..)| self.lanes[lane].stream.fill(region, 0xFF))
    }

    fn encode_lane(&mut self, number: usize) -> Result<(), GpuError> {
        let Lane { gpu, stream, desk, .. } = &mut self.lanes[number];
        let of_lane = self.messages.iter().filter(|message| message.lane == number);
        let coded: Vec<(&Coded, Block)> = of_lane
            .filter_map(|message| {
                let coded = message.encoded.as_ref()?;
                Some((coded, coded.block(&message.wire)?))
            })
            .collect();
        for Coded { values, aligned, .. } in coded.iter().map(|(coded, _)| *coded) {
            aligned.as_ref().map_or(Ok(()), |aligned| stream.copy(values, aligned))?;
        }
        if coded.is_empty() {
            return Ok(());
        }
        let blocks: Vec<Block> = coded.into_iter().map(|(_, block)| block).collect();
        desk.encoder(gpu.coder(), &blocks)?.launch(stream)
    }

    /// Queues decoders behind the group of NCCL, waits for all, and sends once more what did not fit. `result` is that of NCCL.
    pub(crate) fn complete(mut self, result: c_int) -> (c_int, Vec<Outcome>) {
        if result != SUCCESS {
            // What NCCL has begun may still use the memory.
            std::mem::forget(self);
            return (result, Vec::new());
        }
        let (resent, mut result) = match self.receive() {
            Ok(received) => received,
            Err(Failure { result, why }) => {
                tell(&format!("messages cannot be waited for: {why}"));
                std::mem::forget(self);
                return (result, Vec::new());
            }
        };
        if resent.contains(&true) {
            let again = self.send_again(&resent);
            result = if result == SUCCESS { again } else { result };
        }
        let outcome = |(message, is_resent): (&Message, &bool)| {
            let raw = if *is_resent { message.wire.values_len } else { 0 };
            let wire_bytes = message.wire_bytes() + raw;
            Outcome {
                call: message.call,
                communicator: message.communicator.clone(),
                wire_bytes,
                is_resent: *is_resent,
            }
        };
        let outcomes = self.messages.iter().zip(&resent).map(outcome).collect();
        self.give_back();
        (result, outcomes)
    }

    /// Waits for all messages, and decodes them. Returns which of them are to be sent once more, and whether all others are right.
    fn receive(&mut self) -> Result<(Vec<bool>, c_int), Failure> {
        let _contexts = Contexts::keep();
        let events = self.decode()?;
        self.wait(&events)?;
        let resent: Vec<bool> = self.messages.iter().map(|message| self.is_raw(message)).collect();
        let mut result = SUCCESS;
        for (message, is_resent) in self.messages.iter().zip(&resent) {
            if !is_resent && !self.mend(message) {
                result = INTERNAL_ERROR;
            }
        }
        for message in &self.messages {
            let Some(kept) = &message.kept else { continue };
            let mut own = vec![0; message.wire.values_len as usize];
            kept.read(0, &mut own);
            message.own_part(&self.lanes[message.lane].gpu.device).write(&own)?;
        }
        Ok((resent, result))
    }

    /// Queues decoders and what is copied to the host, and an event behind for each lane.
    fn decode(&mut self) -> Result<Vec<Arc<Event>>, GpuError> {
        let mut events = Vec::new();
        for number in 0..self.lanes.len() {
            let ranges = self.place_ranges(number);
            let Lane { gpu, stream, desk, faults, .. } = &mut self.lanes[number];
            let of_lane = || self.messages.iter().filter(|message| message.lane == number);
            for message in of_lane().filter(|message| message.encoded.is_some()) {
                message.copy_own(&gpu.device, stream)?;
            }
            let coded =
                || of_lane().flat_map(|message| message.decoded.iter().map(|coded| (coded, &message.wire)));
            let blocks: Vec<Block> = coded().filter_map(|(coded, wire)| coded.block(wire)).collect();
            // Without a decoder, frames are decoded on the CPU.
            let len = blocks.len();
            if len > 0 && desk.decode(gpu, stream, &blocks).is_ok() {
                *faults = vec![false; len];
                for Coded { values, aligned, .. } in
                    coded().map(|(coded, _)| coded).filter(|coded| coded.is_staged)
                {
                    aligned.as_ref().map_or(Ok(()), |aligned| stream.copy(aligned, values))?;
                }
            }
            for (region, taken, range) in &ranges {
                stream.download(region, &self.places[*taken].places.host, 8 * range.start)?;
            }
            let event = desk.event(&gpu.device)?;
            stream.record(&event)?;
            events.push(event);
        }
        Ok(events)
    }

    /// Waits for the lanes, and reads the findings of their decoders.
    fn wait(&mut self, events: &[Arc<Event>]) -> Result<(), Failure> {
        for (number, event) in events.iter().enumerate() {
            let mut communicators: Vec<(Comm, &Communicator)> = self
                .messages
                .iter()
                .map(|message| (message.call.comm as Comm, &*message.communicator))
                .collect();
            communicators.dedup_by_key(|(comm, _)| *comm);
            wait_for(event, &communicators, || self.waits_for(number))?;
            let Lane { desk, faults, .. } = &mut self.lanes[number];
            if !faults.is_empty() {
                *faults = desk.faults();
            }
        }
        Ok(())
    }

    /// Text of what a lane waits for.
    fn waits_for(&self, lane: usize) -> String {
        let of_lane = self.messages.iter().filter(|message| message.lane == lane);
        let named = |message: &Message| {
            let Call { op, count, peer, .. } = message.call;
            let with = op.peer_name().map_or_else(String::new, |name| format!(", {name} {peer}"));
            format!("{} of {count} values{with}, on communicator {:016x}", op.name(), message.communicator.id)
        };
        let mut names: Vec<String> = of_lane.map(named).collect();
        let count = names.len();
        names.truncate(3);
        let others =
            if count > 3 { format!("; and {} others of the group", count - 3) } else { String::new() };
        names.join("; ") + &others
    }

    /// Places of a lane that lie side by side: on the GPU, and which of which communicator.
    fn place_ranges(&self, lane: usize) -> Vec<(DeviceRegion, usize, Range<u64>)> {
        let mut ranges: Vec<(usize, Range<u64>)> = Vec::new();
        for message in self.messages.iter().filter(|message| message.lane == lane) {
            let first = message.places[0].address();
            let is_of = |taken: &Taken| {
                let region = &taken.places.region;
                (region.address()..region.address() + region.len()).contains(&first)
            };
            let taken =
                self.places.iter().position(is_of).expect("places are of a communicator of the group");
            let end = message.first_place + message.places.len() as u64;
            match ranges.last_mut() {
                Some((last, range)) if *last == taken && range.end == message.first_place => range.end = end,
                _ => ranges.push((taken, message.first_place..end)),
            }
        }
        let region = |(taken, range): (usize, Range<u64>)| {
            (self.places[taken].places.region.part(8 * range.start..8 * range.end), taken, range)
        };
        ranges.into_iter().map(region).collect()
    }

    /// Length of a dynamic section, as it has come.
    fn len_at(&self, message: &Message, index: usize) -> u64 {
        let address = message.places[index].address();
        let len = self.places.iter().find_map(|Taken { places: Places { region, host }, .. }| {
            let offset = address.checked_sub(region.address())?;
            (offset < region.len()).then(|| host.read_u64(offset))
        });
        len.expect("places are of a communicator of the group")
    }

    /// Whether a message comes once more as it is: all its ranks say the same.
    fn is_raw(&self, message: &Message) -> bool {
        // For an all-gather the lengths of all ranks, which have come behind its own.
        let first = message.places.len().min(2) - 1;
        (first..message.places.len()).any(|index| self.len_at(message, index) > message.wire.budget)
    }

    /// Decodes on the CPU what the GPU has not decoded. Returns whether all values are there.
    fn mend(&self, message: &Message) -> bool {
        let faults = &self.lanes[message.lane].faults;
        let mut staged = self.frames_before(message);
        for coded in &message.decoded {
            let is_right = coded.is_staged && faults.get(staged) == Some(&false);
            staged += usize::from(coded.is_staged);
            let index = (coded.place_index - message.first_place) as usize;
            if !is_right && let Err(why) = self.decode_on_cpu(message, coded, index) {
                tell(&format!("a message has come damaged: {why}"));
                return false;
            }
        }
        true
    }

    fn decode_on_cpu(&self, message: &Message, coded: &Coded, index: usize) -> Result<(), String> {
        let bytes = coded.frame.read().map_err(|why| one_line(&why))?;
        let values = message.wire.decode(DType::Bf16, &bytes, self.len_at(message, index));
        let values = values.map_err(|why| why.to_string())?;
        coded.values.write(&values).map_err(|why| one_line(&why))
    }

    /// Staged frames of a lane in front of those of a message.
    fn frames_before(&self, message: &Message) -> usize {
        let before = self.messages.iter().take_while(|other| !std::ptr::eq(*other, message));
        let of_lane = before.filter(|other| other.lane == message.lane);
        of_lane.flat_map(|other| &other.decoded).filter(|coded| coded.is_staged).count()
    }

    /// Makes the calls of messages once more, as the program has made them.
    fn send_again(&self, resent: &[bool]) -> c_int {
        let start = real!(c"ncclGroupStart", fn());
        let end = real!(c"ncclGroupEnd", fn());
        let resent = || self.messages.iter().zip(resent).filter(|(_, is)| **is).map(|(message, _)| message);
        let mut communicators: Vec<&Arc<Communicator>> =
            resent().map(|message| &message.communicator).collect();
        // In one order, as other threads may hold some of them.
        communicators.sort_by_key(|communicator| Arc::as_ptr(communicator));
        communicators.dedup_by_key(|communicator| Arc::as_ptr(communicator));
        let held: Option<Vec<_>> = communicators.iter().map(|communicator| communicator.hold()).collect();
        if held.is_none() {
            tell("messages cannot be sent once more: their communicator has ended");
            return INTERNAL_ERROR;
        }
        // SAFETY: they take nothing.
        let mut result = unsafe { start() };
        for message in resent() {
            let issued = message.call.made();
            result = if result == SUCCESS { issued } else { result };
        }
        // SAFETY: as above.
        let ended = unsafe { end() };
        if result == SUCCESS { ended } else { result }
    }

    /// Gives memory back: nothing uses it any more.
    pub(crate) fn give_back(self) {
        let kept = self.messages.into_iter().filter_map(|message| Some((message.lane, message.kept?)));
        let mut lanes = self.lanes;
        kept.for_each(|(lane, kept)| lanes[lane].desk.keep(kept));
        for Lane { gpu, desk, .. } in lanes {
            gpu.give_back(desk);
        }
        for Taken { communicator, places, .. } in self.places {
            let link = communicator.link.get().expect("its messages are compressed");
            let mut kept = link.places.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(other) = kept.replace(places) {
                link.gpu.keep(other);
            }
        }
    }
}

/// Makes NCCL do nothing of the group that is open, by a call that it refuses: as when a call of the program's own is wrong, the group's end
/// returns an error. What has been asked for cannot be taken back otherwise.
pub(super) fn spoil(call: &Call) {
    let refused = Call {
        op: Op::Recv,
        send: 0,
        recv: call.send | call.recv,
        count: 1,
        dtype: BYTES,
        peer: c_int::MAX,
        ..*call
    };
    refused.made();
}
