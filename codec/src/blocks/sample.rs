//! A sample of a frame, for its table.

use super::block::{BLOCK, GROUPS, MAX_WIDTH};
use super::coding::Format;
use super::columns::Expanded;
use super::fields::Fields;
use super::plan::Plan;
use super::rans::{self, JointHistogram, Model};
use super::rest::RestStats;
use crate::kernel::words::PLANES;
use crate::kernel::{BASE_GROUP, GroupSums, Kernel, joint};

/// Blocks and groups that are looked at.
const MAX_BLOCKS: usize = 16;
const MAX_GROUPS: usize = 64;

/// What is chosen for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) model: Model,
    /// What is added to means for bases: such that blocks of about the mean of the sample have the same base.
    pub(super) eighths: u32,
}

/// The table of a frame, if that pays; it may be one of exponents with the highest bits of mantissas, if that is asked for.
pub(super) fn table(
    kernel: &Kernel,
    format: Format,
    with_mantissa: bool,
    columns: Option<&Expanded>,
    values: &[u8],
) -> Option<Table> {
    let fields = format.fields;
    let blocks = values.len().div_ceil(BLOCK * fields.width());
    let looked_at = (blocks / 4).clamp(blocks.min(2), MAX_BLOCKS);
    let mut sums = [[GroupSums::default(); GROUPS]; MAX_BLOCKS];
    let block_of = |number: usize| {
        let block = number * blocks / looked_at;
        let end = values.len().min((block + 1) * BLOCK * fields.width());
        (&values[block * BLOCK * fields.width()..end], block * BLOCK)
    };
    let (mut exponents, mut nonzero) = (0, 0);
    for (number, sums) in sums[..looked_at].iter_mut().enumerate() {
        let (values, first) = block_of(number);
        fields.group_sums(kernel, values, sums);
        if let Some(columns) = columns {
            take_offsets(kernel, fields, columns, values, first, sums);
        }
        exponents += sums.iter().map(|sums| u64::from(sums.exponents)).sum::<u64>();
        nonzero += (values.len() / fields.width()) as u64;
        nonzero -= sums.iter().map(|sums| u64::from(sums.zeros)).sum::<u64>();
    }
    let rounded = ((8 * exponents + nonzero / 2).checked_div(nonzero)? % 8) as u32;
    // From 4 to 11, so that it is near that of tiers.
    let eighths = 4 + (8 - rounded) % 8;
    let mut histogram: JointHistogram = [0; _];
    // Residuals that have been counted, and all values in the groups that they are from.
    let (mut counted, mut seen) = (0, 0);
    for (number, sums) in sums[..looked_at].iter().enumerate() {
        let (values, first) = block_of(number);
        let count = values.len() / fields.width();
        let groups = count.div_ceil(BASE_GROUP);
        let plan = Plan::new(format.layout, fields, count, &sums[..groups], &RestStats::EMPTY, eighths);
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
            let mut residuals = [0; BASE_GROUP];
            let out = &mut residuals[..coded.len() / fields.width()];
            let mut rests = [[0; BASE_GROUP]; PLANES];
            let planes = rests.each_mut().map(|plane| &mut plane[..out.len()]);
            fields.split(kernel, coded, base, planes, out);
            if let Some(columns) = columns {
                let mut room = [0; BASE_GROUP];
                let offsets = columns.of_group(first + group * BASE_GROUP, count, mask, &mut room);
                out.iter_mut()
                    .zip(offsets)
                    .for_each(|(residual, offset)| *residual = residual.wrapping_sub(*offset));
            }
            let below = fields.top_mantissa_bits() - joint::BITS as u32;
            for (residual, top) in out.iter().zip(&rests[(fields.rest_bits() - joint::BITS) / 8]) {
                let pair = usize::from(*residual) << joint::BITS | usize::from(*top >> below & 3);
                histogram[pair] += 1;
            }
            counted += out.len();
        }
    }
    let count = (values.len() / fields.width()) as u128;
    let coded = (count * counted as u128).checked_div(seen as u128)? as u64;
    let model = rans::choose(format, blocks, coded, with_mantissa, &histogram)?;
    Some(Table { model, eighths })
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
