//! Transfers whose ends have both been offered, until they arrive.

use zipwire_schedule::Rank;
use zipwire_schedule::machine::TransferId;

use crate::network::FlowId;

/// One end of a transfer.
pub(super) type End = (Rank, TransferId);

/// A transfer whose ends have both been offered.
#[derive(Clone, Copy)]
pub(super) struct Transit {
    pub(super) send: End,
    pub(super) receive: End,
    pub(super) bytes: u64,
    /// When its latency began, in seconds since the barrier.
    pub(super) begin_s: f64,
}

/// All of them, by number; the number is given to another one when a transit has ended.
#[derive(Default)]
pub(super) struct Transits {
    list: Vec<Transit>,
    /// Numbers that no transit has now.
    free: Vec<u32>,
    /// The transit of each flow.
    of_flow: Vec<u32>,
}

impl Transits {
    /// Adds one; its number.
    pub(super) fn begin(&mut self, transit: Transit) -> u32 {
        if let Some(number) = self.free.pop() {
            self.list[number as usize] = transit;
            return number;
        }
        self.list.push(transit);
        u32::try_from(self.list.len() - 1).expect("transfers are counted in 32 bits")
    }

    pub(super) fn get(&self, number: u32) -> &Transit {
        &self.list[number as usize]
    }

    /// Takes one out.
    pub(super) fn end(&mut self, number: u32) -> Transit {
        self.free.push(number);
        self.list[number as usize]
    }

    /// The network moves a transit as this flow from now on.
    pub(super) fn move_as(&mut self, number: u32, flow: FlowId) {
        if self.of_flow.len() <= flow.index() {
            self.of_flow.resize(flow.index() + 1, 0);
        }
        self.of_flow[flow.index()] = number;
    }

    /// The transit that the network moves as this flow.
    pub(super) fn of_flow(&self, flow: FlowId) -> u32 {
        self.of_flow[flow.index()]
    }
}
