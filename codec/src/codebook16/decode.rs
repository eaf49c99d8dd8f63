//! Bodies into tiles: the inverse of encoding, with nothing taken on trust.

use super::entry::Entry;
use super::escapes;
use super::fields::Fields;
use crate::checksum::fold;
use crate::kernel::codes::ENTRIES;
use crate::kernel::pass::Join;
use crate::kernel::tier::LIST_PAD;
use crate::kernel::{BASE_GROUP, Kernel, TILE};
use crate::streaming_store::StreamingStore;
use crate::tile::{Mode, check_mask, mask_len};
use crate::{Layout, TileFault, sections};

/// Decodes one tile after the other.
pub(super) struct Decoder<'a> {
    kernel: &'a Kernel,
    layout: Layout,
    fields: Fields,
    book: &'a [u8; ENTRIES],
    /// Exponents of a tile, and padding.
    exponents: [u8; TILE + LIST_PAD],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(kernel: &'a Kernel, layout: Layout, fields: Fields, book: &'a [u8; ENTRIES]) -> Self {
        Self { kernel, layout, fields, book, exponents: [0; _] }
    }

    /// Reads a body, whose first part is `static_body` and the other the front of `dynamic`, which is taken off.
    pub(super) fn tile<'b>(
        &mut self,
        entry: Entry,
        static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<(), TileFault> {
        match entry.mode {
            Mode::Zero => out.fill(0),
            Mode::Stored => {
                sections::restore(static_body, dynamic, out).ok_or(TileFault::Overrun)?;
            }
            Mode::Coded => self.coded(entry, static_body, dynamic, out)?,
            Mode::Masked => {
                let count = out.len() / self.fields.width();
                let mask = take(dynamic, mask_len(count))?;
                check_mask(mask, count, entry.coded)?;
                let mut kept = [0; 2 * TILE];
                let kept = &mut kept[..usize::from(entry.coded) * self.fields.width()];
                self.coded(entry, static_body, dynamic, kept)?;
                self.fields.restore_zeros(self.kernel, mask, kept, out);
            }
        }
        Ok(())
    }

    /// Decodes as [`Self::tile`] does, a tile of BF16 without a mask, in one pass: past the caches where that is permitted. Returns
    /// the sum of words for the checksum, folded; the first one is at index `word`.
    pub(super) fn pass<'b>(
        &mut self,
        entry: Entry,
        static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        word: u64,
        streaming: &mut Option<StreamingStore<'_>>,
        out: &mut [u8],
    ) -> Result<u32, TileFault> {
        let count = out.len() / 2;
        let rest = self.exponents(entry, static_body, dynamic)?;
        let coded = Join {
            tier: None,
            word,
            bases: &[Some(0); TILE / BASE_GROUP][..count.div_ceil(BASE_GROUP)],
            planes: &[],
            rest,
            passed: &self.exponents[..count + LIST_PAD],
            streaming: false,
        };
        Ok(fold(StreamingStore::join(streaming, self.kernel, coded, out).sum))
    }

    /// Reads rests, codes and escapes of all values of `out`.
    fn coded<'b>(
        &mut self,
        entry: Entry,
        static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<(), TileFault> {
        let rest = self.exponents(entry, static_body, dynamic)?;
        let exponents = &self.exponents[..usize::from(entry.coded)];
        if self.fields.join(self.kernel, rest, exponents, out) { Ok(()) } else { Err(TileFault::Padding) }
    }

    /// Reads codes and escapes, and writes the exponents; returns the rests.
    fn exponents<'b>(
        &mut self,
        entry: Entry,
        mut static_body: &'b [u8],
        dynamic: &mut &'b [u8],
    ) -> Result<&'b [u8], TileFault> {
        let (fields, coded) = (self.fields, usize::from(entry.coded));
        let head = match self.layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let rest = take(head, fields.rest_len(coded))?;
        let codes = take(head, coded.div_ceil(2))?;
        let list = take(dynamic, entry.positions.len(coded, usize::from(entry.escapes)))?;
        if let (true, Some(last)) = (coded % 2 == 1, codes.last())
            && last >> 4 != 0
        {
            return Err(TileFault::Padding);
        }
        let exponents = &mut self.exponents[..coded];
        (self.kernel.unpack_codes)(codes, self.book, exponents);
        if entry.escapes > 0 {
            escapes::apply(entry.positions, list, codes, fields.exponents(), exponents)?;
        }
        Ok(rest)
    }
}

/// Takes `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], TileFault> {
    bytes.split_off(..len).ok_or(TileFault::Overrun)
}
