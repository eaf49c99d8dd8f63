//! One pass over values: what is made of them is made from registers, 64 values at a time.

use std::arch::x86_64::*;

use super::sums::Mixer;
use super::tier::{residuals_of, symbols};
use super::vector::{AHEAD, NEAR, Vectors, join_64, load, prefetch, prefetch_far, split_64, store};
use crate::checksum::WORD;
use crate::kernel::pass::{
    FIRST_SYMBOLS, GROUP_BYTES, GROUP_PLANES, Join, Passed, Split, SplitMut, left, passes,
};
use crate::kernel::tier::{PAIR, read_pair, write_pair};
use crate::kernel::{BASE_GROUP, GroupSums, WORD_VALUES};

/// How far ahead of their use rests are asked for, in bytes: some pages.
const REST_AHEAD: usize = 1 << 13;
/// Vectors of exponents in a group.
const GROUP_VECTORS: usize = BASE_GROUP / WORD_VALUES;

/// Passes over the last group, which may be shorter.
mod groups {
    use super::super::{fields, tier};
    use crate::kernel::sums;

    super::passes!(sums by group: false, compiled for "avx512bw,avx512vbmi,avx512vbmi2,popcnt");
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn split_pass(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed {
    match (how.tier, how.streaming) {
        (Some(_), true) => split::<true, true>(values, how, out),
        (Some(_), false) => split::<true, false>(values, how, out),
        (None, true) => split::<false, true>(values, how, out),
        (None, false) => split::<false, false>(values, how, out),
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn split<const TIER: bool, const PAST: bool>(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed {
    let SplitMut { rest, planes, sums: group_sums, list, mut passed } = out;
    debug_assert!(how.tier.is_none_or(|tier| tier.symbols == FIRST_SYMBOLS));
    let (one, two) = (_mm512_set1_epi8(1), _mm512_set1_epi8(2));
    let mut mixer = Mixer::<2>::new(how.word);
    let (groups, tail) = values.as_chunks::<GROUP_BYTES>();
    let (rests, rest_tail) = rest.split_at_mut(BASE_GROUP * groups.len());
    let (group_planes, planes_tail) = planes.split_at_mut(if TIER { GROUP_PLANES * groups.len() } else { 0 });
    let (full, last) = group_sums.split_at_mut(groups.len());
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let mut rests = unsafe { Vectors::<PAST>::new(rests) };
    let mut group_planes = group_planes.as_chunks_mut::<GROUP_PLANES>().0.iter_mut();
    for (values, sums) in groups.iter().zip(full) {
        let mut exponents = [_mm512_setzero_si512(); GROUP_VECTORS];
        let mut sum = _mm512_setzero_si512();
        let mut lowest = _mm512_set1_epi8(-1);
        for (values, exponents) in values.as_chunks::<{ 2 * WORD_VALUES }>().0.iter().zip(&mut exponents) {
            let [first, second] = values.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
            prefetch(first, NEAR);
            prefetch(second, NEAR);
            prefetch_far(first, AHEAD);
            prefetch_far(second, AHEAD);
            let (low, high) = (load(first), load(second));
            mixer.add([low, high]);
            let rest;
            (rest, *exponents) = split_64(low, high);
            rests.write(rest);
            sum = _mm512_add_epi64(sum, _mm512_sad_epu8(*exponents, _mm512_setzero_si512()));
            lowest = _mm512_min_epu8(lowest, *exponents);
        }
        let mut zeros = 0;
        // A value that is +0 has the exponent 0.
        if _mm512_testn_epi8_mask(lowest, lowest) != 0 {
            for values in values.as_chunks().0 {
                zeros += _mm512_testn_epi16_mask(load(values), load(values)).count_ones();
            }
        }
        *sums = GroupSums { exponents: _mm512_reduce_add_epi64(sum) as u32, zeros };
        let base = how.base.unwrap_or_else(|| sums.base(BASE_GROUP as u32, how.eighths));
        let base = _mm512_set1_epi8(base.cast_signed());
        if !TIER {
            for exponents in &exponents {
                let out = list[passed..].first_chunk_mut().expect("the padding follows the list");
                store(out, _mm512_sub_epi8(*exponents, base));
                passed += WORD_VALUES;
            }
            continue;
        }
        let planes = group_planes.next().expect("there are planes for all values");
        for (exponents, pair) in exponents.iter().zip(planes.as_chunks_mut::<PAIR>().0) {
            let residuals = _mm512_sub_epi8(*exponents, base);
            // Of the residuals 0, 1 and 255 the codes are 0, 1 and 2; of all others both bits are set.
            let low = _mm512_cmpge_epu8_mask(_mm512_add_epi8(residuals, one), two);
            let high = _mm512_cmpge_epu8_mask(residuals, two);
            write_pair(pair, low, high);
            let out = list[passed..].first_chunk_mut().expect("the padding follows the list");
            store(out, _mm512_maskz_compress_epi8(low & high, residuals));
            passed += (low & high).count_ones() as usize;
        }
    }
    rests.finish();
    let how = Split { word: word_of(how.word, groups.len()), ..how };
    let out = SplitMut { rest: rest_tail, planes: planes_tail, sums: last, list, passed };
    let Passed { passed, sum } = groups::split_pass(tail, how, out);
    Passed { passed, sum: mixer.sum().wrapping_add(sum) }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn join_pass(coded: Join<'_>, values: &mut [u8]) -> Passed {
    match (coded.tier, coded.streaming) {
        (Some(_), true) => join::<true, true>(coded, values),
        (Some(_), false) => join::<true, false>(coded, values),
        (None, true) => join::<false, true>(coded, values),
        (None, false) => join::<false, false>(coded, values),
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn join<const TIER: bool, const PAST: bool>(coded: Join<'_>, values: &mut [u8]) -> Passed {
    let Join { tier, word, bases, passed, .. } = coded;
    let symbols = match tier {
        Some(tier) => symbols(tier),
        None => [_mm512_setzero_si512(); 3],
    };
    let mut mixer = Mixer::<2>::new(word);
    let groups = values.len() / GROUP_BYTES;
    let (values, tail) = values.split_at_mut(GROUP_BYTES * groups);
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let mut values = unsafe { Vectors::<PAST>::new(values) };
    let (full, last) = bases.split_at(groups);
    let coded_groups = full.iter().flatten().count();
    let (rests, rest) = coded.rest.split_at(BASE_GROUP * coded_groups);
    let (group_planes, planes) = coded.planes.split_at(if TIER { GROUP_PLANES * coded_groups } else { 0 });
    let mut rests = rests.as_chunks::<BASE_GROUP>().0.iter();
    let mut group_planes = group_planes.as_chunks::<GROUP_PLANES>().0.iter();
    let mut used = 0;
    for base in full {
        let Some(base) = base else {
            let zero = _mm512_setzero_si512();
            for _ in 0..GROUP_VECTORS {
                mixer.add([zero, zero]);
                values.write(zero);
                values.write(zero);
            }
            continue;
        };
        let rest = rests.next().expect("there are rests for all groups");
        // The exponents that the symbols stand for, and that of those passed on.
        let base = _mm512_set1_epi8(base.cast_signed());
        let symbols = symbols.map(|symbol| _mm512_add_epi8(symbol, base));
        if !TIER {
            for rest in rest.as_chunks::<WORD_VALUES>().0 {
                prefetch(rest, NEAR);
                prefetch_far(rest, REST_AHEAD);
                let residuals =
                    load(left(passed, used).first_chunk().expect("the padding is as long as a step"));
                used += WORD_VALUES;
                let (low, high) = join_64(load(rest), _mm512_add_epi8(residuals, base));
                mixer.add([low, high]);
                values.write(low);
                values.write(high);
            }
            continue;
        }
        let planes = group_planes.next().expect("there are planes for all groups");
        for (rest, pair) in rest.as_chunks::<WORD_VALUES>().0.iter().zip(planes.as_chunks::<PAIR>().0) {
            prefetch(rest, NEAR);
            prefetch_far(rest, REST_AHEAD);
            let next = load(left(passed, used).first_chunk().expect("the padding is as long as a step"));
            let (exponents, more) = residuals_of(read_pair(pair), _mm512_add_epi8(next, base), &symbols);
            used += more;
            let (low, high) = join_64(load(rest), exponents);
            mixer.add([low, high]);
            values.write(low);
            values.write(high);
        }
    }
    values.finish();
    let word = word_of(word, full.len());
    let coded = Join { word, bases: last, planes, rest, passed: left(passed, used), ..coded };
    let Passed { passed, sum } = groups::join_pass(coded, tail);
    Passed { passed: used + passed, sum: mixer.sum().wrapping_add(sum) }
}

/// The index of the checksum word behind this number of groups.
fn word_of(first: u64, groups: usize) -> u64 {
    first.wrapping_add((groups * GROUP_BYTES / WORD) as u64)
}
