//! Why a paper cannot be reproduced.

use zipwire_codec::EncodeError;
use zipwire_runner::ExecuteError;
use zipwire_scenarios::ScenarioError;
use zipwire_traces::TraceError;

use crate::{ConstantsError, ExpectedError};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ReproduceError {
    /// The published numbers cannot be used.
    #[error(transparent)]
    Expected(#[from] ExpectedError),
    /// The list of constants cannot be used.
    #[error(transparent)]
    Constants(#[from] ConstantsError),
    /// A scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A simulation failed, or the user stopped it.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A sample cannot be read.
    #[error(transparent)]
    Sample(#[from] TraceError),
    #[error("sample `{sample}`: {source}")]
    Codec { sample: String, source: EncodeError },
    #[error(
        "scenario `{scenario}` has no variant `{variant}`\nhelp: `zipwire reproduce` compares it with others"
    )]
    NoVariant { scenario: String, variant: String },
}
