//! Amounts of data: whole values, entries for each rank, and limits of what a rank sends.

use zipwire_codec::DType;

use crate::error::Result;
use crate::language::{BYTES_LIMIT, Field};
use crate::problem::Problem;

/// No rank sends or receives more than the limit; `most` is what the busiest one does.
pub(super) fn check_limit(most: u64, field: &Field<'_>) -> Result<()> {
    if most <= BYTES_LIMIT {
        return Ok(());
    }
    let what = "the bytes that one rank sends or receives";
    Err(field.error(Problem::out_of_range(what, most, "at most 1 TiB")))
}

/// Bytes that were read from `field`, if they are whole values.
pub(super) fn whole(field: &Field<'_>, bytes: u64, dtype: DType) -> Result<u64> {
    not_whole(bytes, dtype).map(|()| bytes).map_err(|problem| field.error(problem))
}

/// Most durations: iterations x segments x ranks, 640 MiB of them.
const DURATION_LIMIT: u64 = 5 << 24;

/// Each segment takes its time on each rank in each iteration: there are not too many of them.
pub(super) fn check_durations(iterations: u32, segments: usize, ranks: u32, field: &Field<'_>) -> Result<()> {
    let count = segments as u64 * u64::from(iterations) * u64::from(ranks);
    if count <= DURATION_LIMIT {
        return Ok(());
    }
    let problem =
        Problem::out_of_range("iterations x segments x ranks", count, format!("at most {DURATION_LIMIT}"));
    Err(field.error(problem))
}

/// Chunks hold whole values.
pub(super) fn not_whole(bytes: u64, dtype: DType) -> std::result::Result<(), Problem> {
    let width = dtype.width();
    if bytes.is_multiple_of(width as u64) {
        return Ok(());
    }
    Err(Problem::NotWhole { bytes, dtype: dtype.name(), width })
}

/// An array has an entry per rank; `what` entries are called.
pub(super) fn check_length(field: &Field<'_>, found: usize, what: &'static str, ranks: u32) -> Result<()> {
    if found == ranks as usize {
        return Ok(());
    }
    Err(field.error(Problem::NotPerRank { path: field.path.clone(), found, what, ranks }))
}
