//! Numbers of transfers: which lane between two ranks they take, and which of them follow others of their shard.
//!
//! Each shard has a lane of its own. Its groups follow one another there, so links see one transfer of all their bytes.

use zipwire_schedule::plan::TransferKey;

use crate::transport::paced::Stream;

/// Transfer numbers of a lane, half of them for groups that follow another one. At most two groups of a shard are under way, and a rank that hears of an end
/// before its peer does cannot wrap around meanwhile.
const NUMBERS: u32 = 8;

/// The lanes from one rank to another. Together they use a few thousand numbers, which every MPI library has as tags.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Transfers on each so far.
    counts: Vec<u32>,
    free: Vec<u32>,
}

impl Lanes {
    /// A lane that no shard has.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.counts.push(0);
            self.counts.len() as u32 - 1
        })
    }

    /// Returns the lane of a shard that has nothing under way on it.
    pub(super) fn give(&mut self, lane: u32) {
        self.free.push(lane);
    }

    /// The number of the next transfer on a lane.
    pub(super) fn number(&mut self, lane: u32, follows: bool) -> u32 {
        let count = &mut self.counts[lane as usize];
        *count = (*count + 1) % (NUMBERS / 2);
        lane * NUMBERS + *count * 2 + u32::from(follows)
    }
}

/// The stream of a transfer.
pub(super) fn stream(key: &TransferKey) -> Option<Stream> {
    Some(Stream { number: key.number / NUMBERS, follows: key.number % 2 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_under_way_have_numbers_of_their_own_and_one_stream() {
        let mut lanes = Lanes::default();
        let (a, b) = (lanes.take(), lanes.take());
        let numbers = [lanes.number(a, false), lanes.number(a, true), lanes.number(b, false)];
        assert!(numbers[0] != numbers[1] && numbers[1] / NUMBERS != numbers[2] / NUMBERS);
        assert_eq!(numbers.map(|number| number % 2), [0, 1, 0]);
        lanes.give(a);
        assert_eq!(lanes.take(), a);
        // The next shard of the lane begins where the last one has ended.
        assert!(!numbers.contains(&lanes.number(a, false)));
    }
}
