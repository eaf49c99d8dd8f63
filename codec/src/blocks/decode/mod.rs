//! Bodies into blocks: the inverse of encoding, with nothing taken on trust.

mod ahead;
mod join;
mod parts;

use super::coding::{Coding, Format};
use super::columns::{Columns, Expanded};
use super::entry::{Entry, Form};
use super::geometry::{BLOCK_VALUES, tail_bytes};
use super::rans::{self, Model};
use super::rest::{Rest, Shape};
use super::tiers::{self, List, check_end, check_passed, check_zero, unpack, unpack_passed};
use crate::kernel::Kernel;
use crate::kernel::joint::Window;
use crate::kernel::rans::DecodeTable;
use crate::kernel::tier::{LIST_PAD, plane_bytes};
use crate::streaming_store::StreamingStore;
use crate::{BlockFault, DType, Layout, checksum, sections};
use ahead::{Ahead, Located};
use join::Plain;
use parts::Coded;

/// Decodes one block after the other.
pub(super) struct Decoder<'a> {
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
    streaming: Option<StreamingStore<'a>>,
    /// Escapes, then what the tiers give, then residuals: always up to where the padding begins.
    list: List,
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

impl<'a> Decoder<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        format: Format,
        columns: Option<Columns<'_>>,
        model: Option<Model>,
        streaming: Option<StreamingStore<'a>>,
    ) -> Self {
        Self {
            kernel,
            format,
            columns: columns.map(|columns| columns.expanded()),
            table: model.as_ref().map(Model::decode_table),
            joint: model.as_ref().and_then(Model::joint).map(|joint| joint.window),
            tops: Vec::new(),
            streaming,
            list: [0; BLOCK_VALUES + LIST_PAD],
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
            unpack_passed(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
            check_end(&entry.counts, first_planes)?;
            let listed = &self.list[BLOCK_VALUES - usize::from(entry.counts[1])..];
            let (planes, rest) = (Some((&tiers[0], first_planes)), [rest.bytes(), &[]]);
            let plain = Plain { bases: &block.bases, first, planes, listed, rest };
            let joined = plain.join(self.kernel, &mut self.streaming, out);
            check_passed(&entry.counts, joined.passed)?;
            return Ok(Some(joined.sum));
        }
        unpack(self.kernel, &mut self.list, tiers, &entry.counts, coded)?;
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
        unpack(self.kernel, &mut self.list, entry.form.order().tiers(), &entry.counts, coded)?;
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
            let sum = plain.join(self.kernel, &mut self.streaming, out).sum;
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
