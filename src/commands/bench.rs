//! `zipwire bench`: measurements side by side.

use std::path::Path;

use zipwire::bench::{CodecRow, Contender, Load, LoadTensor, Pages, Settings, bench_codec};
use zipwire::codec::{DType, Layout, SpecError};
use zipwire::payload::Rows;
use zipwire::traces::{TensorFile, read_table};
use zipwire::{Cancel, ExecuteError, with_help};

use super::files::{self, BaseFiles};
use super::{distinct, print, print_json};
use crate::cli::{BenchCodecArgs, BenchCommand};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

/// Tensors below this say more about headers and caches than about a codec.
const LEAST_BYTES: u64 = 8 * 1024;
/// Bytes of the synthetic values: more than any cache holds.
const SYNTHETIC_BYTES: usize = 256 << 20;
const SYNTHETIC_STD: f64 = 0.02;
const SYNTHETIC_SEED: u64 = 1;

pub(crate) fn run(command: &BenchCommand, cancel: &Cancel) -> Result<(), CliError> {
    // Scenarios that are measured are in a temporary folder.
    let _hold = cancel.hold();
    match command {
        BenchCommand::Codec(args) => codec(args, cancel),
        BenchCommand::Collective(args) => super::bench_collective::run(args, cancel),
        BenchCommand::Gpu(args) => super::bench_gpu::run(args, cancel),
        BenchCommand::Held(args) => super::bench_held::run(args, cancel),
        BenchCommand::Sim(args) => super::bench_sim::run(args, cancel),
    }
}

fn codec(args: &BenchCodecArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut contenders = match &args.codec {
        Some(codecs) => codecs.clone().0,
        None => Contender::all(args.base.is_some()),
    };
    if let Some(codec) = contenders.iter().find(|codec| codec.takes_base() && args.base.is_none()) {
        return Err(files::missing_base(codec));
    }
    let base = args.base.as_deref().map(BaseFiles::open).transpose()?;
    if let Some(codec) = contenders.iter().find(|codec| codec.lacks_table()) {
        return Err(table_missing(codec));
    }
    for path in &args.table {
        contenders.push(Contender::Own(read_table(path)?.spec()));
    }
    let mut loads = Vec::new();
    for path in &args.files {
        loads.extend(read(path, base.as_ref())?);
    }
    if args.files.is_empty() {
        loads.push(synthetic());
    }
    let contenders = distinct(contenders);
    let threads = distinct(args.threads.iter().copied());
    let pages = distinct(args.pages.iter().copied());
    for load in &loads {
        for contender in contenders.iter().filter(|contender| !contender.supports(args.layout, load.dtype)) {
            let (dtype, layout) = (load.dtype, args.layout);
            say!("{}: codec `{contender}` does not code {dtype} in layout {layout}, left out", load.file);
        }
    }
    if !loads.iter().any(|load| contenders.iter().any(|codec| codec.supports(args.layout, load.dtype))) {
        let message =
            "there is nothing to measure\nhelp: name codecs that know the values and have the layout";
        return Err(CliError::Usage(message.to_owned()));
    }
    let progress = Progress::new(loads.len() * threads.len() * pages.len());
    let mut rows: Vec<CodecRow> = Vec::new();
    for load in &loads {
        for &threads in &threads {
            for &pages in &pages {
                let (file, dtype, name) = (&load.file, load.dtype, pages.name());
                progress.begin(&format!("{file}, {dtype}, {threads} threads, {name} pages"));
                let settings = Settings { layout: args.layout, threads: threads.into(), pages };
                rows.extend(bench_codec(load, &contenders, settings, cancel)?);
                progress.end();
            }
        }
    }
    drop(progress);
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    if let Some(note) = missing_huge_pages(&rows) {
        say!("{note}");
    }
    if args.json { print_json(&report(&rows)) } else { print(text(&rows) + "\n") }
}

/// Error for a codec that names an unknown table.
fn table_missing(codec: &Contender) -> CliError {
    CliError::Usage(format!(
        "`{codec}` names a table and does not say what is in it\nhelp: name the file alone, by `--table FILE`: it says its codec as well"
    ))
}

fn report(rows: &[CodecRow]) -> serde_json::Value {
    let page_bytes = |pages: Pages| (pages.name().to_owned(), pages.bytes().into());
    let page_bytes: serde_json::Map<_, _> = Pages::ALL.into_iter().map(page_bytes).collect();
    serde_json::json!({ "page_bytes": page_bytes, "rows": rows })
}

/// Warning if rows with huge pages had fewer than they asked for.
fn missing_huge_pages(rows: &[CodecRow]) -> Option<String> {
    let huge: Vec<&CodecRow> = rows.iter().filter(|row| row.pages == Pages::Huge).collect();
    let fewer = huge.iter().filter(|row| row.huge_pages_pct.is_none_or(|pct| pct < 100.0)).count();
    (fewer > 0).then(|| {
        format!(
            "{fewer} of {} rows with huge pages had fewer than were asked for, or the system does not say how many: the kernel gives them \
             where memory is free in one piece, and `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise` or `always`",
            huge.len()
        )
    })
}

/// Tensors of a file by type, for the types that codecs know. Tensors of a few bytes are left out.
fn read(path: &Path, base: Option<&BaseFiles>) -> Result<Vec<Load>, CliError> {
    let file = TensorFile::open(path)?;
    let mut loads: Vec<Load> = Vec::new();
    for tensor in file.tensors() {
        let Some(dtype) = DType::from_name(&tensor.dtype) else { continue };
        if tensor.bytes() < LEAST_BYTES {
            continue;
        }
        let row = tensor.shape.last().copied().unwrap_or(0);
        let values = file.read(tensor)?;
        let base = base.map(|base| base.values(tensor, path, None)).transpose()?.flatten();
        let tensor = LoadTensor { row, values, base: base.map(|(_, before)| before) };
        match loads.iter_mut().find(|load| load.dtype == dtype) {
            Some(load) => load.tensors.push(tensor),
            None => loads.push(Load { file: path.display().to_string(), dtype, tensors: vec![tensor] }),
        }
    }
    if loads.is_empty() {
        say!("{}: no floating-point tensor of 8 KiB or more", path.display());
    }
    Ok(loads)
}

fn synthetic() -> Load {
    let rows = Rows::gaussian(SYNTHETIC_STD, SYNTHETIC_SEED);
    let drawn: Vec<u8> = (0..rows.row_count()).flat_map(|row| rows.row(row).to_vec()).collect();
    let values = drawn.iter().copied().cycle().take(SYNTHETIC_BYTES).collect();
    let file = format!("synthetic N(0, {SYNTHETIC_STD}^2)");
    Load { file, dtype: DType::Bf16, tensors: vec![LoadTensor { row: 0, values, base: None }] }
}

fn text(rows: &[CodecRow]) -> String {
    let header =
        ["file", "type", "codec", "layout", "threads", "pages", "raw", "size", "encode", "decode", "memcpy"];
    let mut lines = table::new(&header, &[0, 1, 2, 3, 5]);
    let files = short_paths(rows.iter().map(|row| row.file.as_str()));
    for (row, file) in rows.iter().zip(files) {
        let speed = |gbps: f64| format!("{gbps:.2} GB/s");
        lines.add_row(vec![
            file,
            row.dtype.to_owned(),
            row.codec.clone(),
            row.layout.to_owned(),
            row.threads.to_string(),
            pages(row),
            table::bytes(row.bytes_raw as f64),
            format!("{:.2} %", row.size_pct),
            speed(row.encode_gbps),
            speed(row.decode_gbps),
            speed(row.memcpy_gbps),
        ]);
    }
    let simd = rows.first().map_or_else(String::new, |row| format!("SIMD level {}, ", row.simd));
    let all = Pages::ALL.into_iter().filter(|&pages| rows.iter().any(|row| row.pages == pages));
    let sizes: Vec<String> =
        all.map(|pages| format!("{} pages of {} KiB, ", pages.name(), pages.bytes() / 1024)).collect();
    let sizes = sizes.concat();
    format!("{simd}{sizes}every row decoded to what was encoded\n\n{}", table::text(&lines))
}

/// The pages of a row, and how many huge ones there really were if not all.
fn pages(row: &CodecRow) -> String {
    match (row.pages, row.huge_pages_pct) {
        (Pages::Small, None | Some(0.0)) => "small".to_owned(),
        (Pages::Huge, Some(100.0)) => "huge".to_owned(),
        (pages, None) => format!("{}, unchecked", pages.name()),
        (pages, Some(pct)) => format!("{}, {pct:.1} % huge", pages.name()),
    }
}

/// Each file by its name, with as many of its folders as tell it apart from the others, and cut where that is too long.
fn short_paths<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let files: Vec<&str> = files.collect();
    let ending = |file: &str, parts: usize| {
        let all: Vec<&str> = file.split('/').collect();
        all[all.len().saturating_sub(parts)..].join("/")
    };
    let short = |&file: &&str| {
        let depth = file.split('/').count();
        let is_unique = |parts: &usize| {
            files.iter().all(|&other| other == file || ending(other, *parts) != ending(file, *parts))
        };
        let parts = (1..=depth).find(is_unique).unwrap_or(depth);
        ending(file, parts)
    };
    files.iter().map(short).collect()
}

/// The codecs of one argument, separated by commas; options of a spec have commas between them, too.
#[derive(Clone, Debug)]
pub(crate) struct Contenders(pub(crate) Vec<Contender>);

impl std::str::FromStr for Contenders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let contenders = specs(text).iter().map(|spec| spec.parse()).collect::<Result<_, SpecError>>();
        contenders.map(Self).map_err(|error| with_help(&error, error.help()))
    }
}

/// Splits `raw,window7:scale=std,zstd` into specs: what has a key and no name continues the spec before it.
pub(crate) fn specs(text: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for part in text.split(',') {
        match specs.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => *last = format!("{last},{part}"),
            _ => specs.push(part.to_owned()),
        }
    }
    specs
}

pub(crate) fn layout(name: &str) -> Result<Layout, String> {
    Layout::ALL.into_iter().find(|layout| layout.name() == name).ok_or_else(|| {
        format!("unknown layout `{name}`; expected one of {}", Layout::ALL.map(Layout::name).join(", "))
    })
}

/// The pages of this name, if the system can be asked for them.
pub(crate) fn pages_named(name: &str) -> Result<Pages, String> {
    match Pages::ALL.into_iter().find(|pages| pages.name() == name) {
        None => Err(format!("unknown pages `{name}`; expected {}", Pages::ALL.map(Pages::name).join(" or "))),
        Some(pages) if pages.can_be_asked_for() => Ok(pages),
        Some(_) => Err("huge pages can be asked of Linux only".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_what_tells_them_apart() {
        let short = |files: &[&str]| short_paths(files.iter().copied());
        assert_eq!(short(&["/a/b/x.safetensors", "/a/b/x.safetensors"]), ["x.safetensors"; 2]);
        assert_eq!(short(&["/a/b/x", "/a/c/x", "/a/c/y"]), ["b/x", "c/x", "y"]);
        assert_eq!(short(&["x", "b/x"]), ["x", "b/x"]);
        assert_eq!(short(&["synthetic N(0, 0.02^2)"]), ["synthetic N(0, 0.02^2)"]);
    }

    #[test]
    fn commas_separate_specs_and_their_options() {
        assert_eq!(specs("raw,window7:scale=std,zstd"), ["raw", "window7:scale=std", "zstd"]);
        assert_eq!(specs("a:x=1,y=2,b"), ["a:x=1,y=2", "b"]);
    }
}
