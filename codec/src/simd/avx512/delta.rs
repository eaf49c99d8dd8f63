//! Differences from a base, 64 at a time: symbols, and low bits of which masks of bits are planes.

use std::arch::x86_64::*;

use super::vector::{EVEN, load, load_part, store};
use crate::kernel::WORD_VALUES;
use crate::kernel::delta::{self, BitReader, How, JoinFrom, LARGE, LOW_BYTES, SplitMut};

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Low bits of 64 differences: how many each has, and the bytes of these.
struct Low<const BYTES: usize> {
    counts: __m512i,
    bytes: [__m512i; BYTES],
}

/// Writes low bits.
#[inline]
#[target_feature(enable = "avx512bw,bmi2,popcnt")]
fn write_low<const BYTES: usize>(low: &Low<BYTES>, out: &mut SplitMut<'_>) {
    let more_than = |bits: usize| _mm512_cmpgt_epu8_mask(low.counts, _mm512_set1_epi8(bits as i8));
    let mut whole = 0;
    while whole < BYTES && more_than(8 * whole + 7) == u64::MAX {
        let to = out.bytes[out.bytes_len..].first_chunk_mut().expect("there is room for every byte");
        store(to, low.bytes[whole]);
        out.bytes_len += VECTOR;
        whole += 1;
    }
    for (byte, bytes) in low.bytes.iter().enumerate().skip(whole) {
        for bit in 0..8 {
            let mask = more_than(8 * byte + bit);
            if mask == 0 {
                return;
            }
            let plane = _mm512_test_epi8_mask(*bytes, _mm512_set1_epi8((1u8 << bit).cast_signed()));
            out.bits.push(_pext_u64(plane, mask), mask.count_ones());
        }
    }
}

/// Reads low bits, by the number that each value has.
#[inline]
#[target_feature(enable = "avx512bw,bmi2,popcnt")]
fn read_low<const BYTES: usize>(counts: __m512i, from: &mut JoinFrom<'_>) -> [__m512i; BYTES] {
    let more_than = |bits: usize| _mm512_cmpgt_epu8_mask(counts, _mm512_set1_epi8(bits as i8));
    let mut low = [_mm512_setzero_si512(); BYTES];
    let mut whole = 0;
    while whole < BYTES && more_than(8 * whole + 7) == u64::MAX {
        let (bytes, left) = from.bytes.split_at(from.bytes.len().min(VECTOR));
        from.failed |= bytes.len() < VECTOR;
        from.bytes = left;
        low[whole] = load_part(bytes);
        whole += 1;
    }
    let mut bits: BitReader<'_> = from.bits;
    'planes: for (byte, low) in low.iter_mut().enumerate().skip(whole) {
        for bit in 0..8 {
            let mask = more_than(8 * byte + bit);
            if mask == 0 {
                break 'planes;
            }
            let plane = _pdep_u64(bits.take(mask.count_ones()), mask);
            *low = _mm512_mask_add_epi8(*low, plane, *low, _mm512_set1_epi8((1u8 << bit).cast_signed()));
        }
    }
    from.bits = bits;
    low
}

/// The lowest bytes of 64 numbers of 16 bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
fn narrowed_16([first, second]: [__m512i; 2]) -> __m512i {
    _mm512_permutex2var_epi8(first, load(&EVEN), second)
}

/// 64 bytes as numbers of 16 bits.
#[inline]
#[target_feature(enable = "avx512bw")]
fn widened_16(bytes: __m512i) -> [__m512i; 2] {
    let halves = [_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes)];
    halves.map(|half| _mm512_cvtepu8_epi16(half))
}

/// The lowest bytes of 64 numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512bw")]
fn narrowed_32(numbers: [__m512i; 4]) -> __m512i {
    let [a, b, c, d] = numbers.map(|numbers| _mm512_cvtepi32_epi8(numbers));
    let low = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(low, c), d)
}

/// 64 bytes as numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512bw")]
fn widened_32(bytes: __m512i) -> [__m512i; 4] {
    let quarters = [
        _mm512_castsi512_si128(bytes),
        _mm512_extracti32x4_epi32::<1>(bytes),
        _mm512_extracti32x4_epi32::<2>(bytes),
        _mm512_extracti32x4_epi32::<3>(bytes),
    ];
    quarters.map(|quarter| _mm512_cvtepu8_epi32(quarter))
}

/// Constants for values of 16 bits, as vectors.
#[derive(Clone, Copy)]
struct Short {
    mantissa: __m128i,
    exponents: __m512i,
    reference: __m512i,
    less: __m512i,
    xor: bool,
}

impl Short {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(how: How) -> Self {
        Self {
            mantissa: _mm_cvtsi32_si128(how.mantissa as i32),
            exponents: _mm512_set1_epi16(i16::from(how.last_exponent)),
            reference: _mm512_set1_epi16(i16::from(how.reference)),
            less: _mm512_set1_epi16(how.less as i16),
            xor: how.xor,
        }
    }

    /// See [`How::low_bits`].
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn counts(&self, base: __m512i) -> __m512i {
        let exponents = _mm512_and_si512(_mm512_srl_epi16(base, self.mantissa), self.exponents);
        let counts = _mm512_min_epu16(_mm512_subs_epu16(self.reference, exponents), _mm512_set1_epi16(8));
        _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(exponents, exponents), counts)
    }

    /// See [`delta::ordered`].
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn ordered(bits: __m512i) -> __m512i {
        _mm512_xor_si512(bits, _mm512_srli_epi16::<1>(_mm512_srai_epi16::<15>(bits)))
    }

    /// See [`delta::difference`].
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn difference(&self, value: __m512i, base: __m512i) -> __m512i {
        let found = if self.xor {
            _mm512_xor_si512(value, base)
        } else {
            let d = _mm512_sub_epi16(Self::ordered(value), Self::ordered(base));
            _mm512_xor_si512(_mm512_slli_epi16::<1>(d), _mm512_srai_epi16::<15>(d))
        };
        _mm512_sub_epi16(found, self.less)
    }

    /// See [`delta::apply`].
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn apply(&self, found: __m512i, base: __m512i) -> __m512i {
        let found = _mm512_add_epi16(found, self.less);
        if self.xor {
            return _mm512_xor_si512(found, base);
        }
        let sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(found, _mm512_set1_epi16(1)));
        let d = _mm512_xor_si512(_mm512_srli_epi16::<1>(found), sign);
        Self::ordered(_mm512_add_epi16(Self::ordered(base), d))
    }
}

/// Constants for values of 32 bits, as vectors.
#[derive(Clone, Copy)]
struct Long {
    reference: __m512i,
    less: __m512i,
    xor: bool,
}

impl Long {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(how: How) -> Self {
        Self {
            reference: _mm512_set1_epi32(i32::from(how.reference)),
            less: _mm512_set1_epi32(how.less as i32),
            xor: how.xor,
        }
    }

    /// Numbers of low bits, as [`Short::counts`] gives them.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn counts(&self, base: __m512i) -> __m512i {
        let exponents = _mm512_and_si512(_mm512_srli_epi32::<23>(base), _mm512_set1_epi32(0xff));
        let most = _mm512_set1_epi32(8 * LOW_BYTES as i32);
        let counts = _mm512_min_epi32(_mm512_sub_epi32(self.reference, exponents), most);
        let counts = _mm512_max_epi32(counts, _mm512_setzero_si512());
        _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(exponents, exponents), counts)
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn ordered(bits: __m512i) -> __m512i {
        _mm512_xor_si512(bits, _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(bits)))
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn difference(&self, value: __m512i, base: __m512i) -> __m512i {
        let found = if self.xor {
            _mm512_xor_si512(value, base)
        } else {
            let d = _mm512_sub_epi32(Self::ordered(value), Self::ordered(base));
            _mm512_xor_si512(_mm512_slli_epi32::<1>(d), _mm512_srai_epi32::<31>(d))
        };
        _mm512_sub_epi32(found, self.less)
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn apply(&self, found: __m512i, base: __m512i) -> __m512i {
        let found = _mm512_add_epi32(found, self.less);
        if self.xor {
            return _mm512_xor_si512(found, base);
        }
        let sign = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_and_si512(found, _mm512_set1_epi32(1)));
        let d = _mm512_xor_si512(_mm512_srli_epi32::<1>(found), sign);
        Self::ordered(_mm512_add_epi32(Self::ordered(base), d))
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn delta_split(width: usize, values: &[u8], base: &[u8], how: How, out: &mut SplitMut<'_>) {
    let first = match width {
        1 => 0,
        2 => split_16(values, base, how, out),
        _ => split_32(values, base, how, out),
    };
    delta::split_from(first, width, values, base, how, out);
}

/// Splits whole steps of values of 16 bits; returns how many values these have.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn split_16(values: &[u8], base: &[u8], how: How, out: &mut SplitMut<'_>) -> usize {
    let short = Short::new(how);
    let (values, base) =
        (values.as_chunks::<{ 2 * WORD_VALUES }>().0, base.as_chunks::<{ 2 * WORD_VALUES }>().0);
    for (step, (values, base)) in values.iter().zip(base).enumerate() {
        let (values, base) = (values.as_chunks::<VECTOR>().0, base.as_chunks::<VECTOR>().0);
        let (mut highs, mut lows, mut counts) =
            ([_mm512_setzero_si512(); 2], [_mm512_setzero_si512(); 2], [_mm512_setzero_si512(); 2]);
        for half in 0..2 {
            let base = load(&base[half]);
            let found = short.difference(load(&values[half]), base);
            counts[half] = short.counts(base);
            highs[half] = _mm512_srlv_epi16(found, counts[half]);
            lows[half] = _mm512_xor_si512(found, _mm512_sllv_epi16(highs[half], counts[half]));
            let large = _mm512_cmpge_epu16_mask(highs[half], _mm512_set1_epi16(i16::from(LARGE)));
            if large != 0 {
                let to = out.large[out.large_len..].first_chunk_mut().expect("a vector fits behind the list");
                store(to, _mm512_maskz_compress_epi16(large, highs[half]));
                out.large_len += 2 * large.count_ones() as usize;
            }
            highs[half] = _mm512_min_epu16(highs[half], _mm512_set1_epi16(i16::from(LARGE)));
        }
        let symbols =
            out.symbols[WORD_VALUES * step..].first_chunk_mut().expect("there is room for each symbol");
        store(symbols, narrowed_16(highs));
        write_low(&Low { counts: narrowed_16(counts), bytes: [narrowed_16(lows)] }, out);
    }
    WORD_VALUES * values.len()
}

/// Splits values of 32 bits, as [`split_16`] does those of 16.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn split_32(values: &[u8], base: &[u8], how: How, out: &mut SplitMut<'_>) -> usize {
    let long = Long::new(how);
    let (values, base) =
        (values.as_chunks::<{ 4 * WORD_VALUES }>().0, base.as_chunks::<{ 4 * WORD_VALUES }>().0);
    for (step, (values, base)) in values.iter().zip(base).enumerate() {
        let (values, base) = (values.as_chunks::<VECTOR>().0, base.as_chunks::<VECTOR>().0);
        let zeros = [_mm512_setzero_si512(); 4];
        let (mut highs, mut lows, mut counts) = (zeros, zeros, zeros);
        for quarter in 0..4 {
            let base = load(&base[quarter]);
            let found = long.difference(load(&values[quarter]), base);
            counts[quarter] = long.counts(base);
            highs[quarter] = _mm512_srlv_epi32(found, counts[quarter]);
            lows[quarter] = _mm512_xor_si512(found, _mm512_sllv_epi32(highs[quarter], counts[quarter]));
            let large = _mm512_cmpge_epu32_mask(highs[quarter], _mm512_set1_epi32(i32::from(LARGE)));
            if large != 0 {
                let to = out.large[out.large_len..].first_chunk_mut().expect("a vector fits behind the list");
                store(to, _mm512_maskz_compress_epi32(large, highs[quarter]));
                out.large_len += 4 * large.count_ones() as usize;
            }
            highs[quarter] = _mm512_min_epu32(highs[quarter], _mm512_set1_epi32(i32::from(LARGE)));
        }
        let symbols =
            out.symbols[WORD_VALUES * step..].first_chunk_mut().expect("there is room for each symbol");
        store(symbols, narrowed_32(highs));
        let bytes = [
            narrowed_32(lows),
            narrowed_32(lows.map(|low| _mm512_srli_epi32::<8>(low))),
            narrowed_32(lows.map(|low| _mm512_srli_epi32::<16>(low))),
        ];
        write_low(&Low { counts: narrowed_32(counts), bytes }, out);
    }
    WORD_VALUES * values.len()
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn delta_join(width: usize, base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) {
    let first = match width {
        1 => 0,
        2 => join_16(base, how, from, out),
        _ => join_32(base, how, from, out),
    };
    delta::join_from(first, width, base, how, from, out);
}

/// The next `bytes` of large differences, zeros if there are none.
#[inline]
#[target_feature(enable = "avx512bw")]
fn large(from: &mut JoinFrom<'_>, bytes: usize) -> __m512i {
    let (found, left) = from.large.split_at(from.large.len().min(bytes));
    from.failed |= found.len() < bytes;
    from.large = left;
    load_part(found)
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn join_16(base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) -> usize {
    let short = Short::new(how);
    let (base, out) =
        (base.as_chunks::<{ 2 * WORD_VALUES }>().0, out.as_chunks_mut::<{ 2 * WORD_VALUES }>().0);
    let all_symbols = from.symbols.as_chunks::<WORD_VALUES>().0;
    for ((base, symbols), out) in base.iter().zip(all_symbols).zip(&mut *out) {
        let [first, second] = base.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        let bases = [load(first), load(second)];
        let counts = bases.map(|base| short.counts(base));
        let [low] = read_low(narrowed_16(counts), from);
        let (lows, mut highs) = (widened_16(low), widened_16(load(symbols)));
        for (half, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            let escaped = _mm512_cmpeq_epi16_mask(highs[half], _mm512_set1_epi16(i16::from(LARGE)));
            if escaped != 0 {
                let found = large(from, 2 * escaped.count_ones() as usize);
                highs[half] = _mm512_mask_expand_epi16(highs[half], escaped, found);
                let room = _mm512_sub_epi16(_mm512_set1_epi16(16), counts[half]);
                let above = _mm512_srlv_epi16(highs[half], room);
                from.failed |= _mm512_test_epi16_mask(above, above) != 0;
            }
            let found = _mm512_or_si512(_mm512_sllv_epi16(highs[half], counts[half]), lows[half]);
            store(out, short.apply(found, bases[half]));
        }
    }
    WORD_VALUES * out.len()
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn join_32(base: &[u8], how: How, from: &mut JoinFrom<'_>, out: &mut [u8]) -> usize {
    let long = Long::new(how);
    let (base, out) =
        (base.as_chunks::<{ 4 * WORD_VALUES }>().0, out.as_chunks_mut::<{ 4 * WORD_VALUES }>().0);
    let all_symbols = from.symbols.as_chunks::<WORD_VALUES>().0;
    for ((base, symbols), out) in base.iter().zip(all_symbols).zip(&mut *out) {
        let [a, b, c, d] = base.as_chunks().0 else { unreachable!("256 bytes are four times 64") };
        let bases = [load(a), load(b), load(c), load(d)];
        let counts = bases.map(|base| long.counts(base));
        let lows: [_; LOW_BYTES] = read_low(narrowed_32(counts), from);
        let [first, second, third] = lows.map(|low| widened_32(low));
        let mut highs = widened_32(load(symbols));
        for (quarter, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            let escaped = _mm512_cmpeq_epi32_mask(highs[quarter], _mm512_set1_epi32(i32::from(LARGE)));
            if escaped != 0 {
                let found = large(from, 4 * escaped.count_ones() as usize);
                highs[quarter] = _mm512_mask_expand_epi32(highs[quarter], escaped, found);
                let room = _mm512_sub_epi32(_mm512_set1_epi32(32), counts[quarter]);
                let above = _mm512_srlv_epi32(highs[quarter], room);
                from.failed |= _mm512_test_epi32_mask(above, above) != 0;
            }
            let middle = _mm512_or_si512(first[quarter], _mm512_slli_epi32::<8>(second[quarter]));
            let low = _mm512_or_si512(middle, _mm512_slli_epi32::<16>(third[quarter]));
            let found = _mm512_or_si512(_mm512_sllv_epi32(highs[quarter], counts[quarter]), low);
            store(out, long.apply(found, bases[quarter]));
        }
    }
    WORD_VALUES * out.len()
}
