//! Broadcast: which rank sends how much to all.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Rank, RankRange, Slot, Work};

use super::super::amounts::whole;
use crate::error::Result;
use crate::language::{Raw, Reader, integer, keys, raw, schema};

keys! { pub(super) static KEYS =
    bytes: Raw = raw(schema::bytes), "bytes that every rank gets", needed = "\"1 MiB\"";
    root: u32 = integer(0..=u32::MAX), "the rank that has them; 0 by default";
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let field = table.need_field(KEYS.bytes)?;
    let bytes = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
    let root = table.field(KEYS.root).map_or(Ok(0), |field| field.integer_u32(0..=ranks - 1))?;
    Ok(Work::of_call(
        dtype,
        [Slot(0), Slot(1)],
        CallKind::Broadcast { bytes, root: Rank(root), to: RankRange::all(ranks) },
    ))
}
