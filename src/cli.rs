//! The command line's grammar.

mod advise;
mod calibrate;
#[cfg(test)]
mod documented;
mod files;
mod help;
mod import;
mod plot;
mod report;
mod scenario;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use zipwire::bench::{Level, Pages};
use zipwire::cluster::CodecCost;
use zipwire::cluster::library::Operation;
use zipwire::codec::{DType, Layout, SimdLevel};
use zipwire::papers::Paper;
use zipwire::scenarios::Dimension;
use zipwire::schedule::Protocol;
use zipwire::{Executor, SIMD_VARIABLE, executors};

pub(crate) use self::advise::AdviseArgs;
pub(crate) use self::calibrate::{CalibrateCommand, CalibrateNcclTestsArgs, CalibrateTableArgs, ProbeArgs};
pub(crate) use self::files::{
    CatArgs, CompressArgs, DecompressArgs, LsArgs, RemovalArgs, StoreAddArgs, StoreCommand, StoreInitArgs,
    StoreListArgs, StorePinArgs, StorePruneArgs, StoreRestoreArgs, StoreRmArgs, StoreVerifyArgs, VerifyArgs,
    WorkArgs,
};
pub(crate) use self::help::{CompletionsArgs, HelpArgs, command};
pub(crate) use self::import::{ImportArgs, ImportCommand};
pub(crate) use self::plot::PlotArgs;
pub(crate) use self::report::ReportArgs;
pub(crate) use self::scenario::{NewScenarioArgs, RoutesArgs, ScenarioCommand, Workload};

use crate::commands::bench::Contenders;
use crate::commands::files::is_stdin;
use crate::commands::inspect::Specs;

/// Lossless compressed collectives: one schedule, simulated and run for real.
#[derive(Debug, Parser)]
#[command(name = "zipwire", version, arg_required_else_help = true, disable_help_subcommand = true, after_help = after_help())]
pub(crate) struct Cli {
    /// Record where this program spends its own time: a Chrome trace for Perfetto.
    #[arg(long, value_name = "FILE", global = true, help_heading = "Options of all commands")]
    pub(crate) profile: Option<PathBuf>,
    /// Print tables as wide as they are, where they would be made to fit the terminal.
    #[arg(long, global = true, help_heading = "Options of all commands")]
    pub(crate) wide: bool,
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
    /// Make one HTML page of results, for people: what a run, a sweep, a validation or an advice came to.
    Report(ReportArgs),
    /// Draw a run, a sweep, a validation or a timeline: in the terminal, or as SVG.
    Plot(PlotArgs),
    /// Hold what comes out here against the numbers that a paper publishes.
    Reproduce(ReproduceArgs),
    /// Say what is compressible in tensors, why, and by which codec.
    Inspect(InspectArgs),
    /// Compress model files: safetensors into safetensors that any part is read of, and other values into streams.
    Compress(CompressArgs),
    /// Restore what `compress` wrote, byte for byte.
    Decompress(DecompressArgs),
    /// Decode files that `compress` wrote and compare them with their digests.
    Verify(VerifyArgs),
    /// Write a tensor, or rows of it, to stdout: only what is asked for is decoded.
    Cat(CatArgs),
    /// List the tensors of model files, compressed or not.
    Ls(LsArgs),
    /// Keep checkpoints, each tensor once and what changes as differences; any of them comes back byte for byte.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Fit the constants of a cluster to what was measured on it, or the tables of codecs to samples.
    #[command(subcommand)]
    Calibrate(CalibrateCommand),
    /// Measure parts side by side.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Read what profilers recorded of a job: what its ranks sent when, and how much of that they waited for.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Say what compression would do to a job, by its profile or a scenario: for each kind of calls, and what to do first.
    Advise(AdviseArgs),
    /// Compile the kernels for GPUs where there is none.
    #[command(subcommand)]
    Kernels(KernelsCommand),
    /// Check or list scenario files, or describe their language to an editor.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// Say what this machine offers to the program, and what to install for the rest.
    Doctor(DoctorArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Print the help of a command; also man pages.
    Help(HelpArgs),
}

impl Command {
    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Validate(_) => "validate",
            Self::Plan(_) => "plan",
            Self::Diff(_) => "diff",
            Self::Report(_) => "report",
            Self::Plot(_) => "plot",
            Self::Reproduce(_) => "reproduce",
            Self::Inspect(_) => "inspect",
            Self::Compress(_) => "compress",
            Self::Decompress(_) => "decompress",
            Self::Verify(_) => "verify",
            Self::Cat(_) => "cat",
            Self::Ls(_) => "ls",
            Self::Store(_) => "store",
            Self::Bench(_) => "bench",
            Self::Calibrate(_) => "calibrate",
            Self::Import(_) => "import",
            Self::Advise(_) => "advise",
            Self::Kernels(_) => "kernels",
            Self::Scenario(_) => "scenario",
            Self::Doctor(_) => "doctor",
            Self::Completions(_) => "completions",
            Self::Help(_) => "help",
        }
    }

    /// Whether it works on the pool of threads that all parts of the program share; others have threads of their own, or none.
    pub(crate) fn uses_pool(&self) -> bool {
        let is_piped = |files: &[PathBuf]| files.iter().any(|file| is_stdin(file));
        match self {
            Self::Compress(args) => is_piped(&args.files),
            Self::Decompress(args) => is_piped(&args.files),
            Self::Diff(_)
            | Self::Report(_)
            | Self::Plot(_)
            | Self::Inspect(_)
            | Self::Verify(_)
            | Self::Cat(_)
            | Self::Ls(_)
            | Self::Store(_)
            | Self::Kernels(_)
            | Self::Import(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::Help(_)
            | Self::Calibrate(CalibrateCommand::NcclTests(_)) => false,
            _ => true,
        }
    }
}

/// Examples, and help on environment variables.
fn after_help() -> String {
    let levels = SimdLevel::ALL.map(SimdLevel::name).join(", ");
    format!(
        "Examples:
  zipwire run scenarios/quickstart.toml
  zipwire scenario new -o my.toml

Environment:
  {SIMD_VARIABLE}          SIMD level of the codecs: {levels}
                        [default: the best one here]
  ZIPWIRE_MPI_LIB       file or folder of the MPI library
                        [default: beside `mpirun`, then where the linker looks]
  ZIPWIRE_NVRTC         folder with NVRTC, which compiles the kernels for a GPU
                        [default: where the linker looks, then /usr/local/cuda/lib64]
  ZIPWIRE_NCCL_LIB      file or folder of the NCCL library
                        [default: where the linker looks, then Python's packages]
  ZIPWIRE_KERNEL_CACHE  folder for compiled kernels, empty for none
                        [default: zipwire/kernels in the user's cache folder]
  NO_COLOR              set to anything: no colours"
    )
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print what was found as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of every command that reads a scenario.
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
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    #[arg(long, value_name = "EXECUTOR", value_delimiter = ',', default_value = executors::SIM.name(),
          value_parser = executors::named, help = on_any("Executors, separated by commas"))]
    pub(crate) on: Vec<&'static dyn Executor>,
    /// Output folder [default: out/<scenario name>].
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the summary as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report for people to this file, too, as `zipwire report` does.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Draw the result in the terminal, too, as `zipwire plot` does.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plot: bool,
    /// Leave out what explains simulated times: what iterations are bound by, and what of a speedup is compression.
    #[arg(long)]
    pub(crate) no_verdict: bool,
    /// Search for the ratio and codec speed at which coded variants break even, also where that takes long: small simulations always do.
    #[arg(long, conflicts_with = "no_verdict")]
    pub(crate) break_even: bool,
    /// Print what each rank does, too, and how uneven ranks are; not of a sweep.
    #[arg(long, conflicts_with = "json")]
    pub(crate) ranks: bool,
    /// Memory that the run may take, for instance `4 GiB`; a larger one is refused before it starts [default: what the
    /// system could give].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) memory: Option<u64>,
    /// Plan and simulate every rank, where ranks of a large job that are alike would be planned and simulated once: timelines then have all of them.
    #[arg(long)]
    pub(crate) unfolded: bool,
    /// On `threads` and `mpi`: leave out checksums and the comparison of what is received with what was sent, for times without them.
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Show what is done, the best result so far and the time left: as a bar in a terminal, else as lines now and then.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    /// In a sweep, simulate N points at the same time [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// In a sweep, write the timelines of every point, too.
    #[arg(long)]
    pub(crate) timelines: bool,
    /// In a sweep, start anew, where an interrupted one would go on.
    #[arg(long)]
    pub(crate) fresh: bool,
}

/// Help for an `--on` that takes any executor: what it is, and all of them.
fn on_any(what: &str) -> String {
    let each = executors::ALL.iter().map(|executor| format!("{executor} ({})", executor.summary()));
    format!("{what}: {}", each.collect::<Vec<_>>().join(", "))
}

/// Help for `--on` of a validation: those whose measurements say something about a cluster.
fn validate_on() -> String {
    let can = executors::ALL.iter().filter(|executor| {
        !matches!(executor.capabilities().validation, executors::ValidationSupport::None(_))
    });
    let names: Vec<&str> = can.map(|executor| executor.name()).collect();
    format!("The executor that measures: {}", names.join(", "))
}

/// A size with its unit.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = Dimension::Bytes.parse(text).filter(|bytes| *bytes >= 1.0 && *bytes < u64::MAX as f64);
    let bytes = bytes.map(|bytes| bytes as u64);
    bytes.ok_or_else(|| {
        format!("expected a size with its unit, for instance `{}`", Dimension::Bytes.example())
    })
}

impl RunArgs {
    /// Whether ranks that are alike may be planned and simulated once: real ones all have a part of their own.
    pub(crate) fn folds(&self) -> bool {
        !self.unfolded && self.on.iter().all(|executor| !executor.capabilities().is_real)
    }

    /// The output folder of a scenario.
    pub(crate) fn folder(&self, scenario: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| Path::new("out").join(scenario))
    }
}

/// Arguments of commands whose ranks may be processes.
#[derive(Debug, Args)]
pub(crate) struct MpiArgs {
    /// On `mpi`: what starts ranks, with `{ranks}` for their number [default: `mpirun` of the MPI library that is found].
    #[arg(long, value_name = "COMMAND")]
    pub(crate) launcher: Option<String>,
    /// On `mpi`: how long nothing may happen before ranks give up, for instance `5 s` [default: 30 s, and 2 min until all have come up].
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) stall: Option<Duration>,
}

/// A time with its unit, of a tenth of a second at the least.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = Dimension::Time.parse(text).filter(|seconds| (0.1..=1e6).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a time of at least 100 ms with its unit, for instance `5 s`".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Replace a value of the scenario in the real run only: what if the cluster is not what the scenario says? May be
    /// given several times.
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) real_set: Vec<String>,
    #[arg(long, value_name = "EXECUTOR", default_value = executors::THREADS.name(),
          value_parser = executors::named, help = validate_on())]
    pub(crate) on: &'static dyn Executor,
    /// On `threads`: run at 1/D of the cluster's speed [default: the least that this machine keeps up with].
    #[arg(long, value_name = "D")]
    pub(crate) dilation: Option<f64>,
    /// On `mpi`: constants of these hosts, a file of `zipwire calibrate probe` [default: they are measured first].
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    /// Write the result and the timelines of both to this folder.
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write a report for people to this file, as `zipwire report` does.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
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

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper: zipccl, splitzip, dfloat11, zipnn or lmc.
    pub(crate) paper: Paper,
    /// Folder of the papers' scenarios and of what they publish [default: those that the program carries].
    #[arg(long, value_name = "DIR")]
    pub(crate) scenarios: Option<PathBuf>,
    /// Write a picture of each figure to this folder, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Simulate with this many seeds, that of each scenario and those after it; numbers are those of the first, with what all lie between.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seeds: NonZeroU32,
    /// Move each fitted constant by 20 % up and down, too, which takes some minutes.
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Print the report as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Safetensors files, and folders of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Codecs, separated by commas [default: all].
    #[arg(long, value_name = "SPEC,...")]
    pub(crate) codec: Option<Specs>,
    /// Let `auto` choose by these speeds, what `zipwire bench codec --json` prints [default: those that it was built with].
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,
    /// The same tensors as they were before, a safetensors file or a folder of them: sizes as differences from these, by `delta+rans` and
    /// `delta+tiered`.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) base: Option<PathBuf>,
    /// Print the report as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Size and speed of codecs beside memcpy, zstd and LZ4.
    Codec(BenchCodecArgs),
    /// Time single collectives on a cluster, uncompressed and coded, in the columns of nccl-tests.
    Collective(BenchCollectiveArgs),
    /// Speed of the kernels on a GPU beside copies on it, after a comparison with the CPU's frames.
    Gpu(BenchGpuArgs),
    /// Memory and time of weights that are held compressed and decoded block by block, in walks as a forward pass makes them.
    Held(BenchHeldArgs),
    /// Seconds of a core and memory that simulating takes.
    Sim(BenchSimArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KernelsCommand {
    /// Fill the cache of compiled kernels for an architecture: takes NVRTC, and neither a GPU nor a driver.
    Compile(KernelsCompileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KernelsCompileArgs {
    /// Architecture of the GPU, for instance `sm_90` for H100 and H200; `nvidia-smi --query-gpu=compute_cap` says 9.0 for it.
    #[arg(long, value_name = "ARCH", value_parser = crate::commands::kernels::arch)]
    pub(crate) arch: String,
    /// Folder for the files, for a program whose `ZIPWIRE_KERNEL_CACHE` names it [default: the kernel cache].
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print the files as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchHeldArgs {
    /// Safetensors files of one model, or its folder; compressed ones as well.
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) model: Vec<PathBuf>,
    /// Only so many blocks (layers of a transformer), from the first one on [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) blocks: Option<u32>,
    /// Codecs that all tensors are held by, separated by commas; `raw`, values as they are, is measured in any case.
    #[arg(long, value_name = "SPEC,...", default_value = "tiered,rans")]
    pub(crate) codec: Specs,
    /// Also hold what the files have as it is, in memory and on the disk: from there each block is read while the one before is decoded and used.
    #[arg(long)]
    pub(crate) as_files: bool,
    /// Also hold it by `huffman` and by `tiered` in the memory of the first GPU, where blocks are decoded and nothing is multiplied.
    #[arg(long)]
    pub(crate) gpu: bool,
    /// Threads that decode and multiply [default: as many as processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Passes that are measured, after one that is not; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: u32,
    /// Print the rows as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSimArgs {
    /// Scenario files to measure, every one at each level that can play it.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Cases by name, separated by commas, or `all` [default: all that take seconds, unless there are scenarios].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) cases: Vec<String>,
    /// Only this level: network or simulator.
    #[arg(long, value_name = "LEVEL", value_parser = crate::commands::bench_sim::level)]
    pub(crate) level: Option<Level>,
    /// Print the rows as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure in this process instead of one for each row.
    #[arg(long, hide = true)]
    pub(crate) alone: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchCollectiveArgs {
    /// A preset (`zipwire scenario presets`), or a file with the keys of `[cluster]`, for instance one of `zipwire calibrate`.
    #[arg(long, value_name = "FILE|PRESET")]
    pub(crate) cluster: Option<String>,
    /// With a file as `--cluster`: the preset that has what the file lacks, as speeds of codecs [default: the one that the file names].
    #[arg(long, value_name = "PRESET", value_parser = crate::commands::bench_collective::preset)]
    pub(crate) preset: Option<String>,
    /// Nodes [default: those of the cluster].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nodes: Option<u32>,
    /// GPUs of each node that take part [default: those of the cluster].
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) gpus_per_node: Option<u32>,
    #[arg(long, value_name = "OP,...", value_delimiter = ',', required = true,
          value_parser = crate::commands::bench_collective::operation, help = crate::commands::bench_collective::op_help())]
    pub(crate) op: Vec<Operation>,
    /// The smallest size, as nccl-tests counts it for the operation and takes it: `32M` is 32 MiB.
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = crate::commands::bench_collective::size)]
    pub(crate) begin: u64,
    /// The largest size.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::commands::bench_collective::size)]
    pub(crate) end: u64,
    /// From one size to the next.
    #[arg(long, value_name = "F", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) factor: u32,
    /// Protocols, separated by commas: `native`, what the cluster's library does or else the best plan, and coded ones.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "native",
          value_parser = crate::commands::bench_collective::protocol)]
    pub(crate) variants: Vec<Protocol>,
    /// Raw over coded bytes; needed for coded variants in simulation.
    #[arg(long, value_name = "X", value_parser = crate::commands::bench_collective::ratio)]
    pub(crate) ratio: Option<f64>,
    /// Codec of coded variants, as in scenarios.
    #[arg(long, value_name = "SPEC", default_value = "window7")]
    pub(crate) codec: String,
    /// Its speed, as `ENCODE,DECODE` or `ENCODE,DECODE,LAUNCH`, for instance `900 GB/s,1300 GB/s,15 us` [default: what the
    /// cluster says].
    #[arg(long, value_name = "SPEED", value_parser = crate::commands::bench_collective::speed)]
    pub(crate) codec_speed: Option<CodecCost>,
    #[arg(long, value_name = "EXECUTOR", default_value = executors::SIM.name(),
          value_parser = executors::named, help = on_any("The executor that carries plans out"))]
    pub(crate) on: &'static dyn Executor,
    /// Plan and simulate every rank, where ranks of a large job that are alike would be planned and simulated once.
    #[arg(long)]
    pub(crate) unfolded: bool,
    /// On `threads` and `mpi`: leave out checksums and the comparison of what is received with what was sent.
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    /// Memory that a run may take, for instance `4 GiB`; a larger one is refused before it starts [default: what the system could
    /// give].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) memory: Option<u64>,
    /// Print the rows as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchGpuArgs {
    /// Safetensors files, of which the values of these types are repeated [default: synthetic values].
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Codecs, separated by commas [default: all that have kernels for one of the types].
    #[arg(long, value_name = "SPEC,...")]
    pub(crate) codec: Option<Specs>,
    /// Types of values, separated by commas: BF16, F16, F32, F8_E4M3, F8_E5M2.
    #[arg(long = "type", value_name = "TYPE,...", value_delimiter = ',', default_value = "BF16",
          value_parser = crate::commands::bench_gpu::value_type)]
    pub(crate) types: Vec<DType>,
    /// Layouts of frames, separated by commas: split, compact.
    #[arg(long, value_name = "LAYOUT,...", value_delimiter = ',', default_value = "split", value_parser = crate::commands::bench::layout)]
    pub(crate) layout: Vec<Layout>,
    /// The smallest size, in bytes of values; the next ones are four times as large.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 10)]
    pub(crate) least: u64,
    /// The largest size.
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
    pub(crate) most: u64,
    /// Launches take turns among so many bytes of values: more than the caches of the GPU hold.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) rotate: u64,
    /// Milliseconds of each of the rounds of which the median counts.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub(crate) round_ms: u32,
    /// Milliseconds of launches in front of each measurement: idle GPUs have low clocks.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub(crate) warm_up_ms: u32,
    /// Only compare frames of odd lengths, noise and all bit patterns with the CPU's.
    #[arg(long)]
    pub(crate) compare_only: bool,
    /// Leave out sums of BF16 values.
    #[arg(long)]
    pub(crate) no_sums: bool,
    /// Seed of the noise that is compared with the CPU.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of the GPU.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: usize,
    /// Print the rows as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each result as a line of JSON as soon as it is there, and at the end one with what they have in common.
    #[arg(long, conflicts_with = "json")]
    pub(crate) json_lines: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchCodecArgs {
    /// Safetensors files [default: 256 MiB of synthetic BF16 values].
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Codecs, separated by commas [default: all, zstd and lz4].
    #[arg(long, value_name = "SPEC,...")]
    pub(crate) codec: Option<Contenders>,
    /// Measure the codec of this table as well, with frames that name the table; may be given several times. `calibrate table` trains tables.
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Vec<PathBuf>,
    /// The same tensors as they were before, a safetensors file or a folder of them: adds `delta+rans` and `delta+tiered`, which code
    /// differences from these.
    #[arg(long, value_name = "FILE|DIR", requires = "files")]
    pub(crate) base: Option<PathBuf>,
    /// Threads, at most 1024; several numbers are measured one after the other.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,
    /// Layout of frames: compact or split.
    #[arg(long, value_name = "LAYOUT", default_value = "compact", value_parser = crate::commands::bench::layout)]
    pub(crate) layout: Layout,
    /// Pages of the buffers, separated by commas: small (of 4 KiB mostly), or huge, transparent huge pages of Linux.
    #[arg(long, value_name = "PAGES,...", value_delimiter = ',', default_value = "small",
        value_parser = crate::commands::bench::pages_named)]
    pub(crate) pages: Vec<Pages>,
    /// Print the rows as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}
