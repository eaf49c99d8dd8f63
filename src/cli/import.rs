//! The arguments of `zipwire import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Traces of PyTorch's profiler, one for each rank: as `export_chrome_trace` or `tensorboard_trace_handler` wrote them, or gzipped.
    Kineto(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The traces of a job's ranks, or a folder of them: all its `*.json` and `*.json.gz`.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the profile to this file [default: only its numbers are printed].
    #[arg(short = 'o', long, value_name = "PROFILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print the numbers as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}
