//! Tables and bases that frames name by an id instead of carrying them: how they are trained, and how well they fit the values of a frame.

use std::sync::Arc;

use crate::codebook16::{self, Codebook, Codebook16, Front};
use crate::decode::{first_section, open};
use crate::kernel::TILE;
use crate::options::Value;
use crate::registry::{self, Entry};
use crate::sections::Body;
use crate::tile::Mode;
use crate::{
    Base, Codec, DType, DecodeError, Decoder, EncodeError, FrameInfo, FrameShape, Layout, Section,
    TableError, checksum, rans,
};

/// A table that frames can name instead of carrying it, so that many frames share it: a code book of [`crate::Codebook16`], frequencies of [`crate::Rans`].
///
/// Its id follows from its bytes, so both ends of a transfer mean the same table by it, wherever it was made. The bytes are all
/// there is to bring it to a reader. [`crate::Spec::train`] makes one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Table {
    id: u32,
    bytes: Arc<[u8]>,
}

impl Table {
    /// The table of these bytes, which a codec made.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { id: id_of(&bytes), bytes }
    }

    /// Id by which frames name the table: 32 bits of a hash of its bytes, never 0.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its bytes. They begin with the tags of the codec and of the type that it is for.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Id of the codec that it is for, if its bytes begin as those of a table.
    pub fn codec(&self) -> Option<&'static str> {
        let is_of = |entry: &&Entry| sharing_of(entry).is_some();
        registry::by_tag(*self.bytes.first()?).filter(is_of).map(|entry| entry.codec.id())
    }

    /// Type of the values that it is for, if its bytes begin as those of a table.
    pub fn dtype(&self) -> Option<DType> {
        let tag = *self.bytes.get(1)?;
        DType::ALL.into_iter().find(|dtype| dtype.tag() == tag)
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({:#010x}, {} bytes)", self.id, self.bytes.len())
    }
}

/// See [`Table::id`].
pub(crate) fn id_of(bytes: &[u8]) -> u32 {
    // The length tells trailing zeros apart. 0 in a header stands for no table.
    let len = checksum::of_front(&(bytes.len() as u64).to_le_bytes(), 0);
    checksum::of_front(bytes, checksum::WORD).wrapping_add(len).max(1)
}

/// The tables and the bases of a reader, each with an id of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    bases: Vec<Base>,
}

impl Tables {
    /// No tables.
    pub(crate) const NONE: &Self = &Self::new();

    /// No tables yet.
    pub(crate) const fn new() -> Self {
        Self { tables: Vec::new(), bases: Vec::new() }
    }

    /// Adds a table; one that is there already changes nothing.
    ///
    /// # Errors
    /// If there is another table with its id.
    pub(crate) fn add(&mut self, table: Table) -> Result<(), TableError> {
        match self.get(table.id) {
            Some(known) if *known == table => {}
            Some(_) => return Err(TableError::Collision { id: table.id }),
            None => self.tables.push(table),
        }
        Ok(())
    }

    /// The table with this id.
    pub(crate) fn get(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// Adds a base; one that is there already changes nothing.
    ///
    /// # Errors
    /// If there is another base with its id.
    pub(crate) fn add_base(&mut self, base: Base) -> Result<(), TableError> {
        match self.base(base.id()) {
            Some(known) if known.is_same(&base) => {}
            Some(_) => return Err(TableError::BaseCollision { id: base.id() }),
            None => self.bases.push(base),
        }
        Ok(())
    }

    /// The base with this id.
    pub(crate) fn base(&self, id: u64) -> Option<&Base> {
        self.bases.iter().find(|base| base.id() == id)
    }
}

/// Functions of a codec that takes tables. `&[Value]` are the values of its options.
pub(crate) struct Sharing {
    /// Its tag, with which the bytes of its tables begin; the tag of the type follows.
    tag: u8,
    /// The table for values like those of some samples in this layout; none if there are no values to code.
    pub(crate) train: Train,
    /// The codec with this table for all frames. Fails if it is no table of this codec.
    pub(crate) build: Build,
}

/// See [`Sharing::train`].
type Train = fn(&[Value], Layout, DType, &[&[u8]]) -> Result<Option<Table>, EncodeError>;
/// See [`Sharing::build`].
type Build = fn(&[Value], &Table) -> Result<Box<dyn Codec>, DecodeError>;

static SHARING: [Sharing; 2] = [
    Sharing { tag: rans::TAG, train: rans::train, build: rans::build_with },
    Sharing { tag: codebook16::TAG, train: codebook16::train, build: codebook16::build_with },
];

/// Functions of the codec for tables, if it takes any.
pub(crate) fn sharing_of(entry: &Entry) -> Option<&'static Sharing> {
    SHARING.iter().find(|sharing| sharing.tag == entry.tag)
}

/// Numbers of values that a frame codes with its table and without, read from its front matter ([`crate::Decoder::table_usage`]). Usages add up.
/// A stale table is recognised by them.
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
    /// Errors of [`Decoder::table_usage`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;
    use crate::registry::{self, CODECS};

    #[test]
    fn ids_follow_from_bytes_and_are_never_zero() {
        let table = Table::new([1, 2, 3]);
        assert_eq!((table.id(), table.as_bytes()), (id_of(&[1, 2, 3]), &[1, 2, 3][..]));
        let mut ids: Vec<u32> = (0..100).map(|len| id_of(&vec![0; len])).collect();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() == 100 && ids[0] > 0);
    }

    #[test]
    fn a_second_table_with_the_same_id_is_refused() {
        let mut tables = Tables::new();
        let table = Table::new([7]);
        assert_eq!(tables.add(table.clone()), Ok(()));
        assert_eq!(tables.add(table.clone()), Ok(()));
        assert_eq!(tables.tables.len(), 1);
        let other = Table { id: table.id, bytes: Arc::new([8]) };
        assert_eq!(tables.add(other), Err(TableError::Collision { id: table.id }));
        assert_eq!(tables.get(table.id), Some(&table));
        assert_eq!(tables.get(table.id ^ 1), None);
    }

    #[test]
    fn whatever_takes_tables_can_be_trained_and_has_the_option() {
        for entry in CODECS.iter().chain([&registry::AUTO]) {
            let is_last = entry.options.last().is_some_and(|option| option.key == options::TABLE.key);
            assert_eq!(entry.takes_table, sharing_of(entry).is_some());
            assert_eq!(entry.takes_table, is_last);
            assert_eq!(
                entry.options.iter().filter(|option| option.key == options::TABLE.key).count(),
                is_last.into()
            );
        }
    }
}
