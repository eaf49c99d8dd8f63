//! The arguments of `zipwire calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use zipwire::calibrate::Nics;
use zipwire::cluster::library::Operation;
use zipwire::codec::{DType, Layout, Spec};
use zipwire::{Executor, executors};

use super::MpiArgs;
use crate::commands::inspect::Specs;

#[derive(Debug, Subcommand)]
pub(crate) enum CalibrateCommand {
    /// Fit the times of NCCL's collectives to logs of nccl-tests: as text, as JSON of `-J`, or tables of them. All of one cluster.
    NcclTests(CalibrateNcclTestsArgs),
    /// Measure links, codecs and memory of hosts by running small scenarios on them.
    Probe(ProbeArgs),
    /// A table that many frames share, trained from samples: a code book of `codebook16`, frequencies of `rans`.
    Table(CalibrateTableArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateTableArgs {
    /// Samples: all tensors of the type in safetensors files, or files that are nothing but values, as `x.bf16`.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The codec that takes the table: `codebook16`, `rans` or `rans:mantissa=2`.
    #[arg(long, value_name = "SPEC", value_parser = crate::commands::calibrate::shared_table::codec)]
    pub(crate) codec: Spec,
    /// Type of the values.
    #[arg(long, value_name = "TYPE", default_value = "BF16", value_parser = crate::commands::dtype)]
    pub(crate) dtype: DType,
    /// Layout of the frames that the table is for: compact or split. Frames in the other one can name it, too.
    #[arg(long, value_name = "LAYOUT", default_value = "compact", value_parser = crate::commands::bench::layout)]
    pub(crate) layout: Layout,
    /// Write the table to this file, for `table = "..."` of a scenario's codec and `bench codec --table`.
    #[arg(short = 'o', long, value_name = "TABLE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateNcclTestsArgs {
    /// Logs of one cluster.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write the cluster to this file, for `[cluster] file = "..."` of scenarios, with any number of nodes.
    #[arg(short = 'o', long, value_name = "CLUSTER.toml")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Nodes of the logs, where they do not say or say wrong.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) nodes: Option<u32>,
    /// GPUs of each node that took part, where the logs do not say or say wrong.
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) gpus_per_node: Option<u32>,
    /// Collective of the logs, where they do not say or say wrong.
    #[arg(long, value_name = "OP", value_parser = crate::commands::calibrate::operation)]
    pub(crate) op: Option<Operation>,
    /// NICs of a node, and the line rate of each, as `8x200G`, where the logs do not say or say wrong: those of the GPUs of a node that took
    /// part in the log with the most.
    #[arg(long, value_name = "NxRATE", value_parser = crate::commands::calibrate::nics)]
    pub(crate) nics: Option<Nics>,
}

fn probes_on() -> String {
    format!("The executor that carries probes out: {}", probed())
}

fn is_probed(executor: &dyn Executor) -> bool {
    executor.capabilities().validation == executors::ValidationSupport::Probed
}

/// Names of the executors whose times are those of hosts.
fn probed() -> String {
    let probed = executors::ALL.iter().filter(|executor| is_probed(**executor));
    probed.map(|executor| format!("`{executor}`")).collect::<Vec<_>>().join(" or ")
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    #[arg(long, value_name = "EXECUTOR", default_value = executors::MPI.name(), value_parser = probing,
          help = probes_on())]
    pub(crate) on: &'static dyn Executor,
    /// Nodes: ranks are counted through node by node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nodes: u32,
    /// Ranks of each node.
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) gpus_per_node: u32,
    /// NICs that the ranks of a node share.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nics_per_node: u32,
    /// Nodes below each leaf switch, for what leaves have together [default: switches limit nothing].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nodes_per_leaf: Option<u32>,
    /// Codecs to measure, separated by commas [default: all].
    #[arg(long, value_name = "SPEC,...")]
    pub(crate) codec: Option<Specs>,
    /// Write the cluster to this file, for `[cluster] file = "..."` of scenarios.
    #[arg(short = 'o', long, value_name = "CLUSTER.toml")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    /// Print the result as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// An executor whose times are those of hosts.
fn probing(name: &str) -> Result<&'static dyn Executor, String> {
    let executor = executors::named(name)?;
    if is_probed(executor) {
        return Ok(executor);
    }
    Err(format!(
        "only {} have links to be measured: others are simulated, or are memory of this process",
        probed()
    ))
}
