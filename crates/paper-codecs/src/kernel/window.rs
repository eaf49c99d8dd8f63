//! Values to sign-mantissa bytes, 3-bit codes and escapes, and back.
//!
//! Eight consecutive values give a *nibble word*: their codes in natural order are the nibbles 0, 4, 1, 5, 2, 6, 3, 7,
//! so the even values are in the low half. A group of `32 * lanes` values has `4 * lanes` nibble words in four rows.
//! A code takes three bits of its nibble; the words of the last row lose theirs to the spare bits of the other three.

use super::{
    CODE_GROUP, Coded, CodedMut, ESCAPE, EscapeIndex, EscapeRoom, INDEX_GROUP, Packed, TILE, Unpacked, sums,
};
use crate::error::TileFault;
use crate::scale::{LAST_START, WINDOW};

/// Nibble words of a group.
const WORDS: usize = CODE_GROUP / 8;
/// Bytes of the codes of a full group.
pub(crate) const CODES: usize = CODE_GROUP / 8 * 3;
/// The codes that are counted, because a window one further would lose them or be proved worse by them.
pub(crate) const EDGES: [u8; 4] = [0, 1, 5, 6];
/// Windows of a group, each of [`INDEX_GROUP`] values.
pub(crate) const WINDOWS: usize = CODE_GROUP / INDEX_GROUP;

pub(crate) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    let sum = coded.word.map_or(0, |word| sums::mixed(values, word));
    let CodedMut { rest, codes, .. } = coded;
    let (rests, rest) = rest.as_chunks_mut::<CODE_GROUP>();
    let (group_codes, codes) = codes.split_at_mut(CODES * rests.len());
    let mut full = rests.iter_mut().zip(group_codes.as_chunks_mut::<CODES>().0);
    let coded = CodedMut { rest, codes, ..coded };
    let packed = pack_groups(values, coded, |values, starts, escapes, index, edges| {
        let (rest, codes) = full.next().expect("there is room for all groups");
        pack_group(values, starts, rest, codes, escapes, index, edges);
    });
    Packed { sum, ..packed }
}

/// Codes full groups with `full`, as [`pack_group`], and what is left with the latter: rest and codes of `coded` are those of
/// what is left. Sums nothing.
#[inline(always)]
pub(crate) fn pack_groups(
    values: &[u8],
    coded: CodedMut<'_>,
    mut full: impl FnMut(
        &[u8; 2 * CODE_GROUP],
        [u8; WINDOWS],
        &mut Escapes<&mut EscapeRoom>,
        &mut [u16],
        &mut [u32; 4],
    ),
) -> Packed {
    let mut index = [0; TILE / INDEX_GROUP];
    let mut edges = [0; 4];
    let mut starts = coded.starts.as_chunks::<WINDOWS>().0.iter().copied();
    let mut escapes = Escapes { count: 0, exponents: coded.escapes };
    let mut indexes = index.chunks_mut(WINDOWS);
    let (groups, values) = values.as_chunks::<{ 2 * CODE_GROUP }>();
    let (rest, codes) = (coded.rest, coded.codes);
    // Indexes and windows come last: what has no partner there is not taken from the others.
    for ((values, index), starts) in groups.iter().zip(&mut indexes).zip(&mut starts) {
        full(values, starts, &mut escapes, index, &mut edges);
    }
    if let (false, Some(index), Some(starts)) = (values.is_empty(), indexes.next(), starts.next()) {
        // Absent values have code 0, that of the first exponent of the window.
        let mut padded_rest = [0; CODE_GROUP];
        let mut padded = [0; 2 * CODE_GROUP];
        for (padded, start) in padded.chunks_mut(2 * INDEX_GROUP).zip(starts) {
            padded.as_chunks_mut::<2>().0.fill((u16::from(start) << 7).to_le_bytes());
        }
        padded[..values.len()].copy_from_slice(values);
        let count = rest.len().next_multiple_of(32);
        let (padded, padded_rest) = (&padded[..2 * count], &mut padded_rest[..count]);
        pack_group(padded, starts, padded_rest, codes, &mut escapes, index, &mut edges);
        edges[0] -= (count - rest.len()) as u32;
        rest.copy_from_slice(&padded_rest[..rest.len()]);
    }
    Packed { escapes: escapes.count, index, edges, sum: 0 }
}

pub(crate) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    let (groups, tail) = out.as_chunks_mut::<{ 2 * CODE_GROUP }>();
    let mut full = groups.iter_mut();
    let index = unpack_groups(coded, full.len(), tail, |starts, rest, codes, escapes, index| {
        unpack_group(starts, rest, codes, escapes, full.next().expect("there is room for all groups"), index);
    })?;
    Ok(Unpacked { index, sum: coded.word.map_or(0, |word| sums::mixed(out, word)) })
}

/// Decodes the full groups with `full`, which does as [`unpack_group`], and the last, partial one with the latter, to `out`.
#[inline(always)]
pub(crate) fn unpack_groups(
    coded: Coded<'_>,
    groups: usize,
    out: &mut [u8],
    mut full: impl FnMut([u8; WINDOWS], &[u8; CODE_GROUP], &[u8; CODES], &mut Escapes<&[u8]>, &mut [u16]),
) -> Result<EscapeIndex, TileFault> {
    let mut index = [0; TILE / INDEX_GROUP];
    let mut starts = coded.starts.as_chunks::<WINDOWS>().0.iter().copied();
    let mut escapes = Escapes { count: 0, exponents: coded.escapes };
    let mut indexes = index.chunks_mut(WINDOWS);
    let (rests, rest) = coded.rest.as_chunks::<CODE_GROUP>();
    // What is left can have as many codes as a group.
    let (all_codes, codes) = coded.codes.split_at(CODES * groups);
    let groups = rests.iter().zip(all_codes.as_chunks().0);
    for (((rest, codes), index), starts) in groups.zip(&mut indexes).zip(&mut starts) {
        full(starts, rest, codes, &mut escapes, index);
    }
    if let (false, Some(index), Some(starts)) = (out.is_empty(), indexes.next(), starts.next()) {
        let mut padded_rest = [0; CODE_GROUP];
        let mut padded = [0; 2 * CODE_GROUP];
        padded_rest[..rest.len()].copy_from_slice(rest);
        let count = rest.len().next_multiple_of(32);
        let (padded, padded_rest) = (&mut padded[..2 * count], &padded_rest[..count]);
        let words = unpack_group(starts, padded_rest, codes, &mut escapes, padded, index);
        out.copy_from_slice(&padded[..out.len()]);
        if (rest.len()..count).any(|absent| code_of(&words, absent) != 0) {
            return Err(TileFault::Padding);
        }
    }
    if escapes.count != escapes.exponents.len() {
        return Err(TileFault::EscapeCount { expected: escapes.exponents.len(), found: escapes.count });
    }
    Ok(index)
}

/// The escapes of a tile, and how many of them the groups so far have had.
pub(crate) struct Escapes<T> {
    pub(crate) count: usize,
    pub(crate) exponents: T,
}

/// A group of a multiple of 32 values; `index` has the one or two entries of the group. `edges` are counted further.
#[inline]
fn pack_group(
    values: &[u8],
    starts: [u8; WINDOWS],
    rest: &mut [u8],
    codes: &mut [u8],
    escapes: &mut Escapes<&mut EscapeRoom>,
    index: &mut [u16],
    edges: &mut [u32; 4],
) {
    // Loops of one idea each, over bytes and 16-bit values: compilers turn them into vector code.
    let mut value_codes = [0; CODE_GROUP];
    let windows = values.chunks(2 * INDEX_GROUP).zip(rest.chunks_mut(INDEX_GROUP)).zip(starts);
    for (((values, rest), start), codes) in windows.zip(value_codes.chunks_mut(INDEX_GROUP)) {
        for ((value, rest), code) in values.as_chunks::<2>().0.iter().zip(rest).zip(codes) {
            let value = u16::from_le_bytes(*value);
            *rest = ((value >> 8) & 0x80 | value & 0x7f) as u8;
            *code = ((value >> 7) as u8).wrapping_sub(start).min(ESCAPE);
        }
    }
    let present = &value_codes[..values.len() / 2];
    for (edge, edge_code) in edges.iter_mut().zip(EDGES) {
        *edge += u32::from(present.iter().map(|code| u16::from(*code == edge_code)).sum::<u16>());
    }
    let mut words = [0; WORDS];
    let mut escaped = [0; WORDS];
    for ((codes, word), escaped) in value_codes.as_chunks::<8>().0.iter().zip(&mut words).zip(&mut escaped) {
        let codes = u64::from_le_bytes(*codes);
        *word = word_of(codes);
        *escaped = escaped_of(codes);
    }

    let lanes = rest.len() / 32;
    let (rows, last) = words[..4 * lanes].split_at(3 * lanes);
    for (plane, row) in rows.chunks(lanes).enumerate() {
        let (spare, distance) = (0x1111_1111 << plane, 3 - plane);
        let out = &mut codes.as_chunks_mut::<4>().0[plane * lanes..];
        for ((out, word), last) in out.iter_mut().zip(row).zip(last) {
            *out = (word | (last & spare) << distance).to_le_bytes();
        }
    }

    for_each_escape(&escaped, &mut escapes.count, index, |position, number| {
        escapes.exponents[number] = values[2 * position] >> 7 | values[2 * position + 1] << 1;
    });
}

/// The inverse of [`pack_group`]; returns the nibble words. Escapes that are missing count, but change nothing.
#[inline]
fn unpack_group(
    starts: [u8; WINDOWS],
    rest: &[u8],
    codes: &[u8],
    escapes: &mut Escapes<&[u8]>,
    out: &mut [u8],
    index: &mut [u16],
) -> [u32; WORDS] {
    let lanes = rest.len() / 32;
    let mut words = [0; WORDS];
    let (rows, last) = words[..4 * lanes].split_at_mut(3 * lanes);
    for (plane, row) in rows.chunks_mut(lanes).enumerate() {
        let (spare, distance) = (0x1111_1111 << plane, 3 - plane);
        let codes = &codes.as_chunks::<4>().0[plane * lanes..];
        for ((word, last), code) in row.iter_mut().zip(&mut *last).zip(codes) {
            let code = u32::from_le_bytes(*code);
            *word = code & 0x7777_7777;
            *last |= (code >> distance) & spare;
        }
    }

    let mut value_codes = [0; CODE_GROUP];
    let mut escaped = [0; WORDS];
    for ((codes, word), escaped) in
        value_codes.as_chunks_mut::<8>().0.iter_mut().zip(&words).zip(&mut escaped)
    {
        let word = codes_of(*word);
        *escaped = escaped_of(word);
        *codes = word.to_le_bytes();
    }
    // The exponent of an escape is not valid yet.
    let windows = out.chunks_mut(2 * INDEX_GROUP).zip(rest.chunks(INDEX_GROUP)).zip(starts);
    for (((out, rest), start), codes) in windows.zip(value_codes.chunks(INDEX_GROUP)) {
        for ((value, rest), code) in out.as_chunks_mut::<2>().0.iter_mut().zip(rest).zip(codes) {
            let (rest, exponent) = (u16::from(*rest), u16::from(code.wrapping_add(start)));
            *value = ((rest & 0x80) << 8 | exponent << 7 | rest & 0x7f).to_le_bytes();
        }
    }

    for_each_escape(&escaped, &mut escapes.count, index, |position, number| {
        if let Some(exponent) = escapes.exponents.get(number) {
            out[2 * position] = (rest[position] & 0x7f) | (exponent << 7);
            out[2 * position + 1] = (rest[position] & 0x80) | (exponent >> 1);
        }
    });
    words
}

/// Calls `visit(position in the group, number in the tile)` for each escape of a group, counts them, and writes the
/// group's entries of the escape index. `escaped` has a bit for each value.
#[inline(always)]
fn for_each_escape(
    escaped: &[u8; WORDS],
    count: &mut usize,
    index: &mut [u16],
    mut visit: impl FnMut(usize, usize),
) {
    const INDEX_WORDS: usize = INDEX_GROUP / 64;
    let mut number = *count;
    for (i, chunk) in escaped.as_chunks::<8>().0.iter().enumerate() {
        if let (0, Some(entry)) = (i % INDEX_WORDS, index.get_mut(i / INDEX_WORDS)) {
            *entry = number as u16;
        }
        let mut bits = u64::from_le_bytes(*chunk);
        while bits != 0 {
            visit(64 * i + bits.trailing_zeros() as usize, number);
            number += 1;
            bits &= bits - 1;
        }
    }
    *count = number;
}

/// The code of the value at `position`.
fn code_of(words: &[u32; WORDS], position: usize) -> u32 {
    let nibble = position % 8 / 2 + position % 2 * 4;
    words[position / 8] >> (4 * nibble) & 7
}

/// The nibble word of eight codes, a byte each.
#[inline(always)]
fn word_of(codes: u64) -> u32 {
    // Bytes 0, 2, 1, 3 to the nibbles 0 to 3, and bytes 4, 6, 5, 7 to the nibbles 8 to 11.
    let pairs = codes | codes >> 12;
    let (low, high) = (pairs as u32, (pairs >> 32) as u32);
    low & 0x77 | (high & 0x77) << 8 | (low & 0x7700) << 8 | (high & 0x7700) << 16
}

/// The inverse of [`word_of`].
#[inline(always)]
fn codes_of(word: u32) -> u64 {
    let low = word & 0x77 | word >> 8 & 0x7700;
    let high = word >> 8 & 0x77 | word >> 16 & 0x7700;
    let pairs = u64::from(low) | u64::from(high) << 32;
    (pairs | pairs << 12) & 0x0707_0707_0707_0707
}

/// A bit for each of eight codes, a byte each, that is an escape.
#[inline(always)]
fn escaped_of(codes: u64) -> u8 {
    let escaped = codes & codes >> 1 & codes >> 2 & 0x0101_0101_0101_0101;
    // Moves bit 8 i to bit 56 + i.
    (escaped.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Counts that a kernel makes, see [`WindowBounds::of_counts`].
pub(crate) const COUNTS: usize = 9;

/// The exponents in and around the window from `start` that are counted one by one, modulo 256.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "for kernels that count by comparing")
)]
pub(crate) fn neighbours(start: u8) -> [u8; COUNTS - 3] {
    [start.wrapping_sub(1), start, start + 1, start + 5, start + 6, start.wrapping_add(7)]
}

/// Exponents of a tile, counted in and around a window: a proof that it is the best, from less than a histogram.
///
/// A window is compared with those one further by exact counts, and with all others by bounds: a window that lies
/// `k >= 2` further up loses at least the two lowest exponents, and wins at most all values above. Where the bounds do
/// not decide, a histogram has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowBounds {
    /// First exponent of the window.
    pub(crate) start: u8,
    /// Number of values.
    pub(crate) values: u32,
    /// Values with exponent 0, in the window or not.
    pub(crate) zeros: u32,
    /// Values with exponents below the window.
    pub(crate) below: u32,
    /// Values with exponents above the window.
    pub(crate) above: u32,
    /// Values with exponent `start - 1`, `start` and `start + 1`; none where there is no such exponent.
    pub(crate) low: [u32; 3],
    /// Values with exponent `start + 5`, `start + 6` and `start + 7`; none where there is no such exponent.
    pub(crate) high: [u32; 3],
}

/// Conclusion from [`WindowBounds`] about its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No other window covers more values, and none that begins lower covers as many. So many are outside.
    Best(usize),
    /// The window that begins here is better.
    Better(u8),
    /// The counts do not decide.
    Unknown,
}

impl WindowBounds {
    /// The counts of values with exponent 0, below the window, above it, and with each of [`neighbours`].
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "for kernels that count by comparing")
    )]
    pub(crate) fn of_counts(start: u8, values: usize, counts: [u32; COUNTS]) -> Self {
        let [zeros, below, above, before, first, second, sixth, last, behind] = counts;
        Self {
            start,
            values: values as u32,
            zeros,
            below,
            above,
            // There is no exponent -1, and no 256: these comparisons were with 255 and 0.
            low: [if start == 0 { 0 } else { before }, first, second],
            high: [sixth, last, if start == LAST_START { 0 } else { behind }],
        }
    }

    /// The counts of a tile of `values` values that is packed with one window and has these escapes.
    pub(crate) fn of_packed(start: u8, values: usize, edges: [u32; 4], escapes: &[u8]) -> Self {
        let equal = |exponent: u8| escapes.iter().map(|escape| u32::from(*escape == exponent)).sum();
        let [first, second, sixth, last] = edges;
        let below = escapes.iter().map(|escape| u32::from(*escape < start)).sum();
        Self {
            start,
            values: values as u32,
            zeros: if start == 0 { first } else { equal(0) },
            below,
            above: escapes.len() as u32 - below,
            low: [start.checked_sub(1).map_or(0, equal), first, second],
            high: [sixth, last, start.checked_add(WINDOW as u8).map_or(0, equal)],
        }
    }

    /// Whether the window is the best.
    pub(crate) fn verdict(&self) -> Verdict {
        let Self { start, low: [before, first, second], high: [sixth, last, behind], .. } = *self;
        // Of equal windows the lowest wins.
        if start > 0 && before >= last {
            return Verdict::Better(start - 1);
        }
        if start < LAST_START && behind > first {
            return Verdict::Better(start + 1);
        }
        let outside = self.below + self.above;
        let covered = self.values - outside;
        // Exponent 0 is frequent where values are exactly zero, and only the window from 0 has it. That window loses
        // everything if it does not overlap with this one.
        let lowest_loses = if start >= 7 { covered } else { sixth + last };
        let lower_lose = start < 2 || (self.below - self.zeros < sixth + last && self.below < lowest_loses);
        let higher_lose = self.above <= first + second;
        if lower_lose && higher_lose { Verdict::Best(outside as usize) } else { Verdict::Unknown }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::scale::{best_start, covered};

    /// The definition.
    pub(crate) fn bounds_of(histogram: &[u32; 256], start: u8) -> WindowBounds {
        let first = usize::from(start);
        let count = |exponent: Option<usize>| exponent.and_then(|e| histogram.get(e)).copied().unwrap_or(0);
        WindowBounds {
            start,
            values: histogram.iter().sum(),
            zeros: histogram[0],
            below: histogram[..first].iter().sum(),
            above: histogram[first + WINDOW..].iter().sum(),
            low: [first.checked_sub(1), Some(first), Some(first + 1)].map(count),
            high: [first + 5, first + 6, first + 7].map(|exponent| count(Some(exponent))),
        }
    }

    #[test]
    fn a_verdict_is_true_of_every_window_of_any_histogram() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut decided = 0;
        for case in 0..if cfg!(miri) { 30 } else { 20_000 } {
            let mut histogram = [0u32; 256];
            let (centre, width) = (rng.random_range(0..256), rng.random_range(1..14));
            for _ in 0..rng.random_range(0..60) {
                let spread = rng.random_range(0..width) + rng.random_range(0..width);
                histogram[(centre + spread).min(255)] += rng.random_range(0..4);
            }
            histogram[0] += [0, 0, 9, 90][case % 4];
            histogram[255] += [0, 0, 0, 0, 1, 60][case % 6];
            let best = best_start(&histogram);
            let total: u32 = histogram.iter().sum();
            for start in (0..=LAST_START).step_by(if cfg!(miri) { 83 } else { 1 }) {
                match bounds_of(&histogram, start).verdict() {
                    Verdict::Best(outside) => {
                        decided += 1;
                        assert_eq!(start, best, "{histogram:?}");
                        assert_eq!(outside as u32, total - covered(&histogram, start));
                    }
                    Verdict::Better(other) => {
                        let gain =
                            i64::from(covered(&histogram, other)) - i64::from(covered(&histogram, start));
                        assert!(gain > 0 || (gain == 0 && other < start), "{start} {other} {histogram:?}");
                    }
                    Verdict::Unknown => {}
                }
            }
        }
        assert!(cfg!(miri) || decided > 5000, "only {decided} of 20000 are decided");
    }

    #[test]
    fn packing_counts_what_the_definition_says() {
        let histogram: [u32; 256] = std::array::from_fn(|exponent| 7 + exponent as u32 % 5);
        let values: u32 = histogram.iter().sum();
        for start in (0..=LAST_START).step_by(if cfg!(miri) { 83 } else { 1 }) {
            let window = usize::from(start)..usize::from(start) + WINDOW;
            let escapes: Vec<u8> = (0..=255)
                .filter(|exponent| !window.contains(&usize::from(*exponent)))
                .flat_map(|exponent| vec![exponent; histogram[usize::from(exponent)] as usize])
                .collect();
            let edges = crate::kernel::window::EDGES.map(|code| histogram[usize::from(start + code)]);
            let window_bounds = WindowBounds::of_packed(start, values as usize, edges, &escapes);
            assert_eq!(window_bounds, bounds_of(&histogram, start), "{start}");
        }
    }
}
