//! Hashing of pairs of links: one multiplication instead of the keyed hash of the standard library, which guards against
//! keys chosen by somebody else.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes pairs of small numbers.
pub(super) type PairHasher = BuildHasherDefault<Mixer>;

/// Multiplies and folds.
#[derive(Default)]
pub(super) struct Mixer(u64);

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

    /// The table takes its slot from the low bits and a tag from the high ones: both must depend on all of the key.
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(FACTOR);
        self.0 = product ^ (product >> 32);
    }
}
