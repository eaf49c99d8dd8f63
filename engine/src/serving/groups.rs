//! Groups of a shard: one layer and up to so many tokens each, layer by layer; and their values, which are recorded rows, drawn by group, so that every
//! group differs from all others and both ends know it. Buffers in which they are sent and received, and the lanes of their transfers.

use std::sync::Arc;

use zipwire_payload::{Rows, stream};
use zipwire_schedule::BufferId;
use zipwire_schedule::plan::{Region, TransferKey};
use zipwire_serving::RequestId;

use crate::memory::Memory;
use crate::transport::paced::Stream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// The first layer and the one behind the last.
    pub(super) layers: [u32; 2],
    /// The first token and the one behind the last.
    pub(super) tokens: [u32; 2],
    /// Tokens of a group at the most.
    pub(super) most: u32,
}

impl Groups {
    pub(super) fn count(&self) -> u32 {
        (self.layers[1] - self.layers[0]) * self.per_layer()
    }

    /// Layer and tokens of one of them.
    pub(super) fn get(&self, index: u32) -> (u32, [u32; 2]) {
        let (layer, block) = (index / self.per_layer(), index % self.per_layer());
        let begin = self.tokens[0] + block * self.most;
        (self.layers[0] + layer, [begin, self.tokens[1].min(begin.saturating_add(self.most))])
    }

    fn per_layer(&self) -> u32 {
        (self.tokens[1] - self.tokens[0]).div_ceil(self.most)
    }
}

/// Recorded values of each plane, and how rows of them are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) seed: u64,
    pub(super) rows: &'a [Arc<Rows>],
}

/// A group of one shard of a request's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupId {
    pub(super) request: RequestId,
    /// Which part of each token.
    pub(super) part: u32,
    pub(super) layer: u32,
    /// The first one.
    pub(super) token: u32,
}

impl Values<'_> {
    pub(super) fn fill(&self, group: &GroupId, plane: usize, out: &mut [u8]) {
        self.rows[plane].fill(stream(self.seed, "kv group", keys(group, plane)), out);
    }

    /// Offset of the first byte of a plane that is not what [`fill`](Self::fill) writes.
    pub(super) fn mismatch(&self, group: &GroupId, plane: usize, received: &[u8]) -> Option<u64> {
        self.rows[plane].mismatch(stream(self.seed, "kv group", keys(group, plane)), received)
    }
}

fn keys(group: &GroupId, plane: usize) -> [u64; 3] {
    let GroupId { request, part, layer, token } = *group;
    [u64::from(request.0) | u64::from(part) << 32, u64::from(layer), u64::from(token) | (plane as u64) << 32]
}

/// Buffers in which a rank sends and receives groups: each has room for any group, is made when none is free, and is used again.
pub(super) struct Buffers {
    memory: Arc<Memory>,
    bytes: u64,
    room: usize,
    made: u32,
    free: Vec<BufferId>,
}

impl Buffers {
    /// A pool for buffers of `bytes` bytes each; none is allocated yet.
    pub(super) fn new(memory: Arc<Memory>, bytes: u64, room: usize) -> Self {
        Self { memory, bytes, room, made: 0, free: Vec::new() }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes a free buffer, or allocates one.
    ///
    /// # Errors
    /// A message, if the system refuses the memory.
    pub(super) fn take(&mut self) -> Result<BufferId, String> {
        if let Some(buffer) = self.free.pop() {
            return Ok(buffer);
        }
        let buffer = BufferId(self.made);
        if buffer.index() >= self.room {
            return Err(format!("it has {} buffers under way, which are all", self.made));
        }
        let made = self.memory.make(buffer, self.bytes);
        made.map_err(|error| format!("the system refuses {} bytes for a buffer: {error}", self.bytes))?;
        self.made += 1;
        Ok(buffer)
    }

    pub(super) fn give(&mut self, buffer: BufferId) {
        debug_assert!(!self.free.contains(&buffer), "a buffer is given back once");
        self.free.push(buffer);
    }

    pub(super) fn in_use(&self) -> u32 {
        self.made - self.free.len() as u32
    }

    /// Peak bytes of all buffers, none of which is freed before the end.
    pub(super) fn most_bytes(&self) -> u64 {
        u64::from(self.made) * self.bytes
    }
}

pub(super) fn region(buffer: BufferId, len: u64) -> Region {
    Region { buffer, offset: 0, len }
}

// Numbers of transfers: which lane between two ranks they take, and which of them follow others of their shard.
//
// Each shard has a lane of its own. Its groups follow one another there, so links see one transfer of all their bytes.

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

pub(super) fn stream_of(key: &TransferKey) -> Option<Stream> {
    Some(Stream { number: key.number / NUMBERS, follows: key.number % 2 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_all_of_a_shard_once() {
        let groups = Groups { layers: [3, 5], tokens: [100, 700], most: 256 };
        let list: Vec<_> = (0..groups.count()).map(|index| groups.get(index)).collect();
        let tokens = [[100, 356], [356, 612], [612, 700]];
        let expected = [3, 4].into_iter().flat_map(|layer| tokens.map(|tokens| (layer, tokens)));
        assert_eq!(list, expected.collect::<Vec<_>>());
    }

    #[test]
    fn no_group_passes_for_another_one() {
        let rows = [Arc::new(Rows::gaussian(1.0, 1)), Arc::new(Rows::gaussian(1.0, 2))];
        let values = Values { seed: 7, rows: &rows };
        let own = GroupId { request: RequestId(3), part: 1, layer: 2, token: 256 };
        let mut bytes = vec![0; 4000];
        values.fill(&own, 1, &mut bytes);
        assert_eq!(values.mismatch(&own, 1, &bytes), None);
        let others = [
            GroupId { request: RequestId(4), ..own },
            GroupId { part: 0, ..own },
            GroupId { layer: 1, ..own },
            GroupId { token: 0, ..own },
        ];
        assert!(others.iter().all(|other| values.mismatch(other, 1, &bytes).is_some()));
        assert!(values.mismatch(&own, 0, &bytes).is_some());
        assert!(Values { seed: 8, ..values }.mismatch(&own, 1, &bytes).is_some());
        bytes[1234] ^= 1;
        assert_eq!(values.mismatch(&own, 1, &bytes), Some(1234));
    }

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
