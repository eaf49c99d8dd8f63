//! The fixed orders of residuals: which three of them each tier names.
//!
//! A residual is an exponent less the base of its group. The orders are those of a Gaussian whose mean exponent lies
//! in the lower, the middle and the upper part of the octave that the base stands for. Frames need no symbol list.

use crate::kernel::tier::Tier;

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
