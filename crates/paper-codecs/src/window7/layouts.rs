//! The two layouts. Split: tile table, escape index and bodies of known length first; windows that groups have of their own, escapes, and
//! what stored tiles have left over, in the dynamic section. Compact: tile table and bodies, nothing else; exact zeros are taken out where
//! that pays, and lower halves that are all zero.

use std::ops::Range;

use super::ID;
use super::coder::{self, Coder, Out};
use super::tile::{
    COMPACT_ENTRY, Fields, SPLIT_ENTRY, Tile, code_bytes, compact_index, has_codes, static_body,
};
use super::tile_sum;
use crate::error::{TileFault, in_tile};
use crate::kernel::bits::mask_len;
use crate::kernel::{INDEX_GROUP, Kernel, Starts, TILE};
use crate::scale::Estimator;
use crate::tile::{Mode, check_mask};
use zipwire_codec::checksum::fold;
use zipwire_codec::frame::HEADER_LEN;
use zipwire_codec::sections::{self, Reader, Tails, Writer};
use zipwire_codec::streaming_store::StreamingStore;
use zipwire_codec::{DType, DecodeError};

/// Writes tile table, escape index, bodies and the dynamic section; returns the latter's length and the checksum of the
/// values.
pub(super) fn encode_split(
    kernel: &'static Kernel,
    scale: Estimator,
    dtype: DType,
    values: &[u8],
    Writer { front, bodies, dynamic, .. }: &mut Writer<'_>,
) -> (usize, u32) {
    let width = dtype.width();
    let fields = Fields::of(kernel, dtype);
    let mut coder = Coder::new(kernel, scale);
    let index_at = index_range(values.len() / width);
    let (table, index_bytes) = front[..index_at.end].split_at_mut(index_at.start);
    let table = table[HEADER_LEN..].as_chunks_mut::<SPLIT_ENTRY>().0;
    let indexes = index_bytes.chunks_mut(2 * TILE / INDEX_GROUP);
    let bodies = bodies.chunks_mut(static_body(dtype, TILE));
    let (mut position, mut sum) = (0, 0u32);
    let (mut room, mut starts) = ([0; 2 * TILE], [0; TILE / INDEX_GROUP]);
    let mut streaming = StreamingStore::of_large(kernel, values.len());
    for (number, (((values, entry), index_bytes), body)) in
        values.chunks(width * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        let count = values.len() / width;
        let mut of_tile = None;
        let dynamic = &mut dynamic[position..];
        if has_codes(count) {
            let (lower, coded) = body.split_at_mut(fields.lower_width() * count);
            let word = fields.word(number);
            let mut out = Out::new(&mut streaming, coded, count);
            let choice = coder.code(fields.upper(values, &mut room), word, &mut out, &mut starts);
            of_tile = word.map(|_| fold(choice.sum));
            let escapes_at = choice.starts.len();
            let len = escapes_at + choice.escapes.len();
            if static_body(dtype, count) + len < values.len() {
                fields.write_lower(values, lower);
                Out::flush(&streaming, coded);
                dynamic[..escapes_at].copy_from_slice(choice.starts);
                dynamic[escapes_at..len].copy_from_slice(choice.escapes);
                for (bytes, offset) in index_bytes.as_chunks_mut::<2>().0.iter_mut().zip(choice.index) {
                    *bytes = offset.to_le_bytes();
                }
                *entry = Tile::coded(Mode::Coded, &choice, count).to_split();
                position += len;
                sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, values)));
                continue;
            }
        }
        *entry = Tile::uncoded(Mode::Stored).to_split();
        StreamingStore::settle(&streaming);
        position += sections::store(values, body, dynamic);
        sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, values)));
    }
    (position, sum)
}

/// Reads what [`encode_split`] writes, and returns the checksum of the values.
pub(super) fn decode_split(
    kernel: &'static Kernel,
    dtype: DType,
    mut reader: Reader<'_>,
    out: &mut [u8],
) -> Result<u32, DecodeError> {
    let (width, front) = (dtype.width(), reader.front);
    let fields = Fields::of(kernel, dtype);
    let index_at = index_range(out.len() / width);
    if front[index_at.end..].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let table = front[HEADER_LEN..index_at.start].as_chunks::<SPLIT_ENTRY>().0;
    let indexes = front[index_at].chunks(2 * TILE / INDEX_GROUP);
    let bodies = reader.bodies.chunks(static_body(dtype, TILE));
    let (mut sum, mut room, mut streaming) = (0u32, [0; 2 * TILE], fields.streaming(out.len()));
    for (number, (((to, entry), index_bytes), body)) in
        out.chunks_mut(width * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        let fault = |fault| in_tile(ID, number, fault);
        let count = to.len() / width;
        let tile = Tile::from_split(*entry, count).map_err(fault)?;
        let direct = tile.mode == Mode::Coded && StreamingStore::is_direct(&streaming);
        let out = if direct { &mut *to } else { StreamingStore::strip_for(&mut streaming, to) };
        let mut index = [0; TILE / INDEX_GROUP];
        let mut of_tile = None;
        if tile.mode == Mode::Coded {
            let part = reader.dynamic.split_off(..tile.windows() + usize::from(tile.escapes));
            let (starts, escapes) = part.ok_or_else(|| fault(TileFault::Overrun))?.split_at(tile.windows());
            let (lower, coded) = body.split_at(fields.lower_width() * count);
            let (rest, codes) = coded.split_at(count);
            let unpack = |out: &mut [u8]| {
                let word = fields.word(number);
                let parts = (rest, codes, escapes);
                let unpacked = coder::unpack(kernel, tile.start, starts, parts, word, direct, out)?;
                index = unpacked.index;
                of_tile = word.map(|_| fold(unpacked.sum));
                Ok(())
            };
            fields.join(lower, out, &mut room, unpack).map_err(fault)?;
        } else {
            sections::restore(body, &mut reader.dynamic, out).ok_or_else(|| fault(TileFault::Overrun))?;
        }
        let stored = index_bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        if stored.zip(index).any(|(stored, computed)| stored != computed) {
            return Err(fault(TileFault::EscapeIndex));
        }
        sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, out)));
        if !direct {
            StreamingStore::flush(&streaming, to);
        }
    }
    reader.finish()?;
    Ok(sum)
}

/// See [`zipwire_codec::sections::Pieces::tails`].
pub(super) fn tails(front: &[u8], _: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[HEADER_LEN..index_range(count).start].as_chunks::<SPLIT_ENTRY>().0;
    let tail = |(number, entry): (usize, &[u8; SPLIT_ENTRY])| {
        let tile = Tile::from_split(*entry, (count - number * TILE).min(TILE))
            .map_err(|fault| in_tile(ID, number, fault))?;
        Ok((tile.mode == Mode::Coded).then(|| tile.windows() + usize::from(tile.escapes)))
    };
    Ok(Tails { first: 0, lens: table.iter().enumerate().map(tail).collect::<Result<_, DecodeError>>()? })
}

/// Range of the escape index in the front matter of `count` values; the tile table is before it, padding behind it.
fn index_range(count: usize) -> Range<usize> {
    let start = HEADER_LEN + SPLIT_ENTRY * count.div_ceil(TILE);
    start..start + 2 * count.div_ceil(INDEX_GROUP)
}

/// Bits of a coded +0 beside its whole bytes: a code, where the escape takes the place of the exponent.
const CODE_BITS: usize = 3;

/// Values of a tile, of either type.
type Room = [u8; 4 * TILE];

/// Writes tile table and bodies; returns the length of the latter and the checksum of the values.
pub(super) fn encode_compact(
    kernel: &'static Kernel,
    scale: Estimator,
    dtype: DType,
    values: &[u8],
    Writer { front, dynamic: bodies, .. }: &mut Writer<'_>,
) -> (usize, u32) {
    let table = front[HEADER_LEN..].as_chunks_mut::<COMPACT_ENTRY>().0;
    let streaming = StreamingStore::of_large(kernel, values.len());
    let mut encoder = Encoder {
        fields: Fields::of(kernel, dtype),
        coder: Coder::new(kernel, scale),
        upper: [0; _],
        starts: [0; _],
        zeros: true,
        word: None,
        sum: None,
        streaming,
    };
    let mut kept: Room = [0; _];
    let (mut position, mut sum) = (0, 0u32);
    for (number, (values, entry)) in values.chunks(dtype.width() * TILE).zip(table).enumerate() {
        encoder.word = encoder.fields.word(number);
        encoder.sum = None;
        let (tile, len) = encoder.tile(values, &mut kept, &mut bodies[position..]);
        sum = sum.wrapping_add(encoder.sum.unwrap_or_else(|| tile_sum(kernel, dtype, number, values)));
        *entry = tile.to_compact();
        position += len;
    }
    (position, sum)
}

struct Encoder<'a> {
    fields: Fields,
    coder: Coder,
    upper: [u8; 2 * TILE],
    starts: Starts,
    /// Whether the tile before has zeros.
    zeros: bool,
    /// Index of the tile's first word in the checksum, if packing can sum the values; and the sum, once it has.
    word: Option<u64>,
    sum: Option<u32>,
    streaming: Option<StreamingStore<'a>>,
}

impl Encoder<'_> {
    /// Chooses a form for a tile and writes its body to the front of `body`; returns the length. `kept` is room for values.
    fn tile(&mut self, values: &[u8], kept: &mut Room, body: &mut [u8]) -> (Tile, usize) {
        let count = values.len() / self.fields.width();
        // Where the tile before has no zeros this one mostly has none, and coding it shows that without counting.
        let tried = (!self.zeros).then(|| self.coded(Mode::Coded, values, values.len(), body));
        if let (Some(Some(coded)), false) = (tried, self.coder.zeros()) {
            return coded;
        }
        let zeros = self.fields.zeros(values);
        self.zeros = zeros > 0;
        if zeros == count {
            return (Tile::uncoded(Mode::Zero), 0);
        }
        if let (0, Some(Some(coded))) = (zeros, tried) {
            return coded;
        }
        StreamingStore::settle(&self.streaming);
        let coded = if zeros == 0 && tried.is_some() {
            None
        } else if (8 * self.fields.width() + CODE_BITS) * zeros > count {
            let (mask, body) = body.split_at_mut(mask_len(count));
            let coded = self.fields.drop_zeros(values, mask, kept);
            let room =
                values.len().checked_sub(mask.len()).expect("a value is longer than its bit of a mask");
            let kept = &kept[..self.fields.width() * coded];
            self.coded(Mode::Masked, kept, room, body).map(|(tile, len)| (tile, mask.len() + len))
        } else {
            self.coded(Mode::Coded, values, values.len(), body)
        };
        coded.unwrap_or_else(|| {
            StreamingStore::settle(&self.streaming);
            body[..values.len()].copy_from_slice(values);
            (Tile::uncoded(Mode::Stored), values.len())
        })
    }

    /// Codes values to the front of `body`, if they then have less than `limit` bytes; returns how many.
    fn coded(&mut self, mode: Mode, values: &[u8], limit: usize, body: &mut [u8]) -> Option<(Tile, usize)> {
        let count = values.len() / self.fields.width();
        let lower_len = self.fields.lower_width() * count;
        let (needed, limit_without) = (count + code_bytes(count), limit.checked_sub(lower_len)?);
        let short = lower_len > 0 && !self.fields.write_lower(values, &mut body[..lower_len]);
        let (lower_len, limit) = if short { (0, limit) } else { (lower_len, limit_without) };
        if needed >= limit {
            return None;
        }
        let head = &mut body[lower_len..][..needed];
        let upper = self.fields.upper(values, &mut self.upper);
        let word = self.word.filter(|_| mode == Mode::Coded && self.sum.is_none());
        let mut out = Out::new(&mut self.streaming, head, count);
        let choice = self.coder.code(upper, word, &mut out, &mut self.starts);
        self.sum = self.sum.or(word.map(|_| fold(choice.sum)));
        let index_len = compact_index(count, choice.escapes.len());
        let len = needed + choice.starts.len() + index_len + choice.escapes.len();
        if len >= limit {
            return None;
        }
        Out::flush(&self.streaming, head);
        let (starts, behind) = body[lower_len + needed..].split_at_mut(choice.starts.len());
        let (index, behind) = behind.split_at_mut(index_len);
        starts.copy_from_slice(choice.starts);
        for (bytes, offset) in index.as_chunks_mut::<2>().0.iter_mut().zip(&choice.index[1..]) {
            *bytes = offset.to_le_bytes();
        }
        behind[..choice.escapes.len()].copy_from_slice(choice.escapes);
        Some((Tile { short, ..Tile::coded(mode, &choice, count) }, lower_len + len))
    }
}

/// Reads what [`encode_compact`] writes, and returns the checksum of the values.
pub(super) fn decode_compact(
    kernel: &'static Kernel,
    dtype: DType,
    mut reader: Reader<'_>,
    out: &mut [u8],
) -> Result<u32, DecodeError> {
    let fields = Fields::of(kernel, dtype);
    let table = reader.front[HEADER_LEN..].as_chunks::<COMPACT_ENTRY>().0;
    let (mut kept, mut upper): (Room, _) = ([0; _], [0; _]);
    let (mut sum, mut streaming) = (0u32, fields.streaming(out.len()));
    for (number, (to, entry)) in out.chunks_mut(dtype.width() * TILE).zip(table).enumerate() {
        let fault = |fault| in_tile(ID, number, fault);
        let count = to.len() / dtype.width();
        let tile = Tile::from_compact(*entry, count, dtype).map_err(fault)?;
        let direct = tile.mode == Mode::Coded && StreamingStore::is_direct(&streaming);
        let out = if direct { &mut *to } else { StreamingStore::strip_for(&mut streaming, to) };
        let body = reader.dynamic.split_off(..body_len(&tile, dtype, count));
        let body = body.ok_or_else(|| fault(TileFault::Overrun))?;
        let (word, mut of_tile) = (fields.word(number), None);
        match tile.mode {
            Mode::Zero => out.fill(0),
            Mode::Stored => out.copy_from_slice(body),
            Mode::Coded => {
                let found =
                    unpack(kernel, fields, &tile, body, (word, direct), out, &mut upper).map_err(fault)?;
                of_tile = word.map(|_| fold(found));
            }
            Mode::Masked => {
                let (mask, body) = body.split_at(mask_len(count));
                check_mask(mask, count, tile.coded).map_err(fault)?;
                let kept = &mut kept[..dtype.width() * usize::from(tile.coded)];
                unpack(kernel, fields, &tile, body, (None, false), kept, &mut upper).map_err(fault)?;
                fields.restore_zeros(mask, kept, out);
            }
        }
        sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, out)));
        if !direct {
            StreamingStore::flush(&streaming, to);
        }
    }
    reader.finish()?;
    Ok(sum)
}

/// Bytes of the body of a tile of `count` values.
fn body_len(tile: &Tile, dtype: DType, count: usize) -> usize {
    let (coded, escapes) = (usize::from(tile.coded), usize::from(tile.escapes));
    let coded_len = tile.lower_width(dtype) * coded
        + coded
        + code_bytes(coded)
        + tile.windows()
        + compact_index(coded, escapes)
        + escapes;
    match tile.mode {
        Mode::Zero => 0,
        Mode::Stored => dtype.width() * count,
        Mode::Coded => coded_len,
        Mode::Masked => mask_len(count) + coded_len,
    }
}

/// Reads what [`Encoder::coded`] writes; returns the sum of words, not folded, if `word` says where they begin.
/// `streaming` as in [`crate::kernel::Coded`]; `room` is for upper halves.
fn unpack(
    kernel: &Kernel,
    fields: Fields,
    tile: &Tile,
    body: &[u8],
    (word, streaming): (Option<u64>, bool),
    out: &mut [u8],
    room: &mut [u8; 2 * TILE],
) -> Result<u64, TileFault> {
    // Lower halves that are left out.
    static ZEROS: [u8; 2 * TILE] = [0; _];
    let coded = usize::from(tile.coded);
    let lower_len = fields.lower_width() * coded;
    let (lower, body) = if tile.short { (&ZEROS[..lower_len], body) } else { body.split_at(lower_len) };
    let (rest, body) = body.split_at(coded);
    let (codes, body) = body.split_at(code_bytes(coded));
    let (starts, body) = body.split_at(tile.windows());
    let (index_bytes, escapes) = body.split_at(compact_index(coded, usize::from(tile.escapes)));
    let mut sum = 0;
    fields.join(lower, out, room, |out| {
        let unpacked =
            coder::unpack(kernel, tile.start, starts, (rest, codes, escapes), word, streaming, out)?;
        sum = unpacked.sum;
        let stored = index_bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        if stored.zip(&unpacked.index[1..]).any(|(stored, computed)| stored != *computed) {
            return Err(TileFault::EscapeIndex);
        }
        Ok(())
    })?;
    Ok(sum)
}
