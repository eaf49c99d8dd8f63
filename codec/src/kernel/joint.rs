//! Residuals and the two highest bits of mantissas in one symbol, so that both are coded by what is known of both.
//!
//! Mantissas are not uniform: within an octave, small ones are more frequent, and how much so depends on the octave. A symbol is
//! `4 r + m`, for the residual `r` less the first of a window of at most 15, and the two bits `m`; residuals outside of the window are
//! escapes, `4 * 15 + m`, and are in a list of their own.

/// Symbols: those of the window, then four escapes.
pub const SYMBOLS: usize = 64;
/// Bits of mantissas in a symbol.
pub const BITS: usize = 2;
/// The most residuals of a window.
pub const LONGEST: u8 = 15;
/// The first of the escapes.
pub const ESCAPE: u8 = LONGEST << BITS;

/// Range of the residuals that have symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first residual, modulo 256.
    pub start: u8,
    /// How many have symbols; at most [`LONGEST`].
    pub len: u8,
}

/// Values that are looked at before escapes are: vectors have no branch for each.
const STRIP_VALUES: usize = 64;

#[inline(always)]
pub fn merge(
    residuals: &mut [u8],
    tops: &mut [u8],
    mantissa_bits: u32,
    window: Window,
    escapes: &mut [u8],
) -> usize {
    match mantissa_bits {
        7 => merge_bits::<7>(residuals, tops, window, escapes),
        3 => merge_bits::<3>(residuals, tops, window, escapes),
        _ => merge_bits::<2>(residuals, tops, window, escapes),
    }
}

#[inline(always)]
fn merge_bits<const MANTISSA: u32>(
    residuals: &mut [u8],
    tops: &mut [u8],
    Window { start, len }: Window,
    escapes: &mut [u8],
) -> usize {
    let left = MANTISSA - BITS as u32;
    let mut escaped = 0;
    for (residuals, tops) in residuals.chunks_mut(STRIP_VALUES).zip(tops.chunks_mut(STRIP_VALUES)) {
        let mut highest = 0;
        for (residual, top) in residuals.iter().zip(&*tops) {
            let symbol = symbol(residual.wrapping_sub(start), *top >> left & 3, len);
            highest = symbol.max(highest);
        }
        if highest >= ESCAPE {
            for residual in residuals.iter().filter(|residual| residual.wrapping_sub(start) >= len) {
                escapes[escaped] = *residual;
                escaped += 1;
            }
        }
        for (residual, top) in residuals.iter_mut().zip(tops) {
            *residual = symbol(residual.wrapping_sub(start), *top >> left & 3, len);
            *top = *top >> MANTISSA << left | *top & ((1 << left) - 1);
        }
    }
    escaped
}

#[inline(always)]
fn symbol(from_start: u8, mantissa: u8, len: u8) -> u8 {
    let place = if from_start < len { from_start } else { LONGEST };
    place << BITS | mantissa
}

#[inline(always)]
pub fn unmerge(symbols: &mut [u8], tops: &mut [u8], mantissa_bits: u32, start: u8, escapes: &[u8]) -> usize {
    match mantissa_bits {
        7 => unmerge_bits::<7>(symbols, tops, start, escapes),
        3 => unmerge_bits::<3>(symbols, tops, start, escapes),
        _ => unmerge_bits::<2>(symbols, tops, start, escapes),
    }
}

#[inline(always)]
fn unmerge_bits<const MANTISSA: u32>(
    symbols: &mut [u8],
    tops: &mut [u8],
    start: u8,
    escapes: &[u8],
) -> usize {
    let left = MANTISSA - BITS as u32;
    let mut escaped = 0;
    for (symbols, tops) in symbols.chunks_mut(STRIP_VALUES).zip(tops.chunks_mut(STRIP_VALUES)) {
        let mut highest = 0;
        for (symbol, top) in symbols.iter().zip(tops) {
            highest = highest.max(*symbol);
            *top = *top >> left << MANTISSA | (*symbol & 3) << left | *top & ((1 << left) - 1);
        }
        if highest < ESCAPE {
            symbols.iter_mut().for_each(|symbol| *symbol = (*symbol >> BITS).wrapping_add(start));
            continue;
        }
        for symbol in symbols {
            let from_start = *symbol >> BITS;
            *symbol = from_start.wrapping_add(start);
            if from_start >= LONGEST {
                *symbol = escapes.get(escaped).copied().unwrap_or(0);
                escaped += 1;
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_those_of_the_definition_and_come_back() {
        for (mantissa_bits, len) in
            [2, 3, 7].into_iter().flat_map(|bits| [0, 1, 9, 15].map(|len| (bits, len)))
        {
            let window = Window { start: 250, len };
            let residuals: Vec<u8> =
                (0..1000_u32).map(|i| ((i.wrapping_mul(0x9e37) >> 8) as u8 / 13).wrapping_add(245)).collect();
            let tops: Vec<u8> = (0..1000_u32)
                .map(|i| ((i.wrapping_mul(0x51ed) >> 7) & ((2 << mantissa_bits) - 1)) as u8)
                .collect();
            let (mut symbols, mut left) = (residuals.clone(), tops.clone());
            let mut escapes = vec![0; residuals.len()];
            let escaped = merge(&mut symbols, &mut left, mantissa_bits, window, &mut escapes);
            let mut expected = Vec::new();
            for (i, (residual, top)) in residuals.iter().zip(&tops).enumerate() {
                let (sign, mantissa) = (top >> mantissa_bits, top & ((1 << mantissa_bits) - 1));
                let place = residual.wrapping_sub(250);
                let place = if place < len { place } else { 15 };
                assert_eq!(symbols[i], 4 * place + (mantissa >> (mantissa_bits - 2)));
                let below = mantissa & ((1 << (mantissa_bits - 2)) - 1);
                assert_eq!(left[i], sign << (mantissa_bits - 2) | below);
                expected.extend((place == 15).then_some(*residual));
            }
            assert_eq!(escapes[..escaped], expected);
            assert_eq!(unmerge(&mut symbols, &mut left, mantissa_bits, 250, &expected), escaped);
            assert!(symbols == residuals && left == tops);
        }
    }
}
