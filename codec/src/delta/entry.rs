//! Front matter of frames of differences: the base, an entry for each block, and a table; and the parts of the body of a block, each padded with
//! zeros.

use crate::blocks::symbols::{self, Counts};
use crate::frame::HEADER_LEN;
use crate::kernel::delta::{How, LOW_BYTES, most_low_bits};
use crate::{BlockFault, DType};

/// Values of a block of differences; the last one may have fewer. Their symbols are one list.
pub(super) const BLOCK_VALUES: usize = symbols::MAX_SYMBOLS;
/// Bytes of an entry.
pub(super) const ENTRY: usize = 24;
/// Offset of the entries: behind the header and the id of the base.
pub(super) const ENTRIES: usize = HEADER_LEN + 8;

/// Bytes of front matter for `count` values, without a table. Saturates.
pub(super) fn front_len(count: usize) -> usize {
    count.div_ceil(BLOCK_VALUES).saturating_mul(ENTRY).saturating_add(ENTRIES)
}

/// Form of a block, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All values are those of the base.
    Same,
    /// Its values are in the inner frame.
    Direct,
    /// All values have differences.
    Dense,
    /// A mask says which values differ.
    Masked,
    /// Positions say which values differ.
    Listed,
}

impl Form {
    const ALL: [Self; 5] = [Self::Same, Self::Direct, Self::Dense, Self::Masked, Self::Listed];
}

const XOR: u8 = 1 << 3;
const RANS: u8 = 1 << 4;

/// An entry of the block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) form: Form,
    /// Whether differences are bits that differ.
    pub(super) xor: bool,
    /// Whether symbols are coded by rANS.
    pub(super) rans: bool,
    /// See [`How::reference`].
    pub(super) reference: u8,
    /// How many differences there are.
    pub(super) coded: u16,
    /// Counts of the symbols of the differences.
    pub(super) counts: Counts,
    /// How many differences are large.
    pub(super) large: u16,
    /// Whole bytes of low bits.
    pub(super) low_bytes: u32,
    /// Words of 64 other low bits.
    pub(super) low_words: u32,
}

impl Entry {
    /// Entry of a block without a body.
    pub(super) fn empty(form: Form) -> Self {
        Self {
            form,
            xor: false,
            rans: false,
            reference: 0,
            coded: 0,
            counts: [0; 4],
            large: 0,
            low_bytes: 0,
            low_words: 0,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let flags = if self.xor { XOR } else { 0 } | if self.rans { RANS } else { 0 };
        bytes[..2].copy_from_slice(&[self.form as u8 | flags, self.reference]);
        bytes[2..4].copy_from_slice(&self.coded.to_le_bytes());
        bytes[4..12].copy_from_slice(self.counts.map(u16::to_le_bytes).as_flattened());
        bytes[12..14].copy_from_slice(&self.large.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.low_bytes.to_le_bytes());
        bytes[20..].copy_from_slice(&self.low_words.to_le_bytes());
        bytes
    }

    /// The entry of a block of `count` values of this type.
    ///
    /// # Errors
    /// If the bytes are not a valid entry.
    pub(super) fn from_bytes(bytes: &[u8; ENTRY], dtype: DType, count: usize) -> Result<Self, BlockFault> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let fault = BlockFault::Form(bytes[0]);
        let form = *Form::ALL.get(usize::from(bytes[0] & 7)).ok_or(fault)?;
        let entry = Self {
            form,
            xor: bytes[0] & XOR != 0,
            rans: bytes[0] & RANS != 0,
            reference: bytes[1],
            coded: short(2),
            counts: [4, 6, 8, 10].map(short),
            large: short(12),
            low_bytes: long(16),
            low_words: long(20),
        };
        if bytes[0] >= RANS << 1 {
            return Err(fault);
        }
        if short(14) != 0 || (matches!(form, Form::Same | Form::Direct) && entry != Self::empty(form)) {
            return Err(BlockFault::UnusedField);
        }
        let coded = usize::from(entry.coded);
        let expected = match form {
            Form::Same | Form::Direct => return Ok(entry),
            Form::Dense => count,
            Form::Masked | Form::Listed => coded.clamp(1, count),
        };
        if coded != expected {
            return Err(BlockFault::Coded { expected, found: coded });
        }
        let scaled = most_low_bits(dtype.width()) > 0 && !entry.xor;
        if entry.reference > if scaled { how(dtype).last_exponent } else { 0 } {
            return Err(BlockFault::Base(entry.reference));
        }
        let low = LOW_BYTES * coded;
        if entry.low_bytes as usize > low || entry.low_words as usize > low.div_ceil(8) {
            return Err(BlockFault::LowBits);
        }
        if entry.large > entry.coded {
            return Err(BlockFault::Large);
        }
        if !symbols::are_possible(coded, entry.counts, entry.rans) {
            return Err(BlockFault::Overrun);
        }
        Ok(entry)
    }

    /// How differences are made, of values of this type.
    pub(super) fn how(&self, dtype: DType) -> How {
        let less = u32::from(matches!(self.form, Form::Masked | Form::Listed));
        How { reference: self.reference, xor: self.xor, less, ..how(dtype) }
    }

    /// The lengths of the parts of the body, in a block of `count` values of `width` bytes.
    pub(super) fn parts(&self, count: usize, width: usize) -> Parts {
        let coded = usize::from(self.coded);
        let positions = match self.form {
            Form::Same | Form::Direct => return Parts::default(),
            Form::Dense => [0; 2],
            Form::Masked => [count.div_ceil(8), 0],
            Form::Listed => [count.div_ceil(POSITION_GROUP), coded],
        };
        let symbols =
            if self.rans { symbols::rans_len(self.counts) } else { symbols::tiers_len(coded, self.counts) };
        Parts {
            positions,
            symbols,
            low_bytes: self.low_bytes as usize,
            low_words: 8 * self.low_words as usize,
            large: width * usize::from(self.large),
        }
    }
}

/// Whether a table belongs to this entry.
pub(super) fn has_table(entry: &[u8; ENTRY]) -> bool {
    entry[0] & RANS != 0
}

/// How differences of values of this type are made, without low bits.
pub(super) fn how(dtype: DType) -> How {
    let last_exponent = u8::MAX >> (8 - dtype.exponent_bits());
    How { mantissa: dtype.mantissa_bits() as u32, last_exponent, reference: 0, xor: false, less: 0 }
}

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
pub(super) fn write_part(part: &[u8], room: &mut &mut [u8]) -> Option<()> {
    let (out, padding) = room.split_off_mut(..part.len().next_multiple_of(ALIGN))?.split_at_mut(part.len());
    out.copy_from_slice(part);
    padding.fill(0);
    Some(())
}

/// Takes a part of `len` bytes and its padding off a body.
///
/// # Errors
/// If the body is too short, or what fills the part up is not zero.
pub(super) fn read_part<'a>(len: usize, body: &mut &'a [u8]) -> Result<&'a [u8], BlockFault> {
    let whole = body.split_off(..len.next_multiple_of(ALIGN)).ok_or(BlockFault::Overrun)?;
    let (part, padding) = whole.split_at(len);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(BlockFault::Padding);
    }
    Ok(part)
}

/// Values whose positions count from the same place: they have a byte each.
pub(super) const POSITION_GROUP: usize = 256;
/// Bytes of the mask of a group.
const MASK: usize = POSITION_GROUP / 8;

/// The number of bits that are set for each group, and their positions in it; `None` if all bits of a group are set.
pub(super) fn positions_of_mask(mask: &[u8], numbers: &mut Vec<u8>, positions: &mut Vec<u8>) -> Option<()> {
    numbers.clear();
    positions.clear();
    for group in mask.chunks(MASK) {
        let before = positions.len();
        for (bits, first) in group.iter().zip((0..).step_by(8)) {
            let mut left = *bits;
            while left != 0 {
                positions.push((first + left.trailing_zeros()) as u8);
                left &= left - 1;
            }
        }
        numbers.push(u8::try_from(positions.len() - before).ok()?);
    }
    Some(())
}

/// The mask of `count` values, of which those at these positions are marked.
///
/// # Errors
/// If positions do not ascend, are beyond the last value, or are not as many as the numbers say.
pub(super) fn positions_to_mask(
    numbers: &[u8],
    mut positions: &[u8],
    count: usize,
    mask: &mut [u8],
) -> Result<(), BlockFault> {
    mask.fill(0);
    for (group, number) in numbers.iter().enumerate() {
        let own = positions.split_off(..usize::from(*number)).ok_or(BlockFault::Positions)?;
        let ascend = own.is_sorted_by(|first, second| first < second);
        let last = own.last().map_or(0, |last| POSITION_GROUP * group + usize::from(*last));
        if !ascend || last >= count {
            return Err(BlockFault::Positions);
        }
        for position in own {
            mask[MASK * group + usize::from(*position) / 8] |= 1 << (position % 8);
        }
    }
    if positions.is_empty() { Ok(()) } else { Err(BlockFault::Positions) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_others_are_refused() {
        let dense = Entry {
            reference: 121,
            rans: true,
            coded: 300,
            counts: [300, 7, 0, 0],
            large: 2,
            low_bytes: 64,
            low_words: 9,
            ..Entry::empty(Form::Dense)
        };
        let listed = Entry { xor: true, coded: 7, counts: [7, 3, 3, 0], ..Entry::empty(Form::Listed) };
        for (entry, len) in [(dense, 128 + 600 + 8 + 64 + 72 + 8), (listed, 8 + 8 + 4 * 16)] {
            let bytes = entry.to_bytes();
            assert_eq!(Entry::from_bytes(&bytes, DType::F32, 300), Ok(entry));
            assert_eq!(entry.parts(300, 4).len(), len);
            assert_eq!(has_table(&bytes), entry.rans);
            for at in [14, 15] {
                let mut bytes = bytes;
                bytes[at] = 1;
                assert_eq!(Entry::from_bytes(&bytes, DType::F32, 300), Err(BlockFault::UnusedField));
            }
        }
        let found = |entry: Entry, dtype| Entry::from_bytes(&entry.to_bytes(), dtype, 300);
        let coded = BlockFault::Coded { expected: 300, found: 299 };
        assert_eq!(found(Entry { coded: 299, ..dense }, DType::F32), Err(coded));
        assert_eq!(found(dense, DType::F16), Err(BlockFault::Base(121)));
        assert_eq!(found(Entry { reference: 1, ..listed }, DType::F32), Err(BlockFault::Base(1)));
        assert_eq!(found(Entry { reference: 1, ..dense }, DType::F8E4M3), Err(BlockFault::Base(1)));
        assert_eq!(found(Entry { low_bytes: 901, ..dense }, DType::F32), Err(BlockFault::LowBits));
        assert_eq!(found(Entry { large: 301, ..dense }, DType::F32), Err(BlockFault::Large));
        assert_eq!(found(Entry { counts: [7, 3, 4, 0], ..listed }, DType::F32), Err(BlockFault::Overrun));
        assert_eq!(
            found(Entry { coded: 0, ..listed }, DType::F32),
            Err(BlockFault::Coded { expected: 1, found: 0 })
        );
        let unused = Entry { coded: 1, ..Entry::empty(Form::Same) };
        assert_eq!(found(unused, DType::F32), Err(BlockFault::UnusedField));
        for form in [5, 6, 7, 32] {
            let mut bytes = dense.to_bytes();
            bytes[0] = form;
            assert_eq!(Entry::from_bytes(&bytes, DType::F32, 300), Err(BlockFault::Form(form)));
        }
    }

    #[test]
    fn masks_come_back_and_others_are_refused() {
        let count = 700;
        let mut mask = vec![0; 88];
        for position in [0, 3, 255, 600, 699] {
            mask[position / 8] |= 1 << (position % 8);
        }
        let (mut numbers, mut positions) = (vec![9], vec![9]);
        assert_eq!(positions_of_mask(&mask, &mut numbers, &mut positions), Some(()));
        assert_eq!((&numbers[..], &positions[..]), (&[3, 0, 2][..], &[0, 3, 255, 88, 187][..]));
        let mut back = vec![0xff; 88];
        assert_eq!(positions_to_mask(&numbers, &positions, count, &mut back), Ok(()));
        assert_eq!(back, mask);
        for (numbers, positions) in [
            ([3, 0, 2], [0, 0, 255, 88, 187]),
            ([3, 0, 2], [0, 3, 255, 88, 188]),
            ([3, 0, 1], [0, 3, 255, 88, 187]),
            ([3, 0, 3], [0, 3, 255, 88, 187]),
        ] {
            assert_eq!(positions_to_mask(&numbers, &positions, count, &mut back), Err(BlockFault::Positions));
        }
        assert_eq!(positions_of_mask(&[0xff; 32], &mut vec![], &mut vec![]), None);
    }
}
