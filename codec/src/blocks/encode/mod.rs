//! Blocks into bodies. What a body has, in this order: bases, mask, rest and codes of residuals. The codes of the first tier are before
//! the rest where a frame has nothing but tiers.

mod pass;

use super::columns::Expanded;
use super::entry::{Entry, Form};
use super::geometry::{ALIGN, BLOCK_GROUPS, BLOCK_VALUES, Coding, Format, MAX_WIDTH, mask_bytes};
use super::plan::{EIGHTHS, Plan};
use super::rans::{self, CARRIED, Coder, Payload};
use super::rest::{RestMut, RestStats, Shape};
use super::sample::{self, Table};
use super::tiers::{List, TIERS};
use crate::checksum::{self, PART_BYTES};
use crate::kernel::joint::Window;
use crate::kernel::tier::plane_bytes;
use crate::kernel::{BASE_GROUP, GroupSums, Kernel, WORD_VALUES};
use crate::streaming_store::StreamingStore;
use crate::{DType, Layout, sections};

/// Groups whose residuals are made before any is coded: few enough for them to stay in the fastest cache.
const STRIP_GROUPS: usize = 16;

/// Encodes one block after the other.
pub(super) struct Encoder<'a, 's> {
    kernel: &'a Kernel,
    format: Format,
    columns: Option<&'a Expanded>,
    /// There if the frame has a table.
    rans: Option<Coder>,
    /// There if that is one of joint symbols.
    joint: Option<JointRoom>,
    /// Rounding of bases, in eighths: added to mean exponents.
    eighths: u32,
    sums: [GroupSums; BLOCK_GROUPS],
    stats: RestStats,
    /// Bytes of all blocks so far, and their checksum.
    position: usize,
    pub(super) checksum: u32,
    streaming: &'a mut Option<StreamingStore<'s>>,
    /// Residuals, then what the tiers pass on; and room for a vector.
    list: &'a mut List,
}

/// Buffers for coding exponents together with the highest bits of mantissas.
struct JointRoom {
    window: Window,
    /// The highest bytes of the rests of a block.
    tops: Vec<u8>,
    escapes: Vec<u8>,
}

impl JointRoom {
    fn new(window: Window) -> Self {
        Self { window, tops: vec![0; BLOCK_VALUES], escapes: vec![0; BLOCK_VALUES] }
    }
}

/// Values that have a base in common.
struct Group<'a> {
    values: &'a [u8],
    /// Values before them in the frame.
    first: usize,
    /// None if they are all +0.
    base: Option<u8>,
}

impl<'a, 's> Encoder<'a, 's> {
    pub(super) fn new(
        kernel: &'a Kernel,
        format: Format,
        columns: Option<&'a Expanded>,
        table: Option<&Table>,
        streaming: &'a mut Option<StreamingStore<'s>>,
        list: &'a mut List,
    ) -> Self {
        let sums = [GroupSums::default(); BLOCK_GROUPS];
        Self {
            kernel,
            format,
            columns,
            rans: table.map(|table| Coder::new(&table.model, BLOCK_VALUES)),
            joint: table.and_then(|table| table.model.joint()).map(|joint| JointRoom::new(joint.window)),
            eighths: table.map_or(EIGHTHS, |table| table.eighths),
            sums,
            stats: RestStats::EMPTY,
            position: 0,
            checksum: 0,
            streaming,
            list,
        }
    }

    /// Writes the body of a block: all of `static_body`, which is empty in the compact layout, and the front of
    /// `dynamic`; returns the entry and the length of the latter. Fails if that has no room, which cannot be if both
    /// buffers together have room for the values.
    pub(super) fn block(
        &mut self,
        values: &[u8],
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let stored_len = values.len() - static_body.len();
        let room = stored_len.min(dynamic.len());
        let dynamic = &mut dynamic[..room];
        let Format { layout, fields, .. } = self.format;
        let count = values.len() / fields.width();
        let first = self.position / fields.width();
        let guess = self.guess(values);
        let guessed = guess.and_then(|guess| self.split_pass(guess, values, static_body, dynamic));
        if guessed.is_none() {
            self.sum(values);
            if let Some(columns) = self.columns {
                sample::take_offsets(self.kernel, fields, columns, values, first, &mut self.sums);
            }
            self.stats.collect(self.kernel, layout, fields, values);
        }
        let sums = &self.sums[..count.div_ceil(BASE_GROUP)];
        let plan = Plan::new(layout, fields, count, sums, &self.stats, self.eighths);
        if plan.form == Form::Zero {
            return Some((Entry::uncoded(Form::Zero), 0));
        }
        if let Some(passed) = guessed
            && passed.guess.holds(&plan, count)
            && let Some(body) = self.finish_pass(&plan, passed, count, dynamic)
        {
            return Some(body);
        }
        // Some of a guess may be there already, and is written again.
        StreamingStore::settle(self.streaming);
        if let Some(coded) = self.coded_jointly(&plan, values, first, dynamic) {
            return Some(coded);
        }
        if let Some(coded) = self.coded(&plan, values, first, static_body, dynamic) {
            return Some(coded);
        }
        StreamingStore::settle(self.streaming);
        (room == stored_len)
            .then(|| (Entry::uncoded(Form::Stored), sections::store(values, static_body, dynamic)))
    }

    /// Sums over the groups of a block, and its part of the checksum: both of some values while they are in the fastest
    /// cache.
    fn sum(&mut self, values: &[u8]) {
        let group_len = self.format.fields.width() * BASE_GROUP;
        let parts = self.sums.chunks_mut(PART_BYTES / group_len);
        for (values, sums) in values.chunks(PART_BYTES).zip(parts) {
            let sums = &mut sums[..values.len().div_ceil(group_len)];
            self.format.fields.group_sums(self.kernel, values, sums);
            let sum = checksum::of_values_at(self.kernel, values, self.position);
            self.checksum = self.checksum.wrapping_add(sum);
            self.position += values.len();
        }
    }

    /// Writes the body of a coded block, unless it would take the room of the values or more.
    fn coded(
        &mut self,
        plan: &Plan,
        values: &[u8],
        first: usize,
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let limit = dynamic.len();
        let mut room = &mut *dynamic;
        let count = values.len() / self.format.fields.width();
        let mask = bases_and_mask(plan, count, &mut room)?;
        let tiers_first = self.format.coding == Coding::Tiers;
        let planes_len = if tiers_first { plane_bytes(plan.coded) } else { 0 };
        let head_len = planes_len + plan.rest.len();
        let head = match self.format.layout {
            Layout::Split if head_len >= values.len() => return None,
            Layout::Split => static_body,
            Layout::Compact => room.split_off_mut(..head_len)?,
        };
        let (planes, rest) = head.split_at_mut(planes_len);
        let mut to = RestMut::new(&plan.rest, &mut *rest);
        for (number, tiers, out) in to.tiered() {
            self.gather(plan, values, number);
            tiers.pack(self.kernel, &mut self.list[..plan.coded], out);
        }
        if !tiers_first {
            self.split(plan, values, first, mask, None, to);
            let payload =
                rans::carries(self.format, rest.len()).then(|| *rest.last_chunk().expect("it is longer"));
            // From where the payload is.
            let carried = payload.map_or(0, |_| CARRIED);
            let front_len = limit - room.len() - carried;
            let (entry, len) = self.codes(plan, payload.as_ref(), &mut dynamic[front_len..])?;
            return Some((entry, front_len + len));
        }
        let bf16 = self.format.fields.dtype == DType::Bf16;
        let left = if bf16 && !plan.masked && self.columns.is_none() {
            self.split_tier(plan, values, planes, to)
        } else {
            self.split(plan, values, first, mask, Some(planes), to)
        };
        let front_len = limit - room.len();
        let (entry, len) = self.tail(plan, left, room)?;
        Some((entry, front_len + len))
    }

    /// Writes the body of a block whose exponents are coded together with the highest bits of mantissas, if the frame has a table for that and
    /// tiers are not shorter.
    fn coded_jointly(
        &mut self,
        plan: &Plan,
        values: &[u8],
        first: usize,
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let JointRoom { window, mut tops, mut escapes } = self.joint.take()?;
        let fields = self.format.fields;
        let limit = dynamic.len();
        let shape = Shape::without_joint(fields, plan.coded);
        let mut write = || {
            let mut room = &mut *dynamic;
            let count = values.len() / fields.width();
            let mask = bases_and_mask(plan, count, &mut room)?;
            let rest = room.split_off_mut(..shape.len())?;
            let tops = &mut tops[..plan.coded];
            let low = shape.byte_planes_alone();
            let (bytes, bits) = rest.split_at_mut(low.len());
            self.split(plan, values, first, mask, None, RestMut::new(&low, bytes).with_tops(tops));
            let symbols = &mut self.list[..plan.coded];
            let mantissa_bits = fields.top_mantissa_bits();
            let escaped = (self.kernel.merge)(symbols, tops, mantissa_bits, window, &mut escapes);
            (self.kernel.pack_bits)(tops, shape.bit_planes(), bits);
            let payload =
                rans::carries(self.format, rest.len()).then(|| *rest.last_chunk().expect("it is longer"));
            let front_len = limit - room.len() - payload.map_or(0, |_| CARRIED);
            let (coder, room) = (self.rans.as_mut()?, &mut dynamic[front_len..]);
            let coded = coder.write(
                self.kernel,
                &self.list[..plan.coded],
                &escapes[..escaped],
                payload.as_ref(),
                room,
            );
            let ([words, escapes], len) = coded?;
            let counts = [plan.coded as u16, words, escapes, 0, 0];
            Some((Entry { rans: true, counts, ..self.entry(plan) }, front_len + len))
        };
        let written = write();
        self.joint = Some(JointRoom { window, tops, escapes });
        written
    }

    /// Writes the codes of the residuals that are in the list, in a frame that can have a table; the payload is the end of the rest, which
    /// is in front of them in the room, and is left out if states carry it. Returns the entry of the block, and the length of what
    /// was written. Fails if not a byte of room would be left.
    fn codes(&mut self, plan: &Plan, payload: Option<&Payload>, room: &mut [u8]) -> Option<(Entry, usize)> {
        let residuals = &self.list[..plan.coded];
        if let Some(coder) = &mut self.rans
            && self.joint.is_none()
            && let Some(([words, escapes], len)) = coder.write(self.kernel, residuals, &[], payload, room)
        {
            let counts = [plan.coded as u16, words, escapes, 0, 0];
            return Some((Entry { rans: true, counts, ..self.entry(plan) }, len));
        }
        let (rest, room) = room.split_at_mut_checked(payload.map_or(0, |_| CARRIED))?;
        payload.inspect(|payload| rest.copy_from_slice(*payload));
        let (planes, room) = room.split_at_mut_checked(plane_bytes(plan.coded))?;
        let first = &plan.form.order().tiers()[0];
        let left = (self.kernel.pack_tier)(&mut self.list[..plan.coded], 0, 0, first, planes);
        let front_len = rest.len() + planes.len();
        let (entry, len) = self.tail(plan, left, room)?;
        Some((entry, front_len + len))
    }

    /// The entry of a coded block, without counts.
    fn entry(&self, plan: &Plan) -> Entry {
        let columns = self.columns.is_some();
        Entry { masked: plan.masked, columns, base: plan.base, ..Entry::uncoded(plan.form) }
    }

    /// Writes all tiers but the first, which passes on the values in the front of the list; returns the entry of the
    /// block, and the length of what was written. Fails if not a byte of room would be left.
    fn tail(&mut self, plan: &Plan, mut left: usize, mut room: &mut [u8]) -> Option<(Entry, usize)> {
        let limit = room.len();
        let mut counts = [plan.coded as u16, 0, 0, 0, 0];
        for (count, tier) in counts[1..TIERS].iter_mut().zip(&plan.form.order().tiers()[1..]) {
            *count = left as u16;
            let planes = room.split_off_mut(..plane_bytes(left))?;
            left = (self.kernel.pack_tier)(&mut self.list[..left], 0, 0, tier, planes);
        }
        counts[TIERS] = left as u16;
        let (escapes, padding) = room.split_off_mut(..left.next_multiple_of(ALIGN))?.split_at_mut(left);
        escapes.copy_from_slice(&self.list[..left]);
        padding.fill(0);
        // As long as the values is too long.
        (!room.is_empty()).then(|| (Entry { counts, ..self.entry(plan) }, limit - room.len()))
    }

    /// [`Self::split`] for BF16 without a mask: rest and first tier in one.
    fn split_tier(
        &mut self,
        plan: &Plan,
        values: &[u8],
        mut planes: &mut [u8],
        mut rest: RestMut<'_>,
    ) -> usize {
        let tier = &plan.form.order().tiers()[0];
        let mut rest = rest.bytes();
        // What has one base goes through the kernel in one call, but so little that it stays in the fastest cache.
        let groups = if matches!(plan.form, Form::One(_)) { STRIP_GROUPS } else { 1 };
        let (layout, mut passed) = (self.format.layout, 0);
        for (values, bases) in
            values.chunks(2 * BASE_GROUP * STRIP_GROUPS).zip(plan.bases.chunks(STRIP_GROUPS))
        {
            let kept =
                bases.iter().zip(values.chunks(2 * BASE_GROUP)).filter(|(base, _)| keeps(layout, **base));
            let len = kept.map(|(_, values)| values.len() / 2).sum();
            let out = rest.split_off_mut(..len).expect("there is a rest for each value");
            let mut rest = StreamingStore::strip_for(self.streaming, out);
            for (values, bases) in values.chunks(2 * BASE_GROUP * groups).zip(bases.chunks(groups)) {
                if !keeps(layout, bases[0]) {
                    continue;
                }
                let (base, count) = (bases[0].unwrap_or(0), values.len() / 2);
                let rest = rest.split_off_mut(..count).expect("there is a rest for each value");
                let planes =
                    planes.split_off_mut(..plane_bytes(count)).expect("there are planes for all values");
                passed = (self.kernel.split_tier)(values, base, tier, rest, planes, self.list, passed);
            }
            StreamingStore::flush(self.streaming, out);
        }
        passed
    }

    /// Puts byte plane `number` of the rests of the coded values, in the compact layout, into the list.
    fn gather(&mut self, plan: &Plan, values: &[u8], number: usize) {
        let (fields, places) = (self.format.fields, self.format.fields.places());
        let mut done = 0;
        let groups = values.chunks(fields.width() * BASE_GROUP).zip(&plan.bases);
        for (values, _) in groups.filter(|(_, base)| base.is_some()) {
            fields.for_each(values, |value| {
                if value != 0 || !plan.masked {
                    self.list[done] = (places.rest(value) >> (8 * number)) as u8;
                    done += 1;
                }
            });
        }
    }

    /// Writes mask, rest and, if there is room for planes, the first tier; returns how many values that passes on. They are left
    /// in the list.
    fn split(
        &mut self,
        plan: &Plan,
        values: &[u8],
        mut first: usize,
        mut mask: &mut [u8],
        mut planes: Option<&mut [u8]>,
        mut rest: RestMut<'_>,
    ) -> usize {
        let tier = &plan.form.order().tiers()[0];
        let group_len = self.format.fields.width() * BASE_GROUP;
        // Values that have been split, coded in the first tier, and passed on.
        let (mut done, mut packed, mut passed) = (0, 0, 0);
        for (values, bases) in values.chunks(STRIP_GROUPS * group_len).zip(plan.bases.chunks(STRIP_GROUPS)) {
            for (values, base) in values.chunks(group_len).zip(bases) {
                let group = Group { values, first, base: *base };
                done = self.split_group(plan, group, &mut mask, &mut rest, done);
                first += BASE_GROUP;
            }
            let Some(planes) = &mut planes else { continue };
            let end = if done == plan.coded { done } else { done / WORD_VALUES * WORD_VALUES };
            let planes =
                planes.split_off_mut(..plane_bytes(end - packed)).expect("there are planes for all values");
            passed = (self.kernel.pack_tier)(&mut self.list[..end], packed, passed, tier, planes);
            packed = end;
        }
        if planes.is_some() { passed } else { done }
    }

    /// Writes mask, rest and residuals of a group, of which `done` come before; returns how many do afterwards.
    fn split_group(
        &mut self,
        plan: &Plan,
        Group { values, first, base }: Group<'_>,
        mask: &mut &mut [u8],
        rest: &mut RestMut<'_>,
        done: usize,
    ) -> usize {
        let Some(base) = base else {
            return match self.format.layout {
                Layout::Split => self.split_values(values, 0, rest, done),
                Layout::Compact => done,
            };
        };
        let count = values.len() / self.format.fields.width();
        let mut nonzero = [0; MAX_WIDTH * BASE_GROUP];
        let mut coded = values;
        let mut marked = None;
        if plan.masked {
            let bits = mask.split_off_mut(..mask_bytes(count)).expect("the mask has a bit for each value");
            let (bits, padding) = bits.split_at_mut(count.div_ceil(8));
            padding.fill(0);
            let len = self.format.fields.drop_zeros(self.kernel, values, bits, &mut nonzero[..values.len()]);
            coded = &nonzero[..len];
            marked = Some(&*bits);
        }
        let end = self.split_values(coded, base, rest, done);
        if let Some(columns) = &self.columns {
            let mut offsets = [0; BASE_GROUP];
            let offsets = columns.of_group(first, count, marked, &mut offsets);
            let residuals = self.list[done..end].iter_mut();
            residuals.zip(offsets).for_each(|(residual, offset)| *residual = residual.wrapping_sub(*offset));
        }
        end
    }

    /// Writes rest and residuals, of which `done` come before; returns how many do afterwards. Only BF16 can have more
    /// values than a group.
    fn split_values(&mut self, values: &[u8], base: u8, rest: &mut RestMut<'_>, done: usize) -> usize {
        let count = values.len() / self.format.fields.width();
        let residuals = &mut self.list[done..done + count];
        let (fields, kernel) = (self.format.fields, self.kernel);
        if fields.dtype == DType::Bf16 {
            (kernel.split)(values, base, &mut rest.bytes()[done..done + count], residuals);
        } else {
            rest.put(kernel, done, count, |planes| fields.split(kernel, values, base, planes, residuals));
        }
        done + count
    }
}

/// Writes the bases in front of a body of `count` values, and takes their room and that of the mask off; returns the latter.
fn bases_and_mask<'a>(plan: &Plan, count: usize, room: &mut &'a mut [u8]) -> Option<&'a mut [u8]> {
    let bases = room.split_off_mut(..bases_len(plan.form, count))?;
    plan.write_bases(count.div_ceil(BASE_GROUP), bases);
    room.split_off_mut(..if plan.masked { mask_bytes(plan.kept) } else { 0 })
}

/// Bytes of the bases in front of a body.
fn bases_len(form: Form, count: usize) -> usize {
    form.bases_len(count).next_multiple_of(ALIGN)
}

/// Whether a group with this base is coded: without one, all its values are +0.
fn keeps(layout: Layout, base: Option<u8>) -> bool {
    layout == Layout::Split || base.is_some()
}
