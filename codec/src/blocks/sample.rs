//! A sample of a frame, for its table; and a table that many frames share: they name it, and carry none.

use super::columns::Expanded;
use super::fields::Fields;
use super::geometry::{BLOCK_GROUPS, BLOCK_VALUES, Coding, Format, MAX_WIDTH};
use super::plan::Plan;
use super::rans::{self, JointHistogram, Model};
use super::rest::RestStats;
use super::sample;
use crate::kernel::fields::PLANES;
use crate::kernel::{BASE_GROUP, GroupSums, Kernel, TILE, joint};
use crate::{DType, DecodeError, Layout, levels, tables};

/// Blocks and groups that are looked at.
const MAX_BLOCKS: usize = 16;
const MAX_GROUPS: usize = 64;

/// Table chosen for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) model: Model,
    /// Rounding of bases, in eighths: such that blocks of about the mean of the sample have the same base.
    pub(super) eighths: u32,
}

/// Blocks of a sample for training; two of them, and an eighth of their values, are counted.
const TRAINING_BLOCKS: usize = 4;
/// Values that are counted for training at most: what histograms have room for.
const MOST_COUNTED: usize = 1 << 31;

/// The table of a frame, if that pays; it may be one of exponents with the highest bits of mantissas, if that is asked for.
pub(super) fn table(
    kernel: &Kernel,
    format: Format,
    with_mantissa: bool,
    columns: Option<&Expanded>,
    values: &[u8],
) -> Option<Table> {
    let mut sums = NO_SUMS;
    let sample = Sample::of(kernel, format, columns, values, &mut sums);
    let eighths = eighths(sample.exponents, sample.nonzero)?;
    let mut counts = Counts::NONE;
    sample.count(eighths, with_mantissa, &mut counts);
    let count = (values.len() / format.fields.width()) as u128;
    let coded = (count * counts.counted as u128).checked_div(counts.seen as u128)? as u64;
    let model = rans::choose(format, sample.blocks, coded, with_mantissa, &counts.histogram)?;
    Some(Table { model, eighths })
}

/// The table for frames of values like these samples, whatever the length of frames. None if no value would be coded.
pub(super) fn train(
    kernel: &Kernel,
    format: Format,
    with_mantissa: bool,
    samples: &[&[u8]],
) -> Option<Table> {
    let len = TRAINING_BLOCKS * BLOCK_VALUES * format.fields.width();
    let pieces = || samples.iter().flat_map(|values| values.chunks(len));
    let (mut exponents, mut nonzero) = (0, 0);
    let mut sums = NO_SUMS;
    for values in pieces() {
        let sample = Sample::of(kernel, format, None, values, &mut sums);
        exponents += sample.exponents;
        nonzero += sample.nonzero;
    }
    let eighths = eighths(exponents, nonzero)?;
    let mut counts = Counts::NONE;
    for values in pieces() {
        if counts.counted < MOST_COUNTED {
            Sample::of(kernel, format, None, values, &mut sums).count(eighths, with_mantissa, &mut counts);
        }
    }
    Some(Table { model: rans::fit(with_mantissa, &counts.histogram)?, eighths })
}

/// Rounding of bases, in eighths, from the sum of `nonzero` exponents; none if `nonzero` is 0.
fn eighths(exponents: u64, nonzero: u64) -> Option<u32> {
    let rounded = ((8 * exponents + nonzero / 2).checked_div(nonzero)? % 8) as u32;
    // From 4 to 11, so that it is near that of tiers.
    Some(4 + (8 - rounded) % 8)
}

/// Sums over the groups of the blocks of a sample.
type Sums = [[GroupSums; BLOCK_GROUPS]; MAX_BLOCKS];

const NO_SUMS: Sums = [[GroupSums { exponents: 0, zeros: 0 }; BLOCK_GROUPS]; MAX_BLOCKS];

/// The blocks of a frame that are looked at.
struct Sample<'a> {
    kernel: &'a Kernel,
    format: Format,
    columns: Option<&'a Expanded>,
    values: &'a [u8],
    /// Number of blocks of the whole frame.
    blocks: usize,
    /// Sums over the groups of each block that is looked at.
    sums: &'a [[GroupSums; BLOCK_GROUPS]],
    /// Sum of the exponents of the values in them that are not +0, and number of these.
    exponents: u64,
    nonzero: u64,
}

/// Counts over all samples.
struct Counts {
    histogram: JointHistogram,
    /// Residuals that have been counted, and all values in the groups that they are from.
    counted: usize,
    seen: usize,
}

impl Counts {
    const NONE: Self = Self { histogram: [0; _], counted: 0, seen: 0 };

    /// Adds residuals, at most a tile of them, without bits of mantissas.
    fn add_residuals(&mut self, kernel: &Kernel, residuals: &[u8]) {
        let pairs = self.histogram.as_chunks_mut::<{ 1 << joint::BITS }>().0.iter_mut();
        pairs.zip((kernel.byte_counts)(residuals)).for_each(|(pair, count)| pair[0] += count);
    }
}

impl<'a> Sample<'a> {
    /// Sample of the values of a frame, with room for sums.
    fn of(
        kernel: &'a Kernel,
        format: Format,
        columns: Option<&'a Expanded>,
        values: &'a [u8],
        sums: &'a mut Sums,
    ) -> Self {
        let fields = format.fields;
        let blocks = values.len().div_ceil(BLOCK_VALUES * fields.width());
        let looked_at = (blocks / 4).clamp(blocks.min(2), MAX_BLOCKS);
        let (mut exponents, mut nonzero) = (0, 0);
        for (number, sums) in sums[..looked_at].iter_mut().enumerate() {
            let (values, first) = block(fields, values, number * blocks / looked_at);
            fields.group_sums(kernel, values, sums);
            let sums = &mut sums[..(values.len() / fields.width()).div_ceil(BASE_GROUP)];
            if let Some(columns) = columns {
                take_offsets(kernel, fields, columns, values, first, sums);
            }
            exponents += sums.iter().map(|sums| u64::from(sums.exponents)).sum::<u64>();
            nonzero += (values.len() / fields.width()) as u64;
            nonzero -= sums.iter().map(|sums| u64::from(sums.zeros)).sum::<u64>();
        }
        Self { kernel, format, columns, values, blocks, sums: &sums[..looked_at], exponents, nonzero }
    }

    /// Counts residuals, and bits of mantissas if asked for, with bases that are means plus `eighths`.
    fn count(&self, eighths: u32, with_mantissa: bool, counts: &mut Counts) {
        let Self { kernel, format, columns, .. } = *self;
        let (fields, looked_at) = (format.fields, self.sums.len());
        // Residuals that are counted together.
        let (mut list, mut listed) = ([0; TILE], 0);
        for (number, sums) in self.sums.iter().enumerate() {
            let (values, first) = block(fields, self.values, number * self.blocks / looked_at);
            let count = values.len() / fields.width();
            let groups = count.div_ceil(BASE_GROUP);
            let plan = Plan::new(format.layout, fields, count, &sums[..groups], &RestStats::EMPTY, eighths);
            let step = groups.div_ceil(MAX_GROUPS / looked_at);
            let groups = values.chunks(fields.width() * BASE_GROUP).zip(plan.bases).enumerate();
            for (group, (values, base)) in groups.skip(number % step).step_by(step) {
                let count = values.len() / fields.width();
                counts.seen += count;
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
                if with_mantissa {
                    let below = fields.top_mantissa_bits() - joint::BITS as u32;
                    for (residual, top) in out.iter().zip(&rests[(fields.rest_bits() - joint::BITS) / 8]) {
                        let pair = usize::from(*residual) << joint::BITS | usize::from(*top >> below & 3);
                        counts.histogram[pair] += 1;
                    }
                } else {
                    if listed + out.len() > list.len() {
                        counts.add_residuals(kernel, &list[..listed]);
                        listed = 0;
                    }
                    list[listed..listed + out.len()].copy_from_slice(out);
                    listed += out.len();
                }
                counts.counted += out.len();
            }
        }
        if listed > 0 {
            counts.add_residuals(kernel, &list[..listed]);
        }
    }
}

/// The values of a block, and how many are before it.
fn block(fields: Fields, values: &[u8], number: usize) -> (&[u8], usize) {
    let end = values.len().min((number + 1) * BLOCK_VALUES * fields.width());
    (&values[number * BLOCK_VALUES * fields.width()..end], number * BLOCK_VALUES)
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

/// Bytes in front of the table.
const HEAD: usize = 4;
/// Allowed roundings of bases, in eighths.
const EIGHTHS: std::ops::RangeInclusive<u32> = 4..=11;

/// A table for the frames of values of one type. Its bytes are the tags of codec and type, the rounding of bases, and a zero; then the table as
/// in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) dtype: DType,
    pub(super) table: Table,
    /// Id by which frames name the table.
    pub(super) id: u32,
}

impl Shared {
    /// The table for values like these samples, which are whole, in this layout: of exponents with bits of mantissas if that is asked for, or the type is
    /// FP8, and the layout has them. None if no value would be coded.
    pub(crate) fn train(layout: Layout, dtype: DType, mantissa: bool, samples: &[&[u8]]) -> Option<Self> {
        let format = Format::new(Coding::Rans, layout, dtype);
        let mantissa = rans::has_joint(layout, dtype) && (mantissa || Fields::of(dtype).is_short());
        let table = sample::train(levels::active(), format, mantissa, samples)?;
        Some(Self { dtype, table, id: tables::id_of(&to_bytes(dtype, table)) })
    }

    /// The table with these bytes.
    ///
    /// # Errors
    /// If it is no table of `rans`.
    pub(crate) fn read(table: &tables::Table) -> Result<Self, DecodeError> {
        // A tag that no type has is said as the first type.
        let wrong = || wrong(table, table.dtype().unwrap_or(DType::Bf16));
        let dtype = table.dtype().ok_or_else(wrong)?;
        let (head, mut rest) = table.as_bytes().split_first_chunk::<HEAD>().ok_or_else(wrong)?;
        let eighths = u32::from(head[2]);
        if head[0] != Coding::Rans.tag() || head[3] != 0 || !EIGHTHS.contains(&eighths) {
            return Err(wrong());
        }
        let (model, _) = rans::read(&mut rest).map_err(|_| wrong())?;
        if !rest.is_empty() || (model.joint().is_some() && dtype == DType::F32) {
            return Err(wrong());
        }
        Ok(Self { dtype, table: Table { model, eighths }, id: table.id() })
    }

    /// The table that a frame names, which has blocks that need one or has none.
    ///
    /// # Errors
    /// If it is not for such frames, or no block needs it.
    pub(super) fn of_frame(
        table: &tables::Table,
        Format { layout, fields, .. }: Format,
        is_needed: bool,
    ) -> Result<Self, DecodeError> {
        if !is_needed {
            return Err(DecodeError::UnusedTable { codec: "rans", id: table.id() });
        }
        let shared =
            Self::read(table).ok().filter(|shared| shared.dtype == fields.dtype && shared.fits(layout));
        shared.ok_or_else(|| wrong(table, fields.dtype))
    }

    /// Whether frames in this layout can name it.
    pub(super) fn fits(&self, layout: Layout) -> bool {
        self.table.model.joint().is_none() || rans::has_joint(layout, self.dtype)
    }

    /// The table for decoders.
    pub(crate) fn table(&self) -> tables::Table {
        tables::Table::new(to_bytes(self.dtype, self.table))
    }
}

fn wrong(table: &tables::Table, dtype: DType) -> DecodeError {
    DecodeError::Table { id: table.id(), codec: "rans", dtype }
}

fn to_bytes(dtype: DType, Table { model, eighths }: Table) -> Vec<u8> {
    [&[Coding::Rans.tag(), dtype.tag(), eighths as u8, 0], &model.to_bytes()[..]].concat()
}
