//! Bits as Zstandard writes them (RFC 8878): forwards in little-endian order, and backwards from a mark at the end.

/// Bits `from..from + count` of bytes, at most 24 of them; zeros behind the end.
fn bits(bytes: &[u8], from: usize, count: u32) -> u32 {
    let mut word = [0; 4];
    let rest = bytes.get(from / 8..).unwrap_or_default();
    let len = rest.len().min(4);
    word[..len].copy_from_slice(&rest[..len]);
    (u32::from_le_bytes(word) >> (from % 8)) & ((1 << count) - 1)
}

/// Reads from the first bit on.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Forward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bits, which stay.
    pub(super) fn peek(&self, count: u32) -> u32 {
        bits(self.bytes, self.at, count)
    }

    pub(super) fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// What is behind the last byte of which a bit was read; `None` if there were not so many bits.
    pub(super) fn rest(&self) -> Option<&'a [u8]> {
        self.bytes.get(self.at.div_ceil(8)..)
    }
}

/// Reads from the last bit on, below the mark: the highest bit that is set in the last byte.
#[derive(Debug)]
pub(super) struct Backward<'a> {
    bytes: &'a [u8],
    /// Bits that are left; less than zero once more were taken than there are.
    left: i64,
}

impl<'a> Backward<'a> {
    /// `None` without a mark.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let last = bytes.last().filter(|last| **last != 0)?;
        Some(Self { bytes, left: 8 * bytes.len() as i64 - i64::from(last.leading_zeros()) - 1 })
    }

    /// The next bits, at most 16, the first one the highest; zeros where none are left.
    pub(super) fn peek(&self, count: u32) -> u32 {
        let from = self.left - i64::from(count);
        if from >= 0 {
            bits(self.bytes, from as usize, count)
        } else {
            let left = self.left.max(0) as u32;
            bits(self.bytes, 0, left) << (count - left)
        }
    }

    /// Whether there were so many.
    pub(super) fn skip(&mut self, count: u32) -> bool {
        self.left -= i64::from(count);
        self.left >= 0
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.left == 0
    }
}
