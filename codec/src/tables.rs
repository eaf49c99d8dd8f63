//! Tables and bases that frames name by an id instead of carrying them: how they are trained, and how well they fit the values of a frame.

use std::sync::Arc;

use crate::{Base, DType, TableError, checksum};

/// A table that frames can name instead of carrying it, so that many frames share it: like the frequencies of [`crate::Rans`].
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
pub fn id_of(bytes: &[u8]) -> u32 {
    // The length tells trailing zeros apart. 0 in a header stands for no table.
    let len = checksum::of_front(&(bytes.len() as u64).to_le_bytes(), 0);
    checksum::of_front(bytes, checksum::WORD).wrapping_add(len).max(1)
}

/// The tables and the bases of a reader, each with an id of its own.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    tables: Vec<Table>,
    bases: Vec<Base>,
}

impl Tables {
    /// No tables.
    pub const NONE: &Self = &Self::new();

    /// No tables yet.
    pub const fn new() -> Self {
        Self { tables: Vec::new(), bases: Vec::new() }
    }

    /// Adds a table; one that is there already changes nothing.
    ///
    /// # Errors
    /// If there is another table with its id.
    pub fn add(&mut self, table: Table) -> Result<(), TableError> {
        match self.get(table.id) {
            Some(known) if *known == table => {}
            Some(_) => return Err(TableError::Collision { id: table.id }),
            None => self.tables.push(table),
        }
        Ok(())
    }

    /// The table with this id.
    pub fn get(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// Adds a base; one that is there already changes nothing.
    ///
    /// # Errors
    /// If there is another base with its id.
    pub fn add_base(&mut self, base: Base) -> Result<(), TableError> {
        match self.base(base.id()) {
            Some(known) if known.is_same(&base) => {}
            Some(_) => return Err(TableError::BaseCollision { id: base.id() }),
            None => self.bases.push(base),
        }
        Ok(())
    }

    /// The base with this id.
    pub fn base(&self, id: u64) -> Option<&Base> {
        self.bases.iter().find(|base| base.id() == id)
    }
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
