//! Choices of the encoder for a block, and their encoding as an entry of the block table.

use super::geometry::{Coding, ENTRY, Format, head_bytes};
use super::tiers::{Order, TIERS};
use crate::kernel::{BASE_GROUP, LAST_BASE};
use crate::{BlockFault, Layout};

/// Base of a group of zeros where bases are nibbles.
pub(super) const ZERO_NIBBLE: u8 = 15;
/// Base of a group of zeros where bases are bytes.
pub(super) const ZERO_BYTE: u8 = 255;

/// Form of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All groups have the base of the entry.
    One(Order),
    /// The values as they are.
    Stored,
    /// All values are +0; no body. Compact layout only.
    Zero,
    /// Each group has a nibble, which is added to the base of the entry.
    Nibbles,
    /// Each group has a byte with its base.
    Bytes,
}

const ONE: u8 = 0;
const STORED: u8 = 1;
const ZERO: u8 = 2;
const NIBBLES: u8 = 3;
const BYTES: u8 = 4;
/// Lowest bit of the order in the form's byte.
const ORDER_SHIFT: u32 = 4;
/// Mark in place of the order if residuals are coded by rANS.
const RANS: u8 = 3 << ORDER_SHIFT;
/// Set if the offsets of columns are taken off.
const COLUMNS: u8 = 0x40;
/// Set if there is a mask.
const MASKED: u8 = 0x80;

impl Form {
    /// Bytes that the bases of a block of `count` values take.
    pub(super) fn bases_len(self, count: usize) -> usize {
        let groups = count.div_ceil(BASE_GROUP);
        match self {
            Self::One(_) | Self::Stored | Self::Zero => 0,
            Self::Nibbles => groups.div_ceil(2),
            Self::Bytes => groups,
        }
    }

    /// The order of residuals.
    pub(super) fn order(self) -> Order {
        match self {
            Self::One(order) => order,
            Self::Nibbles | Self::Bytes | Self::Stored | Self::Zero => Order::High,
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::One(order) => ONE | (order as u8) << ORDER_SHIFT,
            Self::Stored => STORED,
            Self::Zero => ZERO,
            Self::Nibbles => NIBBLES,
            Self::Bytes => BYTES,
        }
    }

    fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            STORED => Some(Self::Stored),
            ZERO => Some(Self::Zero),
            NIBBLES => Some(Self::Nibbles),
            BYTES => Some(Self::Bytes),
            _ => Order::ALL.into_iter().map(Self::One).find(|form| form.tag() == tag),
        }
    }
}

/// Entry of the block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Form of the body.
    pub(super) form: Form,
    /// Whether a mask takes out the values that are +0. Compact layout only.
    pub(super) masked: bool,
    /// Whether exponents are coded less the offsets of columns.
    pub(super) columns: bool,
    /// Whether residuals are coded by rANS, whatever the order.
    pub(super) rans: bool,
    /// The base, or the lowest base of those that are nibbles; otherwise 0.
    pub(super) base: u8,
    /// Number of values in each tier, and of escapes; with rANS that of values, of words and of escapes, then 0. 0 if nothing
    /// is coded.
    pub(super) counts: [u16; TIERS + 1],
}

impl Entry {
    /// A block without coded values.
    pub(super) fn uncoded(form: Form) -> Self {
        Self { form, masked: false, columns: false, rans: false, base: 0, counts: [0; TIERS + 1] }
    }

    /// The bytes in the table.
    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let form = if self.rans { self.form.tag() & !RANS | RANS } else { self.form.tag() };
        bytes[0] = form | flag(self.masked, MASKED) | flag(self.columns, COLUMNS);
        bytes[1] = self.base;
        for (bytes, count) in bytes[2..].as_chunks_mut::<2>().0.iter_mut().zip(self.counts) {
            *bytes = count.to_le_bytes();
        }
        bytes
    }

    /// Reads the entry of a block of `count` values.
    ///
    /// # Errors
    /// If the form is not possible in this layout, or the entry contradicts itself.
    pub(super) fn from_bytes(
        bytes: [u8; ENTRY],
        Format { coding, layout, fields }: Format,
        count: usize,
    ) -> Result<Self, BlockFault> {
        let impossible = BlockFault::Form(bytes[0]);
        let rans = has_table(&bytes);
        let order = if rans { RANS } else { 0 };
        let form = Form::from_tag(bytes[0] & !(MASKED | COLUMNS) ^ order).ok_or(impossible)?;
        let mut counts = [0; TIERS + 1];
        for (count, bytes) in counts.iter_mut().zip(bytes[2..].as_chunks().0) {
            *count = u16::from_le_bytes(*bytes);
        }
        let (masked, columns) = (bytes[0] & MASKED != 0, has_columns(&bytes));
        let entry = Self { form, masked, columns, rans, base: bytes[1], counts };
        let compact = layout == Layout::Compact;
        match form {
            _ if entry.masked && !compact => return Err(impossible),
            _ if rans && coding != Coding::Rans => return Err(impossible),
            Form::Zero if !compact => return Err(impossible),
            Form::Stored | Form::Zero if entry != Self::uncoded(form) => return Err(BlockFault::UnusedField),
            Form::Stored | Form::Zero => return Ok(entry),
            _ if !compact && head_bytes(coding, fields, count) >= fields.width() * count => {
                return Err(impossible);
            }
            Form::Bytes if entry.base != 0 => return Err(BlockFault::UnusedField),
            _ if entry.base > LAST_BASE => return Err(BlockFault::Base(entry.base)),
            _ => {}
        }
        let coded = usize::from(counts[0]);
        // Only a mask and groups of zeros leave values out.
        let all = !entry.masked && (!compact || matches!(form, Form::One(_)));
        if coded == 0 || coded > count || (all && coded != count) {
            return Err(BlockFault::Coded { expected: coded, found: count });
        }
        if rans {
            let words_and_escapes = entry.words_and_escapes();
            let possible = words_and_escapes.iter().all(|number| *number <= coded);
            return if counts[3..] != [0; 2] {
                Err(BlockFault::UnusedField)
            } else if !possible {
                Err(BlockFault::Read {
                    expected: words_and_escapes[0].max(words_and_escapes[1]),
                    found: coded,
                })
            } else {
                Ok(entry)
            };
        }
        match (1..).zip(counts.windows(2)).find(|(_, pair)| pair[0] < pair[1]) {
            Some((tier, pair)) => {
                Err(BlockFault::Passed { tier, expected: usize::from(pair[1]), found: usize::from(pair[0]) })
            }
            None => Ok(entry),
        }
    }
}

impl Entry {
    /// How many words and escapes an rANS coder has written.
    pub(super) fn words_and_escapes(&self) -> [usize; 2] {
        [self.counts[1], self.counts[2]].map(usize::from)
    }
}

/// Whether the block needs the table of the frame.
pub(super) fn has_table(entry: &[u8; ENTRY]) -> bool {
    entry[0] & RANS == RANS
}

/// Whether the block needs the offsets of columns.
pub(super) fn has_columns(entry: &[u8; ENTRY]) -> bool {
    entry[0] & COLUMNS != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn read(bytes: [u8; ENTRY], layout: Layout, count: usize) -> Result<Entry, BlockFault> {
        Entry::from_bytes(bytes, Format::new(Coding::Tiers, layout, DType::Bf16), count)
    }

    fn read_rans(bytes: [u8; ENTRY], count: usize) -> Result<Entry, BlockFault> {
        Entry::from_bytes(bytes, Format::new(Coding::Rans, Layout::Compact, DType::Bf16), count)
    }

    #[test]
    fn entries_come_back() {
        let forms = Order::ALL.map(Form::One).into_iter().chain([Form::Nibbles, Form::Bytes]);
        for (form, masked) in forms.flat_map(|form| [(form, false), (form, true)]) {
            let base = if form == Form::Bytes { 0 } else { LAST_BASE };
            let coded = if masked { 0x0506 } else { 0x0600 };
            let counts = [coded, 0x0405, 0x0304, 3, 0];
            let entry = Entry { form, masked, columns: base > 0, rans: false, base, counts };
            assert_eq!(read(entry.to_bytes(), Layout::Compact, 0x0600), Ok(entry));
            let expected = if masked { Err(BlockFault::Form(entry.to_bytes()[0])) } else { Ok(entry) };
            assert_eq!(read(entry.to_bytes(), Layout::Split, 0x0600), expected);
        }
        let (form, counts) = (Form::One(Order::High), [0x0102, 9, 8, 7, 6]);
        let entry = Entry { form, masked: true, columns: false, rans: false, base: 7, counts };
        assert_eq!(entry.to_bytes(), [0xa0, 7, 2, 1, 9, 0, 8, 0, 7, 0, 6, 0]);
        assert_eq!(Entry { columns: true, ..entry }.to_bytes()[0], 0xe0);
        assert!(!has_columns(&entry.to_bytes()));
    }

    #[test]
    fn entries_with_a_table_are_in_frames_that_have_one() {
        for (form, tag) in [(Form::One(Order::Low), 0xb0), (Form::Nibbles, 0xb3), (Form::Bytes, 0xb4)] {
            let counts = [500, 300, 9, 0, 0];
            let entry = Entry { form, masked: true, columns: false, rans: true, base: 0, counts };
            let bytes = entry.to_bytes();
            assert_eq!((bytes[0], has_table(&bytes)), (tag, true));
            assert_eq!(read_rans(bytes, 600), Ok(entry));
            assert_eq!(read(bytes, Layout::Compact, 600), Err(BlockFault::Form(tag)));
            let with = |number: usize, count| {
                let mut counts = counts;
                counts[number] = count;
                read_rans(Entry { counts, ..entry }.to_bytes(), 600)
            };
            assert_eq!(with(1, 501), Err(BlockFault::Read { expected: 501, found: 500 }));
            assert_eq!(with(2, 501), Err(BlockFault::Read { expected: 501, found: 500 }));
            assert_eq!(with(4, 1), Err(BlockFault::UnusedField));
        }
        for tag in [0x31, 0x32] {
            let bytes = [tag, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(read_rans(bytes, 600), Err(BlockFault::UnusedField));
        }
    }

    #[test]
    fn entries_that_no_encoder_writes_are_refused() {
        let entry = |tag, base, counts: [u8; 5]| {
            let [a, b, c, d, e] = counts;
            [tag, base, a, 0, b, 0, c, 0, d, 0, e, 0]
        };
        let (split, compact) = (Layout::Split, Layout::Compact);
        for tag in [5, 0x30, 0x33, 0x11, 0x23, 0x45, 0x08] {
            assert_eq!(read(entry(tag, 0, [100; 5]), compact, 100), Err(BlockFault::Form(tag)));
        }
        assert_eq!(read(entry(2, 0, [0; 5]), split, 100), Err(BlockFault::Form(2)));
        assert_eq!(read(entry(0, 0, [13; 5]), split, 13), Err(BlockFault::Form(0)));
        assert_eq!(read(entry(0x82, 0, [0; 5]), compact, 100), Err(BlockFault::UnusedField));
        assert_eq!(read(entry(0x42, 0, [0; 5]), compact, 100), Err(BlockFault::UnusedField));
        assert_eq!(read(entry(0x41, 0, [0; 5]), split, 100), Err(BlockFault::UnusedField));
        assert_eq!(read(entry(1, 0, [1, 0, 0, 0, 0]), split, 100), Err(BlockFault::UnusedField));
        assert_eq!(read(entry(4, 1, [100; 5]), compact, 100), Err(BlockFault::UnusedField));
        assert_eq!(read(entry(3, 255, [100; 5]), compact, 100), Err(BlockFault::Base(255)));
        let coded = |expected| Err(BlockFault::Coded { expected, found: 100 });
        assert_eq!(read(entry(0, 0, [99; 5]), compact, 100), coded(99));
        assert_eq!(read(entry(3, 0, [99; 5]), split, 100), coded(99));
        assert_eq!(read(entry(3, 0, [0; 5]), compact, 100), coded(0));
        assert_eq!(read(entry(0x80, 0, [101; 5]), compact, 100), coded(101));
        let passed = Err(BlockFault::Passed { tier: 3, expected: 8, found: 7 });
        assert_eq!(read(entry(0, 0, [100, 9, 7, 8, 0]), compact, 100), passed);
    }
}
