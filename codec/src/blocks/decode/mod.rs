//! Bodies into blocks: the inverse of encoding, with nothing taken on trust.

mod join;

use std::collections::VecDeque;

use super::columns::{Columns, Expanded};
use super::entry::{Entry, Form, ZERO_BYTE, ZERO_NIBBLE};
use super::geometry::{ALIGN, BLOCK_VALUES, Coding, Format, mask_bytes, tail_bytes};
use super::rans::{self, CARRIED, Model, Payload};
use super::rest::{Rest, Shape};
use super::tiers::{self, List, check_end, check_passed, check_zero, unpack, unpack_passed};
use crate::kernel::bits::{marked, mask_len};
use crate::kernel::joint::Window;
use crate::kernel::rans::{DecodeTable, Job};
use crate::kernel::tier::{LIST_PAD, plane_bytes};
use crate::kernel::{BASE_GROUP, Kernel, LAST_BASE};
use crate::streaming_store::StreamingStore;
use crate::{BlockFault, DType, Layout, checksum, sections};
use join::Plain;

/// Decodes one block after the other.
pub(super) struct Decoder<'a, 's> {
    kernel: &'a Kernel,
    format: Format,
    /// There if a block needs them.
    columns: Option<Expanded>,
    /// There if a block needs it.
    table: Option<DecodeTable>,
    /// There if that is one of joint symbols.
    joint: Option<Window>,
    /// The highest bytes of the rests of a block, once they have been needed apart.
    tops: Vec<u8>,
    streaming: &'a mut Option<StreamingStore<'s>>,
    /// Escapes, then what the tiers give, then residuals: always up to where the padding begins.
    list: &'a mut List,
    ahead: Ahead,
}

/// A block that has not been read.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) entry: Entry,
    /// Number of values.
    pub(super) count: usize,
    pub(super) static_body: &'a [u8],
}

impl<'a, 's> Decoder<'a, 's> {
    pub(super) fn new(
        kernel: &'a Kernel,
        format: Format,
        columns: Option<Columns<'_>>,
        model: Option<Model>,
        streaming: &'a mut Option<StreamingStore<'s>>,
        list: &'a mut List,
    ) -> Self {
        Self {
            kernel,
            format,
            columns: columns.map(|columns| columns.expanded()),
            table: model.as_ref().map(Model::decode_table),
            joint: model.as_ref().and_then(Model::joint).map(|joint| joint.window),
            tops: Vec::new(),
            streaming,
            list,
            ahead: Ahead::default(),
        }
    }

    /// Reads a body, whose first part is `static_body` and the other the front of `dynamic`, which is taken off. `first`
    /// values come before it in the frame; those that come next may be looked at already. Returns the checksum of the values.
    pub(super) fn block<'b>(
        &mut self,
        body: Body<'b>,
        next: impl Iterator<Item = Body<'b>>,
        first: usize,
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<u32, BlockFault> {
        match body.entry.form {
            Form::Zero => out.fill(0),
            Form::Stored => {
                sections::restore(body.static_body, dynamic, out).ok_or(BlockFault::Overrun)?;
            }
            Form::One(_) | Form::Nibbles | Form::Bytes => {
                let sum = match self.format.coding {
                    Coding::Tiers => self.first_tier_first(body, first, dynamic, out),
                    Coding::Rans if body.entry.rans => self.rans(body, next, first, dynamic, out),
                    Coding::Rans => self.rest_first(body, first, dynamic, out),
                };
                if let Some(sum) = sum? {
                    return Ok(sum);
                }
            }
        }
        Ok(checksum::of_values_at(self.kernel, out, first * self.format.fields.width()))
    }

    /// Reads a coded body in which the first tier comes before the rest. Returns the checksum of the values if that has come of
    /// it.
    fn first_tier_first<'b>(
        &mut self,
        Body { entry, count, mut static_body }: Body<'b>,
        first: usize,
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let Format { layout, fields, .. } = self.format;
        let block = Coded::read(self.format, entry, count, dynamic)?;
        let head = match layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let first_planes = take(head, plane_bytes(block.count()))?;
        let shape = Shape::read(layout, fields, block.count(), head)?;
        let mut rest = Rest::new(&shape, take(head, shape.planes_len())?)?;
        let coded = take_tiers(&entry, first_planes, dynamic)?;
        let tiers = entry.form.order().tiers();
        if fields.dtype == DType::Bf16 && block.is_plain() {
            unpack_passed(self.kernel, self.list, tiers, &entry.counts, coded)?;
            check_end(&entry.counts, first_planes)?;
            let listed = &self.list[BLOCK_VALUES - usize::from(entry.counts[1])..];
            let (planes, rest) = (Some((&tiers[0], first_planes)), [rest.bytes(), &[]]);
            let plain = Plain { bases: &block.bases, first, planes, listed, rest };
            let joined = plain.join(self.kernel, self.streaming, out);
            check_passed(&entry.counts, joined.passed)?;
            return Ok(Some(joined.sum));
        }
        unpack(self.kernel, self.list, tiers, &entry.counts, coded)?;
        self.join_all(&block, first, &mut rest, out)?;
        Ok(None)
    }

    /// Decodes as [`Self::first_tier_first`] does, a block whose tiers all come behind the rest.
    fn rest_first<'b>(
        &mut self,
        Body { entry, count, mut static_body }: Body<'b>,
        first: usize,
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let Format { layout, fields, .. } = self.format;
        let block = Coded::read(self.format, entry, count, dynamic)?;
        let head = match layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let shape = Shape::read(layout, fields, block.count(), head)?;
        let mut rest = Rest::new(&shape, take(head, shape.planes_len())?)?;
        let first_planes = take(dynamic, plane_bytes(block.count()))?;
        let coded = take_tiers(&entry, first_planes, dynamic)?;
        unpack(self.kernel, self.list, entry.form.order().tiers(), &entry.counts, coded)?;
        self.join_all(&block, first, &mut rest, out)?;
        Ok(None)
    }

    /// Decodes as [`Self::first_tier_first`] does, a block coded by rANS: the next blocks are decoded as well if they are coded by rANS, too.
    fn rans<'b>(
        &mut self,
        body: Body<'b>,
        next: impl Iterator<Item = Body<'b>>,
        first: usize,
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<Option<u32>, BlockFault> {
        let joint = self.joint.is_some();
        let located = Located::read(self.format, joint, body, dynamic)?;
        let mut behind = *dynamic;
        // What is wrong with a block that comes next is told when it comes.
        let next = next.take_while(|next| next.entry.rans);
        let next = next.map_while(|next| Located::read(self.format, joint, next, &mut behind).ok());
        let table = self.table.as_ref().expect("there is a table if an entry needs it");
        let (mut list, payload) = self.ahead.residuals(self.kernel, table, &located, next)?;
        let Located { block, shape, rest, carries, .. } = &located;
        let payload = if *carries { &payload[..] } else { &[] };
        let count = block.count();
        let whole;
        let mut bytes = *rest;
        if *carries && (joint || !(rans::has_byte_rest(self.format.fields) && block.is_plain())) {
            whole = [rest, payload].concat();
            bytes = &whole;
        }
        let mut tops = std::mem::take(&mut self.tops);
        let of_joint = match self.joint {
            Some(window) => Some(self.take_apart(window, &located, bytes, &mut list, &mut tops)?),
            None => None,
        };
        if rans::has_byte_rest(self.format.fields) && block.is_plain() {
            let (rest, payload) = of_joint.as_ref().map_or((*rest, payload), |rest| (rest.bytes(), &[]));
            let (rest, padding) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            let (end, more) = payload.split_at_checked(count - rest.len()).ok_or(BlockFault::Overrun)?;
            check_zero(padding)?;
            check_zero(more)?;
            let plain = Plain {
                bases: &block.bases,
                first,
                planes: None,
                listed: &list[BLOCK_VALUES - count..],
                rest: [rest, end],
            };
            let sum = plain.join(self.kernel, self.streaming, out).sum;
            self.ahead.give_back(list);
            self.tops = tops;
            return Ok(Some(sum));
        }
        let residuals = BLOCK_VALUES - block.count()..BLOCK_VALUES;
        self.list[residuals.clone()].copy_from_slice(&list[residuals]);
        self.ahead.give_back(list);
        let mut rest = match of_joint {
            Some(rest) => rest,
            None => Rest::new(shape, bytes)?,
        };
        self.join_all(block, first, &mut rest, out)?;
        self.tops = tops;
        Ok(None)
    }

    /// Joint symbols at the end of the list become residuals, and their bits of mantissas go where they belong: into the highest bytes of the
    /// rests, which come into `tops`.
    fn take_apart<'b>(
        &self,
        window: Window,
        located: &Located<'_>,
        rest: &'b [u8],
        list: &mut List,
        tops: &'b mut Vec<u8>,
    ) -> Result<Rest<'b>, BlockFault> {
        let (count, escapes) = (located.block.count(), located.escapes.unwrap_or_default());
        let rest = Rest::new(&located.shape, rest)?;
        tops.resize(count, 0);
        rest.tops(self.kernel, tops);
        let (symbols, bits) =
            (&mut list[BLOCK_VALUES - count..BLOCK_VALUES], self.format.fields.top_mantissa_bits());
        let found = (self.kernel.unmerge)(symbols, tops, bits, window.start, escapes);
        if found != escapes.len() {
            return Err(BlockFault::Read { expected: escapes.len(), found });
        }
        Ok(rest.with_tops(tops))
    }
}

/// Takes the codes of all tiers but the first off `dynamic`.
fn take_tiers<'a>(
    entry: &Entry,
    first: &'a [u8],
    dynamic: &mut &'a [u8],
) -> Result<tiers::Coded<'a>, BlockFault> {
    let (planes_len, escapes_len) = tail_bytes(&entry.counts);
    Ok(tiers::Coded { first, planes: take(dynamic, planes_len)?, escapes: take(dynamic, escapes_len)? })
}

/// Takes `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], BlockFault> {
    bytes.split_off(..len).ok_or(BlockFault::Overrun)
}

/// A coded block, and what has been read of it.
struct Coded<'a> {
    entry: Entry,
    bases: Bases<'a>,
    mask: &'a [u8],
}

impl<'a> Coded<'a> {
    /// Takes bases and mask of a block of `count` values off `dynamic`.
    ///
    /// # Errors
    /// If they contradict themselves or the entry.
    fn read(format: Format, entry: Entry, count: usize, dynamic: &mut &'a [u8]) -> Result<Self, BlockFault> {
        let bases = Bases::read(format.layout, entry, count, dynamic)?;
        let kept = (0..count.div_ceil(BASE_GROUP))
            .filter(|group| bases.of(*group).is_some())
            .map(|group| (count - group * BASE_GROUP).min(BASE_GROUP))
            .sum();
        let mask = take(dynamic, if entry.masked { mask_bytes(kept) } else { 0 })?;
        let found = if entry.masked { check_mask(mask, kept)? } else { kept };
        let coded = Self { entry, bases, mask };
        if found != coded.count() {
            return Err(BlockFault::Coded { expected: coded.count(), found });
        }
        Ok(coded)
    }

    /// Number of coded values.
    fn count(&self) -> usize {
        usize::from(self.entry.counts[0])
    }

    /// Whether all values of groups that have a base are coded, by residuals to nothing but these.
    fn is_plain(&self) -> bool {
        !self.entry.masked && !self.entry.columns
    }
}

/// The bases of a block's groups.
struct Bases<'a> {
    layout: Layout,
    entry: Entry,
    bytes: &'a [u8],
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

/// A block that is coded by rANS, and where its parts are.
struct Located<'a> {
    block: Coded<'a>,
    shape: Shape,
    /// The rest, without what states carry of it.
    rest: &'a [u8],
    carries: bool,
    codes: &'a [u8],
    /// The escapes of joint symbols, if the codes are of these.
    escapes: Option<&'a [u8]>,
}

impl<'a> Located<'a> {
    /// Takes a body off `dynamic`.
    ///
    /// # Errors
    /// If it contradicts itself or its entry.
    fn read(
        format: Format,
        joint: bool,
        Body { entry, count, mut static_body }: Body<'a>,
        dynamic: &mut &'a [u8],
    ) -> Result<Self, BlockFault> {
        let block = Coded::read(format, entry, count, dynamic)?;
        let head = match format.layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let shape = if joint {
            Shape::without_joint(format.fields, block.count())
        } else {
            Shape::read(format.layout, format.fields, block.count(), head)?
        };
        let carries = rans::carries(format, shape.planes_len());
        let rest = take(head, shape.planes_len() - if carries { CARRIED } else { 0 })?;
        let [words, escapes] = entry.words_and_escapes();
        let codes = take(dynamic, rans::codes_len(words, escapes))?;
        let escapes = joint.then(|| rans::escapes(codes, [words, escapes]));
        Ok(Self { block, shape, rest, carries, codes, escapes })
    }

    /// The rANS job that decodes the block's residuals to the end of `list`.
    fn job<'b>(&self, list: &'b mut List) -> Result<Job<'b>, BlockFault>
    where
        'a: 'b,
    {
        let residuals = &mut list[BLOCK_VALUES - self.block.count()..BLOCK_VALUES];
        let mut job = rans::job(self.block.entry.words_and_escapes(), self.codes, residuals)?;
        if self.escapes.is_some() {
            job.stream.escapes = &[];
        }
        Ok(job)
    }
}

/// Blocks that are decoded side by side, because a lane waits for itself most of the time.
const TOGETHER: usize = 4;

/// Residuals that have been decoded before the block's turn.
#[derive(Default)]
struct Ahead {
    /// Decoded blocks, the next one first.
    found: VecDeque<(Residuals, Result<Payload, BlockFault>)>,
    /// Lists that are free.
    free: Vec<Residuals>,
}

/// The residuals of a block, at the end of a list.
type Residuals = Box<List>;

impl Ahead {
    /// The residuals of a block, and what its states carry; those of the blocks that come next are decoded as well, if they have not
    /// been. The list is to be given back ([`Self::give_back`]).
    ///
    /// # Errors
    /// If the codes contradict themselves.
    fn residuals<'a>(
        &mut self,
        kernel: &Kernel,
        table: &DecodeTable,
        located: &Located<'a>,
        next: impl Iterator<Item = Located<'a>>,
    ) -> Result<(Residuals, Payload), BlockFault> {
        if self.found.is_empty() {
            // What is wrong with a block that comes next is told when it comes, and then it is the first.
            let next: Vec<Located<'a>> = next.take(TOGETHER - 1).collect();
            let mut lists: Vec<Residuals> = (0..=next.len()).map(|_| self.list()).collect();
            let mut jobs = Vec::with_capacity(TOGETHER);
            for (number, (located, list)) in [located].into_iter().chain(&next).zip(&mut lists).enumerate() {
                match located.job(list) {
                    Ok(job) => jobs.push(job),
                    Err(fault) if number == 0 => return Err(fault),
                    Err(_) => break,
                }
            }
            (kernel.decode_rans)(&mut jobs, table);
            let carries = [located].into_iter().chain(&next).map(|located| located.carries);
            let checked: Vec<_> =
                jobs.iter().zip(carries).map(|(job, carries)| rans::check(job, carries)).collect();
            self.found.extend(lists.into_iter().zip(checked));
        }
        let (list, payload) = self.found.pop_front().expect("a block has been decoded");
        Ok((list, payload?))
    }

    /// Takes a list for blocks that come later.
    fn give_back(&mut self, list: Residuals) {
        self.free.push(list);
    }

    fn list(&mut self) -> Residuals {
        self.free.pop().unwrap_or_else(|| Box::new([0; BLOCK_VALUES + LIST_PAD]))
    }
}
