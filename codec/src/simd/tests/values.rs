//! Values of many kinds and lengths at addresses that no vector is aligned to.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::kernel::TILE;

/// Every short length, and those around groups and tiles; three of these under Miri, which takes seconds for a thousand values.
pub(super) fn lengths() -> impl Iterator<Item = usize> {
    let all = || (0..2101).chain([3 * 1024 - 1, 3 * 1024, 5000, TILE - 1, TILE]);
    let few = [34, 290, 1024 + 5].into_iter();
    few.filter(|_| cfg!(miri)).chain(all().filter(|_| !cfg!(miri)))
}

/// The first exponent of the windows below.
pub(super) const START: u8 = 110;

/// Kinds of values, by number.
pub(super) const KINDS: usize = 8;

/// `count` values, at an address that no vector is aligned to.
pub(super) fn values(kind: usize, count: usize, seed: u64) -> Unaligned {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bytes = (0..count).flat_map(|i| {
        let rest = rng.random::<u16>() & 0x807f;
        let inside = u16::from(START) + rng.random_range(0..7u16);
        let outside = (u16::from(START) + 7 + rng.random_range(0..249u16)) % 256;
        let exponent = match kind {
            0 => rng.random_range(0..256),
            1 => inside,
            2 => outside,
            3 if i % 2 == 0 => inside,
            3 => outside,
            // As Gaussian values are.
            4 => u16::from(START) + 6 - rng.random::<u32>().trailing_zeros() as u16,
            5 if i / 64 % 2 == 0 => inside,
            5 => outside,
            6 => [0, 1, 255, 254, inside][rng.random_range(0..5)],
            _ if rng.random_range(0..3) > 0 => return 0u16.to_le_bytes(),
            _ => inside,
        };
        (exponent << 7 | rest).to_le_bytes()
    });
    Unaligned::new(&bytes.collect::<Vec<u8>>())
}

/// Bytes at an odd address.
#[derive(Clone)]
pub(super) struct Unaligned(Vec<u8>);

impl Unaligned {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut buffer = vec![0; bytes.len() + 2];
        let shift = Self::shift(&buffer);
        buffer[shift..][..bytes.len()].copy_from_slice(bytes);
        Self(buffer)
    }

    pub(super) fn filled(byte: u8, len: usize) -> Self {
        Self::new(&vec![byte; len])
    }

    fn shift(buffer: &[u8]) -> usize {
        1 - buffer.as_ptr().addr() % 2
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0[Self::shift(&self.0)..][..self.0.len() - 2]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let (shift, len) = (Self::shift(&self.0), self.0.len() - 2);
        &mut self.0[shift..][..len]
    }
}
