//! Bodies into blocks: the inverse of encoding, with nothing taken on trust.

use std::ops::Range;

use super::block::{ALIGN, BLOCK, MAX_WIDTH, mask_bytes, tail_bytes};
use super::columns::{Columns, Expanded};
use super::entry::{Entry, Form, ZERO_BYTE, ZERO_NIBBLE};
use super::fields::Fields;
use super::rest::{Rest, Shape};
use super::tiers::{Coded, List, check_end, check_passed, check_zero, unpack, unpack_passed};
use crate::checksum::{BLOCK_BYTES, WORD, fold};
use crate::kernel::pass::{Join, Passed, left};
use crate::kernel::tier::{LIST_PAD, Tier, plane_bytes};
use crate::kernel::{BASE_GROUP, Kernel, LAST_BASE};
use crate::streaming_store::StreamingStore;
use crate::tile::{marked, mask_len};
use crate::{BlockFault, DType, Layout, checksum, sections};

/// Decodes one block after the other.
pub(super) struct Decoder<'a> {
    kernel: &'a Kernel,
    layout: Layout,
    fields: Fields,
    /// There if a block needs them.
    columns: Option<Expanded>,
    streaming: Option<StreamingStore<'a>>,
    /// Escapes, then what the tiers give, then residuals: always up to where the padding begins.
    list: List,
}

/// The bases of a block's groups.
struct Bases<'a> {
    layout: Layout,
    entry: Entry,
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        layout: Layout,
        fields: Fields,
        columns: Option<Columns<'_>>,
        streaming: Option<StreamingStore<'a>>,
    ) -> Self {
        let columns = columns.map(|columns| columns.expanded());
        Self { kernel, layout, fields, columns, streaming, list: [0; BLOCK + LIST_PAD] }
    }

    /// Reads a body, whose first part is `static_body` and the other the front of `dynamic`, which is taken off. `first`
    /// values come before it in the frame. Returns the checksum of the values.
    pub(super) fn block<'b>(
        &mut self,
        entry: Entry,
        first: usize,
        static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<u32, BlockFault> {
        match entry.form {
            Form::Zero => out.fill(0),
            Form::Stored => {
                sections::restore(static_body, dynamic, out).ok_or(BlockFault::Overrun)?;
            }
            Form::One(_) | Form::Nibbles | Form::Bytes => {
                if let Some(sum) = self.coded(entry, first, static_body, dynamic, out)? {
                    return Ok(sum);
                }
            }
        }
        Ok(checksum::of_values_at(self.kernel, out, first * self.fields.width()))
    }

    /// Reads a coded body. Returns the checksum of the values if that has come of it.
    fn coded<'b>(
        &mut self,
        entry: Entry,
        first: usize,
        static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let count = out.len() / self.fields.width();
        let coded = usize::from(entry.counts[0]);
        let bases = Bases::read(self.layout, entry, count, dynamic)?;
        let kept = (0..count.div_ceil(BASE_GROUP))
            .filter(|group| bases.of(*group).is_some())
            .map(|group| (count - group * BASE_GROUP).min(BASE_GROUP))
            .sum();
        let mask = take(dynamic, if entry.masked { mask_bytes(kept) } else { 0 })?;
        let found = if entry.masked { check_mask(mask, kept)? } else { kept };
        if found != coded {
            return Err(BlockFault::Coded { expected: coded, found });
        }
        let mut fixed = static_body;
        let head = match self.layout {
            Layout::Split => &mut fixed,
            Layout::Compact => &mut *dynamic,
        };
        let first_planes = take(head, plane_bytes(coded))?;
        let shape = Shape::read(self.layout, self.fields, coded, head)?;
        let mut rest = Rest::new(&shape, take(head, shape.planes_len())?)?;
        let (planes_len, escapes_len) = tail_bytes(&entry.counts);
        let planes = take(dynamic, planes_len)?;
        let escapes = take(dynamic, escapes_len)?;
        let tiers = entry.form.order().tiers();
        let coded = Coded { first: first_planes, planes, escapes };
        if self.fields.dtype == DType::Bf16 && !entry.masked && !entry.columns {
            unpack_passed(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
            check_end(&entry.counts, first_planes)?;
            let Passed { passed, sum } =
                self.join_pass(&bases, first, &tiers[0], first_planes, rest.bytes(), out);
            check_passed(&entry.counts, passed)?;
            return Ok(Some(sum));
        }
        unpack(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
        self.join(&bases, first, mask, &mut rest, out)?;
        // The residuals have done their service, so the list is free.
        for (number, tiers, plane) in rest.tiered() {
            tiers.unpack(self.kernel, plane, &mut self.list)?;
            self.scatter(&bases, mask, number, out);
        }
        Ok(None)
    }

    /// Reads the first tier and writes the values, for BF16 without a mask: so many at a time as are summed at once.
    /// Returns how many values the planes pass on, and the checksum of the values.
    fn join_pass(
        &mut self,
        bases: &Bases<'_>,
        first: usize,
        tier: &Tier,
        mut planes: &[u8],
        mut rest: &[u8],
        out: &mut [u8],
    ) -> Passed<u32> {
        const GROUPS: usize = BLOCK_BYTES / (2 * BASE_GROUP);
        let passed = &self.list[BLOCK - usize::from(bases.entry.counts[1])..];
        let (mut used, mut sum) = (0, 0u32);
        for (number, out) in out.chunks_mut(BLOCK_BYTES).enumerate() {
            let first = first + number * BLOCK_BYTES / 2;
            let mut of_groups = [None; GROUPS];
            let of_groups = &mut of_groups[..out.len().div_ceil(2 * BASE_GROUP)];
            for (base, group) in of_groups.iter_mut().zip(number * GROUPS..) {
                *base = bases.of(group);
            }
            let coded = of_groups.iter().zip(out.chunks(2 * BASE_GROUP)).filter(|(base, _)| base.is_some());
            let count = coded.map(|(_, values)| values.len() / 2).sum();
            let coded = Join {
                tier,
                word: (2 * first / WORD) as u64,
                bases: of_groups,
                planes: planes.split_off(..plane_bytes(count)).expect("there are planes for all values"),
                rest: rest.split_off(..count).expect("there is a rest for each value"),
                passed: left(passed, used),
                streaming: false,
            };
            let joined = StreamingStore::join(&mut self.streaming, self.kernel, coded, out);
            used += joined.passed;
            sum = sum.wrapping_add(fold(joined.sum));
        }
        Passed { passed: used, sum }
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
        let width = self.fields.width();
        let start = BLOCK - usize::from(entry.counts[0]);
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
                self.fields.restore_zeros(self.kernel, &bits[..count.div_ceil(8)], nonzero, out);
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

    /// Puts byte plane `number`, which is in the list, into the values, where it is 0 so far.
    fn scatter(&self, bases: &Bases<'_>, mask: &[u8], number: usize, out: &mut [u8]) {
        let (fields, masked) = (self.fields, bases.entry.masked);
        let places = fields.places();
        let coded = usize::from(bases.entry.counts[0]);
        let mut bytes = self.list[BLOCK - coded..BLOCK].iter();
        let groups = out.chunks_mut(fields.width() * BASE_GROUP).enumerate();
        for (place, (_, out)) in groups.filter(|(group, _)| bases.of(*group).is_some()).enumerate() {
            for (i, value) in (place * BASE_GROUP..).zip(out.chunks_exact_mut(fields.width())) {
                if !masked || mask[i / 8] >> (i % 8) & 1 == 1 {
                    let rest = bytes.next().map_or(0, |byte| u32::from(*byte) << (8 * number));
                    let bits = places.bits_of_rest(rest).to_le_bytes();
                    value.iter_mut().zip(bits).for_each(|(byte, bits)| *byte |= bits);
                }
            }
        }
    }

    /// Adds the offsets of a group to its residuals, which are in the list from `residuals` on.
    fn add_offsets(&mut self, first: usize, count: usize, mask: Option<&[u8]>, residuals: usize) {
        let Some(columns) = &self.columns else { return };
        let mut offsets = [0; BASE_GROUP];
        let offsets = columns.of_group(first, count, mask, &mut offsets);
        let residuals = self.list[residuals..BLOCK].iter_mut();
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
        let residuals = &self.list[BLOCK - coded..BLOCK][range.clone()];
        if self.fields.dtype == DType::Bf16 {
            (self.kernel.join)(&rest.bytes()[range], residuals, base, out);
            return Ok(());
        }
        let mut rests = [0; BASE_GROUP];
        let rests = &mut rests[..range.len()];
        rest.get(rests, range.start);
        if self.fields.join(rests, residuals, base, out) { Ok(()) } else { Err(BlockFault::Exponent) }
    }
}

impl<'a> Bases<'a> {
    /// Takes the bases of a block of `count` values off `dynamic`.
    fn read(layout: Layout, entry: Entry, count: usize, dynamic: &mut &'a [u8]) -> Result<Self, BlockFault> {
        let len = entry.form.bases_len(count);
        let (bytes, padding) = take(dynamic, len.next_multiple_of(ALIGN))?.split_at(len);
        check_zero(padding)?;
        let bases = Self { layout, entry, bytes };
        let groups = count.div_ceil(BASE_GROUP);
        if entry.form == Form::Nibbles {
            if groups % 2 == 1 && bytes[groups / 2] >> 4 != 0 {
                return Err(BlockFault::Padding);
            }
            let highest = (0..groups).filter_map(|group| bases.of(group)).max();
            if let Some(base) = highest.filter(|base| *base > LAST_BASE) {
                return Err(BlockFault::Base(base));
            }
        }
        Ok(bases)
    }

    /// The base of a group; none if all its values are +0 and left out.
    fn of(&self, group: usize) -> Option<u8> {
        match self.layout {
            // Nothing is left out: such a group has base 0.
            Layout::Split => self.stated(group).or(Some(0)),
            Layout::Compact => self.stated(group),
        }
    }

    /// The base of a group; none if all its values are +0.
    fn stated(&self, group: usize) -> Option<u8> {
        match self.entry.form {
            Form::Nibbles => match self.bytes[group / 2] >> (group % 2 * 4) & 15 {
                ZERO_NIBBLE => None,
                nibble => Some(self.entry.base.saturating_add(nibble)),
            },
            Form::Bytes => Some(self.bytes[group]).filter(|base| *base != ZERO_BYTE),
            Form::One(_) | Form::Stored | Form::Zero => Some(self.entry.base),
        }
    }
}

/// How many of `count` values the mask marks.
fn check_mask(mask: &[u8], count: usize) -> Result<usize, BlockFault> {
    let (bits, padding) = mask.split_at(mask_len(count));
    check_zero(padding)?;
    marked(bits, count).ok_or(BlockFault::Padding)
}

/// Takes `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], BlockFault> {
    bytes.split_off(..len).ok_or(BlockFault::Overrun)
}
