//! Tiles into bodies, and back with nothing taken on trust. What a coded body has, in this order: mask, rests, codes, escapes.

use super::escapes;
use super::fields::Fields;
use super::front::{Entry, coded_len};
use crate::error::TileFault;
use crate::kernel::bits::mask_len;
use crate::kernel::codes::{CodeTable, ENTRIES};
use crate::kernel::{BASE_GROUP, GroupSums, Kernel, TILE};
use crate::tile::{Mode, check_mask};
use zipwire_codec::checksum::fold;
use zipwire_codec::kernel::pass::{Join, Split, SplitMut};
use zipwire_codec::kernel::tier::LIST_PAD;
use zipwire_codec::streaming_store::StreamingStore;
use zipwire_codec::{Layout, sections};

/// About how many bits an escape takes besides the code.
const ESCAPE_BITS: usize = 24;
const CODE_BITS: usize = 4;

/// Encodes one tile after the other.
pub(super) struct Encoder<'a> {
    kernel: &'a Kernel,
    layout: Layout,
    fields: Fields,
    table: CodeTable,
    /// Exponents of a tile, and room for a vector.
    exponents: [u8; TILE + LIST_PAD],
    /// A bit for each escape of a tile.
    escaped: [u64; TILE / 64],
    /// Values of a tile that are not +0.
    kept: [u8; 2 * TILE],
    /// Whether no mask paid in the tile before.
    unmasked: bool,
    /// The sum of words of the last tile for the checksum, folded, if coding it has summed them.
    pub(super) sum: Option<u32>,
    streaming: Option<StreamingStore<'a>>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        layout: Layout,
        fields: Fields,
        book: &[u8; ENTRIES],
        streaming: Option<StreamingStore<'a>>,
    ) -> Self {
        let table = CodeTable::new(book);
        let (exponents, escaped, kept) = ([0; _], [0; _], [0; _]);
        let (unmasked, sum) = (true, None);
        Self { kernel, layout, fields, table, exponents, escaped, kept, unmasked, sum, streaming }
    }

    /// Writes a body, its first part to `static_body` and the other to the front of `dynamic`; returns the table's entry
    /// and the length of the latter. `word` is the index of the first word of the values in the checksum.
    pub(super) fn tile(
        &mut self,
        values: &[u8],
        word: u64,
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> (Entry, usize) {
        self.sum = None;
        if self.fields == Fields::Bf16 && self.unmasked {
            if let Some(coded) = self.pass(values, word, static_body, dynamic) {
                return coded;
            }
            // Some of it may be there already, and is written again.
            StreamingStore::settle(&self.streaming);
        }
        let count = values.len() / self.fields.width();
        let zeros = match self.layout {
            Layout::Split => 0,
            Layout::Compact => self.fields.zeros(self.kernel, values),
        };
        if self.layout == Layout::Compact && zeros == count {
            self.unmasked = false;
            return (Entry::uncoded(Mode::Zero), 0);
        }
        self.unmasked = !self.mask_pays(count, zeros);
        let mode = if self.unmasked { Mode::Coded } else { Mode::Masked };
        self.coded(mode, values, zeros, static_body, dynamic)
            .unwrap_or_else(|| (Entry::uncoded(Mode::Stored), sections::store(values, static_body, dynamic)))
    }

    /// Whether codes and rests of the zeros take more than a mask.
    fn mask_pays(&self, count: usize, zeros: usize) -> bool {
        let escape = if self.table.contains(0) { 0 } else { ESCAPE_BITS };
        (CODE_BITS + self.fields.rest_bits() + escape) * zeros > count
    }

    /// Codes as [`Self::tile`] does; none if that is not shorter than the values are.
    fn coded(
        &mut self,
        mode: Mode,
        values: &[u8],
        zeros: usize,
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let (fields, kernel) = (self.fields, self.kernel);
        let count = values.len() / fields.width();
        let (coded, mask_len) = match mode {
            Mode::Masked => (count - zeros, mask_len(count)),
            _ => (count, 0),
        };
        let fixed_len = mask_len + coded_len(fields, coded);
        if fixed_len >= values.len() {
            return None;
        }
        let (mask, dynamic) = dynamic.split_at_mut(mask_len);
        let (head, tail) = match self.layout {
            Layout::Split => (static_body, dynamic),
            Layout::Compact => dynamic.split_at_mut(coded_len(fields, coded)),
        };
        let kept = if mode == Mode::Masked {
            fields.drop_zeros(kernel, values, mask, &mut self.kept[..values.len()]);
            &self.kept[..coded * fields.width()]
        } else {
            values
        };
        let body = StreamingStore::strip_for(&mut self.streaming, head);
        let (rest, codes) = body.split_at_mut(fields.rest_len(coded));
        let exponents = &mut self.exponents[..coded];
        let escaped = &mut self.escaped[..coded.div_ceil(64)];
        fields.split(kernel, kept, rest, exponents);
        (kernel.loops().pack_codes)(exponents, &self.table, codes, escaped, false);
        let (positions, escapes) = escapes::choose(escaped, coded);
        let escapes_len = positions.len(coded, escapes);
        if fixed_len + escapes_len >= values.len() {
            return None;
        }
        StreamingStore::flush(&self.streaming, head);
        if escapes > 0 {
            escapes::write(positions, escaped, exponents, &mut tail[..escapes_len]);
        }
        let entry = Entry { mode, positions, escapes: escapes as u16, coded: coded as u16 };
        let dynamic_len = match self.layout {
            Layout::Split => escapes_len,
            Layout::Compact => fixed_len + escapes_len,
        };
        Some((entry, dynamic_len))
    }

    /// Codes all values of a tile of BF16 in one pass over them, which sums them as well. None if a mask pays after all, or if
    /// that is not shorter than the values are.
    fn pass(
        &mut self,
        values: &[u8],
        word: u64,
        static_body: &mut [u8],
        dynamic: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let (layout, count) = (self.layout, values.len() / 2);
        let fixed_len = coded_len(self.fields, count);
        if fixed_len >= values.len() {
            return None;
        }
        let (head, tail) = match layout {
            Layout::Split => (static_body, dynamic),
            Layout::Compact => dynamic.split_at_mut(fixed_len),
        };
        let (rest, codes) = head.split_at_mut(count);
        let mut sums = [GroupSums::default(); TILE / BASE_GROUP];
        let sums = &mut sums[..count.div_ceil(BASE_GROUP)];
        // Residuals to the base 0, of which none has a code: the exponents.
        let how = Split { base: Some(0), eighths: 0, tier: None, word, streaming: false };
        let out = SplitMut { rest, planes: &mut [], sums: &mut *sums, list: &mut self.exponents, passed: 0 };
        let passed = StreamingStore::split(&mut self.streaming, self.kernel, values, how, out);
        self.sum = Some(fold(passed.sum));
        let zeros = sums.iter().map(|sums| sums.zeros as usize).sum();
        if layout == Layout::Compact && (zeros == count || self.mask_pays(count, zeros)) {
            return None;
        }
        let exponents = &self.exponents[..count];
        let escaped = &mut self.escaped[..count.div_ceil(64)];
        pack_codes(&mut self.streaming, self.kernel, exponents, &self.table, codes, escaped);
        let (positions, escapes) = escapes::choose(escaped, count);
        let escapes_len = positions.len(count, escapes);
        if fixed_len + escapes_len >= values.len() {
            return None;
        }
        if escapes > 0 {
            escapes::write(positions, escaped, exponents, &mut tail[..escapes_len]);
        }
        let entry = Entry { mode: Mode::Coded, positions, escapes: escapes as u16, coded: count as u16 };
        let dynamic_len = match layout {
            Layout::Split => escapes_len,
            Layout::Compact => fixed_len + escapes_len,
        };
        Some((entry, dynamic_len))
    }
}

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
        (self.kernel.loops().unpack_codes)(codes, self.book, exponents);
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

/// Calls [`crate::kernel::Loops::pack_codes`], which writes past the caches where that is permitted.
fn pack_codes(
    streaming: &mut Option<StreamingStore<'_>>,
    kernel: &Kernel,
    exponents: &[u8],
    table: &CodeTable,
    codes: &mut [u8],
    escaped: &mut [u64],
) {
    let pack_codes = kernel.loops().pack_codes;
    if StreamingStore::is_direct(streaming) {
        return pack_codes(exponents, table, codes, escaped, true);
    }
    pack_codes(exponents, table, StreamingStore::strip_for(streaming, codes), escaped, false);
    StreamingStore::flush(streaming, codes);
}
