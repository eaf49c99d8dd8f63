//! All-Gather: what each rank contributes.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::{check_length, check_limit, per_rank, whole};
use crate::error::Result;
use crate::reader::{Field, Reader};
use crate::schema::{Key, bytes, optional};

pub(super) const SIZES: &[&str] = &["bytes_per_rank", "bytes"];

/// The schema of the keys that only this collective has.
pub(super) fn own_keys() -> Vec<Key> {
    vec![
        optional("bytes_per_rank", "bytes that each rank contributes", bytes()),
        optional(
            "bytes",
            "bytes that each rank contributes, one entry per rank",
            per_rank(Field::bytes_or_integer_schema()),
        ),
    ]
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let bytes = match table.one_of(SIZES)? {
        ("bytes", field) => {
            let items = field.array()?;
            check_length(&field, items.len(), "entries", ranks)?;
            let shards = items.iter().map(|item| whole(item, item.bytes_or_integer()?, dtype));
            let bytes = shards.collect::<Result<Vec<u64>>>()?;
            check_limit(bytes.iter().sum(), &field)?;
            bytes
        }
        (_, field) => {
            let shard = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
            check_limit(shard * u64::from(ranks), &field)?;
            vec![shard; ranks as usize]
        }
    };
    Ok(Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::AllGather { bytes } })
}
