//! Reduce-Scatter and All-Reduce: what each rank contributes to the sums.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::super::amounts::{check_length, check_limit, whole};
use super::per_rank;
use crate::error::Result;
use crate::language::{Field, Raw, Reader, bytes_or_integer, keys, raw, schema};

const BYTES_PER_RANK: &str = "bytes that each rank contributes, to all shards together";

keys! { pub(super) static REDUCE_SCATTER =
    bytes_per_rank: Raw = raw(schema::bytes), BYTES_PER_RANK;
    bytes: Raw = raw(|| per_rank(bytes_or_integer())), "bytes that each rank contributes to each shard, one entry per rank";
}

keys! { pub(super) static ALL_REDUCE =
    bytes_per_rank: Raw = raw(schema::bytes), BYTES_PER_RANK, needed = "\"1 MiB\"";
}

pub(super) fn reduce_scatter(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let (input, output) = (Slot(0), Slot(1));
    let bytes = match table.field(REDUCE_SCATTER.bytes) {
        Some(field) => {
            let items = field.array()?;
            check_length(&field, items.len(), "entries", ranks)?;
            let shards = items.iter().map(|item| whole(item, item.bytes_or_integer()?, dtype));
            let bytes = shards.collect::<Result<Vec<u64>>>()?;
            let largest = bytes.iter().copied().max().unwrap_or(0);
            check_limit(largest.saturating_mul(u64::from(ranks)).max(bytes.iter().sum()), &field)?;
            bytes
        }
        // As an All-Reduce cuts it.
        None => {
            let field = table.need_field(REDUCE_SCATTER.bytes_per_rank)?;
            Work::of_call(dtype, [input, output], CallKind::AllReduce { bytes: contribution(&field, dtype)? })
                .shards(ranks)
        }
    };
    Ok(Work::Call { dtype, input, output, kind: CallKind::ReduceScatter { bytes } })
}

pub(super) fn all_reduce(table: &Reader<'_>, dtype: DType) -> Result<Work> {
    let bytes = contribution(&table.need_field(ALL_REDUCE.bytes_per_rank)?, dtype)?;
    Ok(Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::AllReduce { bytes } })
}

/// Bytes of whole values.
fn contribution(field: &Field<'_>, dtype: DType) -> Result<u64> {
    let bytes = whole(field, field.bytes(dtype.width() as u64)?, dtype)?;
    check_limit(bytes, field)?;
    Ok(bytes)
}
