//! All-Gather: what each rank contributes.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::super::amounts::{check_length, check_limit, whole};
use super::per_rank;
use crate::error::Result;
use crate::language::{Raw, Reader, bytes_or_integer, keys, raw, schema};

keys! { pub(super) static KEYS =
    bytes_per_rank: Raw = raw(schema::bytes), "bytes that each rank contributes";
    bytes: Raw = raw(|| per_rank(bytes_or_integer())), "bytes that each rank contributes, one entry per rank";
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let bytes = match table.field(KEYS.bytes) {
        Some(field) => {
            let items = field.array()?;
            check_length(&field, items.len(), "entries", ranks)?;
            let shards = items.iter().map(|item| whole(item, item.bytes_or_integer()?, dtype));
            let bytes = shards.collect::<Result<Vec<u64>>>()?;
            check_limit(bytes.iter().sum(), &field)?;
            bytes
        }
        None => {
            let field = table.need_field(KEYS.bytes_per_rank)?;
            let shard = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
            check_limit(shard * u64::from(ranks), &field)?;
            vec![shard; ranks as usize]
        }
    };
    Ok(Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::AllGather { bytes } })
}
