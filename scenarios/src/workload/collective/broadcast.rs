//! Broadcast: which rank sends how much to all.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Rank, Slot, Work};

use super::whole;
use crate::error::Result;
use crate::reader::Reader;
use crate::schema::{Key, bytes, integer, needed, optional};

/// The schema of the keys that only this collective has.
pub(super) fn own_keys() -> Vec<Key> {
    vec![
        needed("bytes", "bytes that every rank gets", bytes()),
        optional("root", "the rank that has them; 0 by default", integer(0..=u32::MAX)),
    ]
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let field = table.need("bytes", "\"1 MiB\"")?;
    let bytes = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
    let root = table.get("root").map_or(Ok(0), |field| field.integer_u32(0..=ranks - 1))?;
    Ok(Work::Call {
        dtype,
        input: Slot(0),
        output: Slot(1),
        kind: CallKind::Broadcast { bytes, root: Rank(root) },
    })
}
