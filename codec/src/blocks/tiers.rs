//! Tiers: the fixed orders of residuals, which say which three of them each tier names, and all tiers of a block, or of a byte plane of its
//! rest, read.
//!
//! A residual is an exponent less the base of its group. The orders are those of a Gaussian whose mean exponent lies
//! in the lower, the middle and the upper part of the octave that the base stands for. Frames need no symbol list.

use super::geometry::BLOCK_VALUES;
use crate::BlockFault;
use crate::kernel::Kernel;
use crate::kernel::tier::{LIST_PAD, Tier, ends_clear, plane_bytes};

/// Tiers of a block; what the last one passes on are escapes.
pub(super) const TIERS: usize = 4;

/// An order, in the order of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The mean is low in the octave: large residuals are rare.
    Low,
    /// The mean is in the middle.
    Middle,
    /// The mean is high in the octave. Also the best single order for groups of any mean.
    High,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Low, Self::Middle, Self::High];

    /// The tiers, first one first.
    pub(super) fn tiers(self) -> &'static [Tier; TIERS] {
        &TABLES[self as usize]
    }

    /// The best order for Gaussian values whose mean exponent, plus 7/8, has this fraction, in quarters.
    pub(super) fn of_quarter(quarter: u32) -> Self {
        match quarter {
            0 => Self::Low,
            1 | 2 => Self::Middle,
            _ => Self::High,
        }
    }
}

#[rustfmt::skip]
static TABLES: [[Tier; TIERS]; 3] = [
    [Tier::new([0, 1, -1]), Tier::new([-2, -3, -4]), Tier::new([-5, 2, -6]), Tier::new([-7, -8, -9])],
    [Tier::new([0, 1, -1]), Tier::new([-2, -3, 2]), Tier::new([-4, -5, -6]), Tier::new([-7, -8, -9])],
    [Tier::new([0, 1, -1]), Tier::new([-2, -3, 2]), Tier::new([-4, -5, -6]), Tier::new([3, -7, -8])],
];

/// Planes and escapes, padding included.
#[derive(Clone, Copy)]
pub(super) struct Coded<'a> {
    /// Planes of the first tier.
    pub(super) first: &'a [u8],
    /// Planes of the other tiers.
    pub(super) planes: &'a [u8],
    pub(super) escapes: &'a [u8],
}

/// A list with room for the values of a block: always up to where the padding begins.
pub(super) type List = [u8; BLOCK_VALUES + LIST_PAD];

/// Leaves what the tiers, with these numbers of values, and escapes stand for in the list.
///
/// # Errors
/// If the planes contradict the numbers, or what fills them up is not zero.
pub(super) fn unpack(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    coded: Coded<'_>,
) -> Result<(), BlockFault> {
    unpack_passed(kernel, list, tiers, counts, coded)?;
    unpack_tier(kernel, list, tiers, counts, 0, coded.first)
}

/// Leaves what the first tier passes on in the list.
///
/// # Errors
/// Unpacks the other tiers, as [`unpack`] does.
pub(super) fn unpack_passed(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    coded: Coded<'_>,
) -> Result<(), BlockFault> {
    let (escapes, padding) = coded.escapes.split_at(usize::from(counts[TIERS]));
    check_zero(padding)?;
    list[BLOCK_VALUES - escapes.len()..BLOCK_VALUES].copy_from_slice(escapes);
    let mut planes = coded.planes;
    for number in (1..TIERS).rev() {
        let (before, own) = planes.split_at(planes.len() - plane_bytes(usize::from(counts[number])));
        planes = before;
        unpack_tier(kernel, list, tiers, counts, number, own)?;
    }
    Ok(())
}

fn unpack_tier(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    number: usize,
    planes: &[u8],
) -> Result<(), BlockFault> {
    let (count, passed) = (usize::from(counts[number]), usize::from(counts[number + 1]));
    if !ends_clear(count, planes) {
        return Err(BlockFault::Padding);
    }
    (kernel.unpack_tier)(&mut list[BLOCK_VALUES - count..], passed, &tiers[number], planes)
        .map_err(|found| BlockFault::Passed { tier: number + 1, expected: passed, found })
}

/// The planes of the first tier end clear.
///
/// # Errors
/// If not.
pub(super) fn check_end(counts: &[u16; TIERS + 1], planes: &[u8]) -> Result<(), BlockFault> {
    if ends_clear(usize::from(counts[0]), planes) { Ok(()) } else { Err(BlockFault::Padding) }
}

/// The planes of the first tier have passed on as many values as the counts say.
///
/// # Errors
/// If not.
pub(super) fn check_passed(counts: &[u16; TIERS + 1], found: usize) -> Result<(), BlockFault> {
    let expected = usize::from(counts[1]);
    if found == expected { Ok(()) } else { Err(BlockFault::Passed { tier: 1, expected, found }) }
}

/// Checks that padding is zero.
///
/// # Errors
/// If it is not.
pub(super) fn check_zero(padding: &[u8]) -> Result<(), BlockFault> {
    if padding.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(BlockFault::Padding) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::pass::FIRST_SYMBOLS;

    #[test]
    fn the_first_tier_is_the_same_in_all_orders() {
        // The encoder writes it before it knows the order.
        assert!(Order::ALL.iter().all(|order| order.tiers()[0].symbols == FIRST_SYMBOLS));
    }

    /// The probability of each exponent from -40 to 8 for Gaussian values of standard deviation 2^`octave`.
    fn exponents(octave: f64) -> Vec<(i8, f64)> {
        let share = |x: f64| libm::erf(x / libm::exp2(octave) / std::f64::consts::SQRT_2);
        (-40..9)
            .map(|e: i8| (e, share(libm::exp2(f64::from(e) + 1.0)) - share(libm::exp2(f64::from(e)))))
            .collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn orders_are_those_of_a_gaussian_in_each_quarter_of_an_octave() {
        const STEPS: u32 = 16;
        for quarter in 0..4 {
            let mut shares = std::collections::BTreeMap::new();
            for step in 0..STEPS {
                let fraction = (f64::from(quarter) + (f64::from(step) + 0.5) / f64::from(STEPS)) / 4.0;
                // The mean exponent of a Gaussian is 1.4164 below the logarithm of its deviation.
                let gaussian = exponents(fraction - 7.0 / 8.0 + 1.4164);
                for (exponent, share) in gaussian {
                    *shares.entry(exponent).or_insert(0.0) += share / f64::from(STEPS);
                }
            }
            let bits = |order: Order| {
                let mut left = 1.0;
                let mut bits = 0.0;
                for tier in order.tiers() {
                    bits += 2.0 * left;
                    left -= tier.symbols[..3].iter().map(|symbol| shares[&symbol.cast_signed()]).sum::<f64>();
                }
                bits + 8.0 * left
            };
            let chosen = bits(Order::of_quarter(quarter));
            assert!(chosen < 2.68, "quarter {quarter} takes {chosen} bits");
            for order in Order::ALL {
                assert!(chosen <= bits(order) + 0.003, "quarter {quarter}: {order:?} is better");
            }
        }
    }
}
