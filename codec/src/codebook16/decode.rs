//! Bodies into tiles: the inverse of encoding, with nothing taken on trust.

use super::entry::Entry;
use super::escapes;
use super::fields::Fields;
use crate::kernel::codes::ENTRIES;
use crate::kernel::{Kernel, TILE};
use crate::tile::{Mode, check_mask, mask_len};
use crate::{Layout, TileFault, sections};

/// Decodes one tile after the other.
pub(super) struct Decoder<'a> {
    kernel: &'a Kernel,
    layout: Layout,
    fields: Fields,
    book: &'a [u8; ENTRIES],
    /// Of a tile.
    exponents: [u8; TILE],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(kernel: &'a Kernel, layout: Layout, fields: Fields, book: &'a [u8; ENTRIES]) -> Self {
        Self { kernel, layout, fields, book, exponents: [0; TILE] }
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

    /// Reads rests, codes and escapes of all values of `out`.
    fn coded<'b>(
        &mut self,
        entry: Entry,
        mut static_body: &'b [u8],
        dynamic: &mut &'b [u8],
        out: &mut [u8],
    ) -> Result<(), TileFault> {
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
        if fields.join(self.kernel, rest, exponents, out) { Ok(()) } else { Err(TileFault::Padding) }
    }
}

/// Takes `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], TileFault> {
    bytes.split_off(..len).ok_or(TileFault::Overrun)
}
