//! A sample of the residuals of a frame, for its table.

use super::block::{BLOCK, GROUPS, MAX_WIDTH};
use super::coding::Format;
use super::columns::Expanded;
use super::fields::Fields;
use super::histogram;
use super::plan::Plan;
use super::rans;
use super::rest::RestStats;
use crate::kernel::rans::Frequencies;
use crate::kernel::words::PLANES;
use crate::kernel::{BASE_GROUP, GroupSums, Kernel};

/// Blocks and groups that are looked at.
const MAX_BLOCKS: usize = 16;
const MAX_GROUPS: usize = 64;

/// The table for the residuals of a frame, if that pays.
pub(super) fn frequencies(
    kernel: &Kernel,
    format: Format,
    columns: Option<&Expanded>,
    values: &[u8],
) -> Option<Frequencies> {
    let fields = format.fields;
    let blocks = values.len().div_ceil(BLOCK * fields.width());
    let looked_at = (blocks / 4).clamp(blocks.min(2), MAX_BLOCKS);
    let mut list = [0; MAX_GROUPS * BASE_GROUP];
    // Residuals in the list, and of all values in the groups that they are from.
    let (mut listed, mut seen) = (0, 0);
    for number in 0..looked_at {
        let block = number * blocks / looked_at;
        let end = values.len().min((block + 1) * BLOCK * fields.width());
        let values = &values[block * BLOCK * fields.width()..end];
        let first = block * BLOCK;
        let count = values.len() / fields.width();
        let mut sums = [GroupSums::default(); GROUPS];
        fields.group_sums(kernel, values, &mut sums);
        if let Some(columns) = columns {
            take_offsets(kernel, fields, columns, values, first, &mut sums);
        }
        let groups = count.div_ceil(BASE_GROUP);
        let plan = Plan::new(format.layout, fields, count, &sums[..groups], &RestStats::EMPTY);
        let step = groups.div_ceil(MAX_GROUPS / looked_at);
        let groups = values.chunks(fields.width() * BASE_GROUP).zip(plan.bases).enumerate();
        for (group, (values, base)) in groups.skip(number % step).step_by(step) {
            let count = values.len() / fields.width();
            seen += count;
            let Some(base) = base else { continue };
            let (mut bits, mut kept) = ([0; BASE_GROUP / 8], [0; MAX_WIDTH * BASE_GROUP]);
            let (mut coded, mut mask) = (values, None);
            if plan.masked {
                let bits = &mut bits[..count.div_ceil(8)];
                let len = fields.drop_zeros(kernel, values, bits, &mut kept[..values.len()]);
                (coded, mask) = (&kept[..len], Some(&*bits));
            }
            let out = &mut list[listed..listed + coded.len() / fields.width()];
            let mut planes = [[0; BASE_GROUP]; PLANES];
            let planes = planes.each_mut().map(|plane| &mut plane[..out.len()]);
            fields.split(kernel, coded, base, planes, out);
            if let Some(columns) = columns {
                let mut room = [0; BASE_GROUP];
                let offsets = columns.of_group(first + group * BASE_GROUP, count, mask, &mut room);
                out.iter_mut()
                    .zip(offsets)
                    .for_each(|(residual, offset)| *residual = residual.wrapping_sub(*offset));
            }
            listed += out.len();
        }
    }
    let count = (values.len() / fields.width()) as u128;
    let coded = (count * listed as u128).checked_div(seen as u128)? as u64;
    rans::choose(format, blocks, coded, &histogram::of_bytes(&list[..listed]))
}

/// Takes the offsets of columns off the sums of groups; of values from `first` on.
pub(super) fn take_offsets(
    kernel: &Kernel,
    fields: Fields,
    columns: &Expanded,
    values: &[u8],
    first: usize,
    sums: &mut [GroupSums],
) {
    let groups = values.chunks(fields.width() * BASE_GROUP).zip((first..).step_by(BASE_GROUP));
    for ((values, first), sums) in groups.zip(sums) {
        let offsets = columns.of_values(first, values.len() / fields.width());
        let sum = fields.sum_offsets(kernel, values, offsets);
        sums.exponents = sums.exponents.saturating_add_signed(-sum);
    }
}
