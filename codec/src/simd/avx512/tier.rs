//! Tiers, 64 values at a time: comparisons give the codes, what is passed on is compressed and expanded.

use std::arch::x86_64::*;

use super::vector::{
    AHEAD, first_bits, join_64, load, load_part, prefetch, prefetch_far, split_64, store, store_part,
};
use crate::kernel::pass::left;
use crate::kernel::tier::{LIST_PAD, PAIR, Tier, check_passed, read_pair, write_pair};
use crate::kernel::{TILE, WORD_VALUES};

const _: () = assert!(WORD_VALUES == 64 && LIST_PAD >= WORD_VALUES);

/// The residuals that a tier has codes for, in all bytes of a vector each.
pub(super) type Symbols = [__m512i; 3];

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn symbols(tier: &Tier) -> Symbols {
    let [zero, one, two, _] = tier.symbols;
    [zero, one, two].map(|symbol| _mm512_set1_epi8(symbol.cast_signed()))
}

/// Low and high bits of the codes of 64 residuals.
#[inline]
#[target_feature(enable = "avx512bw")]
fn codes_of(residuals: __m512i, symbols: &Symbols) -> (u64, u64) {
    let [zero, one, two] = symbols.map(|symbol| _mm512_cmpeq_epi8_mask(residuals, symbol));
    let passed = !(zero | one | two);
    (one | passed, two | passed)
}

#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn pack_tier(
    list: &mut [u8],
    start: usize,
    mut passed: usize,
    tier: &Tier,
    planes: &mut [u8],
) -> usize {
    assert!(passed <= start, "values are passed on after they have been read");
    let symbols = symbols(tier);
    let mut position = start;
    for pair in planes.as_chunks_mut::<PAIR>().0 {
        let (residuals, valid) = match list[position..].first_chunk() {
            Some(residuals) => (load(residuals), u64::MAX),
            None => (load_part(&list[position..]), first_bits(list.len() - position)),
        };
        let (low, high) = codes_of(residuals, &symbols);
        let (low, high) = (low & valid, high & valid);
        write_pair(pair, low, high);
        let left = _mm512_maskz_compress_epi8(low & high, residuals);
        // Never behind what has been read: what is written beyond those passed on has been read as well.
        match list[passed..].first_chunk_mut() {
            Some(out) => store(out, left),
            None => store_part(&mut list[passed..], left),
        }
        passed += (low & high).count_ones() as usize;
        position += WORD_VALUES;
    }
    passed
}

#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize> {
    check_passed(passed, planes)?;
    let count = list.len().checked_sub(LIST_PAD).expect("padding follows the list");
    let mut source = count.checked_sub(passed).expect("no more is passed on than there is");
    let symbols = symbols(tier);
    for (step, pair) in planes.as_chunks::<PAIR>().0.iter().enumerate() {
        // The padding makes both whole. What was passed on and is not used yet lies behind what is written: no more can
        // be left of it than of the values.
        let next = load(list[source..].first_chunk().expect("the padding follows what was passed on"));
        let (residuals, used) = residuals_of(read_pair(pair), next, &symbols);
        source += used;
        store(list[WORD_VALUES * step..].first_chunk_mut().expect("the padding follows the list"), residuals);
    }
    Ok(())
}

/// The residuals with these codes, where those that have none are the front of `passed`; and how many these are.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn residuals_of((low, high): (u64, u64), passed: __m512i, symbols: &Symbols) -> (__m512i, usize) {
    let residuals = _mm512_mask_mov_epi8(symbols[0], low, symbols[1]);
    let residuals = _mm512_mask_mov_epi8(residuals, high, symbols[2]);
    let marks = low & high;
    (_mm512_mask_expand_epi8(residuals, marks, passed), marks.count_ones() as usize)
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn split_tier(
    values: &[u8],
    base: u8,
    tier: &Tier,
    rest: &mut [u8],
    planes: &mut [u8],
    list: &mut [u8],
    mut passed: usize,
) -> usize {
    let base = _mm512_set1_epi8(base.cast_signed());
    let symbols = symbols(tier);
    let (steps, tail) = values.as_chunks::<{ 2 * WORD_VALUES }>();
    let (rests, rest_tail) = rest.split_at_mut(WORD_VALUES * steps.len());
    let (pairs, last) = planes.as_chunks_mut::<PAIR>().0.split_at_mut(steps.len());
    let mut step = |residuals, valid, pair| {
        let (low, high) = codes_of(residuals, &symbols);
        let (low, high) = (low & valid, high & valid);
        write_pair(pair, low, high);
        let out = list[passed..].first_chunk_mut().expect("the padding follows the list");
        store(out, _mm512_maskz_compress_epi8(low & high, residuals));
        passed += (low & high).count_ones() as usize;
    };
    for ((values, rest), pair) in steps.iter().zip(rests.as_chunks_mut::<WORD_VALUES>().0).zip(pairs) {
        prefetch_far(values, AHEAD);
        let [first, second] = values.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        prefetch_far(second, AHEAD);
        let (rests, exponents) = split_64(load(first), load(second));
        store(rest, rests);
        step(_mm512_sub_epi8(exponents, base), u64::MAX, pair);
    }
    if let Some(pair) = last.first_mut() {
        let (first, second) = tail.split_at(tail.len().min(64));
        let (rests, exponents) = split_64(load_part(first), load_part(second));
        store_part(rest_tail, rests);
        step(_mm512_sub_epi8(exponents, base), first_bits(rest_tail.len()), pair);
    }
    passed
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn join_tier(
    passed: &[u8],
    tier: &Tier,
    planes: &[u8],
    rest: &[u8],
    base: u8,
    values: &mut [u8],
) -> usize {
    let base = _mm512_set1_epi8(base.cast_signed());
    // The exponents that the symbols stand for, and that of those passed on.
    let symbols = symbols(tier).map(|symbol| _mm512_add_epi8(symbol, base));
    let (steps, tail) = values.as_chunks_mut::<{ 2 * WORD_VALUES }>();
    let (rests, rest_tail) = rest.split_at(WORD_VALUES * steps.len());
    let (pairs, last) = planes.as_chunks::<PAIR>().0.split_at(steps.len());
    let mut used = 0;
    let mut step = |rest, pair| {
        let next = load(left(passed, used).first_chunk().expect("the padding is as long as a step"));
        let (exponents, more) = residuals_of(read_pair(pair), _mm512_add_epi8(next, base), &symbols);
        used += more;
        join_64(rest, exponents)
    };
    for ((values, rest), pair) in steps.iter_mut().zip(rests.as_chunks::<WORD_VALUES>().0).zip(pairs) {
        prefetch(rest, TILE);
        let [first, second] = values.as_chunks_mut().0 else { unreachable!("128 bytes are twice 64") };
        let (low, high) = step(load(rest), pair);
        store(first, low);
        store(second, high);
    }
    if let Some(pair) = last.first() {
        let (low, high) = step(load_part(rest_tail), pair);
        let (first, second) = tail.split_at_mut(tail.len().min(64));
        store_part(first, low);
        store_part(second, high);
    }
    used
}
