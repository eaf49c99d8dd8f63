//! Why a benchmark of collectives has no rows.

use zipwire_runner::ExecuteError;
use zipwire_scenarios::ScenarioError;

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveBenchError {
    /// The cluster or the codec is not right.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A row cannot be simulated or run.
    #[error("{op} of {bytes} bytes: {source}")]
    Execute {
        /// The operation.
        op: &'static str,
        /// Its size.
        bytes: u64,
        /// Why.
        source: Box<ExecuteError>,
    },
    /// More memory than there is.
    #[error(
        "{op} of {bytes} bytes in variant `{variant}` needs {:.2} GB of memory on `{executor}`, {limit}\n\
         help: choose a smaller `--end` or fewer ranks",
        *.needed as f64 / 1e9
    )]
    Memory {
        /// The operation.
        op: &'static str,
        /// Its size.
        bytes: u64,
        /// The protocol.
        variant: &'static str,
        /// The executor.
        executor: &'static str,
        /// Bytes.
        needed: u64,
        /// How much there is, in words.
        limit: String,
    },
    /// Coded rows are simulated with a ratio, which depends on what is sent.
    #[error(
        "variant `{variant}` needs the ratio of raw to coded bytes, which depends on the tensors\n\
         help: state `--ratio`, for instance as `zipwire inspect FILE.safetensors` finds it for yours"
    )]
    NoRatio {
        /// The first coded variant.
        variant: &'static str,
    },
    /// Real runs encode.
    #[error("`--ratio` has no effect on `{executor}`, which encodes real values\nhelp: leave `--ratio` out")]
    RatioOfReal {
        /// The executor.
        executor: &'static str,
    },
    /// A plan that is too large to be simulated, in a protocol whose closed form leaves out too much.
    #[error(
        "the plan of {op} in variant `{variant}` among {ranks} ranks is too large to be simulated, and no closed form of it is known\n\
         help: use fewer ranks (`--nodes`), or variants `native`, `size-first` or `static-first`"
    )]
    NoClosedForm {
        /// The operation.
        op: &'static str,
        /// The protocol.
        variant: &'static str,
        /// Ranks.
        ranks: u32,
    },
    /// All sizes are too small for an operation.
    #[error(
        "the smallest {op} among {ranks} ranks has {least} bytes\n\
         help: choose a larger `--end`"
    )]
    TooSmall {
        /// The operation.
        op: &'static str,
        /// Ranks.
        ranks: u32,
        /// Bytes.
        least: u64,
    },
}
