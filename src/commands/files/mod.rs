//! `zipwire compress`, `decompress`, `verify`, `cat` and `ls`: model files.
mod base;
pub(crate) mod compress;
mod plan;
pub(crate) mod read;

use std::io::{self, BufReader, Read, Write, stdin, stdout};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use zipwire::codec::Spec;
use zipwire::models::file::{Below, Damage, FileError, Model, Output, Watch};
use zipwire::scenarios::spec_help;
use zipwire::{Cancel, with_help};

use super::{print, print_json};
use crate::cli::WorkArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(super) use self::base::{BaseFiles, missing_base};

/// Ending in front of that of safetensors in the names of compressed safetensors files, and ending of other compressed files.
const MARK: &str = "zw";
const SAFETENSORS: &str = "safetensors";
/// Ending of ZipNN's files. Such a file has a name to be restored to, so that its content is what is refused.
const ZNN: &str = "znn";
/// Memory that the program takes by itself, and each thread that codes with it: pieces of a MiB, their frames, and tables of codecs.
const OWN_MEMORY: u64 = 12 << 20;
const THREAD_MEMORY: u64 = 4 << 20;
/// Names of stdin and of stdout.
const STDIN: [&str; 3] = ["-", "/dev/stdin", "/dev/fd/0"];
const STDOUT: [&str; 3] = ["-", "/dev/stdout", "/dev/fd/1"];

/// A codec, for the parser of arguments.
pub(crate) fn spec(text: &str) -> Result<Spec, String> {
    text.parse().map_err(|error| with_help(&error, spec_help(&error)))
}

/// `A..B`.
pub(crate) fn rows(text: &str) -> Result<Range<u64>, String> {
    let (start, end) = text.split_once("..").ok_or("rows are written `A..B`, the second one left out")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("`{text}`: {error}"));
    let (start, end) = (number(start)?, number(end)?);
    if start <= end { Ok(start..end) } else { Err("the first row is behind the last".to_owned()) }
}

#[derive(Debug, Serialize)]
struct Row {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<PathBuf>,
    bytes_raw: u64,
    bytes_coded: u64,
    size_pct: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    codec: Option<String>,
    seconds: f64,
    gbps: f64,
    /// Tensors that are differences from a base, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors_from_base: Option<usize>,
    /// Tensors that are not what was compressed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Damage>,
}

/// A file that nothing was read of, and why.
#[derive(Debug, Serialize)]
struct Unread {
    file: PathBuf,
    error: String,
}

impl Row {
    fn new(
        file: &Path,
        out: Option<&Path>,
        (raw, coded): (u64, u64),
        codec: Option<&Spec>,
        begun: Instant,
    ) -> Self {
        let seconds = begun.elapsed().as_secs_f64();
        Self {
            file: file.to_owned(),
            out: out.map(Path::to_owned),
            bytes_raw: raw,
            bytes_coded: coded,
            size_pct: if raw == 0 { 100.0 } else { 100.0 * coded as f64 / raw as f64 },
            codec: codec.map(ToString::to_string),
            seconds,
            gbps: raw as f64 / 1e9 / seconds,
            tensors_from_base: None,
            damaged: Vec::new(),
        }
    }
}

/// Prints what came of files: of all together at the end, if there are several.
fn print_rows(rows: &[Row], unread: &[Unread], json: bool) -> Result<(), CliError> {
    if json {
        let files: Vec<_> =
            rows.iter().map(|row| json!(row)).chain(unread.iter().map(|file| json!(file))).collect();
        return print_json(&json!({ "files": files }));
    }
    let mut table = table::new(&["file", "out", "raw", "coded", "size", "time", "GB/s"], &[0, 1]);
    let mut add = |file: String, out: String, [raw, coded]: [u64; 2], seconds: f64| {
        table.add_row(vec![
            file,
            out,
            table::bytes(raw as f64),
            table::bytes(coded as f64),
            format!("{:.2} %", 100.0 * coded as f64 / raw.max(1) as f64),
            format!("{seconds:.2} s"),
            format!("{:.2}", raw as f64 / 1e9 / seconds),
        ]);
    };
    for row in rows {
        let sound = if row.damaged.is_empty() { "sound" } else { "damaged" };
        let out = row.out.as_ref().map_or_else(|| sound.to_owned(), |out| out.display().to_string());
        add(row.file.display().to_string(), out, [row.bytes_raw, row.bytes_coded], row.seconds);
    }
    if rows.len() > 1 {
        let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum();
        let seconds = rows.iter().map(|row| row.seconds).sum();
        let all = [sum(|row| row.bytes_raw), sum(|row| row.bytes_coded)];
        add(format!("all {}", rows.len()), String::new(), all, seconds);
    }
    print(table::text(&table) + "\n")
}

/// Does something with a file while its bytes are counted, and until the user asks to stop; then it cleans up first.
pub(crate) fn watched<T, E>(
    work: &WorkArgs,
    cancel: &Cancel,
    (file, bytes): (&Path, u64),
    run: impl FnOnce(&Watch<'_>) -> Result<T, E>,
) -> Result<T, CliError>
where
    CliError: From<E>,
{
    let _hold = cancel.hold();
    let progress = Progress::of_bytes(bytes, &file.display().to_string());
    let cancelled = || cancel.is_cancelled();
    let done = |bytes| progress.add(bytes);
    let watch = Watch { threads: threads(work)?, cancelled: &cancelled, done: &done };
    Ok(run(&watch)?)
}

/// Threads that are asked for, as far as there is memory for them.
fn threads(work: &WorkArgs) -> Result<NonZero<usize>, CliError> {
    let asked = work.threads.unwrap_or(Watch::default().threads);
    let Some(memory) = work.memory else { return Ok(asked) };
    let room = usize::try_from(memory.saturating_sub(OWN_MEMORY) / THREAD_MEMORY).unwrap_or(usize::MAX);
    match NonZero::new(room) {
        Some(room) => Ok(room.min(asked)),
        None => Err(CliError::Usage(format!(
            "`--memory` is too little for one thread\nhelp: it takes {} MiB, and {} MiB more for each further one",
            (OWN_MEMORY + THREAD_MEMORY) >> 20,
            THREAD_MEMORY >> 20
        ))),
    }
}

/// Name of the compressed file: `x.zw.safetensors` for `x.safetensors`, `x.zw` for any other `x`.
fn compressed_name(file: &Path) -> PathBuf {
    match without_ending(file, SAFETENSORS) {
        Some(plain) => with_ending(&with_ending(&plain, MARK), SAFETENSORS),
        None => with_ending(file, MARK),
    }
}

/// Name of the file before it was compressed; `None` if its name does not tell.
fn restored_name(file: &Path) -> Option<PathBuf> {
    match without_ending(file, SAFETENSORS) {
        Some(packed) => without_ending(&packed, MARK).map(|plain| with_ending(&plain, SAFETENSORS)),
        None => without_ending(file, MARK).or_else(|| without_ending(file, ZNN)),
    }
}

/// The same path with `.ending` behind its name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The same path without `.ending` behind its name; `None` if its name does not end so.
fn without_ending(path: &Path, ending: &str) -> Option<PathBuf> {
    path.extension().filter(|found| *found == ending).map(|_| path.with_extension(""))
}

/// Whether an input is standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    STDIN.iter().any(|name| path == Path::new(name))
}

/// Whether an output is standard output.
fn is_stdout(path: &Path) -> bool {
    STDOUT.iter().any(|name| path == Path::new(name))
}

/// A file of a model.
pub(super) struct ModelFile {
    pub(super) path: PathBuf,
    /// Its path in the folder that was named, if one was.
    pub(super) place: Option<PathBuf>,
}

/// Files of models: those that are named, and of folders all that are safetensors files, compressed or not, each once.
pub(super) fn models_of(paths: &[PathBuf]) -> Result<Vec<ModelFile>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(ModelFile { path: path.clone(), place: None });
            continue;
        }
        let before = files.len();
        for file in Below::of(path)?.once(path).into_iter().filter(|file| Model::list(file).is_ok()) {
            let place = file.strip_prefix(path).ok().map(Path::to_owned);
            files.push(ModelFile { path: file, place });
        }
        if files.len() == before {
            return Err(no_model(path));
        }
    }
    Ok(files)
}

fn no_model(folder: &Path) -> CliError {
    CliError::Usage(format!("folder `{}` has no safetensors file", folder.display()))
}

/// Copies to the end.
fn copy(from: impl Read, to: &mut dyn Write) -> io::Result<u64> {
    io::copy(&mut BufReader::with_capacity(1 << 20, from), to)
}

/// Writes what `write` gives from front to back: to stdout, or to a file, which appears when it is complete. If the user asks to stop, nothing is left.
fn write_out(
    out: Option<&Path>,
    force: bool,
    cancel: &Cancel,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let until_stopped = |error| if cancel.is_cancelled() { FileError::Cancelled.into() } else { error };
    let Some(path) = out.filter(|out| !is_stdout(out)) else {
        return write(&mut stdout().lock()).map_err(until_stopped);
    };
    let _hold = cancel.hold();
    let output = Output::begin(path, force)?;
    write(&mut output.file()).map_err(until_stopped)?;
    Ok(output.finish()?)
}

/// Standard input. A read fails when the user asks to stop, also while nothing comes.
struct Stdin<'a>(&'a Cancel);

impl Read for Stdin<'_> {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        /// Time after which it looks whether to stop.
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let stdin = stdin();
        loop {
            if self.0.is_cancelled() {
                return Err(io::Error::other(FileError::Cancelled));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // What the standard library has read ahead would not be waited for.
                Ok(_) => return Ok(rustix::io::read(&stdin, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.is_cancelled() {
            true => Err(io::Error::other(FileError::Cancelled)),
            false => stdin().lock().read(buffer),
        }
    }
}

/// An error of a file that is not a model's.
fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> CliError {
    let path = path.to_owned();
    move |source| FileError::Io { action, path: path.clone(), source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (plain, packed) in [
            ("a/x.safetensors", "a/x.zw.safetensors"),
            ("kv.bin", "kv.bin.zw"),
            ("x", "x.zw"),
            ("x.pt", "x.pt.zw"),
        ] {
            assert_eq!(compressed_name(Path::new(plain)), Path::new(packed));
            assert_eq!(restored_name(Path::new(packed)).as_deref(), Some(Path::new(plain)));
        }
        assert_eq!(restored_name(Path::new("x.safetensors")), None);
        assert_eq!(rows("3..7"), Ok(3..7));
        assert!(rows("7..3").is_err() && rows("7").is_err() && rows("a..b").is_err());
    }
}
