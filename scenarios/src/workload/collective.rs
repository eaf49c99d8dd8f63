//! Workload `collective`: one call, without a model around it.

mod all_gather;
mod all_to_all;
mod broadcast;
mod reduction;

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Job, Rank, Segment, Slot, Work};

use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::payload::Rowset;
use crate::problem::Problem;
use crate::reader::{BYTES_LIMIT, Field};
use crate::schema::{Schema, array, names, needed, one_of, optional, table, time};

/// Collectives of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collective {
    AllToAll,
    AllGather,
    Broadcast,
    ReduceScatter,
    AllReduce,
}

impl Collective {
    const ALL: [Self; 5] =
        [Self::AllToAll, Self::AllGather, Self::Broadcast, Self::ReduceScatter, Self::AllReduce];

    /// Name in scenarios, and of the segment.
    fn name(self) -> &'static str {
        match self {
            Self::AllToAll => "all-to-all",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
        }
    }

    /// Types that it takes.
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

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::AllToAll => ALL_TO_ALL_KEYS,
            Self::AllGather => ALL_GATHER_KEYS,
            Self::Broadcast => BROADCAST_KEYS,
            Self::ReduceScatter => REDUCE_SCATTER_KEYS,
            Self::AllReduce => ALL_REDUCE_KEYS,
        }
    }

    fn schema(self) -> Schema {
        let own = match self {
            Self::AllToAll => all_to_all::own_keys(),
            Self::AllGather => all_gather::own_keys(),
            Self::Broadcast => broadcast::own_keys(),
            Self::ReduceScatter => reduction::reduce_scatter_keys(),
            Self::AllReduce => reduction::all_reduce_keys(),
        };
        #[rustfmt::skip]
        let shared = [
            Kind::Collective.key(),
            needed("collective", "the call", names([self.name()])),
            optional("dtype", "type of the values; `BF16` by default", names(self.dtypes().iter().map(|dtype| dtype.name()))),
            optional("start", "how late each rank enters the call; all at once by default", per_rank(time())),
            optional("payload", "what is sent, BF16; reductions widen it", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
        ];
        let table = table(self.keys(), shared.into_iter().chain(own));
        match self {
            Self::AllToAll => table.with_one_of(all_to_all::SIZES),
            Self::AllGather => table.with_one_of(all_gather::SIZES),
            Self::ReduceScatter => table.with_one_of(reduction::SIZES),
            Self::Broadcast | Self::AllReduce => table,
        }
    }
}

/// The schema of an array with an entry per rank.
fn per_rank(items: Schema) -> Schema {
    array(items).at_most(RANK_LIMIT as usize)
}

const ALL_TO_ALL_KEYS: &[&str] =
    &["kind", "collective", "dtype", "bytes_per_rank", "matrix", "start", "payload"];
const ALL_GATHER_KEYS: &[&str] =
    &["kind", "collective", "dtype", "bytes_per_rank", "bytes", "start", "payload"];
const BROADCAST_KEYS: &[&str] = &["kind", "collective", "dtype", "bytes", "root", "start", "payload"];

const REDUCE_SCATTER_KEYS: &[&str] =
    &["kind", "collective", "dtype", "bytes_per_rank", "bytes", "start", "payload"];
const ALL_REDUCE_KEYS: &[&str] = &["kind", "collective", "dtype", "bytes_per_rank", "start", "payload"];

const PAYLOAD_KEYS: &[&str] = &["file", "tensor", "gaussian"];
const TENSORS: &[&str] = &["tensor"];

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    // Which other keys there are depends on this one.
    let collective = match field.peek("collective")? {
        Some(field) => field.choice("collective", &Collective::ALL, Collective::name)?,
        None => {
            return Err(field.error(Problem::MissingKey {
                key: "collective".to_owned(),
                table: field.path.clone(),
                example: "\"all-to-all\"".to_owned(),
            }));
        }
    };
    let table = field.table(collective.keys())?;
    let dtype = match table.get("dtype") {
        Some(field) => field.choice("dtype", collective.dtypes(), DType::name)?,
        None => DType::Bf16,
    };
    let work = match collective {
        Collective::AllToAll => all_to_all::read(&table, dtype, context)?,
        Collective::AllGather => all_gather::read(&table, dtype, context.ranks)?,
        Collective::Broadcast => broadcast::read(&table, dtype, context.ranks)?,
        Collective::ReduceScatter => reduction::reduce_scatter(&table, dtype, context.ranks)?,
        Collective::AllReduce => reduction::all_reduce(&table, dtype)?,
    };
    let start = table.get("start").map(|field| start(&field, context.ranks)).transpose()?;
    let of_rows = [collective.payload_dtype(dtype)];
    let rows = table
        .get("payload")
        .map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, &of_rows, context.files));

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
    Ok(Workload { job, durations, dtypes: vec![dtype], rows: rows.transpose()?, tensors, fp8_values: None })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    one_of(Collective::ALL.map(Collective::schema))
}

/// No rank sends or receives more than the limit; `most` is what the busiest one does.
fn check_limit(most: u64, field: &Field<'_>) -> Result<()> {
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

/// Bytes that were read from `field`, if they are whole values.
fn whole(field: &Field<'_>, bytes: u64, dtype: DType) -> Result<u64> {
    not_whole(bytes, dtype).map(|()| bytes).map_err(|problem| field.error(problem))
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
