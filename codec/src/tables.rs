//! Tables and bases that frames name by an id instead of carrying them.

use std::sync::Arc;

use crate::registry::{self, Entry};
use crate::{Base, DType, TableError, checksum, sharing};

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
        let is_of = |entry: &&Entry| sharing::of(entry).is_some();
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
