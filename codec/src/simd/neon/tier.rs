//! Tiers, 64 values at a time: a table look-up gives the codes, shuffles from tables bring together what is passed on
//! and put it apart again.

use std::arch::aarch64::*;

use super::super::shuffles::{APART, TOGETHER};
use super::vector::{
    exponents, join_16, load, load_8_at, load_values, rests, store, store_8_at, store_half, store_values,
    word,
};
use crate::kernel::WORD_VALUES;
use crate::kernel::pass::left;
use crate::kernel::tier::{self, BIAS, LIST_PAD, PAIR, PASSED, Tier, check_passed, unpack_from};

const _: () = assert!(WORD_VALUES == 64 && LIST_PAD >= WORD_VALUES);

/// Vectors of a step.
const VECTORS: usize = WORD_VALUES / 16;
/// Multiplied with eight bytes, it gives the sums of the first of them, of the first two, and so on.
const SUMS: u64 = 0x0101_0101_0101_0101;

/// The planes of a step, eight bytes of low bits of codes and eight of high ones.
#[derive(Clone, Copy)]
struct Planes {
    low: uint8x8_t,
    high: uint8x8_t,
}

impl Planes {
    #[inline]
    #[target_feature(enable = "neon")]
    fn read(pair: &[u8; PAIR]) -> Self {
        let pair = load(pair);
        Self { low: vget_low_u8(pair), high: vget_high_u8(pair) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn write(self, pair: &mut [u8; PAIR]) {
        let [low, high] = pair.as_chunks_mut().0 else { unreachable!("16 bytes are twice 8") };
        store_half(low, self.low);
        store_half(high, self.high);
    }

    /// From bytes for four values each: low bits in the low half, high bits in the high half.
    #[inline]
    #[target_feature(enable = "neon")]
    fn of_fours(fours: uint8x16_t) -> Self {
        let (even, odd) = (vget_low_u8(vuzp1q_u8(fours, fours)), vget_low_u8(vuzp2q_u8(fours, fours)));
        Self { low: vsli_n_u8::<4>(even, odd), high: vsri_n_u8::<4>(odd, even) }
    }

    /// The inverse.
    #[inline]
    #[target_feature(enable = "neon")]
    fn fours(self) -> uint8x16_t {
        let (even, odd) = (vsli_n_u8::<4>(self.low, self.high), vsri_n_u8::<4>(self.high, self.low));
        let (even, odd) = (vcombine_u8(even, even), vcombine_u8(odd, odd));
        vzip1q_u8(even, odd)
    }

    /// Marks of the values that are passed on.
    #[inline]
    #[target_feature(enable = "neon")]
    fn marks(self) -> Marks {
        let both = vand_u8(self.low, self.high);
        Marks { marks: word(both), sums: word(vcnt_u8(both)).wrapping_mul(SUMS) }
    }
}

/// Marks of the values that are passed on, of 64.
#[derive(Clone, Copy)]
struct Marks {
    /// A bit for each.
    marks: u64,
    /// How many are marked up to the end of each eight, a byte each: at most 64, so that no byte runs over.
    sums: u64,
}

impl Marks {
    /// The number of the shuffle of the eight with this number.
    #[inline(always)]
    fn shuffle(self, eight: usize) -> usize {
        (self.marks >> (8 * eight) & 0xff) as usize
    }

    /// How many are marked before this eight: at most `8 * eight`.
    #[inline(always)]
    fn before(self, eight: usize) -> usize {
        (self.sums << 8 >> (8 * eight) & 0xff) as usize
    }

    #[inline(always)]
    fn count(self) -> usize {
        (self.sums >> 56) as usize
    }
}

/// Lookup table of residuals.
struct Encoder {
    /// For each number, all bits of the lower half that its code has not in the low bit, and of the higher half for the high bit. What
    /// is 16 or more is looked up as 0, which says that it is passed on.
    absent: uint8x16_t,
    bias: uint8x16_t,
}

impl Encoder {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(tier: &Tier) -> Self {
        let absent = tier.codes.map(|code| {
            let absent = code ^ PASSED;
            0x0f * (absent & 1) + 0xf0 * (absent >> 1)
        });
        Self { absent: load(&absent), bias: vdupq_n_u8(BIAS) }
    }

    /// The planes of the residuals.
    #[inline]
    #[target_feature(enable = "neon")]
    fn planes(&self, residuals: [uint8x16_t; VECTORS]) -> Planes {
        let select = vreinterpretq_u8_u32(vdupq_n_u32(u32::from_le_bytes([0x11, 0x22, 0x44, 0x88])));
        let [a, b, c, d] = residuals.map(|residuals| {
            let absent = vqtbl1q_u8(self.absent, vaddq_u8(residuals, self.bias));
            vbicq_u8(select, absent)
        });
        // Sums of two values, then of four.
        Planes::of_fours(vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d)))
    }

    /// Writes the planes of a step, and what it passes on, to `list` from `passed` on; returns how many these are.
    ///
    /// # Safety
    /// `list` has at least 64 bytes from `passed` on.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn encode(
        &self,
        residuals: [uint8x16_t; VECTORS],
        pair: &mut [u8; PAIR],
        list: &mut [u8],
        passed: usize,
    ) -> usize {
        let planes = self.planes(residuals);
        planes.write(pair);
        let marks = planes.marks();
        for (number, residuals) in residuals.into_iter().enumerate() {
            for (half, eight) in
                [vget_low_u8(residuals), vget_high_u8(residuals)].into_iter().zip(2 * number..)
            {
                let shuffle = vcreate_u8(TOGETHER[marks.shuffle(eight)]);
                let together = vqtbl1_u8(vcombine_u8(half, half), shuffle);
                // SAFETY: at most `8 * eight` are marked before this eight, which is the last of eight at most: these bytes end 64
                // behind `passed` or before.
                unsafe { store_8_at(list, passed + marks.before(eight), together) };
            }
        }
        marks.count()
    }
}

#[target_feature(enable = "neon")]
pub(super) fn pack_tier(
    list: &mut [u8],
    start: usize,
    mut passed: usize,
    tier: &Tier,
    planes: &mut [u8],
) -> usize {
    assert!(passed <= start, "values are passed on after they have been read");
    let encoder = Encoder::new(tier);
    let steps = (list.len() - start) / WORD_VALUES;
    let (full, last) = planes.split_at_mut(PAIR * steps);
    for (step, pair) in full.as_chunks_mut::<PAIR>().0.iter_mut().enumerate() {
        let start = start + WORD_VALUES * step;
        let residuals: &[u8; WORD_VALUES] =
            list[start..].first_chunk().expect("the list has as many full steps as the planes");
        let [a, b, c, d] = residuals.as_chunks().0 else { unreachable!("64 bytes are four times 16") };
        let residuals = [load(a), load(b), load(c), load(d)];
        // SAFETY: the list has all 64 bytes from `start` on, as `residuals` shows; and `passed` was not above the first
        // `start` and grows by at most 64 when `start` does.
        passed += unsafe { encoder.encode(residuals, pair, list, passed) };
    }
    tier::pack_tier(list, start + WORD_VALUES * steps, passed, tier, last)
}

#[target_feature(enable = "neon")]
pub(super) fn split_tier(
    values: &[u8],
    base: u8,
    tier: &Tier,
    rest: &mut [u8],
    planes: &mut [u8],
    list: &mut [u8],
    mut passed: usize,
) -> usize {
    let encoder = Encoder::new(tier);
    let bases = vdupq_n_u8(base);
    let (steps, values_tail) = values.as_chunks::<{ 2 * WORD_VALUES }>();
    let (full, rest_tail) = rest.split_at_mut(WORD_VALUES * steps.len());
    let (full_planes, planes_tail) = planes.split_at_mut(PAIR * steps.len());
    let outs = full.as_chunks_mut::<WORD_VALUES>().0.iter_mut().zip(full_planes.as_chunks_mut().0);
    for (values, (rest, pair)) in steps.iter().zip(outs) {
        let mut residuals = [bases; VECTORS];
        let rest = rest.as_chunks_mut().0;
        for ((values, rest), residuals) in values.as_chunks().0.iter().zip(rest).zip(&mut residuals) {
            let values = load_values(values);
            store(rest, rests(values));
            *residuals = vsubq_u8(exponents(values), bases);
        }
        assert!(list.len() - passed >= WORD_VALUES, "the list has room for all values");
        // SAFETY: there is room for a step, as has just been asserted.
        passed += unsafe { encoder.encode(residuals, pair, list, passed) };
    }
    tier::split_tier(values_tail, base, tier, rest_tail, planes_tail, list, passed)
}

/// Lookup table of codes.
struct Decoder {
    /// The residuals of the codes 0 and 1, and of the codes 2 and 3: 0 for the latter.
    symbols: uint8x16x2_t,
}

impl Decoder {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(tier: &Tier) -> Self {
        let [zero, one, two, none] = tier.symbols;
        let pair = |first, second| vreinterpretq_u8_u16(vdupq_n_u16(u16::from_le_bytes([first, second])));
        Self { symbols: uint8x16x2_t(pair(zero, one), pair(two, none)) }
    }

    /// The residuals of a step, where those that have no code are in `list` from `source` on; and how many these are.
    ///
    /// # Safety
    /// `list` has at least 8 bytes behind as many from `source` on as are marked before each eight: 64 bytes from `source` on are
    /// always enough.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn residuals(&self, planes: Planes, list: &[u8], source: usize) -> ([uint8x16_t; VECTORS], usize) {
        let marks = planes.marks();
        let fours = planes.fours();
        // The byte of each of the first 16 values, and where its bits are in it: the low one in bit 0 to 3.
        let byte_of = load(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let shifts = vreinterpretq_s8_u32(vdupq_n_u32(u32::from_le_bytes([0, 0xff, 0xfe, 0xfd])));
        let mut residuals = [fours; VECTORS];
        for (number, residuals) in residuals.iter_mut().enumerate() {
            let four = vqtbl1q_u8(fours, vaddq_u8(byte_of, vdupq_n_u8(4 * number as u8)));
            // The low bit in bit 0, the high one in bit 4: the second register of the table begins with 16.
            let codes = vandq_u8(vshlq_u8(four, shifts), vdupq_n_u8(0x11));
            let coded = vqtbl2q_u8(self.symbols, codes);
            let next = |eight: usize| {
                // SAFETY: the caller promises these bytes.
                let values = unsafe { load_8_at(list, source + marks.before(eight)) };
                let shuffle = vcreate_u8(APART[marks.shuffle(eight)]);
                vqtbl1_u8(vcombine_u8(values, values), shuffle)
            };
            let passed = vcombine_u8(next(2 * number), next(2 * number + 1));
            // The symbol of code 3 is 0.
            *residuals = vorrq_u8(coded, passed);
        }
        (residuals, marks.count())
    }
}

#[target_feature(enable = "neon")]
pub(super) fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize> {
    check_passed(passed, planes)?;
    let count = list.len().checked_sub(LIST_PAD).expect("padding follows the list");
    let mut source = count.checked_sub(passed).expect("no more is passed on than there is");
    let steps = count / WORD_VALUES;
    let (full, last) = planes.split_at(PAIR * steps);
    let decoder = Decoder::new(tier);
    for (step, pair) in full.as_chunks::<PAIR>().0.iter().enumerate() {
        // SAFETY: `source` began `passed` values before the padding, which has 64 bytes at least, and has moved by the number of
        // marks before these, which are no more than `passed`: `check_passed` has counted all of them.
        let (residuals, used) = unsafe { decoder.residuals(Planes::read(pair), list, source) };
        source += used;
        let out: &mut [u8; WORD_VALUES] =
            list[WORD_VALUES * step..].first_chunk_mut().expect("the step is full");
        for (residuals, out) in residuals.into_iter().zip(out.as_chunks_mut().0) {
            store(out, residuals);
        }
    }
    unpack_from(list, WORD_VALUES * steps, source, tier, last);
    Ok(())
}

#[target_feature(enable = "neon")]
pub(super) fn join_tier(
    passed: &[u8],
    tier: &Tier,
    planes: &[u8],
    rest: &[u8],
    base: u8,
    values: &mut [u8],
) -> usize {
    let decoder = Decoder::new(tier);
    let bases = vdupq_n_u8(base);
    let (steps, values_tail) = values.as_chunks_mut::<{ 2 * WORD_VALUES }>();
    let (full, rest_tail) = rest.split_at(WORD_VALUES * steps.len());
    let (full_planes, planes_tail) = planes.split_at(PAIR * steps.len());
    let mut used = 0;
    let ins = full.as_chunks::<WORD_VALUES>().0.iter().zip(full_planes.as_chunks().0);
    for (values, (rest, pair)) in steps.iter_mut().zip(ins) {
        // As long as a step at least: what is read of it is in it.
        let passed = left(passed, used);
        assert!(passed.len() >= WORD_VALUES, "the padding is as long as a step");
        // SAFETY: there are 64 bytes, as has just been asserted.
        let (residuals, of_step) = unsafe { decoder.residuals(Planes::read(pair), passed, 0) };
        used += of_step;
        let rest = rest.as_chunks().0;
        for ((values, rest), residuals) in values.as_chunks_mut().0.iter_mut().zip(rest).zip(residuals) {
            store_values(values, join_16(load(rest), vaddq_u8(residuals, bases)));
        }
    }
    used + tier::join_tier(left(passed, used), tier, planes_tail, rest_tail, base, values_tail)
}
