//! Workload `collective`: one call, without a model around it.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Durations, Job, Rank, RankRange, Segment, Slot, Work};

use super::table_file::TableFile;
use super::{Context, Kind, Workload, check_length, check_limit, not_whole, one_tensor_per_call, whole};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::language::{
    AnyKey, BYTES_LIMIT, Field, Raw, Reader, Rule, Schema, array, bytes_or_integer, choice, integer, keys,
    named, one_of, raw, schema, string,
};
use crate::payload::{Carried, TENSORS};
use crate::problem::Problem;

named! {
    /// Collectives of a scenario.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Collective {
        AllToAll = "all-to-all",
        AllGather = "all-gather",
        Broadcast = "broadcast",
        ReduceScatter = "reduce-scatter",
        AllReduce = "all-reduce",
    }
}

impl Collective {
    fn dtypes(self) -> &'static [DType] {
        match self {
            Self::AllToAll | Self::AllGather | Self::Broadcast => &DType::ALL,
            Self::ReduceScatter | Self::AllReduce => &[DType::Bf16, DType::F32],
        }
    }

    /// Type of the payload that chunks of `dtype` are made of: FP32 contributions are BF16 values, widened.
    fn payload_dtype(self, dtype: DType) -> DType {
        match self {
            Self::AllToAll | Self::AllGather | Self::Broadcast => dtype,
            Self::ReduceScatter | Self::AllReduce => DType::Bf16,
        }
    }

    fn keys(self) -> Vec<&'static dyn AnyKey> {
        let own = match self {
            Self::AllToAll => ALL_TO_ALL.all,
            Self::AllGather => ALL_GATHER.all,
            Self::Broadcast => BROADCAST.all,
            Self::ReduceScatter => REDUCE_SCATTER.all,
            Self::AllReduce => ALL_REDUCE.all,
        };
        [TYPE.all, own, INPUT.all].concat()
    }

    fn rules(self) -> Vec<Rule> {
        match self {
            Self::AllToAll => vec![Rule::one_of(ALL_TO_ALL.all)],
            Self::AllGather => vec![Rule::one_of(ALL_GATHER.all)],
            Self::ReduceScatter => vec![Rule::one_of(REDUCE_SCATTER.all)],
            Self::Broadcast | Self::AllReduce => Vec::new(),
        }
    }

    fn schema(self) -> Schema {
        let table = Kind::Collective.table(&self.keys()).only(TYPE.collective.name, [self.name()]);
        table.only(TYPE.dtype.name, self.dtypes().iter().map(|dtype| dtype.name())).with(self.rules())
    }
}

// What calls have in front of the keys of their own, and behind them.
keys! { static TYPE =
    collective: Collective = choice("collective", &Collective::ALL, Collective::name), "the call", needed = "\"all-to-all\"";
    dtype: DType = choice("dtype", &DType::ALL, DType::name), "type of the values; `BF16` by default";
}

keys! { static INPUT =
    start: Raw = raw(|| per_rank(schema::time())), "how late each rank enters the call; all at once by default";
    payload: Raw = raw(|| CARRIED.schema()), "what is sent, of type `dtype`; of reductions BF16, which they widen";
}

keys! { static ALL_TO_ALL =
    bytes_per_rank: Raw = raw(schema::bytes), "bytes of each rank's input, its own chunk included";
    matrix: Raw = raw(|| one_of([string(), per_rank(per_rank(bytes_or_integer()))])), "bytes from source (row) to destination (column): a file (CSV, or with blanks as `alltoallv_perf` takes it) or an array of arrays";
}

keys! { static ALL_GATHER =
    bytes_per_rank: Raw = raw(schema::bytes), "bytes that each rank contributes";
    bytes: Raw = raw(|| per_rank(bytes_or_integer())), "bytes that each rank contributes, one entry per rank";
}

keys! { static BROADCAST =
    bytes: Raw = raw(schema::bytes), "bytes that every rank gets", needed = "\"1 MiB\"";
    root: u32 = integer(0..=u32::MAX), "the rank that has them; 0 by default";
}

const OF_ALL_SHARDS: &str = "bytes that each rank contributes, to all shards together";

keys! { static REDUCE_SCATTER =
    bytes_per_rank: Raw = raw(schema::bytes), OF_ALL_SHARDS;
    bytes: Raw = raw(|| per_rank(bytes_or_integer())), "bytes that each rank contributes to each shard, one entry per rank";
}

keys! { static ALL_REDUCE =
    bytes_per_rank: Raw = raw(schema::bytes), OF_ALL_SHARDS, needed = "\"1 MiB\"";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.tensor], always: 1 };

/// The schema of an array with an entry per rank.
fn per_rank(items: Schema) -> Schema {
    array(items).at_most(RANK_LIMIT as usize)
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    // Which other keys there are depends on this one.
    let collective = field.tag(TYPE.collective)?;
    let table = field.table(&Kind::Collective.keys(&collective.keys()))?;
    let dtype = match table.field(TYPE.dtype) {
        Some(field) => field.choice("dtype", collective.dtypes(), DType::name)?,
        None => DType::Bf16,
    };
    table.check(&collective.rules())?;
    let kind = match collective {
        Collective::AllToAll => all_to_all(&table, dtype, context)?,
        Collective::AllGather => all_gather(&table, dtype, context.ranks)?,
        Collective::Broadcast => broadcast(&table, dtype, context.ranks)?,
        Collective::ReduceScatter => reduce_scatter(&table, dtype, context.ranks)?,
        Collective::AllReduce => all_reduce(&table.need_field(ALL_REDUCE.bytes_per_rank)?, dtype)?,
    };
    let work = Work::of_call(dtype, [Slot(0), Slot(1)], kind);
    let start = table.field(INPUT.start).map(|field| start(&field, context.ranks)).transpose()?;
    let of_rows = collective.payload_dtype(dtype);
    let rows = CARRIED.read(table.field(INPUT.payload), 1, of_rows, context.files)?;

    let mut segments = Vec::new();
    if start.is_some() {
        // A late rank neither sends nor receives.
        let work = Work::Compute { phase: "start", reads: Vec::new(), writes: vec![Slot(0), Slot(1)] };
        segments.push(Segment::new("start", work));
    }
    segments.push(Segment::new(collective.name(), work));
    let mut durations = Durations::zeros(context.iterations, segments.len(), context.ranks);
    for iteration in 0..context.iterations {
        for (rank, &seconds) in (0..).zip(start.iter().flatten()) {
            durations.set(iteration, 0, Rank(rank), seconds);
        }
    }
    let job = Job { name: "collective", rank_count: context.ranks, slots: vec!["input", "output"], segments };
    let tensors = one_tensor_per_call(&job);
    Ok(Workload::new(job, durations, vec![dtype], rows, tensors))
}

pub(super) fn schema() -> Schema {
    one_of(Collective::ALL.map(Collective::schema))
}

fn start(field: &Field<'_>, ranks: u32) -> Result<Vec<f64>> {
    let items = field.array()?;
    check_length(field, items.len(), "entries", ranks)?;
    items.iter().map(Field::time).collect()
}

fn all_to_all(table: &Reader<'_>, dtype: DType, context: &Context<'_>) -> Result<CallKind> {
    let bytes = match table.field(ALL_TO_ALL.matrix) {
        Some(field) => {
            let bytes = matrix(&field, dtype, context)?;
            let sums = bytes.rows().into_iter().chain(bytes.columns()).map(|line| line.sum());
            check_limit(sums.max().unwrap_or(0), &field)?;
            bytes
        }
        None => equal_chunks(&table.need_field(ALL_TO_ALL.bytes_per_rank)?, dtype, context.ranks)?,
    };
    Ok(CallKind::AllToAll { bytes: bytes.into(), tokens: None })
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
        return matrix_file(field, dtype, context);
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

/// A file of bytes, source x destination: CSV without a header, or numbers between blanks, as nccl-tests takes it
/// (`NCCL_TESTS_ALLTOALLV_MATRIX_FILE` of `alltoallv_perf`).
fn matrix_file(field: &Field<'_>, dtype: DType, context: &Context<'_>) -> Result<Array2<u64>> {
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

fn all_gather(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<CallKind> {
    let bytes = match table.field(ALL_GATHER.bytes) {
        Some(field) => {
            let bytes = bytes_of_ranks(&field, dtype, ranks)?;
            check_limit(bytes.iter().sum(), &field)?;
            bytes
        }
        None => {
            let field = table.need_field(ALL_GATHER.bytes_per_rank)?;
            let shard = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
            check_limit(shard * u64::from(ranks), &field)?;
            vec![shard; ranks as usize]
        }
    };
    Ok(CallKind::AllGather { bytes })
}

fn broadcast(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<CallKind> {
    let field = table.need_field(BROADCAST.bytes)?;
    let bytes = whole(&field, field.bytes(dtype.width() as u64)?, dtype)?;
    let root = table.field(BROADCAST.root).map_or(Ok(0), |field| field.integer_u32(0..=ranks - 1))?;
    Ok(CallKind::Broadcast { bytes, root: Rank(root), to: RankRange::all(ranks) })
}

fn reduce_scatter(table: &Reader<'_>, dtype: DType, ranks: u32) -> Result<CallKind> {
    let bytes = match table.field(REDUCE_SCATTER.bytes) {
        Some(field) => {
            let bytes = bytes_of_ranks(&field, dtype, ranks)?;
            let largest = bytes.iter().copied().max().unwrap_or(0);
            check_limit(largest.saturating_mul(u64::from(ranks)).max(bytes.iter().sum()), &field)?;
            bytes
        }
        // As an All-Reduce cuts it.
        None => {
            let kind = all_reduce(&table.need_field(REDUCE_SCATTER.bytes_per_rank)?, dtype)?;
            Work::of_call(dtype, [Slot(0), Slot(1)], kind).shards(ranks)
        }
    };
    Ok(CallKind::ReduceScatter { bytes })
}

fn all_reduce(field: &Field<'_>, dtype: DType) -> Result<CallKind> {
    let bytes = whole(field, field.bytes(dtype.width() as u64)?, dtype)?;
    check_limit(bytes, field)?;
    Ok(CallKind::AllReduce { bytes })
}

/// Bytes in whole values, one entry per rank.
fn bytes_of_ranks(field: &Field<'_>, dtype: DType, ranks: u32) -> Result<Vec<u64>> {
    let items = field.array()?;
    check_length(field, items.len(), "entries", ranks)?;
    items.iter().map(|item| whole(item, item.bytes_or_integer()?, dtype)).collect()
}
