//! Numbers of transfers: which of them follow others of their shard on the wire.

use zipwire_schedule::plan::TransferKey;

/// Numbers of transfers between two ranks repeat after so many, which is more than are under way. With the bit behind them they are
/// tags that every library of messages has.
const NUMBERS: u32 = 1 << 14;

/// The number of a transfer, the `count`-th between its ends.
pub(super) fn number(count: u32, follows: bool) -> u32 {
    (count % NUMBERS) << 1 | u32::from(follows)
}

/// Whether a transfer follows another one of its shard: the first one has had the latency of all.
pub(super) fn follows(key: &TransferKey) -> bool {
    key.number & 1 == 1
}
