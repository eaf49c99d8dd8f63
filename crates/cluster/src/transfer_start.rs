//! When a simulated transfer may start: what the ranks of a call wait for before its bytes move.

/// When the transfers of an exchange start, once it has been opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransferStart {
    /// Each when both of its ranks are there: what point-to-point transfers of a library do.
    #[default]
    Rendezvous,
    /// All together, when the last rank that takes part in this stage of the call is there. What a model assumes in which a
    /// collective takes some time from the last arrival on.
    Barrier,
}

impl TransferStart {
    /// All of them, what links do first.
    pub const ALL: [Self; 2] = [Self::Rendezvous, Self::Barrier];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rendezvous => "rendezvous",
            Self::Barrier => "barrier",
        }
    }
}
