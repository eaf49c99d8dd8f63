//! Values to sign-mantissa bytes, codes and escapes. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::x86_64::*;

use super::vector::{load, prefetch, split_64, store};
use crate::kernel::window::{CODES, EDGES, Escapes, WINDOWS, pack_groups};
use crate::kernel::{CodedMut, ESCAPE, EscapeRoom, GROUP, Packed, TILE};

/// From one tile's rest to the next one's in the split layout, and about so in the compact one.
pub(super) const BODY: usize = TILE + TILE / GROUP * CODES;

/// Words of codes of a group: a vector has 16 of a row's 32.
pub(super) type Rows = [[__m512i; 2]; 4];

/// Counts of [`EDGES`].
type Edges = [__m512i; EDGES.len()];

/// Blocks of 64 values that have a window in common.
pub(super) const WINDOW_BLOCKS: usize = GROUP / 64 / WINDOWS;

/// See [`crate::kernel::Kernel::pack`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    // Counters of bytes, which a tile does not overflow: it has 128 vectors of codes.
    let mut edges = [_mm512_setzero_si512(); EDGES.len()];
    let mut packed = pack_groups(values, coded, |values, starts, rest, codes, escapes, index, _| {
        pack_group(values, starts, rest, codes, escapes, index, &mut edges);
    });
    for (edge, counts) in packed.edges.iter_mut().zip(edges) {
        let sums = _mm512_sad_epu8(counts, _mm512_setzero_si512());
        *edge += _mm512_reduce_add_epi64(sums) as u32;
    }
    packed
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pack_group(
    values: &[u8; 2 * GROUP],
    starts: [u8; WINDOWS],
    rest: &mut [u8; GROUP],
    codes: &mut [u8; CODES],
    escapes: &mut Escapes<&mut EscapeRoom>,
    index: &mut [u16],
    edges: &mut Edges,
) {
    let mut rows: Rows = [[_mm512_setzero_si512(); 2]; 4];
    let blocks = values.as_chunks::<256>().0.iter().zip(rest.as_chunks_mut::<128>().0);
    for (number, (values, rest)) in blocks.enumerate() {
        let start = starts[2 * number / WINDOW_BLOCKS];
        if let (0, Some(entry)) = (2 * number % WINDOW_BLOCKS, index.get_mut(2 * number / WINDOW_BLOCKS)) {
            *entry = escapes.count as u16;
        }
        let [first, second] = values.as_chunks().0 else { unreachable!("256 bytes are twice 128") };
        let [first_rest, second_rest] = rest.as_chunks_mut().0 else {
            unreachable!("128 bytes are twice 64")
        };
        let first = pack_64(first, start, first_rest, escapes, edges);
        let second = pack_64(second, start, second_rest, escapes, edges);
        // Packing leaves eighths of the two by turns.
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        rows[number / 2][number % 2] = _mm512_permutexvar_epi64(order, _mm512_packus_epi16(first, second));
    }
    let codes = codes.as_chunks_mut::<64>().0;
    for plane in 0..3 {
        for column in 0..2 {
            let spare = _mm512_and_si512(rows[3][column], _mm512_set1_epi32(0x1111_1111 << plane));
            let spare = _mm512_sllv_epi32(spare, _mm512_set1_epi32(3 - plane));
            let plane = plane as usize;
            store(&mut codes[2 * plane + column], _mm512_or_si512(rows[plane][column], spare));
        }
    }
}

/// Writes the rest of 64 values and their escapes, counts edges; returns the codes, two to the lower byte of a 16-bit
/// element.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn pack_64(
    values: &[u8; 128],
    start: u8,
    rest: &mut [u8; 64],
    escapes: &mut Escapes<&mut EscapeRoom>,
    edges: &mut Edges,
) -> __m512i {
    let [low, high] = values.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    prefetch(low, 2 * TILE);
    prefetch(high, 2 * TILE);
    prefetch(rest, BODY);
    let (rests, exponents) = split_64(load(low), load(high));
    store(rest, rests);
    let escape = _mm512_set1_epi8(ESCAPE.cast_signed());
    let codes = _mm512_sub_epi8(exponents, _mm512_set1_epi8(start.cast_signed()));
    let escaped = _mm512_cmpge_epu8_mask(codes, escape);
    // A vector is written, however many there are.
    let out =
        escapes.exponents[escapes.count..].first_chunk_mut().expect("there is room behind a tile's escapes");
    store(out, _mm512_maskz_compress_epi8(escaped, exponents));
    escapes.count += escaped.count_ones() as usize;
    for (counts, code) in edges.iter_mut().zip(EDGES) {
        let equal = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(code.cast_signed()));
        *counts = _mm512_mask_add_epi8(*counts, equal, *counts, _mm512_set1_epi8(1));
    }

    // Of each eight codes the even ones, then the odd ones; of these, pairs to bytes.
    let order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    let codes = _mm512_shuffle_epi8(_mm512_min_epu8(codes, escape), order);
    _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x1001))
}
