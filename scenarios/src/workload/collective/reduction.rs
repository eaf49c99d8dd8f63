//! Reduce-Scatter and All-Reduce: what each rank contributes to the sums.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::{check_length, check_limit, per_rank, whole};
use crate::error::Result;
use crate::reader::{Field, Reader};
use crate::schema::{Key, bytes, needed, optional};

/// How large a Reduce-Scatter is.
pub(super) const SIZES: &[&str] = &["bytes_per_rank", "bytes"];

const BYTES_PER_RANK: &str = "bytes that each rank contributes, to all shards together";

/// The schema of the keys that only a Reduce-Scatter has.
pub(super) fn reduce_scatter_keys() -> Vec<Key> {
    let shards = per_rank(Field::bytes_or_integer_schema());
    vec![
        optional("bytes_per_rank", BYTES_PER_RANK, bytes()),
        optional("bytes", "bytes that each rank contributes to each shard, one entry per rank", shards),
    ]
}

/// The schema of the keys that only an All-Reduce has.
pub(super) fn all_reduce_keys() -> Vec<Key> {
    vec![needed("bytes_per_rank", BYTES_PER_RANK, bytes())]
}

pub(super) fn reduce_scatter(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let (input, output) = (Slot(0), Slot(1));
    let bytes = match table.one_of(SIZES)? {
        ("bytes", field) => {
            let items = field.array()?;
            check_length(&field, items.len(), "entries", ranks)?;
            let shards = items.iter().map(|item| whole(item, item.bytes_or_integer()?, dtype));
            let bytes = shards.collect::<Result<Vec<u64>>>()?;
            let largest = bytes.iter().copied().max().unwrap_or(0);
            check_limit(largest.saturating_mul(u64::from(ranks)).max(bytes.iter().sum()), &field)?;
            bytes
        }
        // As an All-Reduce cuts it.
        (_, field) => Work::Call {
            dtype,
            input,
            output,
            kind: CallKind::AllReduce { bytes: contribution(&field, dtype)? },
        }
        .shards(ranks),
    };
    Ok(Work::Call { dtype, input, output, kind: CallKind::ReduceScatter { bytes } })
}

pub(super) fn all_reduce(table: &Reader<'_>, dtype: DType) -> Result<Work> {
    let bytes = contribution(&table.need("bytes_per_rank", "\"1 MiB\"")?, dtype)?;
    Ok(Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::AllReduce { bytes } })
}

/// Bytes of whole values.
fn contribution(field: &Field<'_>, dtype: DType) -> Result<u64> {
    let bytes = whole(field, field.bytes(dtype.width() as u64)?, dtype)?;
    check_limit(bytes, field)?;
    Ok(bytes)
}
