//! All-to-All: how much each rank has for each other.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::super::amounts::{check_length, check_limit, whole};
use super::super::{Context, matrix_file};
use super::per_rank;
use crate::error::Result;
use crate::language::{Field, Raw, Reader, Schema, bytes_or_integer, keys, one_of, raw, schema, string};

keys! { pub(super) static KEYS =
    bytes_per_rank: Raw = raw(schema::bytes), "bytes of each rank's input, its own chunk included";
    matrix: Raw = raw(matrix_schema), "bytes from source (row) to destination (column): a file (CSV, or with blanks as `alltoallv_perf` takes it) or an array of arrays";
}

fn matrix_schema() -> Schema {
    one_of([string(), per_rank(per_rank(bytes_or_integer()))])
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, context: &Context<'_>) -> Result<Work> {
    let bytes = match table.field(KEYS.matrix) {
        Some(field) => {
            let bytes = matrix(&field, dtype, context)?;
            let sums = bytes.rows().into_iter().chain(bytes.columns()).map(|line| line.sum());
            check_limit(sums.max().unwrap_or(0), &field)?;
            bytes
        }
        None => equal_chunks(&table.need_field(KEYS.bytes_per_rank)?, dtype, context.ranks)?,
    };
    Ok(Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::AllToAll { bytes, tokens: None }))
}

/// Every rank's input in as many equal chunks as there are ranks, its own included; whole values.
fn equal_chunks(field: &Field<'_>, dtype: DType, ranks: u32) -> Result<Array2<u64>> {
    let width = dtype.width() as u64;
    let bytes = field.bytes(u64::from(ranks) * width)?;
    let chunk = bytes / u64::from(ranks) / width * width;
    Ok(Array2::from_elem((ranks as usize, ranks as usize), chunk))
}

/// Source x destination: a CSV file's name, or rows of bytes.
fn matrix(field: &Field<'_>, dtype: DType, context: &Context<'_>) -> Result<Array2<u64>> {
    if field.as_string().is_some() {
        return matrix_file::read(field, dtype, context);
    }
    let ranks = context.ranks as usize;
    let mut matrix = Array2::zeros((ranks, ranks));
    let rows = field.array()?;
    check_length(field, rows.len(), "rows", context.ranks)?;
    for (src, row) in rows.iter().enumerate() {
        let row_items = row.array()?;
        check_length(row, row_items.len(), "columns", context.ranks)?;
        for (dst, item) in row_items.iter().enumerate() {
            matrix[(src, dst)] = whole(item, item.bytes_or_integer()?, dtype)?;
        }
    }
    Ok(matrix)
}
