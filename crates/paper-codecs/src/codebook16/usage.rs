//! How well the book of a frame fits its values.

use zipwire_codec::sections::Body;
use zipwire_codec::tables::Tables;
use zipwire_codec::{DecodeError, FrameShape, open};

use super::{Codebook, Codebook16, Front};
use crate::kernel::TILE;
use crate::tile::Mode;

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
        crate::register();
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
