//! Escapes of a group of values, taken and put by bit masks: for levels that cannot compress and expand vectors. These are plain loops,
//! always inlined, so that they are compiled with the bit instructions of the level that calls them.

use crate::kernel::window::Escapes;
use crate::kernel::{CODE_GROUP, EscapeRoom, INDEX_GROUP};

/// Escapes that are taken from every 64 values, or put into them, there or not: a loop that ends elsewhere each time costs more.
const UNCONDITIONAL: usize = 4;

/// Exponents of a group, and one that stands for those of absent escapes.
pub(super) type Exponents = [u8; CODE_GROUP + 32];

/// Writes the exponents of the escapes of a group, and the group's entries of the escape index.
#[inline(always)]
pub(super) fn take_escapes(
    values: &[u8; 2 * CODE_GROUP],
    escaped: &[u64; CODE_GROUP / 64],
    escapes: &mut Escapes<&mut EscapeRoom>,
    index: &mut [u16],
) {
    let values = values.as_chunks::<2>().0;
    for (i, bits) in escaped.iter().enumerate() {
        const INDEX_WORDS: usize = INDEX_GROUP / 64;
        if let (0, Some(entry)) = (i % INDEX_WORDS, index.get_mut(i / INDEX_WORDS)) {
            *entry = escapes.count as u16;
        }
        // Where no escape is left this is any value; what is taken from there is overwritten or left out.
        let exponent = |bits: u64| {
            let position = (64 * i + bits.trailing_zeros() as usize) % CODE_GROUP;
            (u16::from_le_bytes(values[position]) >> 7) as u8
        };
        let mut left = *bits;
        let slots = &mut escapes.exponents[escapes.count..];
        for slot in &mut slots[..UNCONDITIONAL] {
            *slot = exponent(left);
            left &= left.wrapping_sub(1);
        }
        let mut number = UNCONDITIONAL;
        while left != 0 {
            slots[number] = exponent(left);
            left &= left - 1;
            number += 1;
        }
        escapes.count += bits.count_ones() as usize;
    }
}

/// Puts the escapes of a group where they belong, counts them, and writes the group's entries of the escape index.
/// Escapes that are missing count, but what takes their place is of no meaning.
#[inline(always)]
pub(super) fn put_escapes(
    escaped: &[u64; CODE_GROUP / 64],
    escapes: &mut Escapes<&[u8]>,
    exponents: &mut Exponents,
    index: &mut [u16],
) {
    let left = escapes.exponents.get(escapes.count..).unwrap_or(&[]);
    let mut padded = [0; CODE_GROUP + UNCONDITIONAL];
    let source = left.first_chunk::<{ CODE_GROUP + UNCONDITIONAL }>().unwrap_or_else(|| {
        padded[..left.len()].copy_from_slice(left);
        &padded
    });
    let mut count = 0;
    for (i, bits) in escaped.iter().enumerate() {
        const INDEX_WORDS: usize = INDEX_GROUP / 64;
        if let (0, Some(entry)) = (i % INDEX_WORDS, index.get_mut(i / INDEX_WORDS)) {
            *entry = (escapes.count + count) as u16;
        }
        let position =
            |bits: u64| if bits == 0 { CODE_GROUP } else { 64 * i + bits.trailing_zeros() as usize };
        let mut left = *bits;
        let source = &source[count..];
        for escape in &source[..UNCONDITIONAL] {
            exponents[position(left)] = *escape;
            left &= left.wrapping_sub(1);
        }
        let mut number = UNCONDITIONAL;
        while left != 0 {
            exponents[position(left)] = source[number];
            left &= left - 1;
            number += 1;
        }
        count += bits.count_ones() as usize;
    }
    escapes.count += count;
}
