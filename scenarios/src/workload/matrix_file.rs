//! A file of bytes, source x destination: CSV without a header, or numbers between blanks, as nccl-tests takes it
//! (`NCCL_TESTS_ALLTOALLV_MATRIX_FILE` of `alltoallv_perf`).

use ndarray::Array2;
use zipwire_codec::DType;

use super::Context;
use super::amounts::not_whole;
use super::table_file::TableFile;
use crate::error::Result;
use crate::language::{BYTES_LIMIT, Field};
use crate::problem::Problem;

pub(super) fn read(field: &Field<'_>, dtype: DType, context: &Context<'_>) -> Result<Array2<u64>> {
    let file = TableFile::read_with_blanks(field, context.files)?;
    let ranks = context.ranks as usize;
    if file.rows().len() != ranks {
        let (found, what) = (file.rows().len(), "rows");
        let problem = Problem::NotPerRank { path: field.path.clone(), found, what, ranks: context.ranks };
        return Err(field.error(problem));
    }
    let mut matrix = Array2::zeros((ranks, ranks));
    for (src, row) in file.rows().enumerate() {
        row.need_length(ranks)?;
        for dst in 0..ranks {
            let cell = row.cell(dst);
            let bytes = cell.integer(&dst.to_string(), 0..=BYTES_LIMIT)?;
            not_whole(bytes, dtype).map_err(|problem| cell.error(problem))?;
            matrix[(src, dst)] = bytes;
        }
    }
    Ok(matrix)
}
