//! The command line's grammar.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use zipwire::Executor;

/// Lossless compressed collectives: one schedule, simulated and run for real.
#[derive(Debug, Parser)]
#[command(name = "zipwire", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario: simulate it, run it on real ranks, or both.
    Run(RunArgs),
    /// Simulate a scenario and run it on paced links: how good is the prediction?
    Validate(ValidateArgs),
    /// Print the plan of a scenario's variants as text.
    Plan(PlanArgs),
    /// Compare two timelines that `run` wrote, span by span.
    Diff(DiffArgs),
    /// Check or list scenario files.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
}

/// What every command that reads a scenario takes.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario file.
    pub(crate) scenario: PathBuf,
    /// Only these variants, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) variant: Vec<String>,
    /// Replace a value of the scenario, for instance `cluster.nodes=4`; may be given several times.
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Replace the scenario's seed.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Executors, separated by commas: sim, threads, mpi, cuda, nccl.
    #[arg(long, value_name = "EXECUTOR", value_delimiter = ',', default_value = "sim")]
    pub(crate) on: Vec<Executor>,
    /// Output folder [default: out/<scenario name>].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the summary as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Replace a value of the scenario in the real run only: what if the cluster is not what the scenario says? May be
    /// given several times.
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) real_set: Vec<String>,
    /// The executor that measures.
    #[arg(long, value_name = "EXECUTOR", default_value = "threads")]
    pub(crate) on: Executor,
    /// Run at 1/D of the cluster's speed [default: the least that this machine keeps up with].
    #[arg(long, value_name = "D")]
    pub(crate) dilation: Option<f64>,
    /// Write the timelines of both to this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Only this rank.
    #[arg(long, value_name = "R")]
    pub(crate) rank: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A timeline: a `*.trace.json` of `zipwire run`.
    #[arg(value_name = "A.json")]
    pub(crate) a: PathBuf,
    /// The timeline to hold against it.
    #[arg(value_name = "B.json")]
    pub(crate) b: PathBuf,
    /// List at most N spans of each kind of difference.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Print the comparison as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Resolve and plan a scenario without running it.
    Check {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// Print what was resolved as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the scenario files below a folder.
    List {
        /// The folder.
        #[arg(default_value = "scenarios")]
        folder: PathBuf,
        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
}
