//! Circumstances under which a plan is played: faults, silence, and defects planted in machines and devices.

use zipwire_schedule::plan::{OpKind, Program};
use zipwire_schedule::{Capabilities, Deadlines, Lane};

use super::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The transfer that is the n-th to begin moves and never arrives.
    Loses(u64),
    /// A rank does nothing from a time on, in nanoseconds.
    Kills(usize, u64),
    /// A rank lives and what it has begun goes on, but from a time on, in nanoseconds, its machine hears of nothing.
    Silences(usize, u64, Silence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It does not even report that the run has failed.
    ForEver,
    /// It reports how far it was when something is overdue, with it or with others.
    UntilDue,
    /// It hears of everything at this time, in nanoseconds, or soon after.
    Until(u64),
}

/// Something that is wrong on purpose, to see whether it is found. Not with whom it deals, but with how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    None,
    /// Receivers are told of bytes before they are there.
    TellsEarly,
    /// A library takes the second news of an end of a transfer for the end of another one.
    CountsTwice,
    /// Windows admit one transfer more than the plan says.
    WidensWindows,
    /// Ranks do not report what they wait for.
    ForgetsWaits,
    /// The devices of rank 0 take the exchanges of a lane in the order of their numbers from the last one on.
    ReversesLanes,
    /// Machines are given news of transfers in which one size differs from what was sent.
    AltersSizes,
}

#[derive(Clone, Copy)]
pub(crate) struct Conditions<'a> {
    pub(crate) capabilities: Capabilities,
    pub(crate) timing: u64,
    pub(crate) fault: Fault,
    /// Whether some news comes twice.
    pub(crate) repeats: bool,
    pub(crate) defect: Defect,
    pub(crate) deadlines: Option<&'a Deadlines>,
}

/// The same program with windows that admit one transfer more, in both directions.
pub(super) fn with_wider_windows(program: &Program) -> Program {
    let mut program = program.clone();
    for op in &mut program.ops {
        if let OpKind::Exchange(exchange) = &mut op.kind {
            exchange.window.sends += 1;
            exchange.window.receives += 1;
        }
    }
    program
}

impl World<'_> {
    /// Brings what has been issued on a lane of rank 0, and has not begun, into the opposite order.
    pub(super) fn reverse(&mut self, lane: Lane) {
        let state = &mut self.ranks[0];
        let running = &state.running;
        let queue = state.lanes[lane as usize].make_contiguous();
        let first = queue.iter().position(|op| !running.contains(op)).unwrap_or(queue.len());
        queue[first..].sort_by(|a, b| b.cmp(a));
    }
}
