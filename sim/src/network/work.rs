//! What solving has cost, in counts that are the same on every machine. Not time, and no part of any result.

/// What a [`Network`](super::Network) has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Times that levels were brought up to date: once for all flows that come and go at one moment.
    pub fillings: u64,
    /// Links whose level was computed anew, summed over fillings.
    pub links_relevelled: u64,
    /// Times that a level was taken from what another link has left.
    pub touches: u64,
    /// Flows that got another bottleneck.
    pub switched: u64,
}
