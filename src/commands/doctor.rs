//! `zipwire doctor`: what this machine offers, and what to install for the rest.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use zipwire::codec::{SimdLevel, simd_level, simd_levels};
use zipwire::kernels::{Device, cache, compiler};
use zipwire::{IS_STATIC, executors, mpi};

use super::{print, print_json};
use crate::cli::DoctorArgs;
use crate::error::CliError;
use crate::{style, table};

/// One thing that the program can use.
#[derive(Debug, Serialize)]
struct Finding {
    /// Name of the thing.
    part: &'static str,
    /// Whether it is there.
    found: bool,
    /// Its version, size or path; or why it is not there.
    what: String,
    /// Remedy where it is not there.
    help: Option<String>,
}

impl Finding {
    fn new(part: &'static str, what: impl Into<String>) -> Self {
        Self { part, found: true, what: what.into(), help: None }
    }

    /// A result, or an error whose text ends in a line of help.
    fn of(part: &'static str, result: Result<String, String>) -> Self {
        result.map_or_else(
            |error| {
                let (what, help) = error.split_once("\nhelp: ").unwrap_or((&error, ""));
                let help = (!help.is_empty()).then(|| help.to_owned());
                Self { part, found: false, what: what.to_owned(), help }
            },
            |what| Self::new(part, what),
        )
    }
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let mut findings = vec![
        program(),
        processor(),
        simd(),
        memory(),
        mpi_library(),
        gpus(),
        nvrtc(),
        kernel_cache(),
        nccl(),
    ];
    findings.extend(executors::ALL.iter().map(|executor| {
        let part = executor.name();
        let missing = executor.missing();
        let (found, what) = (missing.is_none(), executor.summary());
        // The library's own row says why.
        Finding { part, found, what: what.to_owned(), help: None }
    }));
    if args.json {
        return print_json(&findings);
    }
    let (parts, on) = findings.split_at(findings.len() - executors::ALL.len());
    let mut text = format!("{}\n\n", table::text(&rows("part", parts)));
    text += &format!("{}\n", table::text(&rows("run --on", on)));
    let missing: Vec<&Finding> = parts.iter().filter(|finding| finding.help.is_some()).collect();
    for Finding { part, help, .. } in missing {
        let help = help.as_deref().unwrap_or_default().replace('\n', "\n  ");
        text += &format!("\n{}: {help}\n", style::BOLD.around(part));
    }
    print(text)
}

fn rows(title: &str, findings: &[Finding]) -> table::Table {
    let mut rows = table::new(&[title, "here", "what"], &[0, 1, 2]);
    for finding in findings {
        rows.add_row([
            finding.part,
            if finding.found { "yes" } else { "no" },
            &finding.what.replace('\n', " "),
        ]);
    }
    rows.with_words()
}

fn program() -> Finding {
    let kind = if IS_STATIC {
        "static: it loads no library, so no MPI, CUDA or NCCL"
    } else {
        "loads MPI, CUDA and NCCL when they are used"
    };
    Finding::new("zipwire", format!("{}, {kind}", env!("CARGO_PKG_VERSION")))
}

fn processor() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let name = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    Finding::new("processor", format!("{name}, {count} threads"))
}

/// The value of the first line of a file that begins with a name and a colon.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

fn simd() -> Finding {
    let levels: Vec<&str> = simd_levels().into_iter().map(SimdLevel::name).collect();
    Finding::new("SIMD", format!("{}; used: {}", levels.join(", "), simd_level()))
}

fn memory() -> Finding {
    let bytes = |name| {
        let text = field("/proc/meminfo", name)?;
        let kibibytes: f64 = text.split_whitespace().next()?.parse().ok()?;
        Some(table::bytes(1024.0 * kibibytes))
    };
    let total = bytes("MemTotal").zip(bytes("MemAvailable"));
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    let huge = huge.as_deref().and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()));
    let huge = huge.map_or_else(String::new, |huge| format!("; transparent huge pages: {huge}"));
    Finding::of(
        "memory",
        match total {
            Some((total, free)) => Ok(format!("{total}, of which {free} are free{huge}")),
            None => Err("the system does not say how much".to_owned()),
        },
    )
}

fn mpi_library() -> Finding {
    let library = mpi::library().map_err(|error| error.to_string());
    Finding::of(
        "MPI",
        library.map(|library| {
            let launcher = mpi::launcher(library)
                .map_or_else(|| "no `mpirun`".to_owned(), |path| path.display().to_string());
            let kind = if library.is_open_mpi() { "Open MPI" } else { "MPI ABI" };
            format!("{kind}, {}, started by {launcher}", library.path.display())
        }),
    )
}

fn gpus() -> Finding {
    let named = |ordinal| {
        let device = Device::open(ordinal)?;
        let (_, total) = device.memory()?;
        Ok(format!("{} ({}, {})", device.name()?, device.arch()?, table::bytes(total as f64)))
    };
    let all = Device::count().and_then(|count| (0..count).map(named).collect::<Result<Vec<_>, _>>());
    Finding::of(
        "GPUs",
        all.map(|all| format!("{}: {}", all.len(), all.join(", "))).map_err(|error| error.to_string()),
    )
}

fn nvrtc() -> Finding {
    Finding::of("NVRTC", compiler().map_err(|error| error.to_string()))
}

fn kernel_cache() -> Finding {
    let text = |folder: PathBuf| {
        let made = if folder.exists() { "" } else { ", to be made when kernels are compiled" };
        format!("{}{made}", folder.display())
    };
    Finding::new("kernel cache", table::or_dash(cache::folder(), text))
}

fn nccl() -> Finding {
    let library = zipwire::nccl::library().map_err(|error| error.to_string());
    Finding::of("NCCL", library.map(|library| format!("{}, {}", library.version(), library.path().display())))
}
