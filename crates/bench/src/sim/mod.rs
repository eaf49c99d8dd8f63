//! Cost of the simulator: seconds of one core and memory at which cases of known size are simulated.
//!
//! Results of the simulations are not looked at; tests check them. Each case is measured in a process of its own, because peaks of memory
//! cannot be told apart in one: see [`SimCase`].

mod network;
mod simulator;

use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire_runner::{Cancel, ExecuteError};
use zipwire_scenarios::{ScenarioError, Source, load};

use self::simulator::{Load, cpu_s, peak_bytes};

pub use self::simulator::{CASES, SimCase};

/// Runs of a case at most, and the seconds after which there are no more of them.
const MOST_RUNS: usize = 5;
const LONG_ENOUGH_S: f64 = 1.0;

/// Part of the simulator that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Flows go straight into [`zipwire_sim::Network`]: routes, max-min rates and ends. No plan, no machine, no timeline.
    Network,
    /// A scenario is planned and simulated: machines of all ranks, network, timeline in memory. Nothing is written.
    Simulator,
}

impl Level {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Network, Self::Simulator];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Simulator => "simulator",
        }
    }
}

/// Time and memory of one case.
#[derive(Clone, Debug, Serialize)]
pub struct SimRow {
    /// The case, or the scenario file.
    pub case: String,
    /// Part of the simulator that was measured.
    pub level: Level,
    /// Ranks of the cluster.
    pub ranks: u32,
    /// Transfers that were simulated.
    pub transfers: u64,
    /// Virtual time of the transfers, in seconds.
    pub simulated_s: f64,
    /// Seconds of a core for drawing the traffic, or for reading, planning and checking the scenario; median of the runs.
    pub prepare_s: f64,
    /// Seconds of a core for simulating what was prepared; median of the runs.
    pub cpu_s: f64,
    /// Runs.
    pub runs: usize,
    /// The most memory that the process has had resident, if the system says so.
    pub peak_bytes: Option<u64>,
    /// Work of the network; `None` for cases of the whole simulator.
    pub work: Option<WorkPerEvent>,
}

/// Mean work of the network at a moment at which flows come or go.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WorkPerEvent {
    /// Such moments.
    pub events: u64,
    /// Links whose level was computed anew.
    pub links: f64,
    /// Flows that got another bottleneck.
    pub flows: f64,
    /// Times that a level was taken from what another link has left.
    pub touches: f64,
}

impl From<zipwire_sim::Work> for WorkPerEvent {
    fn from(work: zipwire_sim::Work) -> Self {
        let mean = |sum: u64| sum as f64 / work.fillings.max(1) as f64;
        Self {
            events: work.fillings,
            links: mean(work.links_relevelled),
            flows: mean(work.switched),
            touches: mean(work.touches),
        }
    }
}

/// Why a case has no row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum SimBenchError {
    #[error("stopped")]
    Cancelled,
    #[error("there is no case `{name}`\nhelp: the cases are {}; `all` is all of them", names())]
    UnknownCase { name: String },
    #[error(
        "`{}` cannot be measured at level `network`: its flows depend on one another\n\
         help: that level takes workload `transfers` in order `burst`",
        .path.display()
    )]
    NotBurst { path: PathBuf },
    /// The flows of a case cannot be handed to the simulator.
    #[error("cannot write to `{}`: {source}\nhelp: let `TMPDIR` name a writable folder", .folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario cannot be simulated.
    #[error(transparent)]
    Execute(ExecuteError),
}

impl From<ExecuteError> for SimBenchError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Cancelled => Self::Cancelled,
            error => Self::Execute(error),
        }
    }
}

fn names() -> String {
    CASES.iter().map(|case| format!("`{}`", case.name)).collect::<Vec<_>>().join(", ")
}

/// Measures a case, alone in its process.
///
/// # Errors
/// If the user stops it.
pub fn bench_sim(case: &SimCase, cancel: &Cancel) -> Result<SimRow, SimBenchError> {
    let (cluster, load) = (case.cluster, case.load);
    let run = || match load {
        Load::Flows(sizes) => network::flows(&cluster.topology()?, sizes, cancel),
        Load::Rounds => network::rounds(&cluster.topology()?, cancel),
        Load::Scenario(workload) => simulator::drawn(cluster, workload, cancel),
    };
    repeat(case.name, case.level(), run)
}

/// Measures a scenario file at one level, alone in its process.
///
/// # Errors
/// If it is no valid scenario, cannot be measured at this level, or the user stops it.
pub fn bench_sim_scenario(path: &Path, level: Level, cancel: &Cancel) -> Result<SimRow, SimBenchError> {
    let source = Source::read(path)?;
    let run = || match level {
        Level::Network => network::scenario(&source, path, cancel),
        Level::Simulator => simulator::scenario(&source, cancel),
    };
    repeat(&path.display().to_string(), level, run)
}

/// Whether a scenario file can be measured at a level.
///
/// # Errors
/// If it is no valid scenario.
pub fn can_play(path: &Path, level: Level) -> Result<bool, SimBenchError> {
    match level {
        Level::Network => Ok(network::independent(&load(&Source::read(path)?, &[], None)?).is_some()),
        Level::Simulator => Ok(true),
    }
}

/// Time and work of one run of a case.
struct Run {
    ranks: u32,
    transfers: u64,
    simulated_s: f64,
    prepare_s: f64,
    cpu_s: f64,
    work: Option<WorkPerEvent>,
}

fn repeat(
    case: &str,
    level: Level,
    run: impl Fn() -> Result<Run, SimBenchError>,
) -> Result<SimRow, SimBenchError> {
    let _span = tracing::info_span!("bench sim", case, level = level.name()).entered();
    let begin_s = cpu_s();
    let mut runs = vec![run()?];
    while runs.len() < MOST_RUNS && cpu_s() - begin_s < LONG_ENOUGH_S {
        runs.push(run()?);
    }
    let Run { ranks, transfers, simulated_s, work, .. } = runs[0];
    let median = |of: fn(&Run) -> f64| {
        let mut seconds: Vec<f64> = runs.iter().map(of).collect();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    Ok(SimRow {
        case: case.to_owned(),
        level,
        ranks,
        transfers,
        simulated_s,
        prepare_s: median(|run| run.prepare_s),
        cpu_s: median(|run| run.cpu_s),
        runs: runs.len(),
        peak_bytes: peak_bytes(),
        work,
    })
}
