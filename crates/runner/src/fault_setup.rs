//! What goes wrong in a run.

use zipwire_schedule::{Deadlines, Fault, FiredFaults};

/// What goes wrong in a run, and when that is noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultSetup<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) deadlines: Option<&'a Deadlines>,
    /// Where it is noted which faults had an effect.
    pub(crate) fired: Option<&'a FiredFaults>,
}

impl FaultSetup<'_> {
    pub(crate) const NONE: Self = Self { faults: &[], deadlines: None, fired: None };
}
