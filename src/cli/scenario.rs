//! The arguments of `zipwire scenario`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use zipwire::scenarios::{model_presets, presets};

use super::{ScenarioArgs, bytes};

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// The scenario file.
    pub(crate) scenario: PathBuf,
    /// Replace a value of the scenario, for instance `cluster.nodes=4`; may be given several times.
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only routes from this rank.
    #[arg(long, value_name = "RANK")]
    pub(crate) src: Option<u32>,
    /// Only routes to this rank.
    #[arg(long, value_name = "RANK")]
    pub(crate) dst: Option<u32>,
    /// Print links and routes as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewScenarioArgs {
    /// Hardware: a preset (`zipwire scenario presets`).
    #[arg(long, value_name = "PRESET", default_value = "h100-8x", value_parser = of_names(presets().iter().map(|preset| preset.name)))]
    pub(crate) preset: String,
    /// Nodes [default: 2, or 1 rack, or as many as hold the model].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nodes: Option<u32>,
    /// A published model [default: deepseek-v3, or llama3-8b for a workload without experts].
    #[arg(long, value_name = "MODEL", value_parser = of_names(model_presets(false)))]
    pub(crate) model: Option<String>,
    /// The workload [default: moe for models with experts, fsdp for others].
    #[arg(long, value_name = "KIND")]
    pub(crate) workload: Option<Workload>,
    /// Write it to this file, which must not be there yet [default: it is printed].
    #[arg(short = 'o', long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,
}

/// One of these names: shells complete them.
fn of_names(names: impl Iterator<Item = &'static str>) -> PossibleValuesParser {
    PossibleValuesParser::new(names.collect::<Vec<_>>())
}

/// A workload that there is a commented scenario of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One mixture-of-experts layer.
    Moe,
    /// Training with sharded parameters.
    Fsdp,
    /// Serving with prefill and decode apart.
    Serving,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Write a commented scenario to begin with, of a published model on a preset.
    New(NewScenarioArgs),
    /// Resolve and plan a scenario without running it.
    Check {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// Memory that plans may take, for instance `4 GiB`; larger ones are refused before they are made [default: what the
        /// system could give].
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        memory: Option<u64>,
        /// Print what was resolved as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the links of the cluster, and those that each transfer crosses.
    Routes(RoutesArgs),
    /// Print a JSON Schema of the scenario language, for editors.
    Schema {
        /// Print every key with its values, its default and its meaning as Markdown instead, for people.
        #[arg(long)]
        markdown: bool,
    },
    /// List the hardware that `[cluster] preset` knows, or print one preset's file with the source of each constant.
    Presets {
        /// The preset whose file is printed.
        name: Option<String>,
        /// Print the list as JSON.
        #[arg(long, conflicts_with = "name")]
        json: bool,
    },
    /// List the scenario files below a folder.
    List {
        /// The folder [default: the scenarios that the program carries].
        folder: Option<PathBuf>,
        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the scenarios and samples that the program carries to a folder.
    Unpack {
        /// The folder: an empty one, or a new one.
        folder: PathBuf,
    },
}
