//! Whether a frame has offsets of columns, and which. Integers only, as in the plan of a block.

use super::{Columns, possible};
use crate::kernel::BASE_GROUP;
use crate::tiered::fields::Fields;
use crate::tiered::spread::{FRACTION, Spread};

/// Mean exponents of columns with offsets vary at least by this much, 0.16: 0.4 octaves, squared.
const MIN_VARIANCE: u64 = (16 << (2 * FRACTION)) / 100;
/// Rows, or short rows together, that are looked at: means over so many are exact to a tenth of an octave.
const MAX_UNITS: usize = 256;

/// The exponents of a column less the means of the rows that they are in.
#[derive(Clone, Copy, Default)]
struct Column {
    /// Sum over the values that are not +0, with [`FRACTION`] bits.
    sum: i64,
    values: u32,
}

/// The vector for a frame whose rows have `row` values, if columns differ enough.
pub(in crate::tiered) fn choose(fields: Fields, values: &[u8], row: usize) -> Option<Vec<u8>> {
    let count = values.len() / fields.width();
    if !possible(row, count) {
        return None;
    }
    let mut columns = vec![Column::default(); row];
    // As long as a group at least.
    let unit = row * BASE_GROUP.div_ceil(row);
    let units = count / unit;
    let looked_at = units.min(MAX_UNITS);
    for number in 0..looked_at {
        let start = number * units / looked_at * unit;
        let values = &values[start * fields.width()..][..unit * fields.width()];
        add(fields, values, &mut columns);
    }
    let mut spread = Spread::default();
    for column in columns.iter().filter(|column| column.values > 0) {
        // Exponents have eight bits, so no mean is below this.
        let mean = column.sum.div_euclid(i64::from(column.values)) + (256 << FRACTION);
        spread.add(mean.unsigned_abs(), column.values);
    }
    spread.exceeds(MIN_VARIANCE).then(|| {
        let offsets: Vec<i8> = columns.iter().map(|column| column.offset()).collect();
        Columns::to_bytes(&offsets)
    })
}

/// Adds a row, or several short ones that share a mean.
fn add(fields: Fields, values: &[u8], columns: &mut [Column]) {
    let places = fields.places();
    let (mut sum, mut nonzero) = (0u64, 0u64);
    fields.for_each(values, |value| {
        sum += u64::from(places.exponent(value));
        nonzero += u64::from(value != 0);
    });
    let Some(mean) = (sum << FRACTION).checked_div(nonzero) else { return };
    for row in values.chunks(columns.len() * fields.width()) {
        let mut columns = columns.iter_mut();
        fields.for_each(row, |value| {
            if let (Some(column), true) = (columns.next(), value != 0) {
                column.sum += i64::from(places.exponent(value) << FRACTION) - mean.cast_signed();
                column.values += 1;
            }
        });
    }
}

impl Column {
    /// The mean, rounded.
    fn offset(self) -> i8 {
        let values = i64::from(self.values) << FRACTION;
        let rounded = (self.sum + values / 2).checked_div_euclid(values).unwrap_or(0);
        rounded.clamp(i64::from(i8::MIN), i64::from(i8::MAX)) as i8
    }
}
