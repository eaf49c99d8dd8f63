//! The arguments of `zipwire advise`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// A profile that `zipwire import` wrote, or a scenario.
    #[arg(value_name = "PROFILE|SCENARIO")]
    pub(crate) file: PathBuf,
    /// Cluster that the job is to run on: a preset, or a file that `zipwire calibrate` wrote [default: the scenario's, or constants that calls of the profile fit].
    #[arg(long, value_name = "FILE|PRESET")]
    pub(crate) cluster: Option<String>,
    /// The profile is from that cluster: judge the simulation by its times.
    #[arg(long, requires = "cluster")]
    pub(crate) ran_there: bool,
    /// GPUs of each node [default: as the cluster or the profile says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus_per_node: Option<u32>,
    /// Tensors like those that are sent, to measure what they compress to: safetensors files, and folders of them [default: what such tensors typically compress to].
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub(crate) tensors: Vec<PathBuf>,
    /// Memory that simulations may take, for instance `4 GiB` [default: what the system could give].
    #[arg(long, value_name = "SIZE", value_parser = super::bytes)]
    pub(crate) memory: Option<u64>,
    /// Write the advice to this file, as JSON.
    #[arg(short = 'o', long, value_name = "ADVICE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print the advice as JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
