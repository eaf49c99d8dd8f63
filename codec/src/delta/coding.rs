//! Frames of differences, written and read block by block.

use super::entry::{self, BLOCK_VALUES, ENTRIES, ENTRY, Entry, Form, front_len};
use super::sample::{self, Choice};
use super::{Base, DeltaCoding, TAG};
use crate::blocks::symbols::{self, TABLE, TierReader};
use crate::frame::{self, HEADER_LEN, Header};
use crate::kernel::Kernel;
use crate::kernel::delta::{BitReader, BitWriter, How, JoinFrom, LOW_BYTES, SplitMut};
use crate::kernel::rans::DecodeTable;
use crate::sections::Body;
use crate::{
    BlockFault, Codec, DType, DecodeError, DeltaFault, FrameShape, Layout, Section, checksum, levels,
};

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
    frame::seal(TAG, shape, 0, len, sum, &mut out[..front_len]);
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

/// Blocks whose symbols are decoded side by side.
const TOGETHER: usize = 2;

/// See [`crate::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (dtype, width) = (body.dtype, body.dtype.width());
    if body.layout != Layout::Compact {
        return Err(DecodeError::Delta { fault: DeltaFault::Layout });
    }
    let kernel = levels::active();
    let count = out.len() / width;
    let Front { base, entries, frequencies, mut bodies, front } = Front::read(body, count, out.len())?;
    let sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    let blocks: Vec<Block<'_>> = read_blocks(&entries, base, dtype, count, &mut bodies)?;
    place_direct(body, &entries, bodies, out)?;

    let mut decoder = Decoder::new(kernel, dtype, frequencies.map(|table| DecodeTable::new(&table)), count);
    let mut sum = sum;
    let groups = blocks.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER * BLOCK_VALUES * width));
    for (number, (blocks, out)) in groups.enumerate() {
        let first = number * TOGETHER;
        decoder
            .blocks(blocks, out)
            .map_err(|(block, fault)| DecodeError::Block { block: first + block, fault })?;
        sum = sum.wrapping_add(checksum::of_values_at(kernel, out, first * BLOCK_VALUES * width));
    }
    Ok(sum)
}

/// Front matter of a frame, parsed, and the bodies behind it.
struct Front<'a> {
    base: &'a Base,
    entries: Vec<Entry>,
    frequencies: Option<crate::kernel::rans::Frequencies>,
    bodies: &'a [u8],
    /// All of it.
    front: &'a [u8],
}

impl<'a> Front<'a> {
    fn read(body: &Body<'a>, count: usize, bytes: usize) -> Result<Self, DecodeError> {
        let section = body.dynamic_section;
        let cut = |needed: usize| {
            let found = section.len();
            let truncated = DecodeError::Truncated { section: Section::Dynamic, needed, found };
            section.split_at_checked(needed).ok_or(truncated)
        };
        let (mut front, mut bodies) = cut(front_len(count))?;
        let id = front[HEADER_LEN..].first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        let table = front[ENTRIES..].as_chunks::<ENTRY>().0;
        let mut frequencies = None;
        if table.iter().any(entry::has_table) {
            let before = front.len();
            (front, bodies) = cut(before + TABLE)?;
            frequencies = Some(symbols::read_table(&front[before..])?);
        }
        let base = body.tables.base(id).ok_or(DecodeError::UnknownBase { id })?;
        if !base.fits(body.dtype, bytes) {
            return Err(DecodeError::Base { id, dtype: base.dtype(), found: base.count() });
        }
        let entry = |(block, bytes): (usize, &[u8; ENTRY])| {
            Entry::from_bytes(bytes, body.dtype, (count - block * BLOCK_VALUES).min(BLOCK_VALUES))
                .map_err(|fault| DecodeError::Block { block, fault })
        };
        let entries = table.iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
        if entries.iter().all(|entry| entry.form == Form::Direct) {
            return Err(DecodeError::Delta { fault: DeltaFault::NoBlock });
        }
        Ok(Self { base, entries, frequencies, bodies, front })
    }
}

/// A block and the parts of its body.
struct Block<'a> {
    entry: Entry,
    base: &'a [u8],
    positions: [&'a [u8]; 2],
    symbols: &'a [u8],
    low_bytes: &'a [u8],
    low_words: &'a [u8],
    large: &'a [u8],
}

/// Takes the bodies of all blocks off `bodies`.
fn read_blocks<'a>(
    entries: &[Entry],
    base: &'a Base,
    dtype: DType,
    count: usize,
    bodies: &mut &'a [u8],
) -> Result<Vec<Block<'a>>, DecodeError> {
    let width = dtype.width();
    let bases = base.as_bytes().chunks(BLOCK_VALUES * width);
    let block = |(number, (entry, base)): (usize, (&Entry, &'a [u8]))| {
        let lens = entry.parts((count - number * BLOCK_VALUES).min(BLOCK_VALUES), width);
        let fault = |fault| DecodeError::Block { block: number, fault };
        let mut body = bodies.split_off(..lens.len()).ok_or(fault(BlockFault::Overrun))?;
        let mut part = |len| entry::read_part(len, &mut body).map_err(fault);
        let [first, second] = lens.positions;
        Ok(Block {
            entry: *entry,
            base,
            positions: [part(first)?, part(second)?],
            symbols: part(lens.symbols)?,
            low_bytes: part(lens.low_bytes)?,
            low_words: part(lens.low_words)?,
            large: part(lens.large)?,
        })
    };
    entries.iter().zip(bases).enumerate().map(block).collect()
}

/// Decodes the blocks that are coded without the base, if there are any, to the front of `out`, and moves them to their places: the last
/// one first, as none has a place in front of where it is.
fn place_direct(body: &Body<'_>, entries: &[Entry], inner: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let bytes = BLOCK_VALUES * body.dtype.width();
    let is_direct = |entry: &Entry| entry.form == Form::Direct;
    let mut left = entries.iter().filter(|entry| is_direct(entry)).count();
    if left == 0 {
        let found = body.dynamic_section.len();
        let expected = (found - inner.len()) as u64;
        let section = Section::Dynamic;
        return if inner.is_empty() { Ok(()) } else { Err(DecodeError::Length { section, expected, found }) };
    }
    let short = bytes * entries.len() - out.len();
    let last_is_short = entries.last().is_some_and(is_direct);
    let len = left * bytes - if last_is_short { short } else { 0 };
    let within = |source| DecodeError::DirectBlocks { source: Box::new(source) };
    let tag = Header::read(inner, Section::Dynamic).map_err(within)?.codec;
    if !DeltaCoding::ALL.iter().any(|coding| coding.tag() == tag) {
        return Err(DecodeError::Delta { fault: DeltaFault::Inner(tag) });
    }
    (body.decode_inner)(body.tables, body.dtype, inner, &mut out[..len]).map_err(within)?;
    for (number, _) in entries.iter().enumerate().rev().filter(|(_, entry)| is_direct(entry)) {
        left -= 1;
        let to = number * bytes;
        let len = bytes.min(out.len() - to);
        out.copy_within(left * bytes..left * bytes + len, to);
    }
    Ok(())
}

/// Decodes one block after the other.
struct Decoder {
    kernel: &'static Kernel,
    dtype: DType,
    table: Option<DecodeTable>,
    tiers: Option<TierReader>,
    symbols: [Vec<u8>; TOGETHER],
    mask: Vec<u8>,
    /// Values of the base where others differ, and those others.
    changed: [Vec<u8>; 2],
}

impl Decoder {
    fn new(kernel: &'static Kernel, dtype: DType, table: Option<DecodeTable>, count: usize) -> Self {
        let values = count.min(BLOCK_VALUES);
        Self {
            kernel,
            dtype,
            table,
            tiers: None,
            symbols: [(); TOGETHER].map(|()| vec![0; values]),
            mask: vec![0; values.div_ceil(8)],
            changed: [Vec::new(), Vec::new()],
        }
    }

    /// Decodes some blocks; the error says which one is wrong.
    fn blocks(&mut self, blocks: &[Block<'_>], out: &mut [u8]) -> Result<(), (usize, BlockFault)> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let mut jobs = Vec::with_capacity(TOGETHER);
        let mut numbers = [0; TOGETHER];
        for (number, (block, symbols)) in blocks.iter().zip(&mut symbols).enumerate() {
            let symbols = &mut symbols[..usize::from(block.entry.coded)];
            let fault = |fault| (number, fault);
            if block.entry.rans {
                numbers[jobs.len()] = number;
                jobs.push(symbols::job(block.entry.counts, block.symbols, symbols).map_err(fault)?);
            } else if !symbols.is_empty() {
                let tiers = self.tiers.get_or_insert_with(TierReader::new);
                tiers.read(self.kernel, block.entry.counts, block.symbols, symbols).map_err(fault)?;
            }
        }
        if let Some(table) = &self.table {
            (self.kernel.decode_rans)(&mut jobs, table);
        }
        for (job, number) in jobs.iter().zip(numbers) {
            symbols::check(job).map_err(|fault| (number, fault))?;
        }
        drop(jobs);
        let outs = out.chunks_mut(BLOCK_VALUES * self.dtype.width());
        for (number, ((block, symbols), out)) in blocks.iter().zip(&symbols).zip(outs).enumerate() {
            let symbols = &symbols[..usize::from(block.entry.coded)];
            self.block(block, symbols, out).map_err(|fault| (number, fault))?;
        }
        self.symbols = symbols;
        Ok(())
    }

    /// Decodes a block whose symbols are known.
    fn block(&mut self, block: &Block<'_>, symbols: &[u8], out: &mut [u8]) -> Result<(), BlockFault> {
        let (entry, width) = (&block.entry, self.dtype.width());
        let how = entry.how(self.dtype);
        let count = out.len() / width;
        let mut from = JoinFrom {
            symbols,
            bytes: block.low_bytes,
            bits: BitReader::new(block.low_words.as_chunks().0),
            large: block.large,
            failed: false,
        };
        let join = self.kernel.delta_join;
        let mask = &mut self.mask[..count.div_ceil(8)];
        match entry.form {
            Form::Direct => return Ok(()),
            Form::Same => {
                out.copy_from_slice(block.base);
                return Ok(());
            }
            Form::Dense => join(width, block.base, how, &mut from, out),
            Form::Masked => {
                mask.copy_from_slice(block.positions[0]);
                let marked: usize = mask.iter().map(|bits| bits.count_ones() as usize).sum();
                if marked != symbols.len() {
                    return Err(BlockFault::Coded { expected: symbols.len(), found: marked });
                }
                if !count.is_multiple_of(8) && mask.last().is_some_and(|last| last >> (count % 8) != 0) {
                    return Err(BlockFault::Padding);
                }
            }
            Form::Listed => entry::positions_to_mask(block.positions[0], block.positions[1], count, mask)?,
        }
        if matches!(entry.form, Form::Masked | Form::Listed) {
            let [base, values] = &mut self.changed;
            for list in [&mut *base, &mut *values] {
                list.resize(out.len() + PAD, 0);
            }
            (self.kernel.gather)(width, mask, block.base, base);
            let len = symbols.len() * width;
            join(width, &base[..len], how, &mut from, &mut values[..len]);
            out.copy_from_slice(block.base);
            (self.kernel.scatter)(width, mask, values, out);
        }
        if from.failed || !from.large.is_empty() {
            return Err(BlockFault::Large);
        }
        if !from.bytes.is_empty() || !from.bits.is_at_end() {
            return Err(BlockFault::LowBits);
        }
        Ok(())
    }
}
