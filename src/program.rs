//! The command line. Results go to stdout; progress, hints and errors to stderr.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches;
use zipwire::traces::escaped;
use zipwire::{Cancel, simd_from_environment};

use crate::cli::{self, Cli, Command};
use crate::error::CliError;
use crate::profile::Profile;
use crate::{commands, style, table, threads};

/// The program `zipwire`: reads the arguments of this process, runs the command that they name, and gives its exit code.
///
/// A program that registers codecs of its own ([`codec::register`](crate::codec::register)) and then calls this has all commands with them. It is best called before
/// other threads are started: the environment variables by which drivers of GPUs serve many streams at once are set only while the process has one thread.
pub fn main() -> ExitCode {
    ExitCode::from(run_command(std::env::args_os().collect()))
}

/// Runs the command of `args`, as [`main`] does, in a process that is started by other words than the path of its executable: `program` and then `args`
/// start it again, as the executors of processes do. Returns the exit code. To be called once per process.
pub fn run_as(program: Vec<OsString>, args: Vec<OsString>) -> u8 {
    zipwire::launch::set_program(program, args.clone());
    let name = OsString::from(env!("CARGO_PKG_NAME"));
    run_command([name].into_iter().chain(args).collect())
}

fn run_command(words: Vec<OsString>) -> u8 {
    if is_only_thread() {
        #[expect(unsafe_code, reason = "the environment is changed while no other thread can read it")]
        // SAFETY: the process has no thread but this one.
        unsafe {
            zipwire::engine::cuda::kernels::take_all_queues();
            zipwire::engine::nccl::library::share_gpus();
        }
    }
    zipwire::paper_codecs::register();
    let is_plain = |word: &OsString| matches!(escaped(&word.to_string_lossy()), Cow::Borrowed(_));
    let are_plain = words.iter().all(is_plain);
    let parsed =
        cli::command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.unwrap_or_else(|error| refuse(&error, are_plain));
    // Launchers give ranks terminals that nobody sits at.
    let is_rank = zipwire::launch::launched().is_some();
    style::set_plain(is_rank);
    table::set_wide(cli.wide || is_rank);
    let profile = match cli.profile.as_deref().map(Profile::start).transpose() {
        Ok(profile) => profile,
        Err(error) => return report(&error),
    };
    let result = run(&cli.command, profile.is_some());
    // Also when the command has failed or was stopped: then it is of most use.
    let profiled = profile.map_or(Ok(()), Profile::finish);
    match (result, profiled) {
        (Ok(()), Ok(())) => 0,
        (Err(error), Ok(())) | (Ok(()), Err(error)) => report(&error),
        (Err(error), Err(lost)) => {
            report(&lost);
            report(&error)
        }
    }
}

/// Whether the process has no thread but this one; false where the system does not say.
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Ends with what is wrong with the arguments, or with the help that they ask for.
fn refuse(error: &clap::Error, are_plain: bool) -> ! {
    if error.use_stderr() && !are_plain {
        // Names of files are arguments, too: without a style of its own, all of the message can be escaped.
        say!("{}", error.render().to_string().trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Writes a line to stderr, with its label in colour if stderr shows any.
pub(crate) fn say_painted(line: &str) {
    say_styled(&style::paint(&table::fitted_to_stderr(line), style::is_coloured(&std::io::stderr())));
}

/// Writes a line to stderr as it is, with escapes for a terminal if it has any.
pub(crate) fn say_styled(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn run(command: &Command, is_profiled: bool) -> Result<(), CliError> {
    simd_from_environment()?;
    let cancel = Cancel::on_ctrl_c()?;
    large_files_are_errors()?;
    if command.uses_pool() {
        threads::start_pool(is_other_rank())?;
    }
    // A profile is of most use when the command was stopped.
    let _hold = is_profiled.then(|| cancel.hold());
    let _span = tracing::info_span!("command", name = %command.name()).entered();
    match command {
        Command::Run(args) => commands::run::run(args, &cancel),
        Command::Validate(args) => commands::validate::run(args, &cancel),
        Command::Plan(args) => commands::plan::run(args, &cancel),
        Command::Diff(args) => commands::diff::run(args, &cancel),
        Command::Report(args) => commands::report::run(args, &cancel),
        Command::Plot(args) => commands::plot::run(args, &cancel),
        Command::Reproduce(args) => commands::reproduce::run(args, &cancel),
        Command::Inspect(args) => commands::inspect::run(args, &cancel),
        Command::Compress(args) => commands::files::compress::run(args, &cancel),
        Command::Decompress(args) => commands::files::compress::run_decompress(args, &cancel),
        Command::Verify(args) => commands::files::compress::run_verify(args, &cancel),
        Command::Cat(args) => commands::files::read::cat(args, &cancel),
        Command::Ls(args) => commands::files::read::ls(args),
        Command::Store(command) => commands::store::run(command, &cancel),
        Command::Bench(command) => commands::bench::run(command, &cancel),
        Command::Calibrate(command) => commands::calibrate::run(command, &cancel),
        Command::Import(command) => commands::import::run(command, &cancel),
        Command::Advise(args) => commands::advise::run(args, &cancel),
        Command::Kernels(command) => commands::kernels::run(command, &cancel),
        Command::Scenario(command) => commands::scenario::run(command, &cancel),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Completions(args) => commands::help::completions(args),
        Command::Help(args) => commands::help::run(args),
    }
}

/// Whether this process is a rank that follows another one: it codes on one core.
fn is_other_rank() -> bool {
    zipwire::launch::launched().is_some_and(|launched| launched.rank > 0)
}

/// A file that grows beyond `ulimit -f` is an error of the write, after which this program cleans up, and no signal that ends it.
fn large_files_are_errors() -> Result<(), CliError> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Default::default())
        .map_err(CliError::FileSizeSignal)?;
    Ok(())
}

/// Says why a command has failed; gives its exit code.
fn report(error: &CliError) -> u8 {
    error.say();
    error.exit_code()
}
