//! The checksum, eight words at a time, and copies past the caches, a cache line at a time; how often each exponent, or each byte, occurs:
//! comparisons with the frequent ones, counted in bytes, and counters in memory for the others.

use std::arch::x86_64::*;

use super::vector::{AHEAD, VECTOR_BYTES, Vectors, load, load_part, prefetch_far, store, store_part};
use crate::checksum::{FOLD, KEY_STEP, WORD, fold, key};
use crate::kernel::{TILE, four, sums};

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const SUM_VECTORS: usize = 4;

/// The sum of vectors' words, in as many lanes as there are vectors at a time.
pub struct Mixer<const VECTORS: usize> {
    keys: [__m512i; VECTORS],
    /// Step of the keys from vector to vector.
    next: __m512i,
    sums: [__m512i; VECTORS],
}

impl<const VECTORS: usize> Mixer<VECTORS> {
    /// Before the word at `index`.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub fn new(index: u64) -> Self {
        let step = |words: u64| KEY_STEP.wrapping_mul(words).cast_signed();
        let numbers = _mm512_setr_epi64(0, step(1), step(2), step(3), step(4), step(5), step(6), step(7));
        let mut keys = [numbers; VECTORS];
        for (vector, keys) in keys.iter_mut().enumerate() {
            let first = key(index.wrapping_add(8 * vector as u64));
            *keys = _mm512_add_epi64(_mm512_set1_epi64(first.cast_signed()), numbers);
        }
        Self {
            keys,
            next: _mm512_set1_epi64(step(8 * VECTORS as u64)),
            sums: [_mm512_setzero_si512(); VECTORS],
        }
    }

    /// Adds the next words.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub fn add(&mut self, vectors: [__m512i; VECTORS]) {
        for ((vector, key), sum) in vectors.iter().zip(&mut self.keys).zip(&mut self.sums) {
            let x = _mm512_xor_si512(*vector, *key);
            let product = _mm512_mul_epu32(x, _mm512_srli_epi64::<32>(x));
            let product = _mm512_add_epi64(product, x);
            let folded = _mm512_xor_si512(product, _mm512_srli_epi64::<FOLD>(product));
            *sum = _mm512_add_epi64(*sum, folded);
            *key = _mm512_add_epi64(*key, self.next);
        }
    }

    /// The sum, not folded.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub fn sum(&self) -> u64 {
        let mut sum = _mm512_setzero_si512();
        for lane in self.sums {
            sum = _mm512_add_epi64(sum, lane);
        }
        _mm512_reduce_add_epi64(sum).cast_unsigned()
    }
}

#[target_feature(enable = "avx512bw")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<{ 64 * SUM_VECTORS }>();
    let mut mixer = Mixer::<SUM_VECTORS>::new(index);
    for block in blocks {
        let [a, b, c, d] = block.as_chunks().0 else { unreachable!("256 bytes are four times 64") };
        mixer.add([load(a), load(b), load(c), load(d)]);
    }
    let words = (bytes.len() - tail.len()) / WORD;
    fold(mixer.sum().wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64))))
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// See [`crate::kernel::Kernel::copy_past`]. These stores are not in order with others.
#[target_feature(enable = "avx512bw")]
pub(super) fn copy_past(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    let ahead = (to.as_ptr().addr().wrapping_neg() % LINE).min(to.len());
    let (first, from) = from.split_at(ahead);
    let (start, to) = to.split_at_mut(ahead);
    store_part(start, load_part(first));
    let (lines, from_tail) = from.as_chunks::<LINE>();
    let (out, to_tail) = to.as_chunks_mut::<LINE>();
    for (line, out) in lines.iter().zip(out) {
        // SAFETY: the reference is valid for writes of 64 bytes; it is a multiple of 64 bytes behind the first address
        // that is such a multiple itself. `StreamingStore`, which alone calls this, waits for these stores before the memory is
        // written again (`settle`), and before it is anyone else's (`drop`).
        unsafe { _mm512_stream_si512(std::ptr::from_mut(out).cast(), load(line)) }
    }
    store_part(to_tail, load_part(from_tail));
}

#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(super) fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 {
    if streaming { copy_mixed::<true>(from, to, word) } else { copy_mixed::<false>(from, to, word) }
}

#[target_feature(enable = "avx512bw,avx512vbmi")]
fn copy_mixed<const PAST: bool>(from: &[u8], to: &mut [u8], word: u64) -> u64 {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    let (pairs, tail) = from.as_chunks::<{ 2 * LINE }>();
    let (to, to_tail) = to.split_at_mut(from.len() - tail.len());
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let mut to = unsafe { Vectors::<PAST>::new(to) };
    let mut mixer = Mixer::<2>::new(word);
    for pair in pairs {
        let [first, second] = pair.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        prefetch_far(first, AHEAD);
        prefetch_far(second, AHEAD);
        let (first, second) = (load(first), load(second));
        mixer.add([first, second]);
        to.write(first);
        to.write(second);
    }
    to.finish();
    to_tail.copy_from_slice(tail);
    let words = 2 * LINE / WORD * pairs.len();
    mixer.sum().wrapping_add(sums::mixed(tail, word.wrapping_add(words as u64)))
}

/// Consecutive exponents that are compared with.
const WINDOW: usize = 16;
/// How far the window reaches above the highest exponent of the first step.
const ABOVE: u8 = 3;

// A counter of a byte has a value of each step at most.
const _: () = assert!(TILE / VECTOR_BYTES <= u8::MAX as usize);

#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn histogram(values: &[u8]) -> [u32; 256] {
    assert!(values.len() <= 2 * TILE, "counters of a byte are for a tile");
    let (steps, tail) = values.as_chunks();
    // What begins like noise is counted in memory.
    let Some(start) = steps.first().and_then(|step| window::<false>(exponents(step))) else {
        return sums::histogram(values);
    };
    let mut counts = sums::histogram(tail);
    add::<false>(steps.iter().map(|step| exponents(step)), start, &mut counts);
    counts
}

#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    assert!(bytes.len() <= TILE, "counters of a byte are for a tile");
    let (steps, tail) = bytes.as_chunks();
    let Some(first) = steps.first() else { return four::byte_counts(bytes) };
    let (first, steps) = (load(first), steps.iter().map(|step| load(step)));
    let mut counts = four::byte_counts(tail);
    if let Some(start) = window::<false>(first) {
        add::<false>(steps, start, &mut counts);
    } else if let Some(start) = window::<true>(first) {
        add::<true>(steps, start, &mut counts);
    } else {
        return four::byte_counts(bytes);
    }
    counts
}

/// The first exponent, or byte, of a window, if few of a step are outside of it. With `SIGNS` the highest bit of a byte is a sign: there are two windows
/// of half the length, one with and one without that bit.
#[target_feature(enable = "avx512bw,popcnt")]
fn window<const SIGNS: bool>(step: __m512i) -> Option<u8> {
    /// The most bytes outside of a window: more take longer than counting all in memory.
    const FEW: u32 = 4;
    let mut bytes = [0; VECTOR_BYTES];
    store(&mut bytes, step);
    let (above, len) = if SIGNS { (ABOVE / 2, WINDOW as u8 / 2) } else { (ABOVE, WINDOW as u8) };
    let highest = bytes.into_iter().map(|byte| if SIGNS { byte & !SIGN } else { byte }).max().unwrap_or(0);
    let start = highest.saturating_add(above).saturating_sub(len - 1);
    let outside = _mm512_cmpge_epu8_mask(numbers::<SIGNS>(step, start), _mm512_set1_epi8(WINDOW as i8));
    (outside.count_ones() <= FEW).then_some(start)
}

/// The sign of a value in its highest byte.
const SIGN: u8 = 1 << 7;

/// The number of each byte in the window that begins at `start`, or in the two windows; [`WINDOW`] or more outside.
#[inline]
#[target_feature(enable = "avx512bw")]
fn numbers<const SIGNS: bool>(bytes: __m512i, start: u8) -> __m512i {
    let start = _mm512_set1_epi8(start.cast_signed());
    if !SIGNS {
        return _mm512_sub_epi8(bytes, start);
    }
    let half = _mm512_set1_epi8(WINDOW as i8 / 2);
    let signs = _mm512_movepi8_mask(bytes);
    let within = _mm512_sub_epi8(_mm512_and_si512(bytes, _mm512_set1_epi8((!SIGN).cast_signed())), start);
    let outside = _mm512_cmpge_epu8_mask(within, half);
    let numbers = _mm512_mask_add_epi8(within, signs, within, half);
    _mm512_mask_blend_epi8(outside, numbers, _mm512_set1_epi8(-1))
}

/// The byte with a number.
fn byte<const SIGNS: bool>(number: u8, start: u8) -> u8 {
    if !SIGNS {
        return start.wrapping_add(number);
    }
    let (sign, within) = (number / (WINDOW as u8 / 2), number % (WINDOW as u8 / 2));
    // A window may reach beyond the highest byte without a sign: there it counts nothing.
    (start.wrapping_add(within) & !SIGN) | (sign * SIGN)
}

/// Adds the counts of at most a tile of exponents, or of bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
fn add<const SIGNS: bool>(steps: impl Iterator<Item = __m512i>, start: u8, counts: &mut [u32; 256]) {
    let one = _mm512_set1_epi8(1);
    let of_window: [__m512i; WINDOW] = std::array::from_fn(|i| _mm512_set1_epi8(i as i8));
    let mut counters = [_mm512_setzero_si512(); WINDOW];
    for step in steps {
        let numbers = numbers::<SIGNS>(step, start);
        for (counter, number) in counters.iter_mut().zip(of_window) {
            *counter = _mm512_mask_add_epi8(*counter, _mm512_cmpeq_epi8_mask(numbers, number), *counter, one);
        }
        let mut others = _mm512_cmpge_epu8_mask(numbers, _mm512_set1_epi8(WINDOW as i8));
        if others != 0 {
            let mut bytes = [0; VECTOR_BYTES];
            store(&mut bytes, step);
            while others != 0 {
                counts[usize::from(bytes[others.trailing_zeros() as usize % VECTOR_BYTES])] += 1;
                others &= others - 1;
            }
        }
    }
    for (number, counter) in (0..).zip(counters) {
        let found = _mm512_reduce_add_epi64(_mm512_sad_epu8(counter, _mm512_setzero_si512()));
        counts[usize::from(byte::<SIGNS>(number, start))] += found as u32;
    }
}

/// The exponents of the values of a step, in another order.
#[inline]
#[target_feature(enable = "avx512bw")]
fn exponents(step: &[u8; 2 * VECTOR_BYTES]) -> __m512i {
    let [low, high] = step.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    let exponent = |values| _mm512_srli_epi16::<8>(_mm512_add_epi16(values, values));
    _mm512_packus_epi16(exponent(load(low)), exponent(load(high)))
}
