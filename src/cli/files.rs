//! The arguments of the commands for files.

use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use zipwire::codec::{DType, Spec};

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Safetensors files, zip archives of PyTorch (`.pt`, `.bin`) and NumPy, folders with them, files of raw values with `--dtype`, or `-`
    /// for raw values from stdin to stdout.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Where to: a file for one file, a folder for a folder or several files [default: `x.zw.safetensors` beside
    /// `x.safetensors`, `x.zw` beside any other `x`].
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// The codec of all tensors whose type it knows; `auto` chooses one for each chunk.
    #[arg(long, value_name = "SPEC", default_value = "rans", value_parser = crate::commands::files::spec)]
    pub(crate) codec: Spec,
    /// Earlier values of the same tensors, a safetensors file or a folder of them, compressed or not: differences from these are
    /// coded. It is needed to read the result.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    /// Type of raw values: BF16, F16, F32, F8_E4M3 or F8_E5M2.
    #[arg(long, value_name = "TYPE", value_parser = crate::commands::dtype)]
    pub(crate) dtype: Option<DType>,
    /// Read back what was written, and compare it with the digest of the input.
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

/// Arguments of commands that write files.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Replace files that are there already.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

/// Arguments of commands that work on whole files.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Threads that code; each takes about 3 MiB of memory [default: one for each processor].
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// The most memory that coding takes, such as 32MiB: there are fewer threads if it does not suffice for all.
    #[arg(long, value_name = "SIZE", value_parser = super::bytes)]
    pub(crate) memory: Option<u64>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DecompressArgs {
    /// Files that `compress` wrote, folders of them, or `-` for raw values from stdin to stdout.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Where to: a file for one file, a folder for a folder or several files [default: beside the input, without `.zw`].
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// File or folder that differences were taken from.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Files that `compress` wrote, or folders of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// File or folder that differences were taken from.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// A safetensors file, compressed or not.
    pub(crate) file: PathBuf,
    /// The tensor whose values are written to stdout, little-endian.
    #[arg(long, value_name = "NAME")]
    pub(crate) tensor: String,
    /// Only these rows, along the first dimension, from A to B - 1.
    #[arg(long, value_name = "A..B", value_parser = crate::commands::files::rows)]
    pub(crate) range: Option<Range<u64>>,
    /// File or folder that differences were taken from.
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Safetensors files, compressed or not.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the list as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}
