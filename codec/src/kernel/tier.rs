//! Tiers: residuals to two bit planes, which name three of them, and a shorter list of those that are left; and back.
//!
//! Each 64 values give two 64-bit words, the low and the high bits of their codes. Code 3 passes a value on to the next
//! tier. Values that are passed on keep their order, so the position of one follows from a prefix sum of popcounts.

use super::{WORD_VALUES, fields, pass};

/// Bytes of a pair of words.
pub const PAIR: usize = 16;
/// The code of a value that is passed on.
pub const PASSED: u8 = 3;
/// Offset added to a residual before it is looked up: no residual with a code is below its negative.
pub const BIAS: u8 = 9;
/// Bytes behind a list that `Kernel::unpack_tier` may read, whatever they are.
pub const LIST_PAD: usize = 64;

/// Codes of a tier, and the residuals that they mean.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// The code of residual `r` is `codes[min(r + BIAS, 15)]`, where the sum is modulo 256.
    pub codes: [u8; 16],
    /// The residuals of the codes 0, 1 and 2, modulo 256; then 0.
    pub symbols: [u8; 4],
}

impl Tier {
    /// A tier with these three residuals, from `-BIAS` to `5`.
    pub const fn new(residuals: [i8; 3]) -> Self {
        let mut tier = Self { codes: [PASSED; 16], symbols: [0; 4] };
        let mut code = 0;
        while code < 3 {
            let residual = residuals[code].cast_unsigned();
            tier.codes[residual.wrapping_add(BIAS) as usize] = code as u8;
            tier.symbols[code] = residual;
            code += 1;
        }
        tier
    }
}

/// Bytes of the planes of `count` values.
pub fn plane_bytes(count: usize) -> usize {
    count.div_ceil(WORD_VALUES) * PAIR
}

pub fn pack_tier(list: &mut [u8], start: usize, mut passed: usize, tier: &Tier, planes: &mut [u8]) -> usize {
    let count = list.len();
    for (start, pair) in (start..count).step_by(WORD_VALUES).zip(planes.as_chunks_mut::<PAIR>().0) {
        let (mut low, mut high) = (0u64, 0u64);
        for position in start..count.min(start + WORD_VALUES) {
            let residual = list[position];
            let code = tier.codes[usize::from(residual.wrapping_add(BIAS).min(15))];
            low |= u64::from(code & 1) << (position - start);
            high |= u64::from(code >> 1) << (position - start);
            // Written even if it has a code: then the next one takes its place.
            list[passed] = residual;
            passed += usize::from(code == PASSED);
        }
        write_pair(pair, low, high);
    }
    passed
}

pub fn unpack_tier(list: &mut [u8], passed: usize, tier: &Tier, planes: &[u8]) -> Result<(), usize> {
    check_passed(passed, planes)?;
    let count = list.len().checked_sub(LIST_PAD).expect("padding follows the list");
    let source = count.checked_sub(passed).expect("no more is passed on than there is");
    unpack_from(list, 0, source, tier, planes);
    Ok(())
}

/// Decodes the values from `start` on; those that were passed on are from `source` on.
#[inline]
pub fn unpack_from(list: &mut [u8], start: usize, mut source: usize, tier: &Tier, planes: &[u8]) {
    let count = list.len() - LIST_PAD;
    for (start, pair) in (start..count).step_by(WORD_VALUES).zip(planes.as_chunks::<PAIR>().0) {
        let (low, high) = read_pair(pair);
        for position in start..count.min(start + WORD_VALUES) {
            let shift = position - start;
            let code = code_at(low, high, shift);
            // No further than the padding, as no more are passed on than there are.
            let residual = list[source];
            list[position] = if code == PASSED { residual } else { tier.symbols[usize::from(code)] };
            source += usize::from(code == PASSED);
        }
    }
}

pub fn split_tier(
    values: &[u8],
    base: u8,
    tier: &Tier,
    rest: &mut [u8],
    planes: &mut [u8],
    list: &mut [u8],
    passed: usize,
) -> usize {
    let list = &mut list[..passed + rest.len()];
    fields::split(values, base, rest, &mut list[passed..]);
    pack_tier(list, passed, passed, tier, planes)
}

/// The last `unpack_tier` and `join` in one. The residuals without a code are the front of `passed`, which has
/// [`LIST_PAD`] bytes behind them; if there are fewer than the planes ask for, values are of no meaning. The planes end clear.
/// Returns the number of residuals without a code.
pub fn join_tier(
    passed: &[u8],
    tier: &Tier,
    planes: &[u8],
    rest: &[u8],
    base: u8,
    values: &mut [u8],
) -> usize {
    let mut used = 0;
    let steps = values.chunks_mut(2 * WORD_VALUES).zip(rest.chunks(WORD_VALUES)).zip(planes.as_chunks().0);
    for ((values, rest), pair) in steps {
        let (low, high) = read_pair(pair);
        let mut residuals = [0; WORD_VALUES];
        let mut next = pass::left(passed, used).iter();
        for (position, residual) in residuals[..rest.len()].iter_mut().enumerate() {
            let code = code_at(low, high, position);
            *residual = match code {
                PASSED => *next.next().expect("the padding is as long as a step"),
                _ => tier.symbols[usize::from(code)],
            };
            used += usize::from(code == PASSED);
        }
        fields::join(rest, &residuals[..rest.len()], base, values);
    }
    used
}

#[inline(always)]
fn code_at(low: u64, high: u64, position: usize) -> u8 {
    (low >> position & 1) as u8 | ((high >> position & 1) as u8) << 1
}

/// Compares the number of values that the planes pass on with what it must be.
///
/// # Errors
/// The number that they pass on.
#[inline(always)]
pub fn check_passed(expected: usize, planes: &[u8]) -> Result<(), usize> {
    let passed = |pair: &[u8; PAIR]| {
        let (low, high) = read_pair(pair);
        (low & high).count_ones() as usize
    };
    let found = planes.as_chunks().0.iter().map(passed).sum();
    if found == expected { Ok(()) } else { Err(found) }
}

/// Whether all codes beyond the last of `count` values are 0.
pub fn ends_clear(count: usize, planes: &[u8]) -> bool {
    match (count % WORD_VALUES, planes.as_chunks::<PAIR>().0.last()) {
        (1.., Some(pair)) => {
            let (low, high) = read_pair(pair);
            (low | high) >> (count % WORD_VALUES) == 0
        }
        _ => true,
    }
}

#[inline(always)]
pub fn write_pair(pair: &mut [u8; PAIR], low: u64, high: u64) {
    let [first, second] = pair.as_chunks_mut().0 else { unreachable!("16 bytes are twice 8") };
    (*first, *second) = (low.to_le_bytes(), high.to_le_bytes());
}

#[inline(always)]
pub fn read_pair(pair: &[u8; PAIR]) -> (u64, u64) {
    let [first, second] = pair.as_chunks().0 else { unreachable!("16 bytes are twice 8") };
    (u64::from_le_bytes(*first), u64::from_le_bytes(*second))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIER: Tier = Tier::new([0, 1, -1]);

    #[test]
    fn codes_and_planes_by_hand() {
        let mut list = [0, 1, 255, 2, 0, 77, 254];
        let mut planes = [0xa5; PAIR];
        assert_eq!(pack_tier(&mut list, 0, 0, &TIER, &mut planes), 3);
        assert_eq!(list[..3], [2, 77, 254]);
        // Codes 0, 1, 2, 3, 0, 3, 3.
        assert_eq!(read_pair(&planes), (0b110_1010, 0b110_1100));
        assert!(ends_clear(7, &planes) && !ends_clear(6, &planes));

        let mut back = vec![0xee; 7 + LIST_PAD];
        back[4..7].copy_from_slice(&[2, 77, 254]);
        assert_eq!(unpack_tier(&mut back, 3, &TIER, &planes), Ok(()));
        assert_eq!(back[..7], [0, 1, 255, 2, 0, 77, 254]);
        assert_eq!(unpack_tier(&mut back, 2, &TIER, &planes), Err(3));
    }

    #[test]
    fn every_residual_comes_back_from_every_tier() {
        for residuals in [[0, 1, -1], [-2, -3, 2], [3, -7, -8], [-7, -8, -9]] {
            let tier = Tier::new(residuals);
            for count in [0, 1, 63, 64, 65, 256] {
                let values: Vec<u8> = (0..count).map(|i| i as u8).collect();
                let mut list = values.clone();
                let mut planes = vec![0; plane_bytes(count)];
                let passed = pack_tier(&mut list, 0, 0, &tier, &mut planes);
                let mut back = vec![0; count + LIST_PAD];
                back[count - passed..count].copy_from_slice(&list[..passed]);
                assert_eq!(unpack_tier(&mut back, passed, &tier, &planes), Ok(()));
                assert_eq!(back[..count], values);
            }
        }
    }
}
