//! A cheap hash for tables that are looked up and never iterated: no order shows.

use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type Mixed = BuildHasherDefault<Mixer>;

/// Hashes by one multiplication a number instead of the keyed hash of the standard library, which guards against keys that
/// somebody else has chosen.
#[derive(Default)]
pub(crate) struct Mixer(u64);

/// 2^64 over the golden ratio, odd: neighbouring keys end far apart.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    /// The map takes its slot from the low bits and a tag from the high ones: both must depend on all of the key.
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(FACTOR);
        self.0 = product ^ (product >> 32);
    }

    /// Hashes the variant of an enum.
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use zipwire_schedule::plan::TransferKey;
    use zipwire_schedule::{Rank, SegmentId, Stage};

    use super::*;

    /// Slots and tags of the keys of an All-to-All are spread like random ones.
    #[test]
    fn keys_of_an_exchange_spread() {
        let keys = (0..256).flat_map(|src| (0..256).map(move |dst| (Rank(src), Rank(dst))));
        let hashes: Vec<u64> = keys
            .map(|(src, dst)| TransferKey { segment: SegmentId(0), stage: Stage::Raw, src, dst, number: 0 })
            .map(|key| Mixed::default().hash_one(key))
            .collect();
        let distinct = |part: fn(&u64) -> u64| hashes.iter().map(part).collect::<HashSet<_>>().len();
        assert_eq!(distinct(|hash| *hash), 1 << 16);
        // Of 2^16 random numbers, 1 - 1/e of 2^16 values are expected, and all of 2^7.
        assert!(distinct(|hash| hash & 0xffff) > 39_000);
        assert_eq!(distinct(|hash| hash >> 57), 128);
    }
}
