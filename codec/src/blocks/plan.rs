//! The selector: form and bases of a block, from sums over its groups. Integers only, so that every kernel and every
//! machine chooses the same.

pub(super) use crate::kernel::fields::MEAN_FRACTION;

use super::entry::{Form, ZERO_BYTE, ZERO_NIBBLE};
use super::fields::Fields;
use super::geometry::BLOCK_GROUPS;
use super::rest::{RestStats, Shape};
use super::tiers::Order;
use crate::Layout;
use crate::kernel::{BASE_GROUP, GroupSums, base_of};

/// Mean exponents of groups with a base each vary at least by this much, squared: a quarter of an octave.
const MIN_VARIANCE: u64 = 1 << (2 * MEAN_FRACTION - 4);
/// A full group without zeros: its sum of exponents is its mean.
const FULL: u32 = 1 << MEAN_FRACTION;
const _: () = assert!(FULL as usize == BASE_GROUP);
/// The largest difference between bases that are nibbles.
const MAX_SPAN: u8 = ZERO_NIBBLE - 1;

/// Rounding of bases, in eighths: added to the mean exponent of a group. This value is best for the orders of tiers.
pub(super) const EIGHTHS: u32 = 7;

/// How a block is to be coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) form: Form,
    pub(super) masked: bool,
    /// Base of the block's entry.
    pub(super) base: u8,
    /// The base of each group; none for a group of zeros.
    pub(super) bases: [Option<u8>; BLOCK_GROUPS],
    /// Values in groups that are not left out.
    pub(super) kept: usize,
    /// Values that are coded.
    pub(super) coded: usize,
    /// How their rest is kept.
    pub(super) rest: Shape,
}

impl Plan {
    /// The form for a block of `count` values, at least one, with these sums. Bases are means plus `eighths`.
    pub(super) fn new(
        layout: Layout,
        fields: Fields,
        count: usize,
        sums: &[GroupSums],
        rest: &RestStats,
        eighths: u32,
    ) -> Self {
        let size = |group: usize| (count - group * BASE_GROUP).min(BASE_GROUP) as u32;
        let groups = || sums.iter().zip(0..).map(|(sums, group)| Mean::new(*sums, size(group)));
        let whole = groups().fold(Mean { exponents: 0, values: 0 }, Mean::plus);
        let compact = layout == Layout::Compact;
        if whole.values == 0 && compact {
            return Self::uncoded(Form::Zero, fields);
        }

        let mut bases = [None; BLOCK_GROUPS];
        let (form, base) = if sums.len() > 1 && groups_differ(groups()) {
            for (base, mean) in bases.iter_mut().zip(groups()) {
                *base = (mean.values > 0).then(|| mean.base(eighths));
            }
            let lowest = bases.iter().flatten().min().copied().unwrap_or(0);
            let highest = bases.iter().flatten().max().copied().unwrap_or(0);
            if highest - lowest > MAX_SPAN { (Form::Bytes, 0) } else { (Form::Nibbles, lowest) }
        } else {
            bases[..sums.len()].fill(Some(whole.base(eighths)));
            (Form::One(whole.order()), whole.base(eighths))
        };

        // In the split layout all values are coded, whatever they are.
        let kept = if compact {
            (0..sums.len()).filter(|group| bases[*group].is_some()).map(|group| size(group) as usize).sum()
        } else {
            count
        };
        let zeros = kept - whole.values as usize;
        let masked = compact && zeros * fields.bits_of_zero() > kept;
        let (coded, zeros) = if masked { (kept - zeros, 0) } else { (kept, zeros) };
        let rest = Shape::shortest(layout, fields, coded, zeros, rest);
        Self { form, masked, base, bases, kept, coded, rest }
    }

    /// A block without coded values.
    fn uncoded(form: Form, fields: Fields) -> Self {
        let (bases, rest) = ([None; BLOCK_GROUPS], Shape::raw(fields, 0));
        Self { form, masked: false, base: 0, bases, kept: 0, coded: 0, rest }
    }

    /// Writes the bases of `groups` groups, with zeros behind them.
    pub(super) fn write_bases(&self, groups: usize, out: &mut [u8]) {
        out.fill(0);
        let bases = &self.bases[..groups];
        match self.form {
            Form::Nibbles => {
                let nibble = |base: Option<u8>| base.map_or(ZERO_NIBBLE, |base| base - self.base);
                for (out, pair) in out.iter_mut().zip(bases.chunks(2)) {
                    *out = nibble(pair[0]) | pair.get(1).map_or(0, |base| nibble(*base) << 4);
                }
            }
            Form::Bytes => {
                for (out, base) in out.iter_mut().zip(bases) {
                    *out = base.unwrap_or(ZERO_BYTE);
                }
            }
            Form::One(_) | Form::Stored | Form::Zero => {}
        }
    }
}

/// Whether a base for each group pays: some groups are all zero, or the means of the others vary more than those of
/// equal Gaussians do.
fn groups_differ(groups: impl Iterator<Item = Mean>) -> bool {
    let mut spread = Spread::default();
    for group in groups {
        let mean = match group.values {
            0 => return true,
            // So most groups need no division.
            FULL => group.exponents,
            values => (group.exponents << MEAN_FRACTION) / values,
        };
        spread.add(u64::from(mean), group.values);
    }
    spread.exceeds(MIN_VARIANCE)
}

/// The mean exponent of the values that are not +0.
#[derive(Clone, Copy)]
struct Mean {
    exponents: u32,
    values: u32,
}

impl Mean {
    fn new(sums: GroupSums, size: u32) -> Self {
        Self { exponents: sums.exponents, values: size - sums.zeros }
    }

    fn plus(self, other: Self) -> Self {
        Self { exponents: self.exponents + other.exponents, values: self.values + other.values }
    }

    fn base(self, eighths: u32) -> u8 {
        base_of(self.exponents, self.values, eighths)
    }

    /// The order that goes with the base.
    fn order(self) -> Order {
        let eighths = 8 * self.exponents + EIGHTHS * self.values;
        let fraction = eighths.checked_rem(8 * self.values).unwrap_or(0);
        Order::of_quarter(fraction.checked_div(2 * self.values).unwrap_or(0))
    }
}

/// Variance of the exponent of a Gaussian value, 2.56, squared octaves: means of n values vary by this over n anyway.
const GAUSSIAN_VARIANCE: u64 = (256 << (2 * MEAN_FRACTION)) / 100;

/// Sums over means of exponents, to find whether these differ by more than chance. Integers, so that every machine finds the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    /// How many means, and of how many values in all.
    number: u64,
    values: u64,
    sum: u64,
    squares: u64,
}

impl Spread {
    /// Adds the mean of `count` values; it has [`MEAN_FRACTION`] fractional bits.
    #[inline(always)]
    pub(super) fn add(&mut self, mean: u64, values: u32) {
        self.number += 1;
        self.values += u64::from(values);
        self.sum += mean;
        self.squares += mean * mean;
    }

    /// Whether the means vary by more than `min_variance` and what is to be expected of Gaussian values with equal means;
    /// it has twice [`MEAN_FRACTION`] bits behind the point.
    pub(super) fn exceeds(&self, min_variance: u64) -> bool {
        let [number, sum, squares] = [self.number, self.sum, self.squares].map(u128::from);
        let noise = GAUSSIAN_VARIANCE * self.number / self.values.max(1);
        // Both sides are `number` squared times a variance.
        number * squares - sum * sum > number * number * u128::from(min_variance + noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn plan(layout: Layout, count: usize, sums: &[GroupSums]) -> Plan {
        let bf16 = Fields::of(DType::Bf16);
        Plan::new(layout, bf16, count, sums, &RestStats::EMPTY, EIGHTHS)
    }

    fn sums(exponents: u32, zeros: u32) -> GroupSums {
        GroupSums { exponents, zeros }
    }

    #[test]
    fn base_and_order_follow_the_mean() {
        for (exponents, base, order) in [
            (1200, 120, Order::High),
            (1201, 120, Order::High),
            (1202, 121, Order::Low),
            (1203, 121, Order::Low),
            (1204, 121, Order::Middle),
            (1208, 121, Order::Middle),
            (1209, 121, Order::High),
            (2550, 254, Order::High),
        ] {
            let plan = plan(Layout::Compact, 10, &[sums(exponents, 0)]);
            assert_eq!((plan.base, plan.form), (base, Form::One(order)), "{exponents}");
        }
    }

    #[test]
    fn groups_that_differ_have_bases_of_their_own() {
        let group = |exponent: u32| sums(256 * exponent, 0);
        let equal = [group(120), group(120), group(120)];
        assert_eq!(plan(Layout::Split, 768, &equal).form, Form::One(Order::High));
        // Means of 120 and 120.4 vary less than a quarter of an octave, those of 120 and 121 more.
        let close = [group(120), sums(256 * 120 + 102, 0), group(120)];
        assert_eq!(plan(Layout::Split, 768, &close).form, Form::One(Order::Low));
        let far = [group(120), group(121), group(120)];
        let chosen = plan(Layout::Split, 768, &far);
        assert_eq!((chosen.form, chosen.base), (Form::Nibbles, 120));
        assert_eq!(chosen.bases[..4], [Some(120), Some(121), Some(120), None]);
        let mut bases = [0xee; 8];
        chosen.write_bases(3, &mut bases);
        assert_eq!(bases, [0x10, 0, 0, 0, 0, 0, 0, 0]);
        let (widest, wider) = ([group(100), group(114)], [group(100), group(115)]);
        assert_eq!(plan(Layout::Split, 512, &widest).form, Form::Nibbles);
        let chosen = plan(Layout::Split, 512, &wider);
        assert_eq!((chosen.form, chosen.base), (Form::Bytes, 0));
        chosen.write_bases(2, &mut bases);
        assert_eq!(bases, [100, 115, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn zeros_are_left_out_of_the_compact_layout() {
        let (group, zeros) = (sums(256 * 120, 0), sums(0, 256));
        let chosen = plan(Layout::Compact, 600, &[group, zeros, sums(88 * 120, 0)]);
        assert_eq!((chosen.form, chosen.masked, chosen.kept, chosen.coded), (Form::Nibbles, false, 344, 344));
        let mut bases = [0xee; 8];
        chosen.write_bases(3, &mut bases);
        assert_eq!(bases, [0xf0, 0, 0, 0, 0, 0, 0, 0]);
        let chosen = plan(Layout::Split, 600, &[group, zeros, sums(88 * 120, 0)]);
        assert_eq!((chosen.form, chosen.masked, chosen.kept, chosen.coded), (Form::Nibbles, false, 600, 600));
        // A mask costs a bit per value, a zero 24.
        let chosen = plan(Layout::Compact, 256, &[sums(246 * 120, 10)]);
        assert_eq!((chosen.masked, chosen.coded), (false, 256));
        let chosen = plan(Layout::Compact, 256, &[sums(245 * 120, 11)]);
        assert_eq!((chosen.masked, chosen.kept, chosen.coded), (true, 256, 245));
        assert_eq!(
            plan(Layout::Compact, 300, &[zeros, sums(0, 44)]),
            Plan::uncoded(Form::Zero, Fields::of(DType::Bf16))
        );
        assert_eq!(plan(Layout::Split, 300, &[zeros, sums(0, 44)]).bases, [None; BLOCK_GROUPS]);
    }
}
