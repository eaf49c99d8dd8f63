//! Values to sign-mantissa bytes, codes and escapes, and back; exponents counted around a window by comparisons with 64 values each,
//! whose masks are counted. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::x86_64::*;

use crate::error::TileFault;
use crate::kernel::window::{
    CODES, COUNTS, EDGES, Escapes, WINDOWS, WindowBounds, neighbours, pack_groups, unpack_groups,
};
use crate::kernel::{
    CODE_GROUP, Coded, CodedMut, ESCAPE, EscapeIndex, EscapeRoom, INDEX_GROUP, Packed, TILE, Unpacked, sums,
};
use crate::scale::WINDOW;
use zipwire_codec::checksum::WORD;
use zipwire_codec::simd::avx512::sums::Mixer;
use zipwire_codec::simd::avx512::vector::{
    AHEAD, NEAR, Vectors, join_64, load, load_part, prefetch, prefetch_far, split_64, store,
};

/// Words of codes of a group: a vector has 16 of a row's 32.
pub(super) type Rows = [[__m512i; 2]; 4];

/// Counts of [`EDGES`], in bytes: a tile, of 128 vectors of codes, does not overflow them.
type Edges = [__m512i; EDGES.len()];

/// Addends of each code for the counts of the first two edges, and of the other two: four bits each.
static ADDENDS: [[u8; 16]; 2] = {
    let mut addends = [[0; 16]; 2];
    addends[0][EDGES[0] as usize] = 0x01;
    addends[0][EDGES[1] as usize] = 0x10;
    addends[1][EDGES[2] as usize] = 0x01;
    addends[1][EDGES[3] as usize] = 0x10;
    addends
};

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(in crate::simd) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    if coded.streaming { pack_to::<true>(values, coded) } else { pack_to::<false>(values, coded) }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pack_to<const PAST: bool>(values: &[u8], coded: CodedMut<'_>) -> Packed {
    match coded.word {
        Some(word) => {
            let mut mixer = Mixer::new(word);
            let packed = pack_mixed::<true, PAST>(values, coded, &mut mixer);
            Packed { sum: mixer.sum().wrapping_add(mixed_tail(values, word)), ..packed }
        }
        None => pack_mixed::<false, PAST>(values, coded, &mut Mixer::new(0)),
    }
}

/// The sum of what is behind the full groups of a tile.
fn mixed_tail(values: &[u8], word: u64) -> u64 {
    let (groups, tail) = values.as_chunks::<{ 2 * CODE_GROUP }>();
    sums::mixed(tail, word.wrapping_add((2 * CODE_GROUP * groups.len() / WORD) as u64))
}

/// Adds the values of full groups to the sum if `SUM`.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pack_mixed<const SUM: bool, const PAST: bool>(
    values: &[u8],
    coded: CodedMut<'_>,
    mixer: &mut Mixer<2>,
) -> Packed {
    let mut edges = [_mm512_setzero_si512(); EDGES.len()];
    let groups = values.len() / (2 * CODE_GROUP);
    let (rests, rest) = coded.rest.split_at_mut(CODE_GROUP * groups);
    let (group_codes, codes) = coded.codes.split_at_mut(CODES * groups);
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let (mut rests, mut group_codes) =
        unsafe { (Vectors::<PAST>::new(rests), Vectors::<PAST>::new(group_codes)) };
    let coded = CodedMut { rest, codes, ..coded };
    let mut packed = pack_groups(values, coded, |values, starts, escapes, index, _| {
        pack_group::<SUM, PAST>(
            values,
            starts,
            &mut rests,
            &mut group_codes,
            escapes,
            index,
            &mut edges,
            mixer,
        );
    });
    rests.finish();
    group_codes.finish();
    for (edge, counts) in packed.edges.iter_mut().zip(edges) {
        let sums = _mm512_sad_epu8(counts, _mm512_setzero_si512());
        *edge += _mm512_reduce_add_epi64(sums) as u32;
    }
    packed
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
#[allow(clippy::too_many_arguments, reason = "all of them are parts of one group")]
fn pack_group<const SUM: bool, const PAST: bool>(
    values: &[u8; 2 * CODE_GROUP],
    starts: [u8; WINDOWS],
    rests: &mut Vectors<'_, PAST>,
    codes: &mut Vectors<'_, PAST>,
    escapes: &mut Escapes<&mut EscapeRoom>,
    index: &mut [u16],
    edges: &mut Edges,
    mixer: &mut Mixer<2>,
) {
    let addends = ADDENDS.map(|addends| _mm512_broadcast_i32x4(_mm512_castsi512_si128(load_part(&addends))));
    let mut rows: Rows = [[_mm512_setzero_si512(); 2]; 4];
    let windows = values.as_chunks::<{ 2 * INDEX_GROUP }>().0.iter();
    let windows = windows.zip(rows.as_chunks_mut::<2>().0);
    for ((values, rows), (start, entry)) in windows.zip(starts.iter().zip(index)) {
        *entry = escapes.count as u16;
        // Eight vectors do not overflow four bits.
        let mut counts = [_mm512_setzero_si512(); 2];
        for (values, row) in values.as_chunks::<256>().0.iter().zip(rows.as_flattened_mut()) {
            let [first, second] = values.as_chunks().0 else { unreachable!("256 bytes are twice 128") };
            let mut pack = |values| {
                let codes = pack_64::<SUM, PAST>(values, *start, rests, escapes, mixer);
                for (count, addends) in counts.iter_mut().zip(addends) {
                    *count = _mm512_add_epi8(*count, _mm512_shuffle_epi8(addends, codes));
                }
                pairs_of(codes)
            };
            let (first, second) = (pack(first), pack(second));
            // Packing leaves eighths of the two by turns.
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            *row = _mm512_permutexvar_epi64(order, _mm512_packus_epi16(first, second));
        }
        let low = _mm512_set1_epi8(0x0f);
        for (edges, count) in edges.as_chunks_mut::<2>().0.iter_mut().zip(counts) {
            edges[0] = _mm512_add_epi8(edges[0], _mm512_and_si512(count, low));
            edges[1] = _mm512_add_epi8(edges[1], _mm512_and_si512(_mm512_srli_epi16::<4>(count), low));
        }
    }
    for plane in 0..3 {
        for (row, last) in rows[plane as usize].iter().zip(rows[3]) {
            let spare = _mm512_and_si512(last, _mm512_set1_epi32(0x1111_1111 << plane));
            let spare = _mm512_sllv_epi32(spare, _mm512_set1_epi32(3 - plane));
            codes.write(_mm512_or_si512(*row, spare));
        }
    }
}

/// Writes the rest of 64 values and their escapes; returns the codes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pack_64<const SUM: bool, const PAST: bool>(
    values: &[u8; 128],
    start: u8,
    rests: &mut Vectors<'_, PAST>,
    escapes: &mut Escapes<&mut EscapeRoom>,
    mixer: &mut Mixer<2>,
) -> __m512i {
    let [low, high] = values.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    prefetch(low, NEAR);
    prefetch_far(low, AHEAD);
    prefetch(high, NEAR);
    prefetch_far(high, AHEAD);
    let (low, high) = (load(low), load(high));
    if SUM {
        mixer.add([low, high]);
    }
    let (rest, exponents) = split_64(low, high);
    rests.write(rest);
    let escape = _mm512_set1_epi8(ESCAPE.cast_signed());
    let codes = _mm512_sub_epi8(exponents, _mm512_set1_epi8(start.cast_signed()));
    let escaped = _mm512_cmpge_epu8_mask(codes, escape);
    // A vector is written, however many there are.
    let out = escapes.exponents[escapes.count..].first_chunk_mut();
    store(
        out.expect("there is room behind a tile's escapes"),
        _mm512_maskz_compress_epi8(escaped, exponents),
    );
    escapes.count += escaped.count_ones() as usize;
    _mm512_min_epu8(codes, escape)
}

/// Codes as nibbles: two to the lower byte of a 16-bit element.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pairs_of(codes: __m512i) -> __m512i {
    // Of each eight codes the even ones, then the odd ones.
    let order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    _mm512_maddubs_epi16(_mm512_shuffle_epi8(codes, order), _mm512_set1_epi16(0x1001))
}

/// How far ahead of their use rests are asked for, in bytes: more than a tile, as something else is between the rests of two.
const REST_AHEAD: usize = 1 << 14;
/// Blocks of 64 values that have a window in common.
const WINDOW_BLOCKS: usize = CODE_GROUP / 64 / WINDOWS;

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(in crate::simd) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    if coded.streaming { unpack_to::<true>(coded, out) } else { unpack_to::<false>(coded, out) }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_to<const PAST: bool>(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    match coded.word {
        Some(word) => {
            let mut mixer = Mixer::new(word);
            let index = unpack_mixed::<true, PAST>(coded, out, &mut mixer)?;
            Ok(Unpacked { index, sum: mixer.sum().wrapping_add(mixed_tail(out, word)) })
        }
        None => Ok(Unpacked { index: unpack_mixed::<false, PAST>(coded, out, &mut Mixer::new(0))?, sum: 0 }),
    }
}

/// Adds the values of full groups to the sum if `SUM`.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_mixed<const SUM: bool, const PAST: bool>(
    coded: Coded<'_>,
    out: &mut [u8],
    mixer: &mut Mixer<2>,
) -> Result<EscapeIndex, TileFault> {
    let groups = out.len() / (2 * CODE_GROUP);
    let (values, tail) = out.split_at_mut(2 * CODE_GROUP * groups);
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let mut values = unsafe { Vectors::<PAST>::new(values) };
    let index = unpack_groups(coded, groups, tail, |starts, rest, codes, escapes, index| {
        unpack_group::<SUM, PAST>(starts, rest, codes, escapes, &mut values, index, mixer);
    });
    values.finish();
    index
}

/// Escapes that are missing count, but what takes their place is of no meaning.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unpack_group<const SUM: bool, const PAST: bool>(
    starts: [u8; WINDOWS],
    rest: &[u8; CODE_GROUP],
    codes: &[u8; CODES],
    escapes: &mut Escapes<&[u8]>,
    values: &mut Vectors<'_, PAST>,
    index: &mut [u16],
    mixer: &mut Mixer<2>,
) {
    let rows = rows_of(codes);
    for (number, rest) in rest.as_chunks::<64>().0.iter().enumerate() {
        if let (0, Some(entry)) = (number % WINDOW_BLOCKS, index.get_mut(number / WINDOW_BLOCKS)) {
            *entry = escapes.count as u16;
        }
        let words = rows[number / 4][number / 2 % 2];
        let words = if number % 2 == 0 {
            _mm512_castsi512_si256(words)
        } else {
            _mm512_extracti64x4_epi64::<1>(words)
        };
        let left = escapes.exponents.get(escapes.count..).unwrap_or(&[]);
        let next = match left.first_chunk() {
            Some(next) => load(next),
            None => load_part(left),
        };
        let (exponents, used) = exponents_of(words, starts[number / WINDOW_BLOCKS], next);
        escapes.count += used;
        prefetch(rest, NEAR);
        prefetch_far(rest, REST_AHEAD);
        let (first, second) = join_64(load(rest), exponents);
        if SUM {
            mixer.add([first, second]);
        }
        values.write(first);
        values.write(second);
    }
}

/// The nibble words of a group.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn rows_of(codes: &[u8; CODES]) -> Rows {
    let codes = codes.as_chunks::<64>().0;
    let mut rows = [[_mm512_setzero_si512(); 2]; 4];
    for column in 0..2 {
        for plane in 0..3 {
            let word = load(&codes[2 * plane + column]);
            rows[plane][column] = _mm512_and_si512(word, _mm512_set1_epi32(0x7777_7777));
            let spare = _mm512_srlv_epi32(word, _mm512_set1_epi32(3 - plane as i32));
            let spare = _mm512_and_si512(spare, _mm512_set1_epi32(0x1111_1111 << plane));
            rows[3][column] = _mm512_or_si512(rows[3][column], spare);
        }
    }
    rows
}

/// The exponents of eight nibble words, where those of escapes are the front of `next`; and how many these are.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn exponents_of(words: __m256i, start: u8, next: __m512i) -> (__m512i, usize) {
    // Where the nibbles of the values are in a word, in bits.
    let nibbles = _mm512_set1_epi64(0x1c0c_1808_1404_1000);
    let codes = _mm512_multishift_epi64_epi8(nibbles, _mm512_cvtepu32_epi64(words));
    let codes = _mm512_and_si512(codes, _mm512_set1_epi8(ESCAPE.cast_signed()));
    let escaped = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(ESCAPE.cast_signed()));
    let exponents = _mm512_add_epi8(codes, _mm512_set1_epi8(start.cast_signed()));
    (_mm512_mask_expand_epi8(exponents, escaped, next), escaped.count_ones() as usize)
}

#[target_feature(enable = "avx512bw,popcnt")]
pub(in crate::simd) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (blocks, tail) = values.as_chunks::<128>();
    let mut sums = [0; COUNTS];
    blocks.iter().for_each(|block| add_block(block, start, &mut sums));
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 128];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_block(&padded, start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of 64 values.
#[inline]
#[target_feature(enable = "avx512bw,popcnt")]
fn add_block(block: &[u8; 128], start: u8, sums: &mut [u32; COUNTS]) {
    let [low, high] = block.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    prefetch(low, 2 * TILE);
    prefetch(high, 2 * TILE);
    let exponent = |values| _mm512_srli_epi16::<8>(_mm512_add_epi16(values, values));
    // In another order, which does not matter.
    let exponents = _mm512_packus_epi16(exponent(load(low)), exponent(load(high)));
    let all = |exponent: u8| _mm512_set1_epi8(exponent.cast_signed());
    sums[0] += _mm512_testn_epi8_mask(exponents, exponents).count_ones();
    sums[1] += _mm512_cmplt_epu8_mask(exponents, all(start)).count_ones();
    sums[2] += _mm512_cmpgt_epu8_mask(exponents, all(start + (WINDOW - 1) as u8)).count_ones();
    for (sum, exponent) in sums[3..].iter_mut().zip(neighbours(start)) {
        *sum += _mm512_cmpeq_epi8_mask(exponents, all(exponent)).count_ones();
    }
}
