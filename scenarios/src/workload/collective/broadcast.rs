//! Broadcast: which rank sends how much to all.

use zipwire_codec::DType;
use zipwire_schedule::{Rank, Slot, Work};

use super::whole;
use crate::error::Result;
use crate::reader::Reader;

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let field = table.need("bytes", "\"1 MiB\"")?;
    let bytes = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
    let root = table.get("root").map_or(Ok(0), |field| field.integer_u32(0..=ranks - 1))?;
    Ok(Work::Broadcast { dtype, bytes, root: Rank(root), input: Slot(0), output: Slot(1) })
}
