//! The escapes of a tile: positions and exponents of the values that the book has no code for.
//!
//! They are corrections: a decoder puts them over exponents that are there already, in any order. Positions count from
//! the beginning of the tile, in two bytes; or from that of a group of 256 values, in one, with the number of escapes
//! of each group in front.

use crate::error::TileFault;
use crate::kernel::TILE;

/// Values of a group, where positions count from groups.
const POSITION_GROUP: usize = 256;
/// Words of bits for a group.
const GROUP_WORDS: usize = POSITION_GROUP / 64;
/// The most escapes that a group can have where positions count from groups.
const MAX_GROUP_ESCAPES: u32 = 255;

/// How positions are written, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Positions {
    /// Two bytes, from the beginning of the tile.
    Wide,
    /// One byte, from the beginning of a group; groups have their numbers of escapes in front.
    Narrow,
}

impl Positions {
    pub(super) const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Bytes of `escapes` among `coded` values.
    pub(super) fn len(self, coded: usize, escapes: usize) -> usize {
        match self {
            Self::Wide => 3 * escapes,
            Self::Narrow => coded.div_ceil(POSITION_GROUP) + 2 * escapes,
        }
    }
}

/// The number of escapes among `coded` values, and the form in which they take the fewest bytes.
pub(super) fn choose(escaped: &[u64], coded: usize) -> (Positions, usize) {
    let mut fits = true;
    let mut count = 0;
    for group in escaped.chunks(GROUP_WORDS) {
        let found: u32 = group.iter().map(|bits| bits.count_ones()).sum();
        fits &= found <= MAX_GROUP_ESCAPES;
        count += found as usize;
    }
    let narrow = fits && Positions::Narrow.len(coded, count) < Positions::Wide.len(coded, count);
    (if narrow { Positions::Narrow } else { Positions::Wide }, count)
}

/// Writes a list of exactly the right length. `escaped` has a bit for each escape.
pub(super) fn write(positions: Positions, escaped: &[u64], exponents: &[u8], out: &mut [u8]) {
    match positions {
        Positions::Wide => {
            let count = out.len() / 3;
            let (place, values) = out.split_at_mut(2 * count);
            let slots = place.as_chunks_mut::<2>().0.iter_mut().zip(values);
            for (position, (place, value)) in positions_of(escaped).zip(slots) {
                *place = (position as u16).to_le_bytes();
                *value = exponents[position];
            }
        }
        Positions::Narrow => {
            let (counts, list) = out.split_at_mut(escaped.len().div_ceil(GROUP_WORDS));
            for (count, group) in counts.iter_mut().zip(escaped.chunks(GROUP_WORDS)) {
                *count = group.iter().map(|bits| bits.count_ones() as u8).sum();
            }
            let (places, values) = list.split_at_mut(list.len() / 2);
            for (position, (place, value)) in positions_of(escaped).zip(places.iter_mut().zip(values)) {
                *place = (position % POSITION_GROUP) as u8;
                *value = exponents[position];
            }
        }
    }
}

/// Puts the escapes of a list over the exponents of their values, whose codes are 0.
///
/// # Errors
/// If positions do not ascend or are beyond the last value, the code of an escape is not 0, an exponent is not below
/// `exponent_count`, or the groups have another number of escapes than the list.
pub(super) fn apply(
    positions: Positions,
    list: &[u8],
    codes: &[u8],
    exponent_count: usize,
    exponents: &mut [u8],
) -> Result<(), TileFault> {
    let groups = exponents.len().div_ceil(POSITION_GROUP);
    let mut last = None;
    let mut put = |position: usize, value: u8| {
        if last.is_some_and(|last| position <= last) || position >= exponents.len() {
            return Err(TileFault::EscapePosition(position));
        }
        last = Some(position);
        if codes[position / 2] >> (position % 2 * 4) & 15 != 0 {
            return Err(TileFault::EscapeCode(position));
        }
        if usize::from(value) >= exponent_count {
            return Err(TileFault::Exponent(value));
        }
        exponents[position] = value;
        Ok(())
    };
    match positions {
        Positions::Wide => {
            let (places, values) = list.split_at(list.len() / 3 * 2);
            for (place, value) in places.as_chunks::<2>().0.iter().zip(values) {
                put(usize::from(u16::from_le_bytes(*place)), *value)?;
            }
        }
        Positions::Narrow => {
            let (counts, list) = list.split_at(groups);
            let (places, values) = list.split_at(list.len() / 2);
            let found = counts.iter().map(|count| usize::from(*count)).sum();
            if found != values.len() {
                return Err(TileFault::EscapeCount { expected: values.len(), found });
            }
            let mut list = places.iter().zip(values);
            for (group, count) in counts.iter().enumerate() {
                for (place, value) in list.by_ref().take(usize::from(*count)) {
                    put(POSITION_GROUP * group + usize::from(*place), *value)?;
                }
            }
        }
    }
    Ok(())
}

/// Positions of the bits that are set, in order.
fn positions_of(escaped: &[u64]) -> impl Iterator<Item = usize> {
    escaped.iter().enumerate().flat_map(|(i, bits)| {
        let mut left = *bits;
        std::iter::from_fn(move || {
            let position = (left != 0).then(|| 64 * i + left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            position
        })
    })
}

const _: () = assert!(TILE <= 1 << 16, "positions have two bytes");

#[cfg(test)]
mod tests {
    use super::*;

    fn list(positions: Positions, escaped: &[u64], exponents: &[u8]) -> Vec<u8> {
        let count: u32 = escaped.iter().map(|bits| bits.count_ones()).sum();
        let mut out = vec![0xee; positions.len(exponents.len(), count as usize)];
        write(positions, escaped, exponents, &mut out);
        out
    }

    #[test]
    fn lists_by_hand() {
        let exponents: Vec<u8> = (0..300).map(|i| (i % 251) as u8).collect();
        let escaped = [1 << 3, 0, 0, 1 << 63, 1 << 5];
        assert_eq!(list(Positions::Wide, &escaped, &exponents), [3, 0, 255, 0, 5, 1, 3, 4, 10]);
        assert_eq!(list(Positions::Narrow, &escaped, &exponents), [2, 1, 3, 255, 5, 3, 4, 10]);
        for positions in Positions::ALL {
            let mut back = vec![0; 300];
            let found = list(positions, &escaped, &exponents);
            apply(positions, &found, &[0; 150], 256, &mut back).unwrap();
            let put: Vec<usize> = (0..300).filter(|i| back[*i] != 0).collect();
            assert_eq!(put, [3, 255, 261]);
            assert_eq!((back[3], back[255], back[261]), (3, 4, 10));
        }
    }

    #[test]
    fn the_shorter_form_is_chosen_if_it_is_possible() {
        let choose = |escaped: &[u64]| choose(escaped, 64 * escaped.len());
        // Two groups have two bytes of numbers, a byte less per escape pays from the third on.
        assert_eq!(choose(&[0b11, 0, 0, 0, 0]), (Positions::Wide, 2));
        assert_eq!(choose(&[0b111, 0, 0, 0, 0]), (Positions::Narrow, 3));
        assert_eq!(choose(&[u64::MAX; 4]), (Positions::Wide, 256));
        assert_eq!(choose(&[u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 1]), (Positions::Narrow, 255));
        assert_eq!(choose(&[0; 128]), (Positions::Wide, 0));
    }

    #[test]
    fn lists_that_contradict_the_codes_are_refused() {
        let codes = [0, 0x10, 0];
        let wide = |list: &[u8]| apply(Positions::Wide, list, &codes, 32, &mut [9; 6]);
        assert_eq!(wide(&[2, 0, 5, 0, 7, 31]), Ok(()));
        assert_eq!(wide(&[2, 0, 2, 0, 7, 31]), Err(TileFault::EscapePosition(2)));
        assert_eq!(wide(&[5, 0, 2, 0, 7, 31]), Err(TileFault::EscapePosition(2)));
        assert_eq!(wide(&[6, 0, 7]), Err(TileFault::EscapePosition(6)));
        assert_eq!(wide(&[3, 0, 7]), Err(TileFault::EscapeCode(3)));
        assert_eq!(wide(&[2, 0, 32]), Err(TileFault::Exponent(32)));
        let narrow = |list: &[u8]| apply(Positions::Narrow, list, &codes, 32, &mut [9; 6]);
        assert_eq!(narrow(&[1, 2, 7]), Ok(()));
        assert_eq!(narrow(&[2, 2, 7]), Err(TileFault::EscapeCount { expected: 1, found: 2 }));
    }
}
