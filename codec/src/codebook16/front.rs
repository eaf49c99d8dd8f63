//! Front matter: header, book, tile table, padding.

use super::book::{Codebook, ENTRIES};
use super::entry::Entry;
use super::fields::Fields;
use super::geometry::{ENTRY, TABLE, front_len};
use crate::body::Body;
use crate::header::HEADER_LEN;
use crate::kernel::TILE;
use crate::sections::Reader;
use crate::{DecodeError, Layout, TileFault};

/// Front matter of a frame, parsed, and the sections behind it.
pub(crate) struct Front<'a> {
    layout: Layout,
    pub(super) fields: Fields,
    /// Number of values.
    count: usize,
    /// All of it, and what follows.
    pub(super) sections: Reader<'a>,
    /// The book of the frame.
    pub(crate) book: Codebook,
    table: &'a [[u8; ENTRY]],
}

impl<'a> Front<'a> {
    /// Reads the front matter of a frame of `count` values.
    pub(crate) fn read(body: &Body<'a>, count: usize) -> Result<Self, DecodeError> {
        let Body { layout, dtype, .. } = *body;
        let unsupported = DecodeError::Unsupported { codec: super::Codebook16::ID, dtype };
        let fields = Fields::of(dtype).ok_or(unsupported)?;
        let sections = Reader::new(body, front_len(layout, count))?;
        let bytes = sections.front;
        let exponents: [u8; ENTRIES] = std::array::from_fn(|i| bytes[HEADER_LEN + i]);
        let book = match body.table {
            Some(table) if exponents == [0; ENTRIES] => Codebook::from_table(dtype, table)?,
            Some(_) => return Err(DecodeError::Padding),
            None => Codebook::from_exponents(dtype, exponents)?,
        };
        let (table, padding) = bytes[TABLE..].split_at(ENTRY * count.div_ceil(TILE));
        if padding.iter().any(|byte| *byte != 0) {
            return Err(DecodeError::Padding);
        }
        let table = table.as_chunks().0;
        Ok(Self { layout, fields, count, sections, book, table })
    }

    /// The entry of a tile.
    pub(crate) fn entry(&self, tile: usize) -> Result<Entry, DecodeError> {
        let count = (self.count - tile * TILE).min(TILE);
        Entry::from_bytes(self.table[tile], self.layout, self.fields, count)
            .map_err(|fault: TileFault| DecodeError::Tile { tile, fault })
    }

    /// Number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.table.len()
    }
}
