//! Why a benchmark of collectives has no rows.

use zipwire_runner::ExecuteError;
use zipwire_scenarios::ScenarioError;

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum CollectiveBenchError {
    /// The cluster or the codec is not right.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A row cannot be simulated or run.
    #[error("{op} of {bytes} bytes: {source}")]
    Execute { op: &'static str, bytes: u64, source: Box<ExecuteError> },
    /// More memory than there is.
    #[error(
        "{op} of {bytes} bytes in variant `{variant}` needs {:.2} GB of memory on `{executor}`, {limit}\n\
         help: choose a smaller `--end` or fewer ranks",
        *.needed as f64 / 1e9
    )]
    Memory {
        op: &'static str,
        bytes: u64,
        variant: &'static str,
        executor: &'static str,
        needed: u64,
        /// How much there is, in words.
        limit: String,
    },
    /// Coded rows are simulated with a ratio, which depends on what is sent.
    #[error(
        "variant `{variant}` needs the ratio of raw to coded bytes, which depends on the tensors\n\
         help: state `--ratio`, for instance as `zipwire inspect FILE.safetensors` finds it for yours"
    )]
    NoRatio { variant: &'static str },
    /// Real runs encode.
    #[error("`--ratio` has no effect on `{executor}`, which encodes real values\nhelp: leave `--ratio` out")]
    RatioOfReal { executor: &'static str },
    /// A plan that is too large to be simulated, in a protocol whose closed form leaves out too much.
    #[error(
        "the plan of {op} in variant `{variant}` among {ranks} ranks is too large to be simulated, and no closed form of it is known\n\
         help: use fewer ranks (`--nodes`), or variants `native`, `size-first` or `static-first`"
    )]
    NoClosedForm { op: &'static str, variant: &'static str, ranks: u32 },
    /// All sizes are too small for an operation.
    #[error(
        "the smallest {op} among {ranks} ranks has {least} bytes\n\
         help: choose a larger `--end`"
    )]
    TooSmall { op: &'static str, ranks: u32, least: u64 },
}
