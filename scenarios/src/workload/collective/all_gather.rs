//! All-Gather: what each rank contributes.

use zipwire_codec::DType;
use zipwire_schedule::{Slot, Work};

use super::{check_length, check_limit, whole};
use crate::error::Result;
use crate::reader::Reader;

pub(super) fn read(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<Work> {
    let bytes = match table.one_of(&["bytes_per_rank", "bytes"])? {
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
    Ok(Work::AllGather { dtype, bytes, input: Slot(0), output: Slot(1) })
}
