//! Why an executor does not take a plan.

use zipwire_codec::{DType, Spec};
use zipwire_kernels::GpuError;
use zipwire_schedule::plan::LocalKind;
use zipwire_schedule::{Order, Stage};

/// Why a plan cannot be run, found before anything runs.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No GPU, no kernels for the codec, or a failure of the driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Frames of a layout that kernels do not write.
    #[error(
        "the frames of protocol `{0}` have the layout `compact`, which no GPU kernel writes for codec `{1}` with `{2}`\n\
         help: with `layout = \"split\"` it runs on GPUs"
    )]
    Layout(&'static str, Box<Spec>, DType),
    /// An order that the executor cannot keep.
    #[error(
        "order `{}` lets peers or sizes decide what moves next, and here streams do: an exchange is queued as a whole\n\
         help: `rotation` and `shifted-rounds` run on GPUs", .0.name()
    )]
    Order(Order),
    /// A channel for each of any number of flows.
    #[error(
        "the {} exchange of segment {segment} is that of a flow beside others, which needs a stream for each: this executor has \
         one for each channel of collectives\n\
         help: explicit flows run on GPUs as `native`; coded ones run on `sim`, `threads` and `mpi`",
        .stage.name()
    )]
    Flow { segment: u32, stage: Stage },
    /// An op that GPUs have no kernel for.
    #[error("segment {segment} has ops `{}`, for which there are no GPU kernels yet\nhelp: {}", kind.name(), instead(*kind))]
    NoKernel { segment: u32, kind: LocalKind },
    /// A library's own collective.
    #[error(
        "segment {segment} calls a collective of a library, and this executor calls none: it has exchanges only\n\
         help: choose another algorithm, or run on `sim`, `threads` or `mpi`"
    )]
    Library { segment: u32 },
    /// A library's own collective of some ranks.
    #[error(
        "segment {segment} calls a collective of a library among some of the ranks, and this executor has communicators of all ranks\n\
         help: choose another algorithm, or run on `sim`, `threads` or `mpi`"
    )]
    LibraryGroup { segment: u32 },
    /// Faults have times of the cluster.
    #[error(
        "faults happen in the time of the cluster, which the streams of GPUs do not keep\n\
         help: `sim` and `threads` run scenarios with `[[fault]]`"
    )]
    Faults,
    /// Ranks that would share a GPU.
    #[error("{0}")]
    Sharing(String),
    /// More memory than a GPU has.
    #[error(
        "GPU {device} would need {:.1} GB of its memory, {:.1} GB are free\n\
         help: use fewer ranks, a smaller model or more GPUs",
        *.needed as f64 / 1e9, *.free as f64 / 1e9
    )]
    Memory { device: usize, needed: u64, free: u64 },
}

/// Alternative to an op for which there are no GPU kernels.
fn instead(kind: LocalKind) -> &'static str {
    match kind {
        LocalKind::GatherRows => "leave out `dedup`, or run on `sim`, `threads` or `mpi`",
        _ => "run on `sim`, `threads` or `mpi`",
    }
}
