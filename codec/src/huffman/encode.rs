//! Values to frames.

use super::{
    BLOCK_THREADS, FRONT_LEN, GAP_BITS, LENGTHS, LONGEST, MOST_VALUES, POSITION, Parts, TAG, THREAD_BITS,
    THREADS,
};
use crate::canonical::{self, EncodeTable, SPARE, Words};
use crate::header::HEADER_LEN;
use crate::kernel::TILE;
use crate::sections::Writer;
use crate::{FrameShape, checksum, frame, levels};

/// Encodes values of a frame of this shape, for which the sections have room; returns the length of the dynamic one.
pub(super) fn encode(
    shape: FrameShape,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> usize {
    let kernel = levels::active();
    let writer = Writer::new(shape.layout, FRONT_LEN, static_out, dynamic_out);
    // Signs and mantissas are first: in `split` all of the static section behind the front matter, in `compact` in front of the rest.
    let (rests, coded) = match writer.bodies {
        [] => writer.dynamic.split_at_mut(shape.count),
        bodies => (bodies, writer.dynamic),
    };
    let rests_dynamic_len = if writer.front_dynamic_len > 0 { shape.count } else { 0 };
    // What is stored is this long.
    let coded = &mut coded[..shape.count];
    let mut exponents = vec![0; shape.count];
    let tiles = values.chunks(2 * TILE).zip(rests.chunks_mut(TILE)).zip(exponents.chunks_mut(TILE));
    tiles.for_each(|((values, rests), exponents)| (kernel.split)(values, 0, rests, exponents));
    // Without counts there is no code, and exponents are stored.
    let mut counts = match shape.count <= MOST_VALUES {
        true => canonical::histogram(kernel, &exponents),
        false => [0; 256],
    };
    // A code takes two symbols.
    if let (Some(&only), true) = (exponents.first(), counts.iter().filter(|count| **count > 0).count() == 1) {
        counts[usize::from(only ^ 1)] = 1;
    }
    let lengths = canonical::limited(&counts, LONGEST);
    let written = EncodeTable::new(&lengths).and_then(|table| {
        let threads = usize::try_from(canonical::coded_bits(&counts, &lengths)).ok()?.div_ceil(THREAD_BITS);
        let parts = Parts::of(threads);
        // The symbol that was added has no value, so there may be fewer threads.
        if parts.len() + SPARE > shape.count { None } else { index_and_words(&table, &exponents, coded) }
    });
    let mut sum = checksum::of_values(kernel, values);
    let coded_len = match written {
        Some(threads) => {
            let parts = Parts::of(threads);
            writer.front[THREADS..THREADS + 4].copy_from_slice(&(threads as u32).to_le_bytes());
            super::write_lengths(&lengths, &mut writer.front[LENGTHS..]);
            sum = sum.wrapping_add(checksum::of_front(&coded[parts.words..parts.len()], FRONT_LEN));
            parts.len()
        }
        None => {
            coded.copy_from_slice(&exponents);
            shape.count
        }
    };
    sum = sum.wrapping_add(checksum::of_front(&writer.front[HEADER_LEN..], HEADER_LEN));
    let dynamic_len = writer.front_dynamic_len + rests_dynamic_len + coded_len;
    frame::seal(TAG, shape, 0, dynamic_len, sum, writer.front);
    dynamic_len
}

/// Index of threads and blocks: where each begins.
#[derive(Default)]
struct Index {
    /// The bit at which the first word of each thread begins.
    gaps: Vec<u8>,
    /// The number of symbols before each block.
    positions: Vec<u32>,
}

impl Index {
    /// Whether a word that begins at this bit is the first one of its thread. No thread has none before, as a word has at most half as many bits.
    #[inline(always)]
    fn is_first(&self, at: usize) -> bool {
        at / THREAD_BITS >= self.gaps.len()
    }

    /// The word of a symbol begins at this bit.
    fn add(&mut self, at: usize, symbol: usize) {
        if self.is_first(at) {
            if self.gaps.len().is_multiple_of(BLOCK_THREADS) {
                self.positions.push(symbol as u32);
            }
            self.gaps.push((at % THREAD_BITS) as u8);
        }
    }
}

/// Writes words, gaps and positions; returns the number of threads.
fn index_and_words(table: &EncodeTable, exponents: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut words = Words::new(out);
    let mut index = Index::default();
    let (fours, tail) = exponents.as_chunks::<4>();
    for (number, four) in fours.iter().enumerate() {
        let [a, b, c, d] = four.map(|symbol| table.get(symbol).1 as usize);
        let before = words.bits();
        if index.is_first(before + a + b + c) {
            let starts = [before, before + a, before + a + b, before + a + b + c];
            (4 * number..).zip(starts).for_each(|(symbol, at)| index.add(at, symbol));
        }
        if a + b + c + d <= 56 {
            words.put_four(table, *four)?;
        } else {
            four.iter().try_for_each(|symbol| words.put(table, *symbol))?;
        }
    }
    for (symbol, &exponent) in (4 * fours.len()..).zip(tail) {
        index.add(words.bits(), symbol);
        words.put(table, exponent)?;
    }
    let used = words.finish()?.div_ceil(8);
    let threads = (8 * used).div_ceil(THREAD_BITS);
    let parts = Parts::of(threads);
    let (coded, behind) = out.get_mut(..parts.len())?.split_at_mut(parts.words);
    coded[used..].fill(0);
    let Index { mut gaps, mut positions } = index;
    let (packed, places) = behind.split_at_mut(parts.gaps);
    packed.fill(0);
    // The last threads may have the end of a word only.
    gaps.resize(threads, 0);
    for (thread, gap) in gaps.into_iter().enumerate() {
        let (byte, shift) = (thread * GAP_BITS / 8, thread * GAP_BITS % 8);
        let bits = u16::from(gap) << shift;
        packed[byte] |= bits as u8;
        if let (Some(next), true) = (packed.get_mut(byte + 1), bits >= 1 << 8) {
            *next |= (bits >> 8) as u8;
        }
    }
    positions.resize(places.len() / POSITION, exponents.len() as u32);
    for (place, position) in places.chunks_mut(POSITION).zip(positions) {
        place.copy_from_slice(&position.to_le_bytes());
    }
    Some(threads)
}
