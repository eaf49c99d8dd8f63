//! Problems with a scenario that goes from one host to others.

use std::path::PathBuf;

use thiserror::Error;
use zipwire_traces::TraceError;

use super::Problem;
use crate::error::ScenarioError;

/// A failure to send an experiment, or a wrong parcel. `Display` gives one line; [`Problem::help`](super::Problem::help) gives the
/// remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParcelProblem {
    /// Others would resolve something else than what is here.
    #[error("`{path}` has changed since the scenario was loaded")]
    Changed { path: PathBuf },
    /// More than is sent.
    #[error("with `{path}` the scenario and the files that it names have more than {limit} bytes")]
    TooLarge { path: PathBuf, limit: u64 },
    /// A tensor whose place other hosts cannot be told.
    #[error("`{path}` must lie at the same path on every host, and the path is not UTF-8")]
    NotText { path: PathBuf },
    /// A tensor that the host that sent the scenario could read, and this one cannot: its file, or the tensor in it, is not there.
    #[error("a tensor that every host needs is not on this one: {error}")]
    Tensor {
        #[source]
        error: TraceError,
    },
    /// A tensor with other rows than on the host that sent the scenario.
    #[error("tensor `{tensor}` of `{path}` has other rows on this host than where the scenario was loaded")]
    OtherRows { path: PathBuf, tensor: String },
    /// A type of values of another version.
    #[error("the scenario was sent with a tensor of `{dtype}` values, which this host does not know")]
    UnknownType { dtype: String },
    /// A point that the sweep does not have, as it is read here.
    #[error("point {} was sent of a sweep that does not have it on this host", point + 1)]
    NoPoint { point: usize },
}

impl ParcelProblem {
    /// The error of this problem: there is no text to point into.
    pub(crate) fn nowhere(self) -> ScenarioError {
        Problem::Parcel(self).nowhere()
    }

    /// The remedy.
    pub(crate) fn help(&self) -> String {
        let help = match self {
            Self::Tensor { .. } | Self::OtherRows { .. } => "copy the file to the same path on every host",
            Self::Changed { .. } => "start again, and leave it as it is until all hosts have begun",
            Self::TooLarge { .. } => "leave out of it what the scenario does not use",
            Self::NotText { .. } => "rename it, or the folder with such a name",
            Self::UnknownType { .. } | Self::NoPoint { .. } => {
                "run the same version of zipwire on every host"
            }
        };
        help.to_owned()
    }
}
