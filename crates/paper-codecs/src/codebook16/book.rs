//! Code books: the sixteen exponents that have codes.

use super::Codebook16;
use super::fields::Fields;
use crate::CodebookError;
use crate::kernel::TILE;
pub(super) use crate::kernel::codes::ENTRIES;
use zipwire_codec::tables::{self, Table};
use zipwire_codec::{Codec, DType, DecodeError, EncodeError};

/// The exponents that `codebook16` has codes for, of values of one type.
///
/// Without one given, the codec makes a book for each frame from a sample of its own values. A book that was calibrated
/// before saves that; how well it fits is seen in the frames ([`crate::BookUsage`]). Either way
/// the book travels in the frame, unless the codec is told that its reader has it ([`Codebook16::shared_book`]).
///
/// ```
/// use zipwire_codec::{Codec, DType, Layout};
/// use zipwire_paper_codecs::Codebook;
///
/// let sample: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let codec = Codebook::calibrate(DType::Bf16, [&sample[..]])?.codec();
/// let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &sample)?;
/// assert!(frame.len() < sample.len() * 76 / 100);
/// # Ok::<(), zipwire_codec::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codebook {
    dtype: DType,
    /// Strictly ascending; the place is the code.
    exponents: [u8; ENTRIES],
}

impl Codebook {
    /// The sixteen most frequent exponents in `samples`, the lower one of equals (SplitZip, section 3).
    ///
    /// # Errors
    /// If the codec does not code the type, or a sample is not a whole number of values.
    pub fn calibrate<'a>(
        dtype: DType,
        samples: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, EncodeError> {
        let unsupported = EncodeError::Unsupported { codec: Codebook16::ID, dtype };
        let fields = Fields::of(dtype).ok_or(unsupported)?;
        let mut counts = [0; 256];
        for values in samples {
            if !values.len().is_multiple_of(dtype.width()) {
                return Err(EncodeError::PartialValue { bytes: values.len(), dtype });
            }
            fields.count(crate::kernel::active(), values, &mut counts);
        }
        Ok(Self { dtype, exponents: most_frequent(&counts[..fields.exponents()]) })
    }

    /// A book of these exponents, for example one that [`Self::exponents`] gave at another time.
    ///
    /// # Errors
    /// If they do not ascend strictly, or if the type has no such exponents or is not coded.
    pub fn from_exponents(dtype: DType, exponents: [u8; ENTRIES]) -> Result<Self, CodebookError> {
        let none = CodebookError { dtype, found: exponents };
        let fields = Fields::of(dtype).ok_or(none)?;
        let ascend = exponents.is_sorted_by(|a, b| a < b);
        if !ascend || usize::from(exponents[ENTRIES - 1]) >= fields.exponents() {
            return Err(none);
        }
        Ok(Self { dtype, exponents })
    }

    /// Type of the values that it is for.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its exponents as they are in the values, with their bias, strictly ascending.
    pub fn exponents(&self) -> &[u8; ENTRIES] {
        &self.exponents
    }

    /// The book as a table, for frames that name it ([`Codebook16::shared_book`]): tag of the codec, tag of the type, then
    /// the exponents.
    pub fn table(&self) -> Table {
        Table::new(self.table_bytes())
    }

    /// Id by which frames name the book: that of [`Self::table`].
    pub fn id(&self) -> u32 {
        tables::id_of(&self.table_bytes())
    }

    fn table_bytes(&self) -> [u8; 2 + ENTRIES] {
        let mut bytes = [0; 2 + ENTRIES];
        [bytes[0], bytes[1]] = [super::TAG, self.dtype.tag()];
        bytes[2..].copy_from_slice(&self.exponents);
        bytes
    }

    /// The book that a table is, for example one that [`Self::table`] gave at another time.
    ///
    /// # Errors
    /// [`DecodeError::Table`] if it is none.
    pub fn read(table: &Table) -> Result<Self, DecodeError> {
        Self::from_table(table.dtype().unwrap_or(DType::Bf16), table)
    }

    /// The book that a frame of these values names.
    ///
    /// # Errors
    /// If the table is not a book for them.
    pub(super) fn from_table(dtype: DType, table: &Table) -> Result<Self, DecodeError> {
        let exponents = match table.as_bytes() {
            [super::TAG, tag, exponents @ ..] if *tag == dtype.tag() => exponents.try_into().ok(),
            _ => None,
        };
        let wrong = DecodeError::Table { id: table.id(), codec: Codebook16::ID, dtype };
        Self::from_exponents(dtype, exponents.ok_or(wrong.clone())?).map_err(|_| wrong)
    }

    /// The codec with this book for all frames. It supports the type of the book only.
    pub fn codec(self) -> Box<dyn Codec> {
        Box::new(Codebook16::new().book(self))
    }
}

/// Distance in values between the runs of a sample, each of [`RUN_VALUES`] values.
const SPAN_VALUES: usize = 1 << 11;
/// Consecutive values in a sample. Where a run begins in its span goes round, so that all columns of a matrix have their
/// turn, whatever the length of its rows.
const RUN_VALUES: usize = 1 << 7;
/// The most values of a frame that are counted in full.
const FEW: usize = 1 << 15;

/// The book of a frame: of all values where they are few, of a sixteenth where they are many.
pub(super) fn of_frame(dtype: DType, values: &[u8]) -> Result<Codebook, EncodeError> {
    let width = dtype.width();
    if values.len() <= FEW * width {
        return Codebook::calibrate(dtype, [values]);
    }
    let unsupported = EncodeError::Unsupported { codec: Codebook16::ID, dtype };
    let fields = Fields::of(dtype).ok_or(unsupported)?;
    let mut counts = [0; 256];
    let mut gathered = [0; 2 * TILE];
    // Each run is in a page of its own. Copies wait for several pages at a time, increments would wait for one after the other.
    let spans = gathered.len() / (RUN_VALUES * width);
    for (first, part) in (0..).step_by(spans).zip(values.chunks(spans * SPAN_VALUES * width)) {
        let mut len = 0;
        for (number, span) in (first..).zip(part.chunks(SPAN_VALUES * width)) {
            let start = (run_start(number) * width).min(span.len());
            let run = &span[start..(start + RUN_VALUES * width).min(span.len())];
            gathered[len..][..run.len()].copy_from_slice(run);
            len += run.len();
        }
        fields.count(crate::kernel::active(), &gathered[..len], &mut counts);
    }
    Ok(Codebook { dtype, exponents: most_frequent(&counts[..fields.exponents()]) })
}

/// Start of the run of a span: a multiple of its length.
fn run_start(span: usize) -> usize {
    (5 * span + span / 16) % (SPAN_VALUES / RUN_VALUES) * RUN_VALUES
}

fn most_frequent(counts: &[u64]) -> [u8; ENTRIES] {
    let mut order: Vec<u8> = (0..=u8::MAX).take(counts.len()).collect();
    let key = |exponent: &u8| (std::cmp::Reverse(counts[usize::from(*exponent)]), *exponent);
    order.select_nth_unstable_by_key(ENTRIES - 1, key);
    let mut exponents = *order.first_chunk().expect("every type has at least sixteen exponents");
    exponents.sort_unstable();
    exponents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_win_and_lower_ones_fill_up() {
        let mut counts = [0; 32];
        counts[20..29].fill(5);
        counts[31] = 1;
        assert_eq!(most_frequent(&counts), [0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31]);
        counts.fill(7);
        counts[3] = 8;
        counts[30] = 9;
        assert_eq!(most_frequent(&counts), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 30]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn of_many_values_a_run_in_each_span_counts() {
        for (dtype, count) in
            [(DType::Bf16, FEW + 3 * SPAN_VALUES + RUN_VALUES + 5), (DType::F8E5M2, 3 * FEW + 7)]
        {
            let exponent = |value: usize| 3 + value.pow(3) / 7 % 23 + 200 / (value % 97 + 1) % 3;
            let value = |value: usize| match dtype {
                DType::Bf16 => ((exponent(value) as u16) << 7).to_le_bytes().to_vec(),
                _ => vec![(exponent(value) as u8) << 2],
            };
            let values: Vec<u8> = (0..count).flat_map(value).collect();
            let width = dtype.width();
            let sample: Vec<&[u8]> = (0..count.div_ceil(SPAN_VALUES))
                .flat_map(|span| {
                    (0..RUN_VALUES).map(move |value| span * SPAN_VALUES + run_start(span) + value)
                })
                .filter_map(|value| values.get(value * width..(value + 1) * width))
                .collect();
            assert!(sample.len() > count / 17 && sample.len() < count / 15);
            assert_eq!(of_frame(dtype, &values), Codebook::calibrate(dtype, [&sample.concat()[..]]));
            assert_eq!(
                of_frame(dtype, &values[..FEW * width]),
                Codebook::calibrate(dtype, [&values[..FEW * width]])
            );
        }
    }

    #[test]
    fn books_that_cannot_be_are_refused() {
        let ascending = |first: u8| std::array::from_fn(|i| first + i as u8);
        let book = Codebook::from_exponents(DType::F8E5M2, ascending(16)).unwrap();
        assert_eq!((book.dtype(), book.exponents()[15]), (DType::F8E5M2, 31));
        let error = Codebook::from_exponents(DType::F8E5M2, ascending(17)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`[17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]` is no code book for `F8_E5M2`: it takes sixteen exponents of a type that \
             `codebook16` codes, in ascending order"
        );
        assert!(Codebook::from_exponents(DType::Bf16, [7; ENTRIES]).is_err());
        assert!(Codebook::from_exponents(DType::F32, ascending(0)).is_err());
        assert!(Codebook::calibrate(DType::F16, []).is_err());
        let error = EncodeError::PartialValue { bytes: 3, dtype: DType::Bf16 };
        assert_eq!(Codebook::calibrate(DType::Bf16, [&[1, 2][..], &[1, 2, 3][..]]), Err(error));
    }

    #[test]
    fn samples_are_counted_together() {
        let tile = |exponent: u16| (exponent << 7).to_le_bytes().repeat(9);
        let samples: Vec<Vec<u8>> = (100..116).map(tile).collect();
        let book = Codebook::calibrate(DType::Bf16, samples.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(*book.exponents(), std::array::from_fn(|i| 100 + i as u8));
    }
}
