//! How well the table of a frame fits its values: what tells a stale table from a good one, whatever the codec.

use crate::decode::{first_section, open};
use crate::registry::Entry;
use crate::tables::Tables;
use crate::{BookUsage, DecodeError, Decoder, FrameInfo, FrameShape, Section, codebook16, rans};

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
    /// That of a frame that is to name table `id`, which the decoder has: what a frame without the table codes by a table of its own is coded by other means.
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
