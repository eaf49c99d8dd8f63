//! Residuals and rests into values.

use std::ops::Range;

use super::super::entry::Entry;
use super::super::geometry::{BLOCK_VALUES, MAX_WIDTH, mask_bytes};
use super::super::rest::Rest;
use super::{Bases, Coded, Decoder};
use crate::checksum::{PART_BYTES, WORD, fold};
use crate::kernel::fields::PLANES;
use crate::kernel::pass::{Join, Passed, left};
use crate::kernel::tier::{Tier, plane_bytes};
use crate::kernel::{BASE_GROUP, Kernel};
use crate::streaming_store::StreamingStore;
use crate::{BlockFault, DType};

/// Joins BF16 values without a mask; only whole groups may be left out.
pub(super) struct Plain<'a> {
    pub(super) bases: &'a Bases<'a>,
    /// Values before the block in the frame.
    pub(super) first: usize,
    /// The first tier and its planes, if these are read on the way.
    pub(super) planes: Option<(&'a Tier, &'a [u8])>,
    /// All residuals, or those that the first tier passes on; and padding behind them.
    pub(super) listed: &'a [u8],
    /// A byte for each value, in two parts.
    pub(super) rest: [&'a [u8]; 2],
}

impl Plain<'_> {
    /// Writes the values, in portions that the checksum takes at once. Returns how many residuals were taken from the list, and the
    /// checksum of the values.
    pub(super) fn join(
        self,
        kernel: &Kernel,
        streaming: &mut Option<StreamingStore<'_>>,
        out: &mut [u8],
    ) -> Passed<u32> {
        const PART_GROUPS: usize = PART_BYTES / (2 * BASE_GROUP);
        let Self { bases, first, planes, listed, rest: [mut rest, mut rest_end] } = self;
        let (tier, mut planes) = planes.map_or((None, &[][..]), |(tier, planes)| (Some(tier), planes));
        let (mut used, mut sum) = (0, 0u32);
        for (number, out) in out.chunks_mut(PART_BYTES).enumerate() {
            let first = first + number * PART_BYTES / 2;
            let mut of_groups = [None; PART_GROUPS];
            let of_groups = &mut of_groups[..out.len().div_ceil(2 * BASE_GROUP)];
            for (base, group) in of_groups.iter_mut().zip(number * PART_GROUPS..) {
                *base = bases.of(group);
            }
            let coded = of_groups.iter().zip(out.chunks(2 * BASE_GROUP)).filter(|(base, _)| base.is_some());
            let count: usize = coded.map(|(_, values)| values.len() / 2).sum();
            let mut both: [u8; PART_BYTES / 2];
            let rest = if let Some(rest) = rest.split_off(..count) {
                rest
            } else {
                both = [0; _];
                let (front, end) = both[..count].split_at_mut(rest.len());
                front.copy_from_slice(rest);
                end.copy_from_slice(rest_end.split_off(..end.len()).expect("there is a rest for each value"));
                rest = &[];
                &both[..count]
            };
            let planes_len = if tier.is_some() { plane_bytes(count) } else { 0 };
            let coded = Join {
                tier,
                word: (2 * first / WORD) as u64,
                bases: of_groups,
                planes: planes.split_off(..planes_len).expect("there are planes for all values"),
                rest,
                passed: left(listed, used),
                streaming: false,
            };
            let joined = StreamingStore::join(streaming, kernel, coded, out);
            used += joined.passed;
            sum = sum.wrapping_add(fold(joined.sum));
        }
        Passed { passed: used, sum }
    }
}

impl Decoder<'_, '_> {
    /// Writes the values of a block whose residuals are in the list.
    pub(super) fn join_all(
        &mut self,
        coded: &Coded<'_>,
        first: usize,
        rest: &mut Rest<'_>,
        out: &mut [u8],
    ) -> Result<(), BlockFault> {
        self.join(&coded.bases, first, coded.mask, rest, out)?;
        // The residuals have done their service, so the list is free.
        for (number, tiers, plane) in rest.tiered() {
            tiers.unpack(self.kernel, plane, self.list)?;
            self.scatter(&coded.bases, coded.mask, number, out);
        }
        Ok(())
    }

    /// Writes the values.
    fn join(
        &mut self,
        bases: &Bases<'_>,
        first: usize,
        mut mask: &[u8],
        rest: &mut Rest<'_>,
        out: &mut [u8],
    ) -> Result<(), BlockFault> {
        let entry = bases.entry;
        let width = self.format.fields.width();
        let start = BLOCK_VALUES - usize::from(entry.counts[0]);
        let mut done = 0;
        let mut nonzero = [0; MAX_WIDTH * BASE_GROUP];
        for (group, out) in out.chunks_mut(width * BASE_GROUP).enumerate() {
            let Some(base) = bases.of(group) else {
                out.fill(0);
                continue;
            };
            let count = out.len() / width;
            let first = first + group * BASE_GROUP;
            let mut end = done + count;
            if entry.masked {
                let bits = mask.split_off(..mask_bytes(count)).expect("the mask has a bit for each value");
                let kept: usize = bits.iter().map(|bits| bits.count_ones() as usize).sum();
                let nonzero = &mut nonzero[..kept * width];
                end = done + kept;
                if entry.columns {
                    self.add_offsets(first, count, Some(bits), start + done);
                }
                self.join_values(done..end, entry, base, rest, nonzero)?;
                self.format.fields.restore_zeros(self.kernel, &bits[..count.div_ceil(8)], nonzero, out);
            } else {
                // A group of zeros that is not left out has no offsets.
                if entry.columns && bases.stated(group).is_some() {
                    self.add_offsets(first, count, None, start + done);
                }
                self.join_values(done..end, entry, base, rest, out)?;
            }
            done = end;
        }
        Ok(())
    }

    /// Puts byte plane `number`, which is in the list, into FP32 values, where it is 0 so far.
    fn scatter(&self, bases: &Bases<'_>, mut mask: &[u8], number: usize, out: &mut [u8]) {
        let coded = usize::from(bases.entry.counts[0]);
        let mut bytes = &self.list[BLOCK_VALUES - coded..BLOCK_VALUES];
        let groups = out.chunks_mut(4 * BASE_GROUP).enumerate();
        for (_, out) in groups.filter(|(group, _)| bases.of(*group).is_some()) {
            let count = out.len() / 4;
            let mut restored = [0; BASE_GROUP];
            let mut plane = &restored[..0];
            if bases.entry.masked {
                let bits = mask.split_off(..mask_bytes(count)).expect("the mask has a bit for each value");
                for (i, byte) in restored[..count].iter_mut().enumerate() {
                    if bits[i / 8] >> (i % 8) & 1 == 1 {
                        *byte = bytes.split_off_first().copied().unwrap_or(0);
                    }
                }
                plane = &restored[..count];
            } else if let Some(whole) = bytes.split_off(..count) {
                plane = whole;
            }
            (self.kernel.add_plane)(number, plane, out);
        }
    }

    /// Adds the offsets of a group to its residuals, which are in the list from `residuals` on.
    fn add_offsets(&mut self, first: usize, count: usize, mask: Option<&[u8]>, residuals: usize) {
        let Some(columns) = &self.columns else { return };
        let mut offsets = [0; BASE_GROUP];
        let offsets = columns.of_group(first, count, mask, &mut offsets);
        let residuals = self.list[residuals..BLOCK_VALUES].iter_mut();
        residuals.zip(offsets).for_each(|(residual, offset)| *residual = residual.wrapping_add(*offset));
    }

    /// Writes coded values, as many as there are in `range`.
    fn join_values(
        &self,
        range: Range<usize>,
        entry: Entry,
        base: u8,
        rest: &mut Rest<'_>,
        out: &mut [u8],
    ) -> Result<(), BlockFault> {
        let coded = usize::from(entry.counts[0]);
        let residuals = &self.list[BLOCK_VALUES - coded..BLOCK_VALUES][range.clone()];
        let (fields, kernel) = (self.format.fields, self.kernel);
        if fields.dtype == DType::Bf16 {
            (kernel.join)(&rest.bytes()[range], residuals, base, out);
            return Ok(());
        }
        let mut room = [[0; BASE_GROUP]; PLANES];
        let planes = rest.get(kernel, range.start, range.len(), &mut room);
        if fields.join(kernel, planes, residuals, base, out) { Ok(()) } else { Err(BlockFault::Exponent) }
    }
}
