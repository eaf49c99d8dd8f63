//! Whether a frame has offsets of columns, and which. Integers only, as in the plan of a block.

use super::{Columns, possible};
use crate::DType;
use crate::blocks::fields::Fields;
use crate::blocks::spread::{FRACTION, Spread};
use crate::kernel::{BASE_GROUP, GroupSums, Kernel};

/// Mean exponents of columns with offsets vary at least by this much, 0.16: 0.4 octaves, squared.
const MIN_VARIANCE: u64 = (16 << (2 * FRACTION)) / 100;
/// Rows, or groups of short rows, that are sampled: means over this many are exact to a fifth of an octave.
const MAX_UNITS: usize = 64;

/// Sums over the values of each column that are not +0. At most 2^15 values of a column are looked at.
struct Sums {
    /// Sum for each column of the exponents less the means of their rows, with [`FRACTION`] bits.
    exponents: Vec<i32>,
    values: Vec<u32>,
}

/// The vector for a frame whose rows have `row` values, if columns differ enough.
pub(in crate::blocks) fn choose(
    kernel: &Kernel,
    fields: Fields,
    values: &[u8],
    row: usize,
) -> Option<Vec<u8>> {
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
        let mean = i64::from(sum.div_euclid(values.cast_signed())) + (256 << FRACTION);
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
        let Some(mean) = (sum << FRACTION).checked_div(nonzero as u64) else { return };
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
            let distance = (places.exponent(value) << FRACTION).cast_signed() - mean;
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
    let values = i64::from(values) << FRACTION;
    let rounded = (i64::from(sum) + values / 2).checked_div_euclid(values).unwrap_or(0);
    rounded.clamp(i64::from(i8::MIN), i64::from(i8::MAX)) as i8
}
