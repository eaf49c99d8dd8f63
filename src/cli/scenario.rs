//! The arguments of `zipwire scenario`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
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
    Schema,
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
