//! Offsets of columns: where the columns of a matrix differ in scale, each has an offset, which is taken off exponents
//! before groups have their bases.
//!
//! A frame has one vector of them for all its rows, at the very front of its bodies. It knows no shape: a column is what
//! comes again after a row's number of values, and the first row need not be whole.

use super::fields::Fields;
use super::geometry::ALIGN;
use super::plan::{MEAN_FRACTION, Spread};
use crate::kernel::{BASE_GROUP, GroupSums, Kernel};
use crate::{DType, DecodeError, Section};

/// Bytes in front of the offsets.
const HEAD: usize = 8;
/// Rows that a frame with columns has at least: the vector then takes less than a hundredth of the frame.
const MIN_ROWS: usize = 64;
/// The largest offset that is a nibble.
const MAX_NIBBLE: u8 = 15;

/// The offsets of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    /// Values of a row.
    row: usize,
    form: Form,
    /// A nibble or a byte for each column.
    offsets: &'a [u8],
}

/// How offsets are kept, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Nibbles, which are added to this offset.
    Nibbles(u8),
    /// Bytes, modulo 256.
    Bytes,
}

impl<'a> Columns<'a> {
    /// Takes the vector of a frame of `count` values off `dynamic`; returns its bytes as well.
    ///
    /// # Errors
    /// If the vector is not valid for this number of values.
    pub(super) fn read(count: usize, dynamic: &mut &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let truncated = |needed| {
            let (section, found) = (Section::Dynamic, dynamic.len());
            DecodeError::Truncated { section, needed, found }
        };
        let head: &[u8; HEAD] = dynamic.first_chunk().ok_or(truncated(HEAD))?;
        let [a, b, c, d, form @ .., 0, 0] = *head else { return Err(DecodeError::Padding) };
        let row = u32::from_le_bytes([a, b, c, d]);
        let form = match form {
            [0, lowest] => Form::Nibbles(lowest),
            [1, 0] => Form::Bytes,
            [form, _] => return Err(DecodeError::Columns { row, form, count }),
        };
        let whole = usize::try_from(row).ok().filter(|row| possible(*row, count));
        let row = whole.ok_or(DecodeError::Columns { row, form: form.tag(), count })?;
        let len = HEAD + form.len(row);
        let needed = len.next_multiple_of(ALIGN);
        let whole = dynamic.split_off(..needed).ok_or(truncated(needed))?;
        let offsets = &whole[HEAD..len];
        let unused = form != Form::Bytes && row % 2 == 1 && offsets[row / 2] >> 4 != 0;
        if unused || whole[len..].iter().any(|byte| *byte != 0) {
            return Err(DecodeError::Padding);
        }
        Ok((Self { row, form, offsets }, whole))
    }

    /// The bytes of a vector with these offsets, one for each column.
    fn to_bytes(offsets: &[i8]) -> Vec<u8> {
        let lowest = offsets.iter().copied().min().unwrap_or(0);
        let highest = offsets.iter().copied().max().unwrap_or(0);
        let narrow = highest.abs_diff(lowest) <= MAX_NIBBLE;
        let form = if narrow { Form::Nibbles(lowest.cast_unsigned()) } else { Form::Bytes };
        let row = u32::try_from(offsets.len()).expect("the option `row` has 32 bits");
        let lowest_byte = if narrow { lowest.cast_unsigned() } else { 0 };
        let mut bytes = [&row.to_le_bytes()[..], &[form.tag(), lowest_byte, 0, 0]].concat();
        match form {
            Form::Nibbles(_) => bytes.extend(offsets.chunks(2).map(|pair| {
                let nibble = |offset: i8| offset.abs_diff(lowest);
                nibble(pair[0]) | pair.get(1).map_or(0, |offset| nibble(*offset) << 4)
            })),
            Form::Bytes => bytes.extend(offsets.iter().map(|offset| offset.cast_unsigned())),
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    /// The offsets of consecutive values, modulo 256, of which `first` come before in the frame.
    pub(super) fn get(&self, first: usize, out: &mut [u8]) {
        let (mut column, mut out) = (first % self.row, out);
        while !out.is_empty() {
            let run = out.len().min(self.row - column);
            let part = out.split_off_mut(..run).expect("a run is no longer than what is left");
            match self.form {
                Form::Nibbles(lowest) => self.get_nibbles(lowest, column, part),
                Form::Bytes => part.copy_from_slice(&self.offsets[column..column + run]),
            }
            column = 0;
        }
    }

    fn get_nibbles(&self, lowest: u8, column: usize, mut out: &mut [u8]) {
        let mut bytes = &self.offsets[column / 2..];
        if column % 2 == 1
            && let (Some(out), Some(byte)) = (out.split_off_first_mut(), bytes.split_off_first())
        {
            *out = lowest.wrapping_add(byte >> 4);
        }
        let (pairs, last) = out.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(bytes) {
            *pair = [byte & 15, byte >> 4].map(|nibble| lowest.wrapping_add(nibble));
        }
        if let (Some(last), Some(byte)) = (last.first_mut(), bytes.get(pairs.len())) {
            *last = lowest.wrapping_add(byte & 15);
        }
    }

    /// The offsets, to be looked up for any group.
    pub(super) fn expanded(&self) -> Expanded {
        let mut offsets = vec![0; self.row + BASE_GROUP];
        self.get(0, &mut offsets);
        Expanded { row: self.row, offsets }
    }
}

/// An offset of each column, a byte modulo 256, and those of a group more, where the next row begins.
#[derive(Clone, Debug)]
pub(super) struct Expanded {
    row: usize,
    offsets: Vec<u8>,
}

impl Expanded {
    /// The offsets of the `count` values of a group, of which `first` come before in the frame.
    pub(super) fn of_values(&self, first: usize, count: usize) -> &[u8] {
        &self.offsets[first % self.row..][..count]
    }

    /// Offsets as [`Self::of_values`] gives them, but only of the values that the mask marks, if there is one; `room` is for these.
    pub(super) fn of_group<'b>(
        &'b self,
        first: usize,
        count: usize,
        mask: Option<&[u8]>,
        room: &'b mut [u8; BASE_GROUP],
    ) -> &'b [u8] {
        let offsets = self.of_values(first, count);
        let Some(mask) = mask else { return offsets };
        let mut kept = 0;
        for (i, offset) in offsets.iter().enumerate() {
            // Written even if it is not marked: then the next one takes its place.
            room[kept] = *offset;
            kept += usize::from(mask[i / 8] >> (i % 8) & 1);
        }
        &room[..kept]
    }
}

impl Form {
    fn tag(self) -> u8 {
        match self {
            Self::Nibbles(_) => 0,
            Self::Bytes => 1,
        }
    }

    /// Bytes of the offsets of `row` columns.
    fn len(self, row: usize) -> usize {
        match self {
            Self::Nibbles(_) => row.div_ceil(2),
            Self::Bytes => row,
        }
    }
}

/// Whether a frame of `count` values can have columns that come again after `row` values.
fn possible(row: usize, count: usize) -> bool {
    row >= 2 && count / row >= MIN_ROWS
}

/// Mean exponents of columns with offsets vary at least by this much, 0.16: 0.4 octaves, squared.
const MIN_VARIANCE: u64 = (16 << (2 * MEAN_FRACTION)) / 100;
/// Rows, or groups of short rows, that are sampled: means over this many are exact to a fifth of an octave.
const MAX_UNITS: usize = 64;

/// Sums over the values of each column that are not +0. At most 2^15 values of a column are looked at.
struct Sums {
    /// Sum for each column of the exponents less the means of their rows, with [`MEAN_FRACTION`] bits.
    exponents: Vec<i32>,
    values: Vec<u32>,
}

/// The vector for a frame whose rows have `row` values, if columns differ enough.
/// Integers only, as in the plan of a block, so that every machine chooses the same.
pub(super) fn choose(kernel: &Kernel, fields: Fields, values: &[u8], row: usize) -> Option<Vec<u8>> {
    let count = values.len() / fields.width();
    if !possible(row, count) {
        return None;
    }
    let mut columns = Sums { exponents: vec![0; row], values: vec![0; row] };
    // As long as a group at least.
    let unit = row * BASE_GROUP.div_ceil(row);
    let units = count / unit;
    let looked_at = units.min(MAX_UNITS);
    for number in 0..looked_at {
        let start = number * units / looked_at * unit;
        let values = &values[start * fields.width()..][..unit * fields.width()];
        columns.add(kernel, fields, values);
    }
    let mut spread = Spread::default();
    for (sum, values) in columns.iter().filter(|(_, values)| *values > 0) {
        // Exponents have eight bits, so no mean is below this.
        let mean = i64::from(sum.div_euclid(values.cast_signed())) + (256 << MEAN_FRACTION);
        spread.add(mean.unsigned_abs(), values);
    }
    spread.exceeds(MIN_VARIANCE).then(|| {
        let offsets: Vec<i8> = columns.iter().map(|(sum, values)| offset(sum, values)).collect();
        Columns::to_bytes(&offsets)
    })
}

impl Sums {
    /// Adds a row, or several short ones that share a mean.
    fn add(&mut self, kernel: &Kernel, fields: Fields, values: &[u8]) {
        let (mut sum, mut nonzero) = (0, values.len() / fields.width());
        let mut groups = [GroupSums::default(); 64];
        for values in values.chunks(groups.len() * BASE_GROUP * fields.width()) {
            let groups = &mut groups[..values.len().div_ceil(BASE_GROUP * fields.width())];
            fields.group_sums(kernel, values, groups);
            sum += groups.iter().map(|group| u64::from(group.exponents)).sum::<u64>();
            nonzero -= groups.iter().map(|group| group.zeros as usize).sum::<usize>();
        }
        let Some(mean) = (sum << MEAN_FRACTION).checked_div(nonzero as u64) else { return };
        for row in values.chunks(self.values.len() * fields.width()) {
            match fields.width() {
                2 if fields.dtype == DType::Bf16 => {
                    (kernel.add_row)(row, mean as i32, &mut self.exponents, &mut self.values);
                }
                1 => self.add_row(fields, row, mean as i32, |value: [u8; 1]| u32::from(value[0])),
                2 => self.add_row(fields, row, mean as i32, |value| u32::from(u16::from_le_bytes(value))),
                _ => self.add_row(fields, row, mean as i32, u32::from_le_bytes),
            }
        }
    }

    /// Without a branch, so that compilers take several values at a time.
    #[inline(always)]
    fn add_row<const WIDTH: usize>(
        &mut self,
        fields: Fields,
        row: &[u8],
        mean: i32,
        number: impl Fn([u8; WIDTH]) -> u32,
    ) {
        let places = fields.places();
        let columns = self.exponents.iter_mut().zip(&mut self.values);
        for (value, (sum, values)) in row.as_chunks().0.iter().zip(columns) {
            let value = number(*value);
            let nonzero = u32::from(value != 0);
            let distance = (places.exponent(value) << MEAN_FRACTION).cast_signed() - mean;
            *sum += distance * nonzero.cast_signed();
            *values += nonzero;
        }
    }

    fn iter(&self) -> impl Iterator<Item = (i32, u32)> {
        self.exponents.iter().copied().zip(self.values.iter().copied())
    }
}

/// The mean, rounded.
fn offset(sum: i32, values: u32) -> i8 {
    let values = i64::from(values) << MEAN_FRACTION;
    let rounded = (i64::from(sum) + values / 2).checked_div_euclid(values).unwrap_or(0);
    rounded.clamp(i64::from(i8::MIN), i64::from(i8::MAX)) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_back_wherever_a_group_begins() {
        let mut spans = [0; 2];
        let rows = [(2, 15), (3, 15), (3, 16), (7, 40), (255, 15), (256, 200), (300, 15), (301, 9)];
        for (row, widest) in rows.into_iter().take(if cfg!(miri) { 4 } else { 8 }) {
            let offsets: Vec<i8> = (0..row).map(|i| (i * 37 % (widest + 1) - widest / 2) as i8).collect();
            let bytes = Columns::to_bytes(&offsets);
            let mut source = &[&bytes[..], &[9]].concat()[..];
            let (columns, whole) = Columns::read(64 * row as usize, &mut source).unwrap();
            assert_eq!((source, whole), (&[9][..], &bytes[..]));
            let expanded = columns.expanded();
            let span = offsets.iter().max().unwrap().abs_diff(*offsets.iter().min().unwrap());
            assert_eq!(columns.form == Form::Bytes, span > 15, "{row} {widest}");
            spans[usize::from(span > 15)] += 1;
            for (first, count) in [(0, 256), (1, 256), (2, 255), (255, 256), (1000, 77), (70_001, 1), (5, 0)]
            {
                let expected: Vec<u8> =
                    (first..first + count).map(|i| offsets[i % row as usize].cast_unsigned()).collect();
                let mut out = [0xee; BASE_GROUP];
                assert_eq!(expanded.of_group(first, count, None, &mut out), expected, "{row} {first}");
                let mask: Vec<u8> = (0..32).map(|i| (i * 77 + 5) as u8).collect();
                let marked = |i: &usize| mask[i / 8] >> (i % 8) & 1 == 1;
                let expected: Vec<u8> = (0..count).filter(marked).map(|i| expected[i]).collect();
                assert_eq!(expanded.of_group(first, count, Some(&mask), &mut out), expected);
            }
        }
        assert!(cfg!(miri) || spans.iter().all(|number| *number >= 2), "{spans:?}");
    }

    #[test]
    fn vectors_that_no_encoder_writes_are_refused() {
        let bytes = Columns::to_bytes(&[1, 2, 3]);
        assert_eq!(bytes, [3, 0, 0, 0, 0, 1, 0, 0, 0x10, 0x02, 0, 0, 0, 0, 0, 0]);
        let read = |count, bytes: &[u8]| Columns::read(count, &mut { bytes }).map(|_| ());
        let with = |position: usize, value| {
            let mut bytes = bytes.clone();
            bytes[position] = value;
            bytes
        };
        assert_eq!(read(192, &bytes), Ok(()));
        let columns = |row, form, count| Err(DecodeError::Columns { row, form, count });
        assert_eq!(read(191, &bytes), columns(3, 0, 191));
        assert_eq!(read(191, &with(0, 1)), columns(1, 0, 191));
        assert_eq!(read(192, &with(3, 1)), columns(3 + (1 << 24), 0, 192));
        assert_eq!(read(192, &with(4, 1)), columns(3, 1, 192));
        assert_eq!(read(192, &with(4, 2)), columns(3, 2, 192));
        for position in [6, 7, 10, 15] {
            assert_eq!(read(192, &with(position, 1)), Err(DecodeError::Padding), "{position}");
        }
        assert_eq!(read(192, &with(9, 0x12)), Err(DecodeError::Padding));
        let truncated = |needed, found| {
            let section = Section::Dynamic;
            Err(DecodeError::Truncated { section, needed, found })
        };
        assert_eq!(read(192, &bytes[..15]), truncated(16, 15));
        assert_eq!(read(192, &bytes[..7]), truncated(8, 7));
    }
}
