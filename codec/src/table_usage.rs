//! Fit of a table or book to the values of a frame, by which a stale table is recognised.

use crate::body::Body;
use crate::codebook16::{self, Codebook, Codebook16, Front};
use crate::decode::{first_section, open};
use crate::kernel::TILE;
use crate::registry::Entry;
use crate::tables::Tables;
use crate::tile::Mode;
use crate::{DecodeError, Decoder, FrameInfo, FrameShape, Section, rans};

/// Numbers of values that a frame codes with its table and without, read from its front matter ([`crate::Decoder::table_usage`]). Usages add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUsage {
    /// Values that are coded by the table, without those that a mask takes out.
    pub coded: u64,
    /// Coded values that the table has no code for.
    pub escapes: u64,
    /// Values that are stored or coded by other means, because the table would not make them shorter.
    pub others: u64,
}

impl TableUsage {
    /// Usage of table `id`, which the decoder has, by a frame: values of a frame that has a table of its own count as coded by other means.
    ///
    /// # Errors
    /// As [`Decoder::table_usage`].
    pub fn of_shared(
        decoder: &Decoder,
        id: u32,
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Self, DecodeError> {
        let usage = decoder.table_usage(shape, static_section, dynamic_section)?.unwrap_or_default();
        let first = match first_section(shape.layout) {
            Section::Static => static_section,
            Section::Dynamic => dynamic_section,
        };
        let is_named = FrameInfo::peek(first)?.table == Some(id);
        Ok(if is_named { usage } else { Self { coded: 0, escapes: 0, others: usage.values() } })
    }

    /// All values, but for those that are left out.
    pub fn values(&self) -> u64 {
        self.coded + self.others
    }

    /// Values that the table does not serve: escapes and others.
    pub fn missed_values(&self) -> u64 {
        self.escapes + self.others
    }

    /// The share of values that the table does not serve, from 0 to 1. 0 if there are none but zeros.
    pub fn missed(&self) -> f64 {
        if self.values() == 0 { 0.0 } else { self.missed_values() as f64 / self.values() as f64 }
    }
}

impl std::ops::AddAssign for TableUsage {
    fn add_assign(&mut self, other: Self) {
        self.coded += other.coded;
        self.escapes += other.escapes;
        self.others += other.others;
    }
}

/// See [`crate::Decoder::table_usage`].
pub(crate) fn of_frame(
    tables: &Tables,
    shape: FrameShape,
    static_section: &[u8],
    dynamic_section: &[u8],
) -> Result<Option<TableUsage>, DecodeError> {
    let (body, _, Entry { tag, .. }) = open(tables, shape, static_section, dynamic_section)?;
    match *tag {
        rans::TAG => rans::usage(&body, shape.count).map(Some),
        codebook16::TAG => {
            let BookUsage { coded, escapes, stored, .. } = BookUsage::of_body(&body, shape.count)?;
            let [coded, escapes, others] = [coded, escapes, stored].map(|values| values as u64);
            Ok(Some(TableUsage { coded, escapes, others }))
        }
        _ => Ok(None),
    }
}

/// Numbers of coded values, escapes and stored values in a frame of `codebook16`, read from its front matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookUsage {
    /// The book.
    pub book: Codebook,
    /// Values in tiles that are coded, without those that a mask takes out.
    pub coded: usize,
    /// Coded values that the book has no code for.
    pub escapes: usize,
    /// Values in tiles that are stored, because coding would not make them shorter.
    pub stored: usize,
}

impl BookUsage {
    /// Reads the tables of a frame of the expected shape, which carries its book. Bodies are not looked at, and the checksum is
    /// not compared.
    ///
    /// # Errors
    /// If the sections are not those of a frame of this codec and shape, or the tables contradict themselves.
    pub fn of_frame(
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Self, DecodeError> {
        let (body, _, entry) = open(Tables::NONE, shape, static_section, dynamic_section)?;
        if entry.codec.id() != Codebook16::ID {
            return Err(DecodeError::Codec { expected: Codebook16::ID, found: entry.codec.id() });
        }
        Self::of_body(&body, shape.count)
    }

    /// Reads the tables of a frame of `count` values whose header has been read, and that may name its book.
    pub(crate) fn of_body(body: &Body<'_>, count: usize) -> Result<Self, DecodeError> {
        let front = Front::read(body, count)?;
        let mut usage = Self { book: front.book, coded: 0, escapes: 0, stored: 0 };
        for tile in 0..front.tiles() {
            let entry = front.entry(tile)?;
            usage.coded += usize::from(entry.coded);
            usage.escapes += usize::from(entry.escapes);
            usage.stored += if entry.mode == Mode::Stored { (count - tile * TILE).min(TILE) } else { 0 };
        }
        Ok(usage)
    }

    /// The share of values that the book does not serve, from 0 to 1: escapes and stored values. 0 if there are none but
    /// zeros. A book that fits has less than 0.01; one that has more should be calibrated again.
    pub fn missed(&self) -> f64 {
        let all = self.coded + self.stored;
        if all == 0 { 0.0 } else { (self.escapes + self.stored) as f64 / all as f64 }
    }
}
