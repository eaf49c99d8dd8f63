//! `[workload]`: what an iteration does.

mod collective;
mod moe;
mod profile;
mod serving;
mod table_file;
mod training;
mod transfers;
mod weight_sync;

use zipwire_cluster::Topology;
use zipwire_codec::DType;
use zipwire_schedule::{Durations, Fault, Job, Layout, Segment, Slack, Work};
use zipwire_timeline::UpdateCycle;

use crate::cluster::RANK_LIMIT;
use crate::compute::{Compute, ExpertTime};
use crate::drift::Drift;
use crate::error::Result;
use crate::fault;
use crate::files::Files;
use crate::language::{AnyKey, BYTES_LIMIT, Field, Keys, Schema, choice, keys, named, one_of, table};
use crate::payload::Rowset;
use crate::problem::Problem;

pub(crate) use self::training::DIMENSIONS;

pub use self::serving::Serving;
pub(crate) use self::serving::check_caches;

/// Work of an experiment: one of two kinds that have nothing in common.
#[derive(Clone, Debug, PartialEq)]
pub enum ExperimentWork {
    /// Iterations of a job, for which plans are made.
    Iterations(Iterations),
    /// Requests that arrive, and pools that serve them: there is no job and no plan.
    Serving(Serving),
}

/// Iterations of a job, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterations {
    /// Segments of an iteration.
    pub job: Job,
    /// Dimensions of its ranks.
    pub layout: Layout,
    /// How long its compute segments take.
    pub durations: Durations,
    /// Update cycle, if an iteration brings weights of some ranks to others.
    pub cycle: Option<UpdateCycle>,
    /// Faults of ranks, links and bytes during a run.
    pub faults: Vec<Fault>,
    /// How much later than expected ops may end, where there are deadlines.
    pub slack: Slack,
    /// Changes of links or ratio in the course of the run, in order; simulations only.
    pub drifts: Vec<Drift>,
}

impl Iterations {
    /// Iterations in which nothing goes wrong or changes.
    fn new(job: Job, durations: Durations) -> Self {
        let layout = Layout::flat(job.rank_count);
        Self {
            job,
            layout,
            durations,
            cycle: None,
            faults: Vec::new(),
            slack: fault::SLACK,
            drifts: Vec::new(),
        }
    }
}

impl ExperimentWork {
    /// Segments of an iteration, in order; serving has none, as nothing of it is a call.
    pub fn segments(&self) -> &[Segment] {
        match self {
            Self::Iterations(iterations) => &iterations.job.segments,
            Self::Serving(_) => &[],
        }
    }
}

/// Inputs of workloads from the rest of the scenario.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a Files,
    pub(crate) seed: u64,
    pub(crate) iterations: u32,
    pub(crate) ranks: u32,
    pub(crate) topology: &'a Topology,
    /// Bytes of a GPU's memory, if they are known.
    pub(crate) gpu_memory: Option<u64>,
    /// Seconds from issuing a compute phase or a call until it begins.
    pub(crate) launch_s: f64,
    /// `[compute]`; always there for kinds that need it.
    pub(crate) compute: Option<Field<'a>>,
}

pub(crate) struct Workload {
    pub(crate) work: ExperimentWork,
    /// Types of the values that travel and that a codec must know. What a dispatch carries in FP8 travels as it is where the
    /// codec does not.
    pub(crate) dtypes: Vec<DType>,
    pub(crate) rows: Option<Rowset>,
    /// Which tensor of the payload each segment of the job carries; `None` if it does not communicate.
    pub(crate) tensors: Vec<Option<usize>>,
    /// Values of a row of the calls that carry FP8; `None` if no call does.
    pub(crate) fp8_values: Option<usize>,
}

impl Workload {
    /// Iterations of a job, and nothing that only some kinds have.
    fn new(
        job: Job,
        durations: Durations,
        dtypes: Vec<DType>,
        rows: Option<Rowset>,
        tensors: Vec<Option<usize>>,
    ) -> Self {
        let work = ExperimentWork::Iterations(Iterations::new(job, durations));
        Self { work, dtypes, rows, tensors, fp8_values: None }
    }

    /// The job of an iteration; `None` where requests are served.
    pub(crate) fn job(&self) -> Option<&Job> {
        match &self.work {
            ExperimentWork::Iterations(iterations) => Some(&iterations.job),
            ExperimentWork::Serving(_) => None,
        }
    }

    /// The same, with dimensions of its ranks.
    fn with_layout(mut self, layout: Layout) -> Self {
        if let ExperimentWork::Iterations(iterations) = &mut self.work {
            iterations.layout = layout;
        }
        self
    }
}

/// Every call carries a tensor of its own, in their order.
fn one_tensor_per_call(job: &Job) -> Vec<Option<usize>> {
    let mut calls = 0..;
    let is_call = |segment: &&Segment| !matches!(segment.work, Work::Compute { .. });
    job.segments.iter().map(|segment| Some(segment).filter(is_call).and_then(|_| calls.next())).collect()
}

/// Most ranks of which each may send something to any other one: a matrix of pairs takes 128 MiB then.
const PAIR_LIMIT: u32 = 4096;

keys! { pub(crate) static KEYS =
    kind: Kind = choice("workload kind", &Kind::ALL, Kind::name), "what an iteration does; it decides on the other keys", needed = "\"moe\"";
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind {
        Moe = "moe",
        MoeTraining = "moe-training",
        Fsdp = "fsdp",
        Dp = "dp",
        Tp = "tp",
        Training = "training",
        Collective = "collective",
        Transfers = "transfers",
        WeightSync = "weight-sync",
        Profile = "profile",
        Serving = "serving",
    }
}

impl Kind {
    /// Schema of `[compute]`; `None` if the workload has no such table.
    pub(crate) fn compute_schema(self) -> Option<Schema> {
        match self {
            Self::Moe => Some(ExpertTime::schema()),
            Self::MoeTraining => Some(Compute::schema_of_experts()),
            Self::Fsdp | Self::Dp | Self::Tp => Some(Compute::schema_of_layers()),
            Self::Training => Some(Compute::schema_of_all()),
            Self::Serving => Some(serving::compute_schema()),
            Self::Collective | Self::Transfers | Self::WeightSync | Self::Profile => None,
        }
    }

    /// A table `[compute]` that it could have, as TOML, if it cannot do without one.
    pub(crate) fn needed_compute(self) -> Option<&'static str> {
        match self {
            Self::MoeTraining => Some("{ dense = \"60 TFLOP/s\", expert_gemm = \"45 TFLOP/s\" }"),
            Self::Fsdp | Self::Dp | Self::Tp | Self::Training => Some("{ dense = \"60 TFLOP/s\" }"),
            Self::Serving => Some("{ dense = \"400 TFLOP/s\", memory = \"3 TB/s\" }"),
            Self::Moe | Self::Collective | Self::Transfers | Self::WeightSync | Self::Profile => None,
        }
    }

    /// Most ranks: those of most kinds may send something to any other one, which takes a number for each pair.
    pub(crate) fn rank_limit(self) -> u32 {
        match self {
            Self::Training => RANK_LIMIT,
            // Sums count ranks in 16 bits.
            Self::Fsdp | Self::Dp | Self::Tp => RANK_LIMIT / 2,
            // Each pair of ranks may have bytes of its own.
            _ => PAIR_LIMIT,
        }
    }

    /// Reads the key that decides which others there are.
    pub(crate) fn read(field: &Field<'_>) -> Result<Self> {
        field.tag(KEYS.kind)
    }

    /// Its keys: the one that decides on them, and its own.
    fn keys(self, own: Keys<'_>) -> Vec<&'static dyn AnyKey> {
        [KEYS.all, own].concat()
    }

    /// The schema of a table of this kind with these keys of its own.
    fn table(self, own: Keys<'_>) -> Schema {
        table(&self.keys(own)).only(KEYS.kind.name, [self.name()])
    }
}

pub(crate) fn read(kind: Kind, field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    match kind {
        Kind::Moe => moe::read(field, context),
        Kind::MoeTraining | Kind::Fsdp | Kind::Dp | Kind::Tp | Kind::Training => {
            training::read(kind, field, context)
        }
        Kind::Collective => collective::read(field, context),
        Kind::Transfers => transfers::read(field, context),
        Kind::WeightSync => weight_sync::read(field, context),
        Kind::Profile => profile::read(field, context),
        Kind::Serving => serving::read(field, context),
    }
}

pub(crate) fn schema() -> Schema {
    one_of(Kind::ALL.map(|kind| match kind {
        Kind::Moe => kind.table(&moe::keys()),
        Kind::MoeTraining | Kind::Fsdp | Kind::Dp | Kind::Tp | Kind::Training => training::schema(kind),
        Kind::Collective => collective::schema(),
        Kind::Transfers => transfers::schema(),
        Kind::WeightSync => weight_sync::schema(),
        Kind::Profile => profile::schema(),
        Kind::Serving => serving::schema(),
    }))
}

/// No rank sends or receives more than the limit; `most` is what the busiest one does.
fn check_limit(most: u64, field: &Field<'_>) -> Result<()> {
    if most <= BYTES_LIMIT {
        return Ok(());
    }
    let what = "the bytes that one rank sends or receives";
    Err(field.error(Problem::out_of_range(what, most, "at most 1 TiB")))
}

/// Bytes that were read from `field`, if they are whole values.
fn whole(field: &Field<'_>, bytes: u64, dtype: DType) -> Result<u64> {
    not_whole(bytes, dtype).map(|()| bytes).map_err(|problem| field.error(problem))
}

/// Most durations: one for each iteration, segment and rank that does it, where they differ by rank; 1 GiB of them.
const DURATION_LIMIT: u64 = 1 << 27;

/// Each segment takes its time on each rank in each iteration: there are not too many of them.
fn check_durations(iterations: u32, of_iteration: u64, field: &Field<'_>) -> Result<()> {
    let count = of_iteration * u64::from(iterations);
    if count <= DURATION_LIMIT {
        return Ok(());
    }
    let problem =
        Problem::out_of_range("iterations x phases x ranks", count, format!("at most {DURATION_LIMIT}"));
    Err(field.error(problem))
}

/// Chunks hold whole values.
fn not_whole(bytes: u64, dtype: DType) -> std::result::Result<(), Problem> {
    let width = dtype.width();
    if bytes.is_multiple_of(width as u64) {
        return Ok(());
    }
    Err(Problem::NotWhole { bytes, dtype: dtype.name(), width })
}

/// An array has an entry per rank; `what` entries are called.
fn check_length(field: &Field<'_>, found: usize, what: &'static str, ranks: u32) -> Result<()> {
    if found == ranks as usize {
        return Ok(());
    }
    Err(field.error(Problem::NotPerRank { path: field.path.clone(), found, what, ranks }))
}
