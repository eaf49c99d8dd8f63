//! The arguments of `zipwire import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Traces of PyTorch's profiler, one for each rank: as `export_chrome_trace` or `tensorboard_trace_handler` wrote them. In a folder: all `*.json`.
    Kineto(ImportArgs),
    /// Dumps of PyTorch's Flight Recorder, one for each rank, as pickles or JSON; their names end with the rank. In a folder: all files.
    Flight(ImportArgs),
    /// Logs of NCCL's profiler plugin Inspector, one for each process. In a folder: all `*.log`, `*.jsonl` and `*.json`.
    Inspector(ImportArgs),
    /// Execution traces of MLCommons Chakra, one for each rank: `NAME.RANK.et`. In a folder: all `*.et`.
    Chakra(ImportArgs),
    /// Journals of `libzipwire_nccl.so` with `ZIPWIRE_NCCL=stats`, one for each process. In a folder: all `*.jsonl`.
    Shim(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The files of a job's ranks, or a folder of them; gzip is read as well, as `*.gz`.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the profile to this file [default: only its numbers are printed].
    #[arg(short = 'o', long, value_name = "PROFILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print the numbers as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}
