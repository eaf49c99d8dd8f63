//! Workload `collective`: one call, without a model around it.

mod all_gather;
mod all_to_all;
mod broadcast;
mod reduction;

use zipwire_codec::DType;
use zipwire_schedule::{Durations, Job, Rank, Segment, Slot, Work};

use super::amounts::check_length;
use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::cluster::RANK_LIMIT;
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, Rule, Schema, array, choice, keys, named, one_of, raw, schema};
use crate::payload::{Carried, TENSORS};

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

    fn keys(self) -> Vec<&'static dyn AnyKey> {
        let own = match self {
            Self::AllToAll => all_to_all::KEYS.all,
            Self::AllGather => all_gather::KEYS.all,
            Self::Broadcast => broadcast::KEYS.all,
            Self::ReduceScatter => reduction::REDUCE_SCATTER.all,
            Self::AllReduce => reduction::ALL_REDUCE.all,
        };
        [TYPE.all, own, INPUT.all].concat()
    }

    fn rules(self) -> Vec<Rule> {
        match self {
            Self::AllToAll => vec![Rule::one_of(all_to_all::KEYS.all)],
            Self::AllGather => vec![Rule::one_of(all_gather::KEYS.all)],
            Self::ReduceScatter => vec![Rule::one_of(reduction::REDUCE_SCATTER.all)],
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
    let work = match collective {
        Collective::AllToAll => all_to_all::read(&table, dtype, context)?,
        Collective::AllGather => all_gather::read(&table, dtype, context.ranks)?,
        Collective::Broadcast => broadcast::read(&table, dtype, context.ranks)?,
        Collective::ReduceScatter => reduction::reduce_scatter(&table, dtype, context.ranks)?,
        Collective::AllReduce => reduction::all_reduce(&table, dtype)?,
    };
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

/// Schema of the tables that [`read`] accepts.
pub(super) fn schema() -> Schema {
    one_of(Collective::ALL.map(Collective::schema))
}

fn start(field: &Field<'_>, ranks: u32) -> Result<Vec<f64>> {
    let items = field.array()?;
    check_length(field, items.len(), "entries", ranks)?;
    items.iter().map(Field::time).collect()
}
