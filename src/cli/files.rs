//! The arguments of the commands for files.

use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use zipwire::codec::{DType, Spec};
use zipwire::models::store::{DEFAULT_CHAIN, Parent};

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Safetensors files, zip archives of PyTorch (`.pt`, `.bin`) and NumPy, folders with them, files of raw values with `--dtype`, or `-`
    /// for raw values from stdin to stdout.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Where to: a file for one file, a folder for a folder or several files, `-` for one file to stdout [default: `x.zw.safetensors`
    /// beside `x.safetensors`, `x.zw` beside any other `x`].
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// The codec of all tensors whose type it knows; `auto` takes `rans`, `planes` or `dedup+planes` for each tensor, whichever makes
    /// a sample of it smallest.
    #[arg(long, value_name = "SPEC", default_value = "auto", value_parser = crate::commands::files::spec)]
    pub(crate) codec: Spec,
    /// The same as `--codec tiered`: nearly as small, and faster.
    #[arg(long, conflicts_with = "codec")]
    pub(crate) fast: bool,
    /// Earlier values of the same tensors, a safetensors file or a folder of them, compressed or not: differences from these are
    /// coded. Of a folder, the tensor of the same name counts, in whichever file it is. It is needed to read the result.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    /// Type of raw values: BF16, F16, F32, F8_E4M3 or F8_E5M2.
    #[arg(long, value_name = "TYPE", value_parser = crate::commands::dtype)]
    pub(crate) dtype: Option<DType>,
    /// Read back what was written, and compare it with the digest of the input, before it has its name or replaces anything.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Also keep bytes behind the last tensor of a safetensors file: without this, such a file is an error.
    #[arg(long)]
    pub(crate) keep_trailing: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

impl CompressArgs {
    /// The codec that was asked for.
    pub(crate) fn spec(&self) -> Spec {
        if self.fast { "tiered".parse().expect("it is a codec") } else { self.codec.clone() }
    }
}

/// Arguments of commands that write files.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Replace files of the same names that are there already, and nothing else: into a folder that is there, files are put.
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
    /// Where to: a file for one file, a folder for a folder or several files, `-` for one file to stdout [default: beside the input,
    /// without `.zw`].
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// File or folder that differences were taken from.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    /// Also write what comes back of damaged and cut files: damaged parts of tensors are zeros, and these tensors are named. It ends with 1
    /// then.
    #[arg(long)]
    pub(crate) keep_going: bool,
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
    /// A safetensors file, compressed or not, or a folder of them.
    #[arg(value_name = "FILE|DIR")]
    pub(crate) file: PathBuf,
    /// The tensor whose values are written, little-endian.
    #[arg(long, value_name = "NAME")]
    pub(crate) tensor: String,
    /// Only these rows, along the first dimension, from A to B - 1.
    #[arg(long, value_name = "A..B", value_parser = crate::commands::files::rows)]
    pub(crate) range: Option<Range<u64>>,
    /// File or folder that differences were taken from.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    /// Where to [default: stdout, which is also called `-`].
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file that is there already.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Safetensors files, compressed or not, and folders of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the list as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Make a store in a new or empty folder.
    Init(StoreInitArgs),
    /// Add files as a checkpoint: what the store has is not stored again, and what has changed little as differences.
    Add(StoreAddArgs),
    /// List the checkpoints, oldest first.
    List(StoreListArgs),
    /// Write the files of a checkpoint, byte for byte as they were.
    Restore(StoreRestoreArgs),
    /// Pin a checkpoint: neither `prune` nor `rm` removes it.
    Pin(StorePinArgs),
    /// Let a checkpoint go that is pinned.
    Unpin(StorePinArgs),
    /// Say what is damaged, and which checkpoints can be restored; ends with 0 if all can.
    Verify(StoreVerifyArgs),
    /// Say what the store has, and what it takes.
    Stats(StoreListArgs),
    /// Remove old checkpoints, and the objects that no other one needs; not those that are pinned.
    Prune(StorePruneArgs),
    /// Remove these checkpoints, and the objects that no other one needs.
    Rm(StoreRmArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StoreInitArgs {
    /// The folder.
    pub(crate) store: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StoreAddArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Files, and folders whose files are stored with the names that they have in them. Tensors are those of safetensors files; other files are stored
    /// as they are.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the checkpoint.
    #[arg(long, value_name = "ID")]
    pub(crate) id: String,
    /// The checkpoint that differences are taken from; `auto` is the newest one with the same tensors.
    #[arg(long, value_name = "ID|auto|none", default_value = "auto", value_parser = parent)]
    pub(crate) parent: Parent,
    /// The codec of tensors: `rans` and `tiered` code differences, too; behind any other one `rans` does. `auto` takes `rans`, `planes`
    /// or `dedup+planes` for each tensor, whichever makes a sample of it smallest.
    #[arg(long, value_name = "SPEC", default_value = "auto", value_parser = crate::commands::files::spec)]
    pub(crate) codec: Spec,
    /// Objects that are decoded to restore a tensor, at the most; 1 takes no differences.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHAIN)]
    pub(crate) chain: usize,
    /// Decode what was stored, and compare it with its hashes.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Store what is there, though an index (`*.index.json`) names shards that are not.
    #[arg(long)]
    pub(crate) allow_missing: bool,
    /// Also store bytes behind the last tensor of a safetensors file: without this, such a file is an error.
    #[arg(long)]
    pub(crate) keep_trailing: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StoreListArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreRestoreArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Name of the checkpoint.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The folder for its files.
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Write zeros for tensors that are damaged, and name them; ends with 1 if there are any.
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StorePruneArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Keep so many of the newest checkpoints [default: 1].
    #[arg(long, value_name = "N", required_unless_present = "every")]
    pub(crate) keep: Option<NonZero<usize>>,
    /// Also keep the oldest checkpoint and each K-th that was added behind it.
    #[arg(long, value_name = "K")]
    pub(crate) every: Option<NonZero<usize>>,
    #[command(flatten)]
    pub(crate) removal: RemovalArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemovalArgs {
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreRmArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Names of checkpoints.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) removal: RemovalArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StorePinArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Name of the checkpoint.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct StoreVerifyArgs {
    /// The store.
    pub(crate) store: PathBuf,
    /// Decode all values, too, and compare them with their hashes.
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

fn parent(text: &str) -> Result<Parent, String> {
    Ok(match text {
        "auto" => Parent::Auto,
        "none" => Parent::None,
        id => Parent::Id(id.to_owned()),
    })
}
