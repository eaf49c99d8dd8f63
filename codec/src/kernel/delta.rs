//! Differences of values and those of a base: symbols of a byte, and the bits below them that are not worth a code.
//!
//! Values are taken 64 at a time. The exponent of a base value says how many of the lowest bits of a difference are noise, so
//! these need no length of their own. Where all 64 values have eight of them or more they are whole bytes; others are bits of one
//! value after the other, a bit plane at a time, so that a mask picks them.

use super::WORD_VALUES;
use super::bits::array;

/// The symbol of differences that do not fit into one: they are in a list.
pub const LARGE: u8 = u8::MAX;
/// Bytes of low bits at most.
pub const LOW_BYTES: usize = 3;

/// How values differ from their base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Bits of the mantissa; those of the exponent are above it.
    pub mantissa: u32,
    /// The highest exponent.
    pub last_exponent: u8,
    /// The number of low bits is this less the exponent of the base value, if that is lower; 0: no bits are low.
    pub reference: u8,
    /// Whether differences are the bits that differ, and not those of integers.
    pub xor: bool,
    /// Number subtracted from a difference: 1 where none is 0.
    pub less: u32,
}

impl How {
    /// Number of low bits of the difference to this base value of `width` bytes.
    #[inline(always)]
    pub fn low_bits(&self, base: u32, width: usize) -> u32 {
        let exponent = base >> self.mantissa & u32::from(self.last_exponent);
        // A base value of 0 says nothing of what differences there are.
        if exponent == 0 {
            0
        } else {
            u32::from(self.reference).saturating_sub(exponent).min(most_low_bits(width))
        }
    }
}

/// The largest number of low bits of values of `width` bytes.
pub const fn most_low_bits(width: usize) -> u32 {
    match width {
        1 => 0,
        2 => 8,
        _ => 8 * LOW_BYTES as u32,
    }
}

/// Mask of the bits of values of `width` bytes.
pub const fn mask_of(width: usize) -> u32 {
    u32::MAX >> (32 - 8 * width)
}

/// The value of these bits as an integer of as many: in the order of what it stands for, with -0 directly below +0. Also its inverse.
#[inline(always)]
pub fn ordered(bits: u32, width: usize) -> u32 {
    let sign = 8 * width as u32 - 1;
    if bits >> sign & 1 == 0 { bits } else { bits ^ (mask_of(width) >> 1) }
}

/// Difference of a value from a base value: small if they are close, and 0 if they are equal.
#[inline(always)]
pub fn difference(value: u32, base: u32, width: usize, xor: bool) -> u32 {
    if xor {
        return value ^ base;
    }
    let mask = mask_of(width);
    let d = ordered(value, width).wrapping_sub(ordered(base, width)) & mask;
    let sign = if d >> (8 * width as u32 - 1) == 0 { 0 } else { mask };
    (d << 1 ^ sign) & mask
}

/// The inverse of [`difference`].
#[inline(always)]
pub fn apply(difference: u32, base: u32, width: usize, xor: bool) -> u32 {
    if xor {
        return difference ^ base;
    }
    let mask = mask_of(width);
    let d = difference >> 1 ^ if difference & 1 == 0 { 0 } else { mask };
    ordered(ordered(base, width).wrapping_add(d) & mask, width)
}

/// Writer of consecutive bits, the first ones in the lowest bits of words of 64.
pub struct BitWriter<'a> {
    out: &'a mut [u8],
    /// Offset of the word that is not full yet.
    position: usize,
    word: u64,
    /// How many bits of it there are, at most 63.
    bits: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, position: 0, word: 0, bits: 0 }
    }

    /// Adds the lowest `count` bits of `bits`, at most 64; those above them are 0.
    #[inline(always)]
    pub fn push(&mut self, bits: u64, count: u32) {
        let word = self.word | bits << self.bits;
        let all = self.bits + count;
        let out = self.out[self.position..].first_chunk_mut().expect("there is room for every bit");
        *out = word.to_le_bytes();
        let whole = all >= 64;
        // Shifted twice, as the first shift alone may be by 64.
        self.word = if whole { bits >> 1 >> (63 - self.bits) } else { word };
        self.position += if whole { 8 } else { 0 };
        self.bits = all % 64;
    }

    /// Writes what is left, filled up with zeros; returns the bytes of all words.
    pub fn finish(self) -> usize {
        if self.bits == 0 {
            return self.position;
        }
        let end = self.position + 8;
        self.out[self.position..end].copy_from_slice(&self.word.to_le_bytes());
        end
    }
}

/// The bits that [`BitWriter`] has written.
#[derive(Clone, Copy)]
pub struct BitReader<'a> {
    words: &'a [[u8; 8]],
    position: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(words: &'a [[u8; 8]]) -> Self {
        Self { words, position: 0 }
    }

    /// The next `count` bits, at most 64, and others above them; behind the last word there are zeros.
    #[inline(always)]
    pub fn take(&mut self, count: u32) -> u64 {
        let (word, bit) = (self.position / 64, self.position % 64);
        self.position += count as usize;
        let at = |word: usize| self.words.get(word).map_or(0, |word| u64::from_le_bytes(*word));
        at(word) >> bit | at(word + 1) << 1 << (63 - bit)
    }

    /// Whether nothing is left, nothing was missing, and what fills up the last word is zero.
    pub fn is_at_end(mut self) -> bool {
        let all = 64 * self.words.len();
        let left = all.wrapping_sub(self.position);
        self.position <= all && left < 64 && (left == 0 || self.take(left as u32) & ((1 << left) - 1) == 0)
    }
}

/// Buffers for differences, as many as there is room for symbols.
pub struct SplitMut<'a> {
    pub symbols: &'a mut [u8],
    /// Room for [`LOW_BYTES`] for each value.
    pub bytes: &'a mut [u8],
    /// How many of these are written.
    pub bytes_len: usize,
    pub bits: BitWriter<'a>,
    /// Differences that are large, without their low bits. Room for all values, and a vector behind them.
    pub large: &'a mut [u8],
    /// How many of these bytes are written.
    pub large_len: usize,
}

/// Parts that differences are read from.
pub struct JoinFrom<'a> {
    pub symbols: &'a [u8],
    /// Whole bytes that have not been read. If there are too few, zeros are read.
    pub bytes: &'a [u8],
    pub bits: BitReader<'a>,
    /// Large differences that have not been read.
    pub large: &'a [u8],
    /// Whether something was missing, or a large difference had more bits than a value.
    pub failed: bool,
}

pub fn delta_split(width: usize, values: &[u8], base: &[u8], how: How, out: &mut SplitMut<'_>) {
    split_from(0, width, values, base, how, out);
}

/// The differences from value `first` on, a multiple of [`WORD_VALUES`].
pub fn split_from(first: usize, width: usize, values: &[u8], base: &[u8], how: How, out: &mut SplitMut<'_>) {
    match width {
        1 => split_width::<1>(first, values, base, how, out),
        2 => split_width::<2>(first, values, base, how, out),
        _ => split_width::<4>(first, values, base, how, out),
    }
}

fn split_width<const WIDTH: usize>(
    first: usize,
    values: &[u8],
    base: &[u8],
    how: How,
    out: &mut SplitMut<'_>,
) {
    let (values, base) = (&values.as_chunks::<WIDTH>().0[first..], &base.as_chunks::<WIDTH>().0[first..]);
    let symbols = out.symbols[first..].chunks_mut(WORD_VALUES);
    for ((values, base), symbols) in values.chunks(WORD_VALUES).zip(base.chunks(WORD_VALUES)).zip(symbols) {
        let (mut lows, mut counts) = ([0; WORD_VALUES], [0; WORD_VALUES]);
        for (i, (value, base)) in values.iter().zip(base).enumerate() {
            let (value, base) = (array(value), array(base));
            let difference = difference(value, base, WIDTH, how.xor).wrapping_sub(how.less) & mask_of(WIDTH);
            let count = how.low_bits(base, WIDTH);
            let high = difference >> count;
            (lows[i], counts[i]) = (difference ^ high << count, count);
            symbols[i] = high.min(u32::from(LARGE)) as u8;
            if symbols[i] == LARGE {
                out.large[out.large_len..][..WIDTH].copy_from_slice(&high.to_le_bytes()[..WIDTH]);
                out.large_len += WIDTH;
            }
        }
        let (lows, counts) = (&lows[..values.len()], &counts[..values.len()]);
        let (whole, most) = range(counts);
        for byte in 0..whole {
            for (low, out) in lows.iter().zip(&mut out.bytes[out.bytes_len..]) {
                *out = (low >> (8 * byte)) as u8;
            }
            out.bytes_len += lows.len();
        }
        for plane in 8 * whole..most {
            for (low, _) in lows.iter().zip(counts).filter(|(_, count)| **count > plane) {
                out.bits.push(u64::from(low >> plane & 1), 1);
            }
        }
    }
}

/// How many low bytes all of these have, and the most low bits.
fn range(counts: &[u32]) -> (u32, u32) {
    (counts.iter().min().map_or(0, |least| least / 8), counts.iter().max().copied().unwrap_or(0))
}

pub fn delta_join(width: usize, base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) {
    join_from(0, width, base, how, from, out);
}

/// The values from the one with number `first` on, a multiple of [`WORD_VALUES`].
pub fn join_from(first: usize, width: usize, base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) {
    match width {
        1 => join_width::<1>(first, base, how, from, out),
        2 => join_width::<2>(first, base, how, from, out),
        _ => join_width::<4>(first, base, how, from, out),
    }
}

fn join_width<const WIDTH: usize>(
    first: usize,
    base: &[u8],
    how: How,
    from: &mut JoinFrom<'_>,
    out: &mut [u8],
) {
    let (base, out) = (&base.as_chunks::<WIDTH>().0[first..], &mut out.as_chunks_mut::<WIDTH>().0[first..]);
    let symbols = from.symbols[first..].chunks(WORD_VALUES);
    for ((base, out), symbols) in base.chunks(WORD_VALUES).zip(out.chunks_mut(WORD_VALUES)).zip(symbols) {
        let (mut lows, mut counts) = ([0u32; WORD_VALUES], [0; WORD_VALUES]);
        for (count, base) in counts.iter_mut().zip(base) {
            *count = how.low_bits(array(base), WIDTH);
        }
        let counts = &counts[..base.len()];
        let (whole, most) = range(counts);
        for byte in 0..whole {
            let (bytes, left) = from.bytes.split_at(base.len().min(from.bytes.len()));
            from.failed |= bytes.len() < base.len();
            from.bytes = left;
            for (low, found) in lows.iter_mut().zip(bytes) {
                *low |= u32::from(*found) << (8 * byte);
            }
        }
        for plane in 8 * whole..most {
            for (low, _) in lows.iter_mut().zip(counts).filter(|(_, count)| **count > plane) {
                *low |= (from.bits.take(1) as u32 & 1) << plane;
            }
        }
        for (i, (base, out)) in base.iter().zip(out).enumerate() {
            let mut high = u32::from(symbols[i]);
            if symbols[i] == LARGE {
                let next = from.large.split_off(..WIDTH).and_then(|bytes| bytes.first_chunk::<WIDTH>());
                from.failed |= next.is_none();
                high = next.map_or(0, array);
                from.failed |= high > mask_of(WIDTH) >> counts[i];
            }
            let difference = (high << counts[i] | lows[i]).wrapping_add(how.less) & mask_of(WIDTH);
            let value = apply(difference, array(base), WIDTH, how.xor);
            out.copy_from_slice(&value.to_le_bytes()[..WIDTH]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_comes_back_and_neighbours_differ_by_little() {
        for width in [1, 2, 4] {
            let mask = mask_of(width);
            let some = [
                0,
                1,
                2,
                0x7f,
                0x80,
                0x81,
                0x3f80,
                0x7fff,
                0x8000,
                0x8001,
                0x7f80_0000,
                0x8000_0000,
                u32::MAX,
            ];
            for (value, base) in some.iter().flat_map(|value| some.map(|base| (value & mask, base & mask))) {
                for xor in [false, true] {
                    let found = difference(value, base, width, xor);
                    assert!(found <= mask && (found == 0) == (value == base));
                    assert_eq!(apply(found, base, width, xor), value);
                }
            }
            let sign = 1 << (8 * width - 1);
            // From +0 to the lowest number above, to -0 and to the highest number below.
            assert_eq!([1, sign, sign + 1].map(|value| difference(value, 0, width, false)), [2, 1, 3]);
        }
        assert_eq!(difference(0x3f81, 0x3f80, 2, false), 2);
        assert_eq!(difference(0xbf81, 0xbf80, 2, false), 1);
    }

    #[test]
    fn bits_come_back_in_their_order() {
        let parts: Vec<(u64, u32)> = (0..300u64)
            .map(|i| {
                let count = (i * 37 % 65) as u32;
                let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (if count == 0 { 0 } else { bits >> (64 - count) }, count)
            })
            .collect();
        let mut bytes = vec![0; 8 * 400];
        let mut writer = BitWriter::new(&mut bytes);
        parts.iter().for_each(|(bits, count)| writer.push(*bits, *count));
        let len = writer.finish();
        assert_eq!(len, parts.iter().map(|(_, count)| *count as usize).sum::<usize>().div_ceil(64) * 8);
        let mut reader = BitReader::new(bytes[..len].as_chunks().0);
        for (bits, count) in parts {
            let mask = if count == 0 { 0 } else { u64::MAX >> (64 - count) };
            assert_eq!(reader.take(count) & mask, bits);
        }
        assert!(reader.is_at_end());
        reader.take(64);
        assert!(!reader.is_at_end());
    }

    #[test]
    fn low_bits_follow_from_the_exponent_of_the_base() {
        let how = How { mantissa: 7, last_exponent: 255, reference: 121, xor: false, less: 0 };
        let exponents = [0, 1, 100, 113, 114, 120, 121, 122, 255];
        let found = exponents.map(|exponent| how.low_bits(exponent << 7 | 0x8005, 2));
        assert_eq!(found, [0, 8, 8, 8, 7, 1, 0, 0, 0]);
    }
}
