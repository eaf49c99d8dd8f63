//! How exchanges of ranks on GPUs move their bytes: a wire is one rank's end of it, and its place among the others.

use std::sync::Arc;
use std::time::Duration;

use zipwire_kernels::{Device, DeviceRegion, GpuError};
use zipwire_schedule::machine::{Direction, Machine, TransferId};
use zipwire_schedule::plan::{Content, OpKind, Region};
use zipwire_schedule::{Failure, FailureKind, Lane, OpId, Rank, SizeId};

use super::clock::Clock;
use super::device_state::DeviceState;
use crate::report::{FailureReport, Hello};
use crate::transport::{Ended, Meeting};

/// A rank and what it has on its GPU.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) rank: Rank,
    pub(crate) device_state: &'a DeviceState,
    pub(crate) failure_report: FailureReport<'a>,
    pub(crate) clock: &'a Clock,
}

/// A transfer that has ended, and when its bytes moved, in seconds of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) id: TransferId,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
}

/// Moves the bytes of one rank's exchanges. All waiting for bytes is done by GPUs: a wire puts work on the streams of lanes, and waits for
/// peers only in [`Self::listen`].
pub(crate) trait Wire: Meeting {
    /// Connects this rank, which runs on a GPU, with its peers, before the first iteration; later does nothing. Ranks shake hands first.
    ///
    /// # Errors
    /// If it cannot, ranks are to run something else, the run has ended, or others have not come after `stuck_after`.
    fn connect(&mut self, _device: &Device, _hello: &Hello, _stuck_after: Duration) -> Result<(), Failure> {
        Ok(())
    }

    /// Ends whatever kernels of this rank wait for, when it has failed and others have been told.
    fn give_up(&mut self) {}

    /// Takes the clock of this rank's GPU in an iteration that is about to begin, before the barrier.
    fn offer_clock(&mut self, _clock: &Arc<Clock>) {}

    /// The clock to go by behind the barrier: ranks of one GPU whose times are compared have one.
    fn clock(&self, own: Arc<Clock>) -> Arc<Clock> {
        own
    }

    /// Whether an exchange of this lane can be opened now.
    fn takes(&self, _lane: Lane) -> bool {
        true
    }

    /// Opens an exchange, or begins a call, whose lane's stream is where it should begin: puts on that stream what can be yet.
    ///
    /// # Errors
    /// If the device fails, the peers are gone, or they disagree about what moves.
    fn open(&mut self, own: &Own<'_>, machine: &Machine, op: OpId) -> Result<(), Failure>;

    /// Waits for news of peers, as long as `timeout`, and takes the first in. Whether there was any.
    ///
    /// # Errors
    /// Same as [`Self::open`], and if the run has ended.
    fn listen(&mut self, own: &Own<'_>, machine: &Machine, timeout: Duration) -> Result<bool, Failure>;

    /// The next exchange or call that is on its stream as a whole: the end of the stream is its end.
    fn take_queued(&mut self) -> Option<OpId>;

    /// An exchange or call that is open and not queued as a whole.
    fn first_open(&self) -> Option<OpId>;

    /// Transfers that have ended since it was last asked.
    ///
    /// # Errors
    /// If the device fails.
    fn look(&mut self, own: &Own<'_>, moved: &mut Vec<Moved>) -> Result<(), GpuError>;

    /// Whether transfers of this exchange have not been seen by [`Self::look`].
    fn has_unreported(&self, op: OpId) -> bool;
}

impl Own<'_> {
    pub(crate) fn broken(&self, op: Option<OpId>, error: &GpuError) -> Failure {
        Failure::new(self.rank, op, FailureKind::Device, error.to_string())
    }

    pub(crate) fn ended(&self, machine: &Machine, op: Option<OpId>, ended: &Ended) -> Failure {
        self.failure_report.ended(machine, op, ended)
    }
}

/// Transfers of an exchange that move anything, sends first. Both ends know of empty ones, and leave them out.
pub(crate) fn transfers(machine: &Machine, op: OpId) -> Vec<TransferId> {
    let OpKind::Exchange(exchange) = &machine.op(op).kind else { return Vec::new() };
    let lists = [(Direction::Send, &exchange.sends), (Direction::Receive, &exchange.receives)];
    let ids = lists.into_iter().flat_map(|(direction, transfers)| {
        let moving = (0..).zip(transfers).filter(|(_, transfer)| machine.transfer_bytes(transfer) > 0);
        moving.map(move |(index, _)| TransferId { op, direction, index })
    });
    ids.collect()
}

/// The bytes of one end of a transfer: a region, a size, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) bytes: Option<Region>,
    pub(crate) size: Option<SizeId>,
}

impl End {
    pub(crate) fn of(machine: &Machine, id: TransferId) -> Self {
        Self::of_content(machine, &machine.transfer(id).0.content)
    }

    /// The bytes of a content whose sizes are known: of a region that is measured the live ones.
    pub(crate) fn of_content(machine: &Machine, content: &Content) -> Self {
        let bytes = content.region().map(|region| match content.measured_by() {
            Some(_) => Region { len: machine.content_bytes(content), ..region },
            None => region,
        });
        Self { bytes, size: content.brings() }
    }

    /// Places of the bytes on the GPU of a rank, in the order in which they move.
    pub(crate) fn places(self, device_state: &DeviceState) -> Vec<DeviceRegion> {
        let bytes = self.bytes.map(|region| device_state.place(&region));
        bytes.into_iter().chain(self.size.map(|size| device_state.size(size))).collect()
    }
}
