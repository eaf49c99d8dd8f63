//! Frames of differences, written block by block.

use super::entry::{self, BLOCK_VALUES, ENTRIES, ENTRY, Entry, Form, front_len};
use super::sample::{self, Choice};
use super::{Base, DeltaCoding, TAG};
use crate::blocks::symbols::{self, TABLE};
use crate::frame::{self, HEADER_LEN};
use crate::kernel::Kernel;
use crate::kernel::delta::{BitWriter, How, LOW_BYTES, SplitMut};
use crate::{Codec, DType, FrameShape, Layout, checksum, levels};

/// Bytes of a vector, which kernels may write behind a list.
const PAD: usize = 64;

/// Writes a frame in the compact layout, and returns its length. `None` if it does not pay, or would be longer than there is room for:
/// then `room` holds whatever it may. `codec` makes the frame of blocks that are coded without the base.
pub(super) fn encode(
    coding: DeltaCoding,
    codec: &dyn Codec,
    base: &Base,
    shape: FrameShape,
    values: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let FrameShape { dtype, count, .. } = shape;
    if !sample::can_pay(dtype, count) {
        return None;
    }
    let (kernel, width) = (levels::active(), dtype.width());
    let choice = sample::choose(coding, dtype, values, base.as_bytes());
    let mut front_len = front_len(count);
    let limit = out.len();
    let (front, mut room) = out.split_at_mut_checked(front_len + TABLE)?;
    front.fill(0);
    // Without a table, bodies begin where it would be: they are moved there at the end.
    let mut encoder = Encoder::new(kernel, dtype, &choice, count.min(BLOCK_VALUES));
    let (mut direct, mut uses_table, mut sum) = (Vec::new(), false, 0u32);
    let blocks = values.chunks(BLOCK_VALUES * width).zip(base.as_bytes().chunks(BLOCK_VALUES * width));
    let entries = front[ENTRIES..front_len].as_chunks_mut::<ENTRY>().0;
    for (number, ((values, base), entry)) in blocks.zip(&mut *entries).enumerate() {
        let (chosen, len) = encoder.block(values, base, room);
        if chosen.form == Form::Direct {
            direct.push(values);
        }
        uses_table |= chosen.rans;
        *entry = chosen.to_bytes();
        room = &mut room[len..];
        sum = sum.wrapping_add(checksum::of_values_at(kernel, values, number * BLOCK_VALUES * width));
    }
    if direct.len() == entries.len() {
        return None;
    }
    if !direct.is_empty() {
        let direct = direct.concat();
        let shape = FrameShape { layout: Layout::Compact, dtype, count: direct.len() / width };
        let bound = codec.bound(shape);
        let inner = room.get_mut(..bound)?;
        let len = codec.encode(Layout::Compact, dtype, &direct, &mut [], inner).ok()?;
        room = &mut room[len..];
    }
    let end = limit - room.len();
    front[HEADER_LEN..ENTRIES].copy_from_slice(&base.id().to_le_bytes());
    let table = choice.table.as_ref().filter(|_| uses_table);
    let mut len = end;
    match table {
        Some(frequencies) => {
            front[front_len..].copy_from_slice(&symbols::table_to_bytes(frequencies));
            front_len += TABLE;
        }
        None => {
            len -= TABLE;
            out.copy_within(front_len + TABLE..end, front_len);
        }
    }
    let front = &mut out[..front_len];
    let sum = sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
    frame::seal(TAG, shape, 0, len, sum, front);
    Some(len)
}

/// Writes one block after the other.
struct Encoder<'a> {
    kernel: &'static Kernel,
    dtype: DType,
    choice: &'a Choice,
    writer: symbols::Writer,
    mask: Vec<u8>,
    /// Numbers of positions, and positions.
    numbers: Vec<u8>,
    positions: Vec<u8>,
    /// Values that differ from the base, and those of the base in their place.
    changed: [Vec<u8>; 2],
    symbols: Vec<u8>,
    low_bytes: Vec<u8>,
    low_words: Vec<u8>,
    large: Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Buffers for blocks of up to this number of values.
    fn new(kernel: &'static Kernel, dtype: DType, choice: &'a Choice, values: usize) -> Self {
        let bytes = values * dtype.width() + PAD;
        Self {
            kernel,
            dtype,
            choice,
            writer: symbols::Writer::new(choice.table.as_ref(), values),
            mask: vec![0; values.div_ceil(8)],
            numbers: Vec::new(),
            positions: Vec::new(),
            changed: [Vec::new(), Vec::new()],
            symbols: vec![0; values],
            low_bytes: vec![0; LOW_BYTES * values + PAD],
            low_words: vec![0; LOW_BYTES * values + PAD],
            large: vec![0; bytes],
        }
    }

    /// Writes a block; returns its entry, and the length of what was written.
    fn block(&mut self, values: &[u8], base: &[u8], room: &mut [u8]) -> (Entry, usize) {
        let width = self.dtype.width();
        let count = values.len() / width;
        let mask = &mut self.mask[..count.div_ceil(8)];
        let changed = (self.kernel.changes)(width, values, base, mask);
        if changed == 0 {
            return (Entry::empty(Form::Same), 0);
        }
        let groups = count.div_ceil(entry::POSITION_GROUP);
        let listed_len = groups.next_multiple_of(8) + changed.next_multiple_of(8);
        let masked_len = mask.len().next_multiple_of(8);
        let can_be_listed = listed_len < masked_len
            && entry::positions_of_mask(mask, &mut self.numbers, &mut self.positions).is_some();
        let positions_len = if can_be_listed { listed_len } else { masked_len };
        let sparse = self.choice.is_sparse(count, changed, positions_len);
        let form = match (sparse, can_be_listed) {
            (false, _) => Form::Dense,
            (true, false) => Form::Masked,
            (true, true) => Form::Listed,
        };
        let how = if sparse { self.choice.sparse } else { self.choice.dense };
        let coded = if sparse { changed } else { count };
        let entry =
            Entry { xor: how.xor, reference: how.reference, coded: coded as u16, ..Entry::empty(form) };
        // What has no room may have it without the base.
        let body = self.body(entry, values, base, room);
        let direct = (Entry::empty(Form::Direct), 0);
        body.filter(|(_, len)| !self.choice.is_direct(count, *len)).unwrap_or(direct)
    }

    /// Writes the body of a block; returns its entry and its length.
    fn body(
        &mut self,
        mut entry: Entry,
        values: &[u8],
        base: &[u8],
        mut room: &mut [u8],
    ) -> Option<(Entry, usize)> {
        let width = self.dtype.width();
        let mask = &self.mask[..(values.len() / width).div_ceil(8)];
        let before = room.len();
        match entry.form {
            Form::Masked => entry::write_part(mask, &mut room)?,
            Form::Listed => {
                entry::write_part(&self.numbers, &mut room)?;
                entry::write_part(&self.positions, &mut room)?;
            }
            Form::Same | Form::Direct | Form::Dense => {}
        }
        let coded = usize::from(entry.coded);
        let how: How = entry.how(self.dtype);
        let mut out = SplitMut {
            symbols: &mut self.symbols[..coded],
            bytes: &mut self.low_bytes,
            bytes_len: 0,
            bits: BitWriter::new(&mut self.low_words),
            large: &mut self.large,
            large_len: 0,
        };
        if entry.form == Form::Dense {
            (self.kernel.delta_split)(width, values, base, how, &mut out);
        } else {
            for (from, to) in [values, base].into_iter().zip(&mut self.changed) {
                to.resize(from.len() + PAD, 0);
                (self.kernel.gather)(width, mask, from, to);
            }
            let [values, base] = self.changed.each_ref().map(|changed| &changed[..coded * width]);
            (self.kernel.delta_split)(width, values, base, how, &mut out);
        }
        let (bytes_len, words_len, large_len) = (out.bytes_len, out.bits.finish(), out.large_len);
        let symbols = &self.symbols[..coded];
        entry.rans = entry.form == Form::Dense && self.writer.has_table();
        let (counts, len) = if entry.rans {
            self.writer.rans(self.kernel, symbols, room)?
        } else {
            self.writer.tiers(self.kernel, symbols, room)?
        };
        room = &mut room[len..];
        entry.counts = counts;
        (entry.low_bytes, entry.low_words) = (bytes_len as u32, (words_len / 8) as u32);
        entry.large = (large_len / width) as u16;
        entry::write_part(&self.low_bytes[..bytes_len], &mut room)?;
        entry::write_part(&self.low_words[..words_len], &mut room)?;
        entry::write_part(&self.large[..large_len], &mut room)?;
        Some((entry, before - room.len()))
    }
}
