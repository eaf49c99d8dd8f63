//! One pass over values: a group at a time, which stays in the fastest cache from one step to the next.

use super::{fields, sums, tier};
use crate::kernel::BASE_GROUP;
use crate::kernel::pass::{self, GROUP_BYTES, Join, Passed, Split, SplitMut};
use crate::kernel::tier::plane_bytes;

/// See [`crate::kernel::Kernel::split_pass`].
#[target_feature(enable = "neon")]
pub(super) fn split_pass(values: &[u8], how: Split<'_>, out: SplitMut<'_>) -> Passed {
    let SplitMut { rest, mut planes, sums: group_sums, list, mut passed } = out;
    let groups = values.chunks(GROUP_BYTES).zip(group_sums.chunks_mut(1)).zip(rest.chunks_mut(BASE_GROUP));
    for ((values, of_group), rest) in groups {
        fields::group_sums(values, of_group);
        let base = how.base.unwrap_or_else(|| of_group[0].base(rest.len() as u32, how.eighths));
        passed = match how.tier {
            Some(tier) => {
                let planes = planes.split_off_mut(..plane_bytes(rest.len()));
                let planes = planes.expect("there are planes for all values");
                tier::split_tier(values, base, tier, rest, planes, list, passed)
            }
            None => {
                fields::split(values, base, rest, &mut list[passed..passed + rest.len()]);
                passed + rest.len()
            }
        };
    }
    // The values of a pass fit into the fastest cache, and keys are made once.
    Passed { passed, sum: sums::mixed(values, how.word) }
}

/// See [`crate::kernel::Kernel::join_pass`].
#[target_feature(enable = "neon")]
pub(super) fn join_pass(coded: Join<'_>, values: &mut [u8]) -> Passed {
    let passed = pass::join_groups(coded, values, |passed, tier, planes, rest, base, values| match tier {
        Some(tier) => tier::join_tier(passed, tier, planes, rest, base, values),
        None => {
            fields::join(rest, &passed[..rest.len()], base, values);
            rest.len()
        }
    });
    Passed { passed, sum: sums::mixed(values, coded.word) }
}
