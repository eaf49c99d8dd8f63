//! `zipwire import`: profiles of real jobs, as one table of their communication.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire::models::file::{FileError, Output};
use zipwire::profiles::{
    MissingRanks, NotUsed, OpSummary, PROFILE_MARK, Profile, RankRecord, merge, read_kineto, summarise,
};
use zipwire::traces::open_input;
use zipwire::{Cancel, ExecuteError};

use super::{print, print_json};
use crate::cli::{ImportArgs, ImportCommand};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(crate) fn run(command: &ImportCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        ImportCommand::Kineto(args) => kineto(args, cancel),
    }
}

fn kineto(args: &ImportArgs, cancel: &Cancel) -> Result<(), CliError> {
    // Before minutes of reading.
    if let Some(path) = &args.out {
        refuse_foreign(path)?;
    }
    let files = files(&args.files)?;
    let mut traces = Vec::new();
    for path in &files {
        let name = path.display().to_string();
        let _span = tracing::info_span!("read trace", file = %name).entered();
        let file = open_input(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = file.map_err(|error| unreadable(path, &error))?;
        let progress = Progress::of_bytes(bytes, &name);
        let trace = read_kineto(&name, Watched { file, cancel, progress: &progress });
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled.into());
        }
        traces.push(trace.map_err(|error| CliError::Usage(error.to_string()))?);
    }
    let profile = merge(traces).map_err(|error| CliError::Usage(error.to_string()))?;
    if let Some(path) = &args.out {
        write_file(path, &profile, cancel)?;
    }
    let calls = summarise(&profile);
    if args.json {
        return print_json(&ImportReport::of(&profile, &calls));
    }
    print(text(&profile, &calls))?;
    for NotUsed { source, what, count } in &profile.not_used {
        say!("not used: {source}: {count} {what}");
    }
    profile.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(())
}

/// File that is read until the command is stopped.
struct Watched<'a> {
    file: File,
    cancel: &'a Cancel,
    progress: &'a Progress,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("it was stopped"));
        }
        let bytes = self.file.read(out)?;
        self.progress.add(bytes as u64);
        Ok(bytes)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::Usage(format!(
        "cannot read `{}`: {error}\nhelp: pass the traces of the ranks as files, or the folder that they are in",
        path.display()
    ))
}

/// Files that are named, and those of folders that are; each once.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for path in named {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let is_folder = fs::metadata(path).map_err(unreadable)?.is_dir();
        let found = if is_folder { traces_in(path).map_err(unreadable)? } else { vec![path.clone()] };
        if found.is_empty() {
            return Err(CliError::Usage(format!(
                "`{}` has no `*.json` or `*.json.gz`\nhelp: pass the folder that the profiler wrote to, or the files",
                path.display()
            )));
        }
        for file in found {
            if seen.insert(fs::canonicalize(&file).map_err(unreadable)?) {
                files.push(file);
            } else {
                say!("note: `{}` is named twice and read once", file.display());
            }
        }
    }
    Ok(files)
}

/// Traces of a folder in the order of their names; profiles that were imported before are none.
fn traces_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !(name.ends_with(".json") || name.ends_with(".json.gz")) || !path.is_file() {
            continue;
        }
        if is_profile(&path) {
            say!("note: `{}` is left out: zipwire wrote it", path.display());
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a file begins as profiles do.
fn is_profile(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = open_input(path).and_then(|file| file.take(PROFILE_MARK.len() as u64).read_to_end(&mut first));
    read.is_ok() && first == PROFILE_MARK.as_bytes()
}

fn refused(path: &Path, error: &dyn Display) -> CliError {
    CliError::Usage(format!(
        "cannot write `{}`: {error}\nhelp: choose another file, in a writable folder, with `-o`",
        path.display()
    ))
}

fn refuse_foreign(path: &Path) -> Result<(), CliError> {
    if path.exists() && !is_profile(path) {
        return Err(refused(path, &"it exists, and no import wrote it"));
    }
    Ok(())
}

/// Writes a profile, whole or not at all; over one that is there, but over nothing else.
fn write_file(path: &Path, profile: &Profile, cancel: &Cancel) -> Result<(), CliError> {
    let _hold = cancel.hold();
    refuse_foreign(path)?;
    let write = || -> Result<(), FileError> {
        let output = Output::begin(path, true)?;
        let mut file = BufWriter::new(output.file());
        let written = serde_json::to_writer(&mut file, profile).map_err(io::Error::from);
        written.and_then(|()| file.write_all(b"\n")).map_err(FileError::io("write", path))?;
        file.flush().map_err(FileError::io("write", path))?;
        drop(file);
        output.finish()
    };
    write().map_err(|error| refused(path, &error))
}

/// The JSON. Times in seconds, bandwidths in bytes per second.
#[derive(Serialize)]
struct ImportReport<'p> {
    format: &'static str,
    world_size: u32,
    ranks: Vec<RankReport<'p>>,
    ranks_missing: &'p [MissingRanks],
    ops: &'p [OpSummary],
    not_used: &'p [NotUsed],
    notes: &'p [String],
}

#[derive(Serialize)]
struct RankReport<'p> {
    rank: u32,
    source: &'p str,
    span_s: f64,
    communication_s: f64,
    exposed_s: f64,
    wait_s: f64,
    compute_s: f64,
    clock_offset_s: Option<f64>,
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl<'p> ImportReport<'p> {
    fn of(profile: &'p Profile, ops: &'p [OpSummary]) -> Self {
        let rank = |rank: &'p RankRecord| RankReport {
            rank: rank.rank,
            source: &rank.source,
            span_s: seconds(rank.span_ns),
            communication_s: seconds(rank.communication_ns),
            exposed_s: seconds(rank.exposed_ns),
            wait_s: seconds(rank.wait_ns),
            compute_s: seconds(rank.compute_ns),
            clock_offset_s: rank.clock_offset_ns.map(seconds),
        };
        Self {
            format: profile.format.name(),
            world_size: profile.world_size,
            ranks: profile.ranks.iter().map(rank).collect(),
            ranks_missing: &profile.ranks_missing,
            ops,
            not_used: &profile.not_used,
            notes: &profile.notes,
        }
    }
}

/// Tables: times by rank, then calls by operation and group.
fn text(profile: &Profile, calls: &[OpSummary]) -> String {
    let header = ["rank", "span", "compute", "communication", "exposed", "of span", "waiting", "file"];
    let mut ranks = table::new(&header, &[7]);
    for rank in &profile.ranks {
        let share = 100.0 * rank.exposed_ns as f64 / rank.span_ns.max(1) as f64;
        ranks.add_row([
            rank.rank.to_string(),
            table::seconds(seconds(rank.span_ns)),
            table::seconds(seconds(rank.compute_ns)),
            table::seconds(seconds(rank.communication_ns)),
            table::seconds(seconds(rank.exposed_ns)),
            format!("{share:.1} %"),
            table::seconds(seconds(rank.wait_ns)),
            table::shortened(&rank.source),
        ]);
    }
    let header = ["op", "group", "ranks", "calls", "bytes", "mean time", "algbw GB/s"];
    let mut ops = table::new(&header, &[0, 1]);
    for call in calls {
        let is_sized = call.calls_without_bytes < call.calls;
        ops.add_row([
            call.op.name().to_owned(),
            table::shortened(if call.group.is_empty() { "-" } else { &call.group }),
            table::or_dash(call.group_size, |ranks| ranks.to_string()),
            call.calls.to_string(),
            table::or_dash(is_sized.then_some(call.bytes), |bytes| table::bytes(bytes as f64)),
            table::seconds(call.mean_s),
            table::or_dash(call.algbw_bytes_per_s, |bandwidth| format!("{:.2}", bandwidth / 1e9)),
        ]);
    }
    let missing: u64 = profile.ranks_missing.iter().map(|range| u64::from(range.to - range.from) + 1).sum();
    format!(
        "{} of {} ranks{}\n{}\n\nCalls: the time of each is the least of its ranks\n{}\n",
        profile.ranks.len(),
        profile.world_size,
        if missing > 0 { format!(", {missing} missing") } else { String::new() },
        table::text(&ranks),
        table::text(&ops),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace with one call and something to compute.
    fn trace(rank: u32, begin_us: u32, duration_us: u32) -> String {
        format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [
            {{"cat": "kernel", "name": "gemm", "ts": 0, "dur": 40, "args": {{}}}},
            {{"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "tid": 9, "ts": {begin_us}, "dur": {duration_us},
              "args": {{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float",
              "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}}}}]}}"#
        )
    }

    fn arguments(folder: &Path, out: &str) -> ImportArgs {
        ImportArgs { files: vec![folder.to_owned()], out: Some(folder.join(out)), json: false }
    }

    #[test]
    fn tables_show_what_no_compute_covers() {
        let read = |rank, text: String| read_kineto(&format!("r{rank}.json"), text.as_bytes()).unwrap();
        let profile = merge(vec![read(0, trace(0, 20, 60)), read(1, trace(1, 60, 20))]).unwrap();
        let text = text(&profile, &summarise(&profile));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0].join(" "), "2 of 2 ranks");
        let cells = "0 80.000 us 40.000 us 60.000 us 40.000 us 50.0 % 40.000 us r0.json";
        assert_eq!(rows[2].join(" "), cells);
        assert_eq!(rows[7].join(" "), "all_reduce 0 2 1 4.0 kB 20.000 us 0.20");
    }

    #[test]
    fn a_profile_in_the_folder_of_its_traces_is_written_again_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("rank-0.json"), trace(0, 20, 60)).unwrap();
        fs::write(folder.path().join("rank-1.json"), trace(1, 60, 20)).unwrap();
        let cancel = Cancel::new();
        for _ in 0..2 {
            kineto(&arguments(folder.path(), "profile.json"), &cancel).unwrap();
        }
        assert!(is_profile(&folder.path().join("profile.json")));
        let refused = kineto(&arguments(folder.path(), "rank-0.json"), &cancel).unwrap_err();
        assert!(refused.to_string().contains("it exists, and no import wrote it"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
        assert_eq!(fs::read_to_string(folder.path().join("rank-0.json")).unwrap(), trace(0, 20, 60));
    }

    #[test]
    fn a_folder_without_traces_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = kineto(&arguments(folder.path(), "profile.json"), &Cancel::new()).unwrap_err();
        assert!(refused.to_string().contains("has no `*.json` or `*.json.gz`"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
