//! Bits of bytes in planes: the highest bits of all bytes of a vector are one instruction away from a word. Zeros out of a tile and back:
//! eight values at a time, by a table of shuffles for each pattern of zeros.

use std::arch::x86_64::*;

use super::super::shuffles::{VALUES_APART, VALUES_TOGETHER};
use super::vector::{bits, load, load_half, store, store_half, sum_epi64, swap_middle};
use crate::kernel::{WORD_VALUES, bits};

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) {
    let (steps, tail) = bytes.as_chunks::<WORD_VALUES>();
    let (whole, end) = out.split_at_mut(8 * planes * steps.len());
    for (bytes, out) in steps.iter().zip(whole.chunks_mut(8 * planes)) {
        let [first, second] = bytes.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let (first, second) = (load(first), load(second));
        for (plane, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // What is shifted from byte to byte does not reach the highest bits.
            let shift = _mm_cvtsi32_si128(7 - plane as i32);
            let words = [first, second].map(|bytes| u64::from(bits(_mm256_sll_epi16(bytes, shift))));
            *out = (words[0] | words[1] << 32).to_le_bytes();
        }
    }
    bits::pack_bits(tail, planes, end);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) {
    let (steps, tail) = out.as_chunks_mut::<WORD_VALUES>();
    // The byte of each of 32 bits, and where it is there.
    let byte_of = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
    );
    let bit_of = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let from = bits.split_at(8 * planes * steps.len());
    for (out, bits) in steps.iter_mut().zip(from.0.chunks(8 * planes)) {
        let mut halves = [_mm256_setzero_si256(); 2];
        for (plane, word) in bits.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            for (half, bits) in halves.iter_mut().zip([word as u32, (word >> 32) as u32]) {
                let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), byte_of);
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of);
                *half = _mm256_or_si256(*half, _mm256_and_si256(set, _mm256_set1_epi8(1 << plane)));
            }
        }
        for (half, out) in halves.iter().zip(out.as_chunks_mut().0) {
            store(out, *half);
        }
    }
    bits::unpack_bits(from.1, planes, tail);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn zeros(values: &[u8]) -> usize {
    let (blocks, tail) = values.as_chunks::<64>();
    let mut sum = _mm256_setzero_si256();
    for blocks in blocks.chunks(255) {
        let mut counts = _mm256_setzero_si256();
        for block in blocks {
            counts = _mm256_sub_epi8(counts, zero_bytes(block));
        }
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(counts, _mm256_setzero_si256()));
    }
    sum_epi64(sum) as usize + bits::zeros::<2>(tail)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn drop_zeros(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
    let (blocks, tail) = values.as_chunks::<64>();
    let (masks, mask_tail) = mask.split_at_mut(4 * blocks.len());
    let mut count = 0;
    for (block, mask) in blocks.iter().zip(masks.as_chunks_mut::<4>().0) {
        *mask = (!bits(swap_middle(zero_bytes(block)))).to_le_bytes();
        for (values, mask) in block.as_chunks().0.iter().zip(mask) {
            // Never more than have been read: there is room for eight.
            let kept = kept[2 * count..].first_chunk_mut().expect("`kept` has room for all values");
            let shuffle = load_half(&VALUES_TOGETHER[usize::from(*mask)]);
            store_half(kept, _mm_shuffle_epi8(load_half(values), shuffle));
            count += mask.count_ones() as usize;
        }
    }
    count + bits::drop_zeros::<2>(tail, mask_tail, &mut kept[2 * count..])
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn restore_zeros(mask: &[u8], kept: &[u8], out: &mut [u8]) {
    let mut left = kept;
    let mut done = 0;
    for (mask, out) in mask.iter().zip(out.as_chunks_mut().0) {
        // The last values are fewer than a vector.
        let Some(values) = left.first_chunk() else { break };
        store_half(out, _mm_shuffle_epi8(load_half(values), load_half(&VALUES_APART[usize::from(*mask)])));
        left = &left[2 * mask.count_ones() as usize..];
        done += 1;
    }
    bits::restore_zeros::<2>(&mask[done..], left, &mut out[16 * done..]);
}

/// All ones for each of 32 values that is +0, a byte each, in the order of packing.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn zero_bytes(values: &[u8; 64]) -> __m256i {
    let [low, high] = values.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
    let zero = |values| _mm256_cmpeq_epi16(load(values), _mm256_setzero_si256());
    _mm256_packs_epi16(zero(low), zero(high))
}
