//! Errors of the command line and their exit codes.

use std::io;
use std::path::PathBuf;

use zipwire::bench::{BenchError, CollectiveBenchError, GpuBenchError, HeldBenchError, SimBenchError};
use zipwire::kernels::GpuError;
use zipwire::launch::{JobError, StartError};
use zipwire::models::file::FileError;
use zipwire::models::held::HeldError;
use zipwire::models::store::StoreError;
use zipwire::papers::ReproduceError;
use zipwire::report::ReportError;
use zipwire::scenarios::ScenarioError;
use zipwire::sim::SizeError;
use zipwire::sweep::{JournalError, SweepError};
use zipwire::traces::{TableFileError, TraceError, printable};
use zipwire::{ExecuteError, Executor, OutputError, STOPPED, SimdError, with_help};

use crate::style::is_coloured;

/// Success, also if the reader of stdout has left early.
const SUCCESS: u8 = 0;
/// A result was wrong or a rank died.
const FAILED: u8 = 1;
/// Bad usage or scenario.
const USAGE: u8 = 2;
/// The executor is not available here.
const UNAVAILABLE: u8 = 3;

/// A command ends without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error("{}\n{} of {of} runs failed; nothing was written", lines(.failed), .failed.len())]
    Failed { failed: Vec<ExecuteError>, of: usize },
    /// Processes of a job do not come together.
    #[error(transparent)]
    Job(JobError),
    /// Processes of a job were not started, or have ended badly.
    #[error(transparent)]
    Start(StartError),
    /// Why this process ends with a code was said already.
    #[error("exit code {0}")]
    Said(u8),
    #[error(transparent)]
    Sweep(SweepError),
    #[error("{failed} of {of} points failed: the column `error` of {} says how", csv.display())]
    PointsFailed { failed: usize, of: usize, csv: PathBuf },
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    CollectiveBench(CollectiveBenchError),
    /// Kernels cannot be compiled.
    #[error(transparent)]
    Kernels(#[from] GpuError),
    #[error(transparent)]
    GpuBench(#[from] GpuBenchError),
    #[error(transparent)]
    HeldBench(HeldBenchError),
    #[error(transparent)]
    SimBench(SimBenchError),
    #[error("cannot measure `{name}` in a process of its own: {why}")]
    Child { name: String, why: String },
    #[error(transparent)]
    Reproduce(Box<ReproduceError>),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{}", with_help(.0, .0.help()))]
    Traces(#[from] TraceError),
    #[error("{}", with_help(.0, .0.help()))]
    Table(#[from] TableFileError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Simd(#[from] SimdError),
    #[error("cannot handle Ctrl-C: {}", match .0 { ctrlc::Error::System(error) => refused_thread(error), error => error.to_string() })]
    Signals(#[from] ctrlc::Error),
    #[error("cannot start threads: {}", refused_thread(.0))]
    Threads(io::Error),
    #[error(
        "cannot unpack the scenarios that the program carries: {0}\nhelp: `TMPDIR` names another folder for files that last as long as a command"
    )]
    Unpack(io::Error),
    #[error("cannot handle SIGXFSZ: {0}")]
    FileSizeSignal(io::Error),
    #[error("cannot write profile `{}`: {source}", path.display())]
    Profile { path: PathBuf, source: io::Error },
    #[error("cannot write the result: {0}")]
    Stdout(#[from] io::Error),
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Stopped => Self::Execute(ExecuteError::Cancelled),
            StartError::Said(code) => Self::Said(code),
            StartError::Threads(error) => Self::Threads(error),
            error => Self::Start(error),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::File(error) => Self::File(error),
            error => Self::Store(error),
        }
    }
}

impl From<HeldBenchError> for CliError {
    fn from(error: HeldBenchError) -> Self {
        match error {
            HeldBenchError::Held(HeldError::File(error)) => Self::File(error),
            error => Self::HeldBench(error),
        }
    }
}

impl From<CollectiveBenchError> for CliError {
    fn from(error: CollectiveBenchError) -> Self {
        match error {
            CollectiveBenchError::Scenario(error) => Self::Scenario(error),
            error => Self::CollectiveBench(error),
        }
    }
}

impl From<SimBenchError> for CliError {
    fn from(error: SimBenchError) -> Self {
        match error {
            SimBenchError::Scenario(error) => Self::Scenario(error),
            SimBenchError::Execute(error) => Self::Execute(error),
            error => Self::SimBench(error),
        }
    }
}

impl From<ReproduceError> for CliError {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Scenario(error) => Self::Scenario(error),
            ReproduceError::Execute(error) => Self::Execute(error),
            ReproduceError::Sample(error) => Self::Traces(error),
            error => Self::Reproduce(Box::new(error)),
        }
    }
}

impl From<SweepError> for CliError {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Scenario(error) => Self::Scenario(error),
            SweepError::Output(error) => Self::Output(error),
            other => Self::Sweep(other),
        }
    }
}

impl CliError {
    /// Error of a process that cannot take part in a job of `executor`.
    pub(crate) fn of_job(executor: &dyn Executor, error: JobError) -> Self {
        if error.is_absence() {
            return Self::Execute(ExecuteError::Unavailable(executor.name(), error.to_string()));
        }
        Self::Job(error)
    }

    /// The exit code of the contract in `docs/`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Stdout(_) if self.is_broken_pipe() => SUCCESS,
            Self::Said(code) => *code,
            Self::Scenario(_)
            | Self::Usage(_)
            | Self::Reproduce(_)
            | Self::Report(_)
            | Self::Traces(_)
            | Self::Table(_)
            | Self::Simd(_) => USAGE,
            Self::Start(
                StartError::EmptyLauncher | StartError::NoLauncher { .. } | StartError::Program { .. },
            ) => USAGE,
            Self::File(error) => exit_code_of_file(error),
            Self::Store(error) => exit_code_of_store(error),
            Self::Output(error) if error.is_refused() => USAGE,
            Self::Execute(error) | Self::Sweep(SweepError::First(error)) => exit_code_of_run(error),
            Self::CollectiveBench(CollectiveBenchError::Execute { source, .. }) => exit_code_of_run(source),
            Self::CollectiveBench(_) => USAGE,
            Self::Sweep(SweepError::Stopped { .. })
            | Self::Bench(BenchError::Cancelled)
            | Self::GpuBench(GpuBenchError::Cancelled)
            | Self::HeldBench(HeldBenchError::Cancelled)
            | Self::SimBench(SimBenchError::Cancelled) => STOPPED,
            Self::SimBench(SimBenchError::UnknownCase { .. } | SimBenchError::NotBurst { .. }) => USAGE,
            Self::Kernels(error) | Self::GpuBench(GpuBenchError::Gpu(error)) if error.is_absence() => {
                UNAVAILABLE
            }
            Self::Kernels(GpuError::Unsupported { .. })
            | Self::GpuBench(GpuBenchError::Gpu(GpuError::Unsupported { .. })) => USAGE,
            Self::HeldBench(
                HeldBenchError::Empty
                | HeldBenchError::Held(
                    HeldError::NoFiles { .. }
                    | HeldError::Codec { .. }
                    | HeldError::Twice { .. }
                    | HeldError::Encode { .. },
                ),
            ) => USAGE,
            Self::Sweep(SweepError::Journal(
                JournalError::Other { .. } | JournalError::NotJournal(_) | JournalError::Header(_),
            )) => USAGE,
            Self::Output(_)
            | Self::Sweep(_)
            | Self::PointsFailed { .. }
            | Self::Job(_)
            | Self::Start(_)
            | Self::Bench(_)
            | Self::Kernels(_)
            | Self::GpuBench(_)
            | Self::HeldBench(_)
            | Self::SimBench(_)
            | Self::Child { .. }
            | Self::Failed { .. }
            | Self::Signals(_)
            | Self::Threads(_)
            | Self::FileSizeSignal(_)
            | Self::Unpack(_)
            | Self::Profile { .. }
            | Self::Stdout(_) => FAILED,
        }
    }

    /// Whether the reader of stdout has gone, which is its right.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes the error to stderr, unless that is done already, or the reader is gone.
    pub(crate) fn say(&self) {
        match self {
            error if error.is_broken_pipe() => {}
            Self::Said(_) | Self::Job(JobError::Failed) => {}
            Self::Scenario(error) => crate::say_styled(&error.render(is_coloured(&io::stderr()))),
            // Names of tensors, of files, of whatever: shown, and not obeyed.
            error => crate::say_painted(&printable(&format!("error: {error}"))),
        }
    }
}

/// Why there is no thread, with a remedy.
fn refused_thread(error: &io::Error) -> String {
    format!(
        "{error}\nhelp: `ulimit -u` or `ulimit -v`, or the container's limit of processes, leaves no room for another thread: raise it"
    )
}

fn exit_code_of_file(error: &FileError) -> u8 {
    match error {
        FileError::Cancelled => STOPPED,
        FileError::Io { .. }
        | FileError::Damaged { .. }
        | FileError::Tensor { .. }
        | FileError::Container { .. }
        | FileError::Digest { .. }
        | FileError::Changed { .. }
        | FileError::Decode { .. } => FAILED,
        _ => USAGE,
    }
}

fn exit_code_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::File(error) => exit_code_of_file(error),
        StoreError::Unfinished { source, .. } => exit_code_of_store(source),
        StoreError::Manifest { .. }
        | StoreError::Blocked { .. }
        | StoreError::Object { .. }
        | StoreError::Damaged { .. }
        | StoreError::Removed { .. }
        | StoreError::Changed { .. }
        | StoreError::Locked { .. } => FAILED,
        _ => USAGE,
    }
}

fn exit_code_of_run(error: &ExecuteError) -> u8 {
    match error {
        ExecuteError::Cancelled => STOPPED,
        ExecuteError::Unavailable(..) => UNAVAILABLE,
        ExecuteError::NoPayload(..)
        | ExecuteError::Plan(..)
        | ExecuteError::Ratio { .. }
        | ExecuteError::Memory { .. }
        | ExecuteError::TooLarge { .. }
        | ExecuteError::Size(SizeError::Memory { .. })
        | ExecuteError::Refused(..)
        | ExecuteError::Fault { .. }
        | ExecuteError::Drift(_)
        | ExecuteError::Adaptive(..)
        | ExecuteError::OtherWork { .. }
        | ExecuteError::UnknownCall(_)
        | ExecuteError::Model(_)
        | ExecuteError::Start(_)
        | ExecuteError::Processes { .. }
        | ExecuteError::NoJob
        | ExecuteError::NoTime(_)
        | ExecuteError::Dilation { .. } => USAGE,
        _ => FAILED,
    }
}

/// A line for each; of runs that were not begun after others had failed, one for all.
fn lines(errors: &[ExecuteError]) -> String {
    let (not_run, failed): (Vec<_>, Vec<_>) =
        errors.iter().partition(|error| matches!(error, ExecuteError::NotRun(..)));
    let mut lines: Vec<String> = failed.iter().map(ToString::to_string).collect();
    match not_run.as_slice() {
        [] => {}
        [one] => lines.push(one.to_string()),
        more => lines.push(format!("{} more were not run: their ranks had failed before", more.len())),
    }
    lines.join("\n")
}
