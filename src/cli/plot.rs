//! The arguments of `zipwire plot`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// A result: a folder that `run` or `validate --out` wrote, of a scenario or a sweep, or a `summary.json`; or a timeline, a `*.trace.json`.
    #[arg(value_name = "OUT")]
    pub(crate) result: PathBuf,
    /// Write the picture to this file, as its ending says, which replaces nothing but another picture [default: draw in the terminal].
    #[arg(short = 'o', long, value_name = "FILE.svg|FILE.png")]
    pub(crate) out: Option<PathBuf>,
    /// The picture, where a result has several: of a run `variants`, `requests` or `times`; of a sweep `speedup`, `time`, `slo`, `ttft` or `goodput`.
    #[arg(long, value_name = "NAME")]
    pub(crate) picture: Option<String>,
    /// Path of a sweep along the axis; what else is swept makes several charts [default: the one with most numbers].
    #[arg(long, value_name = "PATH")]
    pub(crate) x: Option<String>,
    /// Characters of a line, at most 400, or pixels of a PNG [default: those of the terminal, or 100; 1600 pixels].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=16384))]
    pub(crate) width: Option<u32>,
}
