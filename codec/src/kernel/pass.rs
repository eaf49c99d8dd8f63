//! The first tier of BF16 values in one pass over them: everything that is made of a value while it is in a register.
//!
//! A pass takes whole groups of [`BASE_GROUP`] values, of which the last one may be shorter, and at most
//! `checksum::PART_BYTES` of them, so that a checksum folds their sum.

use super::tier::{self, LIST_PAD, PAIR, Tier, plane_bytes};
use super::{BASE_GROUP, GroupSums, WORD_VALUES, fields, sums};

/// Bytes of a group's values.
pub const GROUP_BYTES: usize = 2 * BASE_GROUP;
/// Bytes of a group's planes, where there is a tier.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for kernels that take a group at a time"))]
pub const GROUP_PLANES: usize = BASE_GROUP / WORD_VALUES * PAIR;

/// The symbols of a tier that a pass writes.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for kernels that compare with them"))]
pub const FIRST_SYMBOLS: [u8; 4] = [0, 1, 255, 0];

/// How values are taken apart.
#[derive(Clone, Copy)]
pub struct Split<'a> {
    /// The base of all groups; none if each has that of its sums, see [`GroupSums::base`].
    pub base: Option<u8>,
    /// Rounding of such bases.
    pub eighths: u32,
    /// The first tier, with the symbols [`FIRST_SYMBOLS`]. Without a tier there are no planes, and all residuals are passed on.
    pub tier: Option<&'a Tier>,
    /// The index of the first word of the checksum.
    pub word: u64,
    /// Whether the rests are written past the caches, where the kernel can. Only for
    /// [`crate::streaming_store::StreamingStore`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub streaming: bool,
}

/// Buffers for the parts of values, with room for exactly all of them.
pub struct SplitMut<'a> {
    pub rest: &'a mut [u8],
    pub planes: &'a mut [u8],
    pub sums: &'a mut [GroupSums],
    /// Residuals without a code follow the `passed` that are the front already; there is room for one per value and
    /// [`LIST_PAD`] bytes behind them.
    pub list: &'a mut [u8],
    pub passed: usize,
}

/// Parts that values are put together from. The planes end clear.
#[derive(Clone, Copy)]
pub struct Join<'a> {
    /// None if no residual has a code.
    pub tier: Option<&'a Tier>,
    pub word: u64,
    /// The base of each group; none for a group of zeros, which has no residuals and no rest.
    pub bases: &'a [Option<u8>],
    pub planes: &'a [u8],
    pub rest: &'a [u8],
    /// The residuals without a code, and [`LIST_PAD`] bytes behind them. If more are asked for, what comes of it is of no
    /// meaning.
    pub passed: &'a [u8],
    /// Whether the values are written past the caches, where the kernel can. Only for
    /// [`crate::streaming_store::StreamingStore`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub streaming: bool,
}

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed<Sum = u64> {
    /// Residuals without a code, including those before.
    pub passed: usize,
    /// The sum of words for the checksum: not folded if it has 64 bits.
    pub sum: Sum,
}

/// Defines `split_pass` and `join_pass` for a level, a group at a time, with its modules `fields`, `sums` and `tier`, which are in
/// scope. The checksum is summed group by group, or at the end, from the fastest cache: that makes keys once.
macro_rules! passes {
    (sums by group: $by_group:literal $(, compiled for $features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        pub(crate) fn split_pass(
            values: &[u8],
            how: $crate::kernel::pass::Split<'_>,
            out: $crate::kernel::pass::SplitMut<'_>,
        ) -> $crate::kernel::pass::Passed {
            use $crate::kernel::pass::{GROUP_BYTES, Passed, SplitMut};
            let SplitMut { rest, mut planes, sums: group_sums, list, mut passed } = out;
            let (mut sum, mut word) = (0u64, how.word);
            let rests = rest.chunks_mut($crate::kernel::BASE_GROUP);
            for ((values, of_group), rest) in values.chunks(GROUP_BYTES).zip(group_sums.chunks_mut(1)).zip(rests) {
                fields::group_sums(values, of_group);
                if $by_group {
                    sum = sum.wrapping_add(sums::mixed(values, word));
                    word = word.wrapping_add((GROUP_BYTES / $crate::checksum::WORD) as u64);
                }
                let base = how.base.unwrap_or_else(|| of_group[0].base(rest.len() as u32, how.eighths));
                passed = match how.tier {
                    Some(tier) => {
                        let planes = planes.split_off_mut(..$crate::kernel::tier::plane_bytes(rest.len()));
                        let planes = planes.expect("there are planes for all values");
                        tier::split_tier(values, base, tier, rest, planes, list, passed)
                    }
                    None => {
                        fields::split(values, base, rest, &mut list[passed..passed + rest.len()]);
                        passed + rest.len()
                    }
                };
            }
            Passed { passed, sum: if $by_group { sum } else { sums::mixed(values, word) } }
        }

        $(#[target_feature(enable = $features)])?
        pub(crate) fn join_pass(
            coded: $crate::kernel::pass::Join<'_>,
            values: &mut [u8],
        ) -> $crate::kernel::pass::Passed {
            use $crate::kernel::pass::{Passed, join_groups};
            let passed = join_groups(coded, values, |passed, tier, planes, rest, base, values| match tier {
                Some(tier) => tier::join_tier(passed, tier, planes, rest, base, values),
                None => {
                    fields::join(rest, &passed[..rest.len()], base, values);
                    rest.len()
                }
            });
            Passed { passed, sum: sums::mixed(values, coded.word) }
        }
    };
}
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use passes;

passes!(sums by group: false);

/// Puts values together by a function for one group, with the arguments `(passed, tier, planes, rest, base, values)`;
/// returns how many residuals were passed on.
#[inline(always)]
pub fn join_groups(
    coded: Join<'_>,
    values: &mut [u8],
    join: impl Fn(&[u8], Option<&Tier>, &[u8], &[u8], u8, &mut [u8]) -> usize,
) -> usize {
    let Join { mut planes, mut rest, passed, tier, .. } = coded;
    let mut used = 0;
    for (values, base) in values.chunks_mut(GROUP_BYTES).zip(coded.bases) {
        let Some(base) = base else {
            values.fill(0);
            continue;
        };
        let count = values.len() / 2;
        let planes_len = if tier.is_some() { plane_bytes(count) } else { 0 };
        let planes = planes.split_off(..planes_len).expect("there are planes for all values");
        let rest = rest.split_off(..count).expect("there is a rest for each value");
        used += join(left(passed, used), tier, planes, rest, *base, values);
    }
    used
}

/// The residuals that are left, and the padding: at least the latter, whatever the planes say.
#[inline(always)]
pub fn left(passed: &[u8], used: usize) -> &[u8] {
    let end = passed.len().checked_sub(LIST_PAD).expect("padding follows what was passed on");
    &passed[used.min(end)..]
}
