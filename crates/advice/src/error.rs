//! Errors of advice.

use thiserror::Error;
use zipwire_calibrate::CalibrateError;
use zipwire_profiles::ReplayError;
use zipwire_runner::ExecuteError;
use zipwire_scenarios::ScenarioError;

/// Reasons for which there is no advice.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum AdviceError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("the cluster cannot be calibrated from the profile: {0}")]
    Calibrate(#[from] CalibrateError),
    #[error(
        "the profile does not say how long calls take, so nothing is known of the cluster\n\
         help: name it: `--cluster h100-8x`, another preset (`zipwire scenario presets`) or a file that `zipwire calibrate` wrote"
    )]
    NoDurations,
    #[error(
        "{ranks} ranks are no whole nodes of {gpus} GPUs\n\
         help: say how many GPUs of each node the job has: `--gpus-per-node`"
    )]
    Nodes { ranks: u32, gpus: u32 },
    #[error(
        "`{path}` is no valid TOML: {reason}\nhelp: `zipwire scenario check` says what is wrong with a scenario"
    )]
    Toml { path: String, reason: String },
    #[error(
        "cannot read `{path}`: {reason}\nhelp: pass a profile that `zipwire import` wrote, or a scenario"
    )]
    Unreadable { path: String, reason: String },
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error(
        "requests are served there, and no collective is called\n\
         help: `zipwire run` compares variants of such a scenario"
    )]
    Serving,
}

impl From<ScenarioError> for AdviceError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}
