//! Index of the equal rows of a matrix.

/// Index of equal rows: for each row the unique row that it equals. Unique rows are numbered from 0 in the order of their first occurrence.
///
/// Where routing says which rows are copies of one another (a token that goes to several experts), the index comes from
/// there, [`Self::from_keys`]; else the rows are searched, [`Self::find`]. If both ends of a transfer have the index,
/// then what travels is the unique rows alone, their number known to both:
///
/// ```
/// use zipwire_codec::RowIndex;
///
/// // Four rows of two values, of the tokens 7, 3, 7 and 3.
/// let values = [[1_u8, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]].concat();
/// let index = RowIndex::from_keys(&[7, 3, 7, 3])?;
/// assert_eq!(index, RowIndex::find(&values, 4)?);
/// let unique = index.gather(&values, 4);
/// assert_eq!(unique, [1, 2, 3, 4, 5, 6, 7, 8]);
///
/// let mut received = vec![0; values.len()];
/// received[..unique.len()].copy_from_slice(&unique);
/// index.scatter(&mut received, 4);
/// assert_eq!(received, values);
/// # Ok::<(), zipwire_codec::RowIndexError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowIndex {
    /// Each is at most the number of unique rows before it.
    of: Vec<u32>,
    unique: u32,
}

/// Numbers that are no index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum RowIndexError {
    /// Rows are counted in 32 bits.
    #[error("`{rows}` rows are more than an index can hold")]
    TooMany { rows: usize },
    /// A row equals one that comes first later, if at all.
    #[error("row `{row}` is said to equal unique row `{found}`, and `{known}` are before it")]
    Order { row: usize, found: u32, known: u32 },
}

impl RowIndexError {
    /// Advice on what would be right, in one line.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::TooMany { .. } => format!("at most `{}`", u32::MAX),
            Self::Order { .. } => {
                "unique rows are numbered in the order of their first occurrence".to_owned()
            }
        })
    }
}

impl RowIndex {
    /// Finds the equal rows of `values`, which are whole rows of `row_bytes` bytes; what is left behind the last whole
    /// row does not count. Rows are equal if all their bits are: +0 and -0 are not.
    ///
    /// Candidates come from a fixed hash of 64 bits and are compared in full, so a collision changes nothing.
    ///
    /// # Errors
    /// If there are more rows than 32 bits can number.
    ///
    /// # Panics
    /// If `row_bytes` is 0.
    pub fn find(values: &[u8], row_bytes: usize) -> Result<Self, RowIndexError> {
        Self::find_by(values, row_bytes, hash_of_row)
    }

    /// The index of rows of which those with the same key are equal: the keys of rows that are copies of tokens are the
    /// numbers of the tokens. The word of the caller is taken for it ([`Self::holds`] checks it).
    ///
    /// # Errors
    /// If there are more rows than 32 bits can number.
    pub fn from_keys(keys: &[u64]) -> Result<Self, RowIndexError> {
        let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        Self::find(&bytes, size_of::<u64>())
    }

    /// The index that [`Self::as_slice`] gave at another time or place.
    ///
    /// # Errors
    /// If there are too many rows, or unique rows are not numbered in the order of their first occurrence.
    pub fn from_numbers(of: Vec<u32>) -> Result<Self, RowIndexError> {
        check_count(of.len())?;
        let mut known = 0;
        for (row, &found) in of.iter().enumerate() {
            if found > known {
                return Err(RowIndexError::Order { row, found, known });
            }
            known += u32::from(found == known);
        }
        Ok(Self { of, unique: known })
    }

    fn find_by(values: &[u8], row_bytes: usize, hash: impl Fn(&[u8]) -> u64) -> Result<Self, RowIndexError> {
        assert!(row_bytes > 0, "rows have at least one byte");
        let rows = values.len() / row_bytes;
        check_count(rows)?;
        /// No row has this number.
        const FREE: u32 = u32::MAX;
        // At most half full, so that probes are few. Entries are numbers of unique rows.
        let mask = (2 * rows).next_power_of_two() - 1;
        let mut table = vec![FREE; mask + 1];
        let mut of = Vec::with_capacity(rows);
        // Hash and row of each unique row.
        let mut known: Vec<(u64, &[u8])> = Vec::new();
        for row in values.chunks_exact(row_bytes) {
            let hash = hash(row);
            let mut slot = hash as usize & mask;
            let number = loop {
                match table[slot] {
                    FREE => {
                        let number = known.len() as u32;
                        table[slot] = number;
                        known.push((hash, row));
                        break number;
                    }
                    number if known[number as usize] == (hash, row) => break number,
                    _ => slot = (slot + 1) & mask,
                }
            };
            of.push(number);
        }
        Ok(Self { of, unique: known.len() as u32 })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.of.len()
    }

    /// Number of unique rows.
    pub fn unique(&self) -> usize {
        self.unique as usize
    }

    /// For each row the number of the unique row that it equals.
    pub fn as_slice(&self) -> &[u32] {
        &self.of
    }

    /// Rows that repeat an earlier one, in percent of all; 0 if there is none.
    pub fn repeated_pct(&self) -> f64 {
        match self.rows() {
            0 => 0.0,
            rows => 100.0 * (rows - self.unique()) as f64 / rows as f64,
        }
    }

    /// Whether these are the rows that repeat an earlier one.
    pub(super) fn repeats(&self) -> impl Iterator<Item = bool> {
        let mut known = 0;
        self.of.iter().map(move |&of| {
            let is_new = of == known;
            known += u32::from(is_new);
            !is_new
        })
    }

    /// Whether all rows of `values` that the index calls equal are equal. Two unique rows may be equal: then the index
    /// is not the shortest, but it holds.
    ///
    /// # Panics
    /// If `values` has another number of whole rows of `row_bytes` bytes.
    pub fn holds(&self, values: &[u8], row_bytes: usize) -> bool {
        self.check_rows(values, row_bytes);
        let mut first: Vec<&[u8]> = Vec::with_capacity(self.unique());
        values.chunks_exact(row_bytes).zip(&self.of).all(|(row, &of)| match first.get(of as usize) {
            Some(known) => *known == row,
            None => {
                first.push(row);
                true
            }
        })
    }

    /// The unique rows in the order of their first occurrence, then what is left behind the last whole row.
    ///
    /// # Panics
    /// If `values` has another number of whole rows of `row_bytes` bytes.
    pub fn gather(&self, values: &[u8], row_bytes: usize) -> Vec<u8> {
        self.check_rows(values, row_bytes);
        let rows = values.chunks_exact(row_bytes);
        let left = rows.remainder();
        let mut unique = Vec::with_capacity(self.unique() * row_bytes + left.len());
        for (row, _) in rows.zip(self.repeats()).filter(|(_, repeats)| !repeats) {
            unique.extend_from_slice(row);
        }
        unique.extend_from_slice(left);
        unique
    }

    /// The inverse of [`Self::gather`], in place: `values` begins with what that gave, and has the length of all rows.
    ///
    /// # Panics
    /// If `values` has another number of whole rows of `row_bytes` bytes.
    pub fn scatter(&self, values: &mut [u8], row_bytes: usize) {
        self.check_rows(values, row_bytes);
        let sources = self.of.iter().rev().map(|&of| Ok(of as usize));
        let done: Result<(), std::convert::Infallible> = expand(values, row_bytes, self.unique(), sources);
        done.unwrap_or_else(|never| match never {});
    }

    fn check_rows(&self, values: &[u8], row_bytes: usize) {
        assert!(row_bytes > 0, "rows have at least one byte");
        assert_eq!(values.len() / row_bytes, self.rows(), "the index is of another number of rows");
    }
}

/// Copies unique rows, which are the front of `values` with what is behind the last row after them, to where they
/// belong. `sources` has the unique row of each row, the last row first, which is at most the number of the row; it may
/// fail.
///
/// No other memory is needed: a row is never written over a unique row that a row before it still needs.
pub(super) fn expand<E>(
    values: &mut [u8],
    row_bytes: usize,
    unique: usize,
    sources: impl Iterator<Item = Result<usize, E>>,
) -> Result<(), E> {
    let rows = values.len() / row_bytes;
    let (kept, left) = (unique * row_bytes, values.len() % row_bytes);
    values.copy_within(kept..kept + left, rows * row_bytes);
    for (row, source) in (0..rows).rev().zip(sources) {
        let source = source?;
        debug_assert!(source <= row);
        if source != row {
            values.copy_within(source * row_bytes..(source + 1) * row_bytes, row * row_bytes);
        }
    }
    Ok(())
}

fn check_count(rows: usize) -> Result<(), RowIndexError> {
    if u32::try_from(rows).is_ok() { Ok(()) } else { Err(RowIndexError::TooMany { rows }) }
}

/// Words that are mixed side by side, so that a multiplication need not wait for the one before it.
const LANES: usize = 4;
const WORD: usize = size_of::<u64>();
/// 2^64 divided by the golden ratio, rounded to an odd number.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The multipliers of the finaliser of MurmurHash3.
const FINAL: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];

/// A hash of 64 bits, the same on every machine and in every process.
/// It is no part of the format: it decides what is compared, never what is equal.
///
/// Little-endian words of eight bytes go to four lanes in turn, `x = (x ^ word) * FACTOR; x ^= x >> 32`, from `x` =
/// number of the lane on; the last word is filled up with zeros. A step is a bijection of `x` for each word and of the
/// word for each `x`, so rows of one length that differ in a single word never have the same lanes. The lanes then go
/// through the same step one after the other, and through the finaliser of MurmurHash3. It is not made to withstand an
/// adversary: a sender can make many rows that share a hash, which costs time and changes no result.
fn hash_of_row(row: &[u8]) -> u64 {
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| lane as u64);
    let (groups, rest) = row.as_chunks::<{ LANES * WORD }>();
    for group in groups {
        let words = group.as_chunks::<WORD>().0;
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, bytes) in lanes.iter_mut().zip(rest.chunks(WORD)) {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        *lane = step(*lane, u64::from_le_bytes(word));
    }
    let mut x = lanes.into_iter().fold(0, step);
    for factor in FINAL {
        x = (x ^ x >> 33).wrapping_mul(factor);
    }
    x ^ x >> 33
}

#[inline(always)]
fn step(x: u64, word: u64) -> u64 {
    let x = (x ^ word).wrapping_mul(FACTOR);
    x ^ x >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Rows drawn from `kinds` different ones, and some bytes behind them.
    fn matrix(rows: usize, row_bytes: usize, kinds: usize, seed: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut values: Vec<u8> = Vec::new();
        for _ in 0..rows {
            let mut kind = ChaCha8Rng::seed_from_u64(rng.random_range(0..kinds) as u64);
            values.extend((0..row_bytes).map(|_| kind.random::<u8>()));
        }
        values.extend((0..rng.random_range(0..row_bytes)).map(|i| i as u8));
        values
    }

    /// The definition.
    fn reference(values: &[u8], row_bytes: usize) -> Vec<u32> {
        let mut known: Vec<&[u8]> = Vec::new();
        let number = |row| match known.iter().position(|known| *known == row) {
            Some(number) => number as u32,
            None => {
                known.push(row);
                known.len() as u32 - 1
            }
        };
        values.chunks_exact(row_bytes).map(number).collect()
    }

    fn assert_comes_back(index: &RowIndex, values: &[u8], row_bytes: usize) {
        let unique = index.gather(values, row_bytes);
        assert_eq!(unique.len(), index.unique() * row_bytes + values.len() % row_bytes);
        let mut out = vec![0xa5; values.len()];
        out[..unique.len()].copy_from_slice(&unique);
        index.scatter(&mut out, row_bytes);
        assert!(out == values, "{} rows of {row_bytes} bytes", index.rows());
        assert!(index.holds(values, row_bytes));
        assert_eq!(RowIndex::from_numbers(index.as_slice().to_vec()).as_ref(), Ok(index));
    }

    #[test]
    fn equal_rows_are_found_whatever_the_hash_is() {
        let hashes: [fn(&[u8]) -> u64; 4] = [hash_of_row, |_| 0, |row| u64::from(row[0] & 3), |_| u64::MAX];
        let (lengths, counts): (&[usize], &[usize]) = if cfg!(miri) {
            (&[1, 7, 33], &[0, 1, 9])
        } else {
            (&[1, 2, 3, 7, 8, 31, 32, 33, 100], &[0, 1, 2, 3, 64, 257])
        };
        for &row_bytes in lengths {
            for &rows in counts {
                for kinds in [1, 2, rows.max(1), 100_000] {
                    let values = matrix(rows, row_bytes, kinds, (rows * row_bytes) as u64);
                    let expected = reference(&values, row_bytes);
                    for hash in hashes {
                        let index = RowIndex::find_by(&values, row_bytes, hash).unwrap();
                        assert_eq!(index.as_slice(), expected, "{rows} rows of {row_bytes} bytes");
                        assert_comes_back(&index, &values, row_bytes);
                    }
                }
            }
        }
    }

    #[test]
    fn all_equal_and_all_different_rows_are_the_extremes() {
        let equal = RowIndex::find(&[3; 70], 7).unwrap();
        assert_eq!((equal.rows(), equal.unique(), equal.repeated_pct()), (10, 1, 90.0));
        let bytes: Vec<u8> = (0..70).collect();
        let different = RowIndex::find(&bytes, 7).unwrap();
        assert_eq!((different.rows(), different.unique(), different.repeated_pct()), (10, 10, 0.0));
        assert_eq!(RowIndex::find(&[], 7).unwrap().repeated_pct(), 0.0);
    }

    #[test]
    fn zeros_of_both_signs_are_two_rows() {
        let values = [0_u16, 0x8000, 0, 0x8000].map(u16::to_le_bytes).concat();
        assert_eq!(RowIndex::find(&values, 2).unwrap().as_slice(), [0, 1, 0, 1]);
    }

    #[test]
    fn keys_give_the_index_of_their_rows() {
        let tokens: [u64; 6] = [9, u64::MAX, 9, 0, u64::MAX, 9];
        let index = RowIndex::from_keys(&tokens).unwrap();
        assert_eq!(index.as_slice(), [0, 1, 0, 2, 1, 0]);
        let values: Vec<u8> = tokens.iter().flat_map(|token| [*token as u8; 5]).collect();
        assert_comes_back(&index, &values, 5);
        let mut other = values;
        other[5 * 4] ^= 1;
        assert!(!index.holds(&other, 5), "row 4 is not row 1 any more");
    }

    #[test]
    fn numbers_out_of_order_are_refused() {
        assert_eq!(RowIndex::from_numbers(vec![]).unwrap().unique(), 0);
        let error = RowIndex::from_numbers(vec![0, 1, 0, 3]).unwrap_err();
        assert_eq!(error.to_string(), "row `3` is said to equal unique row `3`, and `2` are before it");
        let help = "unique rows are numbered in the order of their first occurrence";
        assert_eq!(error.help().as_deref(), Some(help));
        assert!(RowIndex::from_numbers(vec![1]).is_err());
    }

    #[test]
    #[should_panic(expected = "the index is of another number of rows")]
    fn an_index_of_other_rows_is_a_programmer_error() {
        RowIndex::from_keys(&[1, 2]).unwrap().gather(&[0; 12], 4);
    }

    #[test]
    fn every_bit_of_a_row_counts_at_every_length() {
        for len in (1..100).step_by(if cfg!(miri) { 19 } else { 1 }) {
            let mut row: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let mut seen = HashSet::from([hash_of_row(&row)]);
            for bit in 0..8 * len {
                row[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(hash_of_row(&row)), "bit {bit} of {len} bytes");
                row[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn words_are_not_interchangeable() {
        let row: Vec<u8> = (0..80).collect();
        let mut seen = HashSet::from([hash_of_row(&row)]);
        for i in 0..10 {
            for j in 0..i {
                let mut words: Vec<&[u8]> = row.chunks(8).collect();
                words.swap(i, j);
                assert!(seen.insert(hash_of_row(&words.concat())), "words {i} and {j}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn low_bits_spread() {
        // Rows that differ in a counter alone fill a table as evenly as chance would.
        let mut buckets = [0_u32; 256];
        for number in 0..1_u32 << 16 {
            let mut row = [0; 512];
            row[200..204].copy_from_slice(&number.to_le_bytes());
            buckets[(hash_of_row(&row) & 255) as usize] += 1;
        }
        // 256 expected, standard deviation 16.
        assert!(buckets.iter().all(|count| (170..350).contains(count)), "{buckets:?}");
    }
}
