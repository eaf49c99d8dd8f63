//! Under which circumstances a plan is played.

use zipwire_schedule::{Capabilities, Deadlines};

/// What goes wrong in a schedule.
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

/// How long a rank is silent.
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

/// Under which circumstances a plan is played.
#[derive(Clone, Copy)]
pub(crate) struct Conditions<'a> {
    pub(crate) capabilities: Capabilities,
    /// Seed of all times.
    pub(crate) timing: u64,
    pub(crate) fault: Fault,
    /// Whether some news comes twice.
    pub(crate) repeats: bool,
    pub(crate) defect: Defect,
    pub(crate) deadlines: Option<&'a Deadlines>,
}
