//! Tiers, 64 values at a time: a table look-up gives the codes, shuffles from tables bring together what is passed on
//! and put it apart again.

use std::arch::x86_64::*;

use super::super::shuffles::{APART, TOGETHER};
use super::fields::{join_32, split};
use super::vector::{bits, load, load_8_at, load_half, prefetch_far, store, store_8_at};
use crate::kernel::WORD_VALUES;
use crate::kernel::pass::left;
use crate::kernel::tier::{
    self, BIAS, LIST_PAD, PAIR, Tier, check_passed, read_pair, unpack_from, write_pair,
};

const _: () = assert!(LIST_PAD >= 32);

/// How far ahead of their use rests are asked for, in bytes: some pages.
const REST_AHEAD: usize = 1 << 13;

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack_tier(
    list: &mut [u8],
    start: usize,
    mut passed: usize,
    tier: &Tier,
    planes: &mut [u8],
) -> usize {
    assert!(passed <= start, "values are passed on after they have been read");
    let steps = (list.len() - start) / WORD_VALUES;
    let (full, last) = planes.split_at_mut(PAIR * steps);
    // Codes have two bits; here these are the highest ones of their bytes.
    let codes = _mm256_slli_epi16::<6>(_mm256_broadcastsi128_si256(load_half(&tier.codes)));
    let bias = _mm256_set1_epi8(BIAS.cast_signed());
    let other = _mm256_set1_epi8(15);
    let planes_of = |residuals| {
        let number = _mm256_min_epu8(_mm256_add_epi8(residuals, bias), other);
        let codes = _mm256_shuffle_epi8(codes, number);
        (bits(_mm256_add_epi8(codes, codes)), bits(codes))
    };
    for (step, pair) in full.as_chunks_mut::<PAIR>().0.iter_mut().enumerate() {
        let start = start + WORD_VALUES * step;
        let residuals: &[u8; WORD_VALUES] =
            list[start..].first_chunk().expect("the list has as many full steps as the planes");
        let [first, second] = residuals.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let (low, high) = planes_of(load(first));
        let (second_low, second_high) = planes_of(load(second));
        let low = u64::from(low) | u64::from(second_low) << 32;
        let high = u64::from(high) | u64::from(second_high) << 32;
        write_pair(pair, low, high);
        for eight in 0..8 {
            let marks = (low & high) >> (8 * eight) & 0xff;
            // SAFETY: the list has all 64 bytes from `start` on, as `residuals` shows; and `passed` was not above the
            // first `start` and grows by at most 8 when `start + 8 * eight` does: eight bytes from it are in the list.
            unsafe {
                let values = load_8_at(list, start + 8 * eight);
                let shuffle = _mm_cvtsi64_si128(TOGETHER[marks as usize].cast_signed());
                store_8_at(list, passed, _mm_shuffle_epi8(values, shuffle));
            }
            passed += marks.count_ones() as usize;
        }
    }
    tier::pack_tier(list, start + WORD_VALUES * steps, passed, tier, last)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize> {
    check_passed(passed, planes)?;
    let count = list.len().checked_sub(LIST_PAD).expect("padding follows the list");
    let mut source = count.checked_sub(passed).expect("no more is passed on than there is");
    let steps = count / WORD_VALUES;
    let (full, last) = planes.split_at(PAIR * steps);
    let decoder = Decoder::new(tier);
    for (step, pair) in full.as_chunks::<PAIR>().0.iter().enumerate() {
        let (low, high) = read_pair(pair);
        for (half, shift) in [(0, 0), (1, 32)] {
            // SAFETY: `source` began `passed` values before the padding, which has 32 bytes at least, and has moved by the number of
            // marks before these, which are no more than `passed`: `check_passed` has counted all of them.
            let (residuals, used) =
                unsafe { decoder.residuals((low >> shift) as u32, (high >> shift) as u32, list, source) };
            source += used;
            let out = list[WORD_VALUES * step + 32 * half..].first_chunk_mut().expect("the step is full");
            store(out, residuals);
        }
    }
    unpack_from(list, WORD_VALUES * steps, source, tier, last);
    Ok(())
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn split_tier(
    values: &[u8],
    base: u8,
    tier: &Tier,
    rest: &mut [u8],
    planes: &mut [u8],
    list: &mut [u8],
    passed: usize,
) -> usize {
    let list = &mut list[..passed + rest.len()];
    split(values, base, rest, &mut list[passed..]);
    pack_tier(list, passed, passed, tier, planes)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn join_tier(
    passed: &[u8],
    tier: &Tier,
    planes: &[u8],
    rest: &[u8],
    base: u8,
    values: &mut [u8],
) -> usize {
    let decoder = Decoder::new(tier);
    let steps = rest.len() / WORD_VALUES;
    let (values, values_tail) = values.split_at_mut(2 * WORD_VALUES * steps);
    let (rest, rest_tail) = rest.split_at(WORD_VALUES * steps);
    let (planes, planes_tail) = planes.split_at(PAIR * steps);
    let mut used = 0;
    let halves =
        values.as_chunks_mut::<{ 2 * WORD_VALUES }>().0.iter_mut().zip(rest.as_chunks::<WORD_VALUES>().0);
    for ((values, rest), pair) in halves.zip(planes.as_chunks().0) {
        let (low, high) = read_pair(pair);
        // As long as a step at least: what is read of both halves is in it.
        let passed = left(passed, used);
        assert!(passed.len() >= WORD_VALUES, "the padding is as long as a step");
        let mut of_step = 0;
        let rests = rest.as_chunks().0;
        for ((values, rest), shift) in values.as_chunks_mut().0.iter_mut().zip(rests).zip([0, 32]) {
            // SAFETY: at most 32 of the 64 bytes that are there have been used before this half.
            let (residuals, more) =
                unsafe { decoder.residuals((low >> shift) as u32, (high >> shift) as u32, passed, of_step) };
            of_step += more;
            prefetch_far(rest, REST_AHEAD);
            join_32(load(rest), residuals, base, values);
        }
        used += of_step;
    }
    used + tier::join_tier(left(passed, used), tier, planes_tail, rest_tail, base, values_tail)
}

/// Lookup table of codes.
struct Decoder {
    symbols: __m256i,
}

impl Decoder {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn new(tier: &Tier) -> Self {
        Self { symbols: _mm256_set1_epi32(i32::from_le_bytes(tier.symbols)) }
    }

    /// The residuals with these codes, where those that have none are in `list` from `source` on; and how many these
    /// are.
    ///
    /// # Safety
    /// `list` has at least 32 bytes from `source` on.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn residuals(&self, low: u32, high: u32, list: &[u8], source: usize) -> (__m256i, usize) {
        let spread = _mm256_setr_epi8(
            0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
        );
        let select = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
        let bytes = |bits: u32| {
            let bits = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), spread);
            _mm256_cmpeq_epi8(_mm256_and_si256(bits, select), select)
        };
        let (one, two) = (_mm256_set1_epi8(1), _mm256_set1_epi8(2));
        let codes = _mm256_or_si256(_mm256_and_si256(bytes(low), one), _mm256_and_si256(bytes(high), two));
        let all = low & high;
        let mut used = 0;
        let mut next = |eight: u32| {
            let marks = all >> (8 * eight) & 0xff;
            // SAFETY: at most eight are used by each call before this one, and this is the fourth at most.
            let values = unsafe { load_8_at(list, source + used) };
            used += marks.count_ones() as usize;
            _mm_shuffle_epi8(values, _mm_cvtsi64_si128(APART[marks as usize].cast_signed()))
        };
        let (a, b, c, d) = (next(0), next(1), next(2), next(3));
        let passed = _mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b));
        // The symbol of code 3 is 0.
        (_mm256_or_si256(passed, _mm256_shuffle_epi8(self.symbols, codes)), used)
    }
}
