//! Bodies into blocks: the inverse of encoding, with nothing taken on trust.

use std::ops::Range;

use super::block::{ALIGN, BLOCK, MAX_WIDTH, mask_bytes, tail_bytes};
use super::coding::{Coding, Format};
use super::columns::{Columns, Expanded};
use super::entry::{Entry, Form, ZERO_BYTE, ZERO_NIBBLE};
use super::rans::{self, CARRIED};
use super::rest::{Rest, Shape};
use super::tiers::{Coded, List, check_end, check_passed, check_zero, unpack, unpack_passed};
use crate::checksum::{BLOCK_BYTES, WORD, fold};
use crate::kernel::pass::{Join, Passed, left};
use crate::kernel::rans::{DecodeTable, Frequencies};
use crate::kernel::tier::{LIST_PAD, Tier, plane_bytes};
use crate::kernel::{BASE_GROUP, Kernel, LAST_BASE};
use crate::streaming_store::StreamingStore;
use crate::tile::{marked, mask_len};
use crate::{BlockFault, DType, Layout, checksum, sections};

/// Decodes one block after the other.
pub(super) struct Decoder<'a> {
    kernel: &'a Kernel,
    format: Format,
    /// There if a block needs them.
    columns: Option<Expanded>,
    /// There if a block needs it.
    table: Option<Box<DecodeTable>>,
    streaming: Option<StreamingStore<'a>>,
    /// Escapes, then what the tiers give, then residuals: always up to where the padding begins.
    list: List,
}

/// What is read of a coded block behind its mask.
struct Head<'a, 'b> {
    /// Values that are coded.
    coded: usize,
    static_body: &'b [u8],
    dynamic: &'a mut &'b [u8],
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
        format: Format,
        columns: Option<Columns<'_>>,
        frequencies: Option<&Frequencies>,
        streaming: Option<StreamingStore<'a>>,
    ) -> Self {
        let columns = columns.map(|columns| columns.expanded());
        let table = frequencies.map(|frequencies| Box::new(DecodeTable::new(frequencies)));
        Self { kernel, format, columns, table, streaming, list: [0; BLOCK + LIST_PAD] }
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
        Ok(checksum::of_values_at(self.kernel, out, first * self.format.fields.width()))
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
        let count = out.len() / self.format.fields.width();
        let coded = usize::from(entry.counts[0]);
        let bases = Bases::read(self.format.layout, entry, count, dynamic)?;
        let kept = (0..count.div_ceil(BASE_GROUP))
            .filter(|group| bases.of(*group).is_some())
            .map(|group| (count - group * BASE_GROUP).min(BASE_GROUP))
            .sum();
        let mask = take(dynamic, if entry.masked { mask_bytes(kept) } else { 0 })?;
        let found = if entry.masked { check_mask(mask, kept)? } else { kept };
        if found != coded {
            return Err(BlockFault::Coded { expected: coded, found });
        }
        let head = Head { coded, static_body, dynamic };
        match self.format.coding {
            Coding::Tiers => self.first_tier_first(&entry, &bases, first, mask, head, out),
            Coding::Rans => self.rest_first(&entry, &bases, first, mask, head, out),
        }
    }

    /// Reads what follows the mask where the first tier comes before the rest.
    fn first_tier_first(
        &mut self,
        entry: &Entry,
        bases: &Bases<'_>,
        first: usize,
        mask: &[u8],
        head: Head<'_, '_>,
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let Format { layout, fields, .. } = self.format;
        let Head { coded, mut static_body, dynamic } = head;
        let head = match layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let first_planes = take(head, plane_bytes(coded))?;
        let shape = Shape::read(layout, fields, coded, head)?;
        let mut rest = Rest::new(&shape, take(head, shape.planes_len())?)?;
        let coded = self.tiers(entry, first_planes, dynamic)?;
        let tiers = entry.form.order().tiers();
        if fields.dtype == DType::Bf16 && !entry.masked && !entry.columns {
            unpack_passed(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
            check_end(&entry.counts, first_planes)?;
            let listed = usize::from(entry.counts[1]);
            let passed = self.join_pass(
                bases,
                first,
                Some((&tiers[0], first_planes)),
                listed,
                [rest.bytes(), &[]],
                out,
            );
            check_passed(&entry.counts, passed.passed)?;
            return Ok(Some(passed.sum));
        }
        unpack(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
        self.join_all(bases, first, mask, &mut rest, out)?;
        Ok(None)
    }

    /// Reads what follows the mask where all codes come behind the rest.
    fn rest_first(
        &mut self,
        entry: &Entry,
        bases: &Bases<'_>,
        first: usize,
        mask: &[u8],
        head: Head<'_, '_>,
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let Format { layout, fields, .. } = self.format;
        let Head { coded, mut static_body, dynamic } = head;
        let head = match layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let shape = Shape::read(layout, fields, coded, head)?;
        let carries = entry.rans && rans::carries(self.format, shape.planes_len());
        let body = take(head, shape.planes_len() - if carries { CARRIED } else { 0 })?;
        let start = BLOCK - coded;
        let mut payload = None;
        if entry.rans {
            let [words, escapes] = entry.words_and_escapes();
            let codes = take(dynamic, rans::codes_len(words, escapes))?;
            let table = self.table.as_ref().expect("there is a table if an entry needs it");
            let found =
                rans::unpack(self.kernel, table, entry, carries, codes, &mut self.list[start..BLOCK])?;
            payload = carries.then_some(found);
        } else {
            let first_planes = take(dynamic, plane_bytes(coded))?;
            let coded = self.tiers(entry, first_planes, dynamic)?;
            unpack(self.kernel, &mut self.list, entry.form.order().tiers(), &entry.counts, coded)?;
        }
        let payload = payload.as_ref().map_or(&[][..], |payload| payload);
        if rans::has_byte_rest(fields) && !entry.masked && !entry.columns {
            let used = coded.saturating_sub(body.len()).min(payload.len());
            let (kept, padding) = (body.get(..coded).unwrap_or(body), body.get(coded..).unwrap_or_default());
            check_zero(padding)?;
            check_zero(&payload[used..])?;
            let passed = self.join_pass(bases, first, None, coded, [kept, &payload[..used]], out);
            return Ok(Some(passed.sum));
        }
        let whole;
        let rest = if carries {
            whole = [body, payload].concat();
            &whole
        } else {
            body
        };
        self.join_all(bases, first, mask, &mut Rest::new(&shape, rest)?, out)?;
        Ok(None)
    }

    /// Takes the codes of all tiers but the first off `dynamic`.
    fn tiers<'b>(
        &self,
        entry: &Entry,
        first: &'b [u8],
        dynamic: &mut &'b [u8],
    ) -> Result<Coded<'b>, BlockFault> {
        let (planes_len, escapes_len) = tail_bytes(&entry.counts);
        Ok(Coded { first, planes: take(dynamic, planes_len)?, escapes: take(dynamic, escapes_len)? })
    }

    /// Writes the values whose residuals are in the list.
    fn join_all(
        &mut self,
        bases: &Bases<'_>,
        first: usize,
        mask: &[u8],
        rest: &mut Rest<'_>,
        out: &mut [u8],
    ) -> Result<(), BlockFault> {
        self.join(bases, first, mask, rest, out)?;
        // The residuals have done their service, so the list is free.
        for (number, tiers, plane) in rest.tiered() {
            tiers.unpack(self.kernel, plane, &mut self.list)?;
            self.scatter(bases, mask, number, out);
        }
        Ok(())
    }

    /// Writes the values, for BF16 without a mask: so many at a time as are summed at once. The first tier is read on the way if there
    /// are planes of it; all residuals, or those that it passes on, are the end of the list, so many. The rest is in two parts.
    /// Returns how many residuals were taken from the list, and the checksum of the values.
    fn join_pass(
        &mut self,
        bases: &Bases<'_>,
        first: usize,
        planes: Option<(&Tier, &[u8])>,
        listed: usize,
        [mut rest, mut rest_end]: [&[u8]; 2],
        out: &mut [u8],
    ) -> Passed<u32> {
        const GROUPS: usize = BLOCK_BYTES / (2 * BASE_GROUP);
        let (tier, mut planes) = planes.map_or((None, &[][..]), |(tier, planes)| (Some(tier), planes));
        let passed = &self.list[BLOCK - listed..];
        let (mut used, mut sum) = (0, 0u32);
        for (number, out) in out.chunks_mut(BLOCK_BYTES).enumerate() {
            let first = first + number * BLOCK_BYTES / 2;
            let mut of_groups = [None; GROUPS];
            let of_groups = &mut of_groups[..out.len().div_ceil(2 * BASE_GROUP)];
            for (base, group) in of_groups.iter_mut().zip(number * GROUPS..) {
                *base = bases.of(group);
            }
            let coded = of_groups.iter().zip(out.chunks(2 * BASE_GROUP)).filter(|(base, _)| base.is_some());
            let count: usize = coded.map(|(_, values)| values.len() / 2).sum();
            let mut both = [0; BLOCK_BYTES / 2];
            let rest = if let Some(rest) = rest.split_off(..count) {
                rest
            } else {
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
        let width = self.format.fields.width();
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

    /// Puts byte plane `number`, which is in the list, into the values, where it is 0 so far.
    fn scatter(&self, bases: &Bases<'_>, mask: &[u8], number: usize, out: &mut [u8]) {
        let (fields, masked) = (self.format.fields, bases.entry.masked);
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
        if self.format.fields.dtype == DType::Bf16 {
            (self.kernel.join)(&rest.bytes()[range], residuals, base, out);
            return Ok(());
        }
        let mut rests = [0; BASE_GROUP];
        let rests = &mut rests[..range.len()];
        rest.get(rests, range.start);
        if self.format.fields.join(rests, residuals, base, out) { Ok(()) } else { Err(BlockFault::Exponent) }
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
