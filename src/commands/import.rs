//! `zipwire import`: profiles of real jobs, as one table of their communication.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire::profiles::{
    Format, MissingRanks, NotUsed, OpSummary, PROFILE_MARK, Profile, ProfileError, RankRecord, RankTrace,
    Timing, merge, place, read_chakra, read_flight, read_inspector, read_kineto, read_shim, summarise,
};
use zipwire::traces::open_input;
use zipwire::{Cancel, ExecuteError};

use super::marked::Marked;
use super::{print, print_json};
use crate::cli::{ImportArgs, ImportCommand};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

const PROFILE: Marked = Marked { mark: PROFILE_MARK.as_bytes(), at: 0, command: "import" };

pub(crate) fn run(command: &ImportCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        ImportCommand::Kineto(args) => import(Format::Kineto, args, cancel),
        ImportCommand::Flight(args) => import(Format::Flight, args, cancel),
        ImportCommand::Inspector(args) => import(Format::Inspector, args, cancel),
        ImportCommand::Chakra(args) => import(Format::Chakra, args, cancel),
        ImportCommand::Shim(args) => import(Format::Shim, args, cancel),
    }
}

fn import(format: Format, args: &ImportArgs, cancel: &Cancel) -> Result<(), CliError> {
    // Before minutes of reading.
    if let Some(path) = &args.out {
        PROFILE.refuse_others(path)?;
    }
    let files = files(format, &args.files)?;
    let profile = merge(read(format, &files, cancel)?).map_err(|error| refused(&error))?;
    if let Some(path) = &args.out {
        PROFILE.write(path, cancel, |file| {
            serde_json::to_writer(&mut *file, &profile)?;
            file.write_all(b"\n")
        })?;
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
    if let Some(path) = &args.out {
        say!("the profile is in {}: try `zipwire advise {0}`", path.display());
    }
    Ok(())
}

fn refused(error: &ProfileError) -> CliError {
    CliError::Usage(error.to_string())
}

/// Traces of the ranks that files are of.
fn read(format: Format, files: &[PathBuf], cancel: &Cancel) -> Result<Vec<RankTrace>, CliError> {
    match format {
        Format::Kineto => each(files, cancel, |name, file| read_kineto(name, file)),
        Format::Flight => each(files, cancel, |name, file| read_flight(name, file)),
        Format::Chakra => each(files, cancel, |name, file| read_chakra(name, file)),
        Format::Inspector => {
            let logs = each(files, cancel, |name, file| read_inspector(name, file))?;
            place(logs.into_iter().flatten().collect()).map_err(|error| refused(&error))
        }
        Format::Shim => {
            place(each(files, cancel, |name, file| read_shim(name, file))?).map_err(|error| refused(&error))
        }
    }
}

/// Reads files one after the other.
fn each<T>(
    files: &[PathBuf],
    cancel: &Cancel,
    read: impl Fn(&str, Watched<'_>) -> Result<T, ProfileError>,
) -> Result<Vec<T>, CliError> {
    let mut all = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let _span = tracing::info_span!("read trace", file = %name).entered();
        let file = open_input(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = file.map_err(|error| unreadable(path, &error))?;
        let progress = Progress::of_bytes(bytes, &name);
        let found = read(&name, Watched { file, cancel, progress: &progress });
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled.into());
        }
        all.push(found.map_err(|error| refused(&error))?);
    }
    Ok(all)
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

/// Endings of the names of files that are read in a folder, with `.gz` behind them as well; none if all are.
fn endings(format: Format) -> &'static [&'static str] {
    match format {
        Format::Kineto => &[".json"],
        // A prefix of the user's, and the rank.
        Format::Flight => &[],
        Format::Inspector => &[".log", ".jsonl", ".json"],
        Format::Chakra => &[".et"],
        Format::Shim => &[".jsonl"],
    }
}

/// Files that are named, and those of folders that are; each once.
fn files(format: Format, named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for path in named {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let is_folder = fs::metadata(path).map_err(unreadable)?.is_dir();
        let found = if is_folder { traces_in(format, path).map_err(unreadable)? } else { vec![path.clone()] };
        if found.is_empty() {
            let wanted: Vec<String> =
                endings(format).iter().map(|ending| format!("`*{ending}` or `*{ending}.gz`")).collect();
            let wanted = if wanted.is_empty() { "files to read".to_owned() } else { wanted.join(" or ") };
            return Err(CliError::Usage(format!(
                "`{}` has no {wanted}\nhelp: pass the folder that the profiler wrote to, or the files",
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
fn traces_in(format: Format, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let endings = endings(format);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let is_wanted = endings.is_empty() || endings.iter().any(|ending| plain.ends_with(ending));
        if !is_wanted || name.starts_with('.') || !path.is_file() {
            continue;
        }
        if PROFILE.is(&path) {
            say!("note: `{}` is left out: zipwire wrote it", path.display());
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The JSON. Times in seconds, bandwidths in bytes per second.
#[derive(Serialize)]
struct ImportReport<'p> {
    format: &'static str,
    timing: Timing,
    is_compute_known: bool,
    gpu: Option<&'p str>,
    world_size: u32,
    ranks: Vec<RankReport<'p>>,
    ranks_missing: &'p [MissingRanks],
    ops: &'p [OpSummary],
    not_used: &'p [NotUsed],
    notes: &'p [String],
}

/// Times of a rank in seconds, none where the format does not say them.
#[derive(Serialize)]
struct RankReport<'p> {
    rank: u32,
    source: &'p str,
    span_s: Option<f64>,
    communication_s: Option<f64>,
    exposed_s: Option<f64>,
    wait_s: Option<f64>,
    compute_s: Option<f64>,
    clock_offset_s: Option<f64>,
}

impl<'p> RankReport<'p> {
    fn of(profile: &Profile, rank: &'p RankRecord) -> Self {
        let timing = profile.timing;
        let is_timeline = timing == Timing::Kernels;
        let has_span = is_timeline || timing == Timing::Issued;
        let only = |is_known: bool, ns: i64| is_known.then(|| seconds(ns));
        Self {
            rank: rank.rank,
            source: &rank.source,
            span_s: only(has_span, rank.span_ns),
            communication_s: only(timing.has_durations(), rank.communication_ns),
            exposed_s: only(is_timeline && profile.is_compute_known, rank.exposed_ns),
            wait_s: only(timing.has_durations(), rank.wait_ns),
            compute_s: only(profile.is_compute_known, rank.compute_ns),
            clock_offset_s: rank.clock_offset_ns.filter(|_| has_span).map(seconds),
        }
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl<'p> ImportReport<'p> {
    fn of(profile: &'p Profile, ops: &'p [OpSummary]) -> Self {
        Self {
            format: profile.format.name(),
            timing: profile.timing,
            is_compute_known: profile.is_compute_known,
            gpu: profile.gpu.as_deref(),
            world_size: profile.world_size,
            ranks: profile.ranks.iter().map(|rank| RankReport::of(profile, rank)).collect(),
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
    for rank in profile.ranks.iter().map(|rank| RankReport::of(profile, rank)) {
        let share = rank.exposed_s.zip(rank.span_s).map(|(exposed, span)| 100.0 * exposed / span.max(1e-9));
        let time = |time: Option<f64>| table::or_dash(time, table::seconds);
        ranks.add_row([
            rank.rank.to_string(),
            time(rank.span_s),
            time(rank.compute_s),
            time(rank.communication_s),
            time(rank.exposed_s),
            table::or_dash(share, |share| format!("{share:.1} %")),
            time(rank.wait_s),
            rank.source.to_owned(),
        ]);
    }
    let header = ["op", "group", "ranks", "calls", "bytes", "mean time", "algbw GB/s"];
    let mut ops = table::new(&header, &[0, 1]);
    let has_durations = profile.timing.has_durations();
    for call in calls {
        let is_sized = call.calls_without_bytes < call.calls;
        let bandwidth = call.algbw_bytes_per_s.filter(|_| has_durations);
        ops.add_row([
            call.op.name().to_owned(),
            if call.group.is_empty() { "-".to_owned() } else { call.group.clone() },
            table::or_dash(call.group_size, |ranks| ranks.to_string()),
            call.calls.to_string(),
            table::or_dash(is_sized.then_some(call.bytes), |bytes| table::bytes(bytes as f64)),
            table::or_dash(has_durations.then_some(call.mean_s), table::seconds),
            table::or_dash(bandwidth, |bandwidth| format!("{:.2}", bandwidth / 1e9)),
        ]);
    }
    let missing: u64 = profile.ranks_missing.iter().map(|range| u64::from(range.to - range.from) + 1).sum();
    format!(
        "{} of {} ranks{}\n{}\n\n{}\n{}\n",
        profile.ranks.len(),
        profile.world_size,
        if missing > 0 { format!(", {missing} missing") } else { String::new() },
        table::text(&ranks),
        if has_durations {
            "Calls: the time of each is the least of its ranks"
        } else {
            "Calls: nothing says how long they took"
        },
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
        let text = crate::style::paint(&text(&profile, &summarise(&profile)), false);
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
            import(Format::Kineto, &arguments(folder.path(), "profile.json"), &cancel).unwrap();
        }
        assert!(PROFILE.is(&folder.path().join("profile.json")));
        let refused = import(Format::Kineto, &arguments(folder.path(), "rank-0.json"), &cancel).unwrap_err();
        assert!(
            refused.to_string().contains("it exists, and `zipwire import` did not write it"),
            "{refused}"
        );
        assert_eq!(refused.exit_code(), 2);
        assert_eq!(fs::read_to_string(folder.path().join("rank-0.json")).unwrap(), trace(0, 20, 60));
    }

    #[test]
    fn a_folder_without_traces_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused =
            import(Format::Kineto, &arguments(folder.path(), "profile.json"), &Cancel::new()).unwrap_err();
        assert!(refused.to_string().contains("has no `*.json` or `*.json.gz`"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_format_without_times_shows_none() {
        let journal = |rank: u32| {
            r#"{"kind":"start","zipwire_nccl":1,"t":5,"pid":1,"rank":R}
{"kind":"op","t":5.5,"op":"all_reduce","count":8,"bytes":16,"dtype":"bfloat16","comm":"01","rank":R,"nranks":2,"stream":"0x1"}
{"kind":"op","t":5.75,"op":"all_reduce","count":8,"bytes":16,"dtype":"bfloat16","comm":"01","rank":R,"nranks":2,"stream":"0x1"}
{"kind":"end","lost":0}
"#
            .replace('R', &rank.to_string())
        };
        let read = |rank| read_shim(&format!("r{rank}.jsonl"), journal(rank).as_bytes()).unwrap();
        let profile = merge(place(vec![read(0), read(1)]).unwrap()).unwrap();
        let calls = summarise(&profile);
        let rows: Vec<String> = crate::style::paint(&text(&profile, &calls), false)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows[2], "0 250.000 ms - - - - - r0.jsonl");
        assert_eq!(rows[7], "all_reduce 01 2 2 32 B - -");
        let json = serde_json::to_value(ImportReport::of(&profile, &calls)).unwrap();
        assert_eq!(
            (&json["timing"], &json["ranks"][0]["exposed_s"]),
            (&"issued".into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn folders_give_the_files_that_a_format_has() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.0.et", "a.1.et.gz", "b.jsonl", "c.log", "d.json", "nccl_trace_rank_0", ".hidden"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = |format| -> Vec<String> {
            let files = traces_in(format, folder.path()).unwrap();
            files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found(Format::Chakra), ["a.0.et", "a.1.et.gz"]);
        assert_eq!(found(Format::Shim), ["b.jsonl"]);
        assert_eq!(found(Format::Inspector), ["b.jsonl", "c.log", "d.json"]);
        assert_eq!(found(Format::Kineto), ["d.json"]);
        assert_eq!(found(Format::Flight).len(), 6);
    }
}
