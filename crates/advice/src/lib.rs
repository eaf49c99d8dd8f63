//! Advice: what compressed collectives would do to a job, from its profile or from a scenario of it.
//!
//! The job is simulated as it is, first: [`Judgement`] says how well its steps come out, and so how far the rest can be believed. Then every
//! class of calls is simulated with each candidate that could serve it ([`OptionAdvice`]), and what gains is simulated together.

mod candidates;
mod case;
mod choose;
mod error;
mod judge;
mod site;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use zipwire_codec::DType;
use zipwire_profiles::{Profile, Replay, ReplaySetup};
use zipwire_runner::Cancel;

pub use self::error::AdviceError;
pub use self::judge::{CALLS_TOLERANCE_PCT, JudgedStep, Judgement, STEP_TOLERANCE_PCT};

use self::case::Case;
use self::choose::Chooser;
use self::site::Site;

/// Version of the form of advice.
pub const ADVICE_VERSION: u32 = 1;

/// Everything about a job that its profile or scenario does not say.
#[derive(Clone, Debug, Default)]
pub struct AdviceSetup {
    /// Cluster that the job is to run on: a name for people, and the keys of `[cluster]` as TOML. Without it the cluster is calibrated from the profile.
    pub cluster: Option<(String, String)>,
    /// Whether the profile is from that cluster, so that its times judge the simulation.
    pub ran_there: bool,
    /// GPUs of each node, where the cluster does not say it or the job has fewer.
    pub gpus_per_node: Option<u32>,
    /// Bytes after compression over those before, of values of a type, as measured.
    pub shares: BTreeMap<DType, f64>,
    /// Whether points at which compression begins to gain are left out, which take most of the time.
    pub without_break_even: bool,
    /// Bytes of memory that simulations may take; what the system could give by default.
    pub memory: Option<u64>,
}

/// Advice. Times are seconds of a step or an iteration, gains percent of its time without compression; a gain below 0 is a loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// [`ADVICE_VERSION`].
    pub zipwire_advice: u32,
    /// Profile or scenario.
    pub source: AdviceSource,
    /// Cluster that was simulated.
    pub cluster: AdvisedCluster,
    /// How well the steps of the profile come out; none of a scenario, of a profile without durations, or on another cluster than its own.
    pub calibration: Option<Judgement>,
    /// Time of a step.
    pub step: StepAdvice,
    /// Calls by operation and group, the most exposed first.
    pub classes: Vec<ClassAdvice>,
    /// Answer in one sentence, and its numbers.
    pub verdict: Verdict,
    /// Next steps, the most useful first.
    pub first: Vec<String>,
    /// Conditions under which the verdict would be another one.
    pub would_change: Vec<String>,
    /// Assumptions.
    pub notes: Vec<String>,
}

/// Input of advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdviceSource {
    /// `profile` or `scenario`.
    pub kind: &'static str,
    /// File.
    pub path: String,
    /// Format of a profile.
    pub format: Option<&'static str>,
    /// Ranks of the job.
    pub world_size: u32,
    /// Ranks that the profile has.
    pub ranks_here: u32,
}

/// Cluster that was simulated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdvisedCluster {
    /// Its name for people.
    pub name: String,
    /// `profile`: calibrated from it; `given`; or `scenario`.
    pub from: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// Keys of `[cluster]` as TOML.
    pub file: String,
}

/// Times of a step, or an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepAdvice {
    /// Mean of the profile's steps that are tried; none if it has no times of kernels.
    pub measured_s: Option<f64>,
    /// Simulated, without compression.
    pub predicted_s: f64,
    /// Time in which ranks communicate, simulated: the mean over ranks.
    pub communication_s: f64,
    /// Time in which ranks compute nothing because they wait for calls: measured, or else what simulated ranks do not compute.
    pub exposed_s: f64,
}

/// Advice on calls of one operation in groups of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAdvice {
    /// Its name, which `dimensions` of variants takes.
    pub name: String,
    /// Operation.
    pub op: String,
    /// Group, for people.
    pub group: String,
    /// Ranks of a group.
    pub ranks: u32,
    /// Calls of a rank in a step, the mean over ranks.
    pub calls: u32,
    /// Bytes of these, as nccl-tests counts the size of a call.
    pub bytes: u64,
    /// Transfer time of these in the profile; none without durations.
    pub total_s: Option<f64>,
    /// Part of a step in which a rank waits for these and computes nothing; none if it is not known.
    pub exposed_s: Option<f64>,
    /// Best candidate, or `native`.
    pub best: String,
    /// Gain of the best candidate, in seconds; 0 of `native`.
    pub gain_s: f64,
    /// The same in percent of the step, with its bounds.
    #[serde(flatten)]
    pub gain: Gain,
    /// Where the best coded candidate begins to gain; none if nothing can be coded, or the search would take long.
    pub break_even: Option<BreakEvenAdvice>,
    /// All candidates with this class alone coded.
    pub options: Vec<OptionAdvice>,
}

/// Gain in percent, and the interval in which it lies for all that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gain {
    /// Expected.
    pub gain_pct: f64,
    /// Least.
    pub low_pct: f64,
    /// Most.
    pub high_pct: f64,
}

/// Ratio and speed at which compression begins to gain, each with all else as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BreakEvenAdvice {
    /// Raw over coded bytes; none if no ratio up to 16 is enough, or any is.
    pub ratio: Option<f64>,
    /// Bytes per second of encoding; none if no speed is enough, or any is.
    pub codec_bytes_per_s: Option<f64>,
}

/// One candidate for some calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionAdvice {
    /// Candidate.
    pub variant: String,
    /// Time of a step with it.
    pub step_s: f64,
    /// Its gain.
    #[serde(flatten)]
    pub gain: Gain,
}

/// Answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether to compress.
    pub compress: bool,
    /// Sentence for people.
    pub text: String,
    /// Candidate that is meant; the one that is least bad if nothing gains, none if nothing can be coded.
    pub variant: Option<String>,
    /// Classes of calls that it codes.
    pub classes: Vec<String>,
    /// Its gain.
    #[serde(flatten)]
    pub gain: Gain,
}

/// Advice on a job by its profile, which is in the file at `path`; `progress` is told what begins.
///
/// # Errors
/// If the profile cannot be replayed, its cluster is neither known nor can be calibrated, or the user stops it.
pub fn advise_profile(
    profile: &Profile,
    path: &Path,
    setup: &AdviceSetup,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&str),
) -> Result<Advice, AdviceError> {
    // Only calls and times of steps are looked at, of any step.
    let replay = Replay::of(profile, &ReplaySetup { steps: vec![0], ..ReplaySetup::default() })?;
    let site = Site::of(profile, &replay, setup, path)?;
    let case = Case::of_profile(profile, &replay, path, &site, setup)?;
    progress("steps as they were");
    let calibration = judge::judge(&case, &replay, profile, setup, cancel)?;
    Chooser::new(&case, calibration.as_ref(), setup, cancel).advise(calibration.clone(), progress)
}

/// Advice on the job of a scenario.
///
/// # Errors
/// If the scenario is wrong or has no calls, or the user stops it.
pub fn advise_scenario(
    path: &Path,
    setup: &AdviceSetup,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&str),
) -> Result<Advice, AdviceError> {
    let case = Case::of_scenario(path, setup)?;
    Chooser::new(&case, None, setup, cancel).advise(None, progress)
}
