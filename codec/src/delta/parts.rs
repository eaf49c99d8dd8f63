//! Parts of the body of a block, each padded with zeros.

use crate::BlockFault;

/// Parts begin at multiples of this many bytes of the body.
const ALIGN: usize = 8;

/// Bytes of each part, without what fills it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// A mask, or the numbers of positions in each group, and the positions.
    pub(super) positions: [usize; 2],
    pub(super) symbols: usize,
    pub(super) low_bytes: usize,
    pub(super) low_words: usize,
    pub(super) large: usize,
}

impl Parts {
    /// Bytes of the body.
    pub(super) fn len(&self) -> usize {
        let [first, second] = self.positions;
        [first, second, self.symbols, self.low_bytes, self.low_words, self.large]
            .into_iter()
            .map(|len| len.next_multiple_of(ALIGN))
            .sum()
    }
}

/// Writes a part, and takes its room off; `None` if there is too little.
pub(super) fn write(part: &[u8], room: &mut &mut [u8]) -> Option<()> {
    let (out, padding) = room.split_off_mut(..part.len().next_multiple_of(ALIGN))?.split_at_mut(part.len());
    out.copy_from_slice(part);
    padding.fill(0);
    Some(())
}

/// Takes a part of `len` bytes and its padding off a body.
///
/// # Errors
/// If the body is too short, or what fills the part up is not zero.
pub(super) fn read<'a>(len: usize, body: &mut &'a [u8]) -> Result<&'a [u8], BlockFault> {
    let whole = body.split_off(..len.next_multiple_of(ALIGN)).ok_or(BlockFault::Overrun)?;
    let (part, padding) = whole.split_at(len);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(BlockFault::Padding);
    }
    Ok(part)
}
