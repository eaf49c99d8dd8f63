//! Workload `collective`: one call, without a model around it.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{Durations, Job, Rank, Segment, Slot, Work};

use super::{Context, Kind, Workload, matrix_file};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::payload::Rowset;
use crate::problem::Problem;
use crate::reader::{BYTES_LIMIT, Field};
use crate::schema::{Schema, array, bytes, names, needed, one_of, optional, string, table, time};

const KEYS: &[&str] = &["kind", "collective", "dtype", "bytes_per_rank", "matrix", "start", "payload"];

const PAYLOAD_KEYS: &[&str] = &["file", "tensor", "gaussian"];
const TENSORS: &[&str] = &["tensor"];

const COLLECTIVES: [&str; 1] = ["all-to-all"];
const SIZES: &[&str] = &["bytes_per_rank", "matrix"];

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(KEYS)?;
    table.need("collective", "\"all-to-all\"")?.choice("collective", &COLLECTIVES, |name| name)?;
    let dtype = match table.get("dtype") {
        Some(field) => field.choice("dtype", &DType::ALL, DType::name)?,
        None => DType::Bf16,
    };
    let bytes = match table.one_of(SIZES)? {
        ("matrix", field) => {
            let bytes = matrix(&field, dtype, context)?;
            check_sums(&bytes, &field)?;
            bytes
        }
        (_, field) => equal_chunks(&field, dtype, context.ranks)?,
    };
    let start = table.get("start").map(|field| start(&field, context.ranks)).transpose()?;
    let rows =
        table.get("payload").map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, dtype, context.base));

    let mut segments = Vec::new();
    if start.is_some() {
        // A late rank neither sends nor receives.
        let work = Work::Compute { reads: Vec::new(), writes: vec![Slot(0), Slot(1)] };
        segments.push(Segment { name: "start", work });
    }
    let work = Work::AllToAll { dtype, bytes, input: Slot(0), output: Slot(1) };
    segments.push(Segment { name: "all-to-all", work });
    let mut durations = Durations::zeros(context.iterations, segments.len(), context.ranks);
    for iteration in 0..context.iterations {
        for (rank, &seconds) in (0..).zip(start.iter().flatten()) {
            durations.set(iteration, 0, Rank(rank), seconds);
        }
    }
    let job = Job { name: "collective", rank_count: context.ranks, slots: vec!["input", "output"], segments };
    Ok(Workload { job, durations, dtype, rows: rows.transpose()? })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    let per_rank = |items| array(items).at_most(RANK_LIMIT as usize);
    let matrix = one_of([string(), per_rank(per_rank(Field::bytes_or_integer_schema()))]);
    #[rustfmt::skip]
    let keys = [
        Kind::Collective.key(),
        needed("collective", "the call", names(COLLECTIVES)),
        optional("dtype", "type of the values; `BF16` by default", names(DType::ALL.map(DType::name))),
        optional("bytes_per_rank", "bytes of each rank's input, its own chunk included", bytes()),
        optional("matrix", "bytes from source (row) to destination (column): a CSV file or an array of arrays", matrix),
        optional("start", "how late each rank enters the call; all at once by default", per_rank(time())),
        optional("payload", "what is sent; BF16 only", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
    ];
    table(KEYS, keys).with_one_of(SIZES)
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
            let bytes = item.bytes_or_integer()?;
            not_whole(bytes, dtype).map_err(|problem| item.error(problem))?;
            matrix[(src, dst)] = bytes;
        }
    }
    Ok(matrix)
}

/// No rank sends or receives more than the limit.
fn check_sums(bytes: &Array2<u64>, field: &Field<'_>) -> Result<()> {
    let sums = bytes.rows().into_iter().chain(bytes.columns()).map(|line| line.sum());
    let most = sums.max().unwrap_or(0);
    if most <= BYTES_LIMIT {
        return Ok(());
    }
    let path = "the bytes that one rank sends or receives".to_owned();
    Err(field.error(Problem::OutOfRange {
        path,
        value: most.to_string(),
        limits: "at most 1 TiB".to_owned(),
    }))
}

/// Chunks hold whole values.
pub(super) fn not_whole(bytes: u64, dtype: DType) -> std::result::Result<(), Problem> {
    let width = dtype.width();
    if bytes.is_multiple_of(width as u64) {
        return Ok(());
    }
    Err(Problem::NotWhole { bytes, dtype: dtype.name(), width })
}

fn start(field: &Field<'_>, ranks: u32) -> Result<Vec<f64>> {
    let items = field.array()?;
    check_length(field, items.len(), "entries", ranks)?;
    items.iter().map(Field::time).collect()
}

fn check_length(field: &Field<'_>, found: usize, what: &'static str, ranks: u32) -> Result<()> {
    if found == ranks as usize {
        return Ok(());
    }
    Err(field.error(Problem::NotPerRank { path: field.path.clone(), found, what, ranks }))
}
