//! All-to-All: how much each rank has for each other.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Slot, Work};

use super::super::{Context, matrix_file};
use super::{check_length, check_limit, per_rank, whole};
use crate::error::Result;
use crate::reader::{Field, Reader};
use crate::schema::{Key, bytes, one_of, optional, string};

pub(super) const SIZES: &[&str] = &["bytes_per_rank", "matrix"];

/// The schema of the keys that only this collective has.
pub(super) fn own_keys() -> Vec<Key> {
    let matrix = one_of([string(), per_rank(per_rank(Field::bytes_or_integer_schema()))]);
    #[rustfmt::skip]
    let keys = vec![
        optional("bytes_per_rank", "bytes of each rank's input, its own chunk included", bytes()),
        optional("matrix", "bytes from source (row) to destination (column): a file (CSV, or with blanks as `alltoallv_perf` takes it) or an array of arrays", matrix),
    ];
    keys
}

pub(super) fn read(table: &Reader<'_>, dtype: DType, context: &Context<'_>) -> Result<Work> {
    let bytes = match table.one_of(SIZES)? {
        ("matrix", field) => {
            let bytes = matrix(&field, dtype, context)?;
            let sums = bytes.rows().into_iter().chain(bytes.columns()).map(|line| line.sum());
            check_limit(sums.max().unwrap_or(0), &field)?;
            bytes
        }
        (_, field) => equal_chunks(&field, dtype, context.ranks)?,
    };
    Ok(Work::Call {
        dtype,
        input: Slot(0),
        output: Slot(1),
        kind: CallKind::AllToAll { bytes, tokens: None },
    })
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
