//! `zipwire scenario new|check|routes|schema|presets|list|unpack`: what a file says, or may say, before anything runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire::cluster::Topology;
use zipwire::scenarios::{Source, nearest, presets};
use zipwire::schedule::Rank;
use zipwire::{Cancel, ExecuteError};

use super::{load_file, new_scenario, print, print_file, print_json, scenario_check};
use crate::cli::{RoutesArgs, ScenarioCommand};
use crate::error::CliError;
use crate::progress::Progress;
use crate::{shipped, table};

pub(crate) fn run(command: &ScenarioCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        ScenarioCommand::New(args) => new_scenario::run(args),
        ScenarioCommand::Check { scenario, memory, json } => {
            scenario_check::run(scenario, *memory, *json, cancel)
        }
        ScenarioCommand::Routes(args) => run_routes(args),
        ScenarioCommand::Schema { markdown: false } => print_json(&zipwire::scenarios::schema()),
        ScenarioCommand::Schema { markdown: true } => print_file(&zipwire::scenarios::schema_markdown()),
        ScenarioCommand::Presets { name, json } => run_presets(name.as_deref(), *json),
        ScenarioCommand::List { folder, json } => run_list(folder.as_deref(), *json, cancel),
        ScenarioCommand::Unpack { folder } => unpack(folder, cancel),
    }
}

/// One line of the list; a file that does not resolve says why.
#[derive(Default, Serialize)]
struct Listed {
    file: PathBuf,
    scenario: Option<String>,
    workload: Option<&'static str>,
    ranks: Option<u32>,
    variants: Vec<String>,
    description: Option<String>,
    error: Option<String>,
}

/// Lists the scenarios of a folder; without one, those that the program carries.
pub(super) fn run_list(folder: Option<&Path>, json: bool, cancel: &Cancel) -> Result<(), CliError> {
    let listed = match folder {
        Some(folder) => entries(folder, cancel)?,
        None => {
            // Until the files are removed.
            let _hold = cancel.hold();
            let unpacked = shipped::unpacked()?;
            entries(&unpacked.path().join("scenarios"), cancel)?
                .into_iter()
                .map(|item| Listed {
                    file: item.file.strip_prefix(unpacked.path()).map(Path::to_owned).unwrap_or(item.file),
                    ..item
                })
                .collect()
        }
    };
    if json {
        return print_json(&listed);
    }
    let mut rows = table::new(&["file", "workload", "ranks", "what for"], &[0, 1, 3]);
    for item in listed {
        let what_for = item.error.map_or(item.description, |error| Some(format!("error: {error}")));
        rows.add_row(vec![
            item.file.display().to_string(),
            item.workload.unwrap_or("-").to_owned(),
            table::or_dash(item.ranks, |ranks| ranks.to_string()),
            what_for.unwrap_or_default(),
        ]);
    }
    print(table::text(&rows.with_words()) + "\n")?;
    if folder.is_none() {
        say!(
            "the program carries these: `zipwire scenario unpack DIR` writes them to a folder, where `zipwire run` takes them"
        );
    }
    Ok(())
}

/// Writes what the program carries to a folder that is empty or not there.
pub(super) fn unpack(folder: &Path, cancel: &Cancel) -> Result<(), CliError> {
    let shown = folder.display();
    let fails = |error: io::Error| CliError::Usage(format!("cannot write to folder `{shown}`: {error}"));
    if folder.exists() && fs::read_dir(folder).map_err(fails)?.next().is_some() {
        return Err(CliError::Usage(format!(
            "folder `{shown}` is not empty\nhelp: name one that is, or that does not exist"
        )));
    }
    super::refuse_store(Some(folder))?;
    // Until all files are there, or none is.
    let hold = cancel.hold();
    let count = shipped::unpack(folder, || cancel.is_cancelled()).map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => ExecuteError::Cancelled.into(),
        _ => fails(error),
    })?;
    drop(hold);
    let first = folder.join("scenarios/quickstart.toml");
    print(format!("{count} files are in {shown}: begin with `zipwire run {}`\n", first.display()))
}

fn entries(folder: &Path, cancel: &Cancel) -> Result<Vec<Listed>, CliError> {
    let mut files = Vec::new();
    collect(folder, &mut files)
        .map_err(|error| CliError::Usage(format!("cannot list folder `{}`: {error}", folder.display())))?;
    files.sort();
    let progress = Progress::new(files.len());
    let entry = |file: PathBuf| {
        progress.next(&file.display().to_string());
        if cancel.is_cancelled() { Err(ExecuteError::Cancelled.into()) } else { Ok(entry(file)) }
    };
    files.into_iter().map(entry).collect()
}

/// Scenario files below a folder; build files, other TOML files and folders that start with a dot are none.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') || name == "Cargo.toml" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") && is_scenario(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Files that cannot be read are listed, with the reason.
fn is_scenario(path: &Path) -> bool {
    !Source::read(path).is_ok_and(|source| !zipwire::scenarios::is_scenario_file(&source.text))
}

fn entry(file: PathBuf) -> Listed {
    match load_file(&file, &[], None) {
        Ok(experiment) => Listed {
            file,
            workload: Some(experiment.workload_name()),
            ranks: Some(experiment.topology.ranks()),
            variants: experiment.variants.iter().map(|variant| variant.name.clone()).collect(),
            scenario: Some(experiment.name),
            description: experiment.description,
            error: None,
        },
        Err(error) => Listed { file, error: Some(error.to_string()), ..Listed::default() },
    }
}

/// A preset, in base units.
#[derive(Serialize)]
struct ListedPreset {
    preset: &'static str,
    nodes: u32,
    gpus_per_node: u32,
    gpu_bytes_per_s: f64,
    nics_per_node: u32,
    nic_bytes_per_s: f64,
    latency_intra_s: f64,
    latency_inter_s: f64,
    description: Option<String>,
}

/// Lists all presets, or prints the file of one.
fn run_presets(name: Option<&str>, json: bool) -> Result<(), CliError> {
    if let Some(name) = name {
        let preset = presets().iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
            let meant = nearest(name, names.iter().copied());
            let meant = meant.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let names = names.join("`, `");
            CliError::Usage(format!("unknown preset `{name}`\nhelp: {meant}it must be one of `{names}`"))
        })?;
        return print_file(preset.text);
    }
    let listed = presets().iter().map(|preset| {
        let topology = preset.topology()?;
        Ok(ListedPreset {
            preset: preset.name,
            nodes: topology.nodes,
            gpus_per_node: topology.gpus_per_node,
            gpu_bytes_per_s: topology.gpu_bandwidth,
            nics_per_node: topology.nics_per_node,
            nic_bytes_per_s: topology.nic_bandwidth,
            latency_intra_s: topology.latency_intra_s,
            latency_inter_s: topology.latency_inter_s,
            description: preset.description(),
        })
    });
    let listed: Vec<ListedPreset> = listed.collect::<Result<_, CliError>>()?;
    if json {
        return print_json(&listed);
    }
    let columns = ["preset", "nodes x GPUs", "GPU link", "NICs per node", "NIC", "what it is"];
    let mut rows = table::new(&columns, &[0, 5]);
    for item in listed {
        rows.add_row(vec![
            item.preset.to_owned(),
            format!("{} x {}", item.nodes, item.gpus_per_node),
            per_second(item.gpu_bytes_per_s),
            item.nics_per_node.to_string(),
            per_second(item.nic_bytes_per_s),
            item.description.unwrap_or_default(),
        ]);
    }
    print(table::text(&rows.with_words()) + "\n")
}

fn per_second(bytes: f64) -> String {
    format!("{}/s", table::bytes(bytes))
}

/// A cluster as a graph.
#[derive(Serialize)]
struct RoutesReport {
    scenario: String,
    ranks: u32,
    links: Vec<LinkReport>,
    routes: Vec<RouteReport>,
}

#[derive(Serialize)]
struct LinkReport {
    name: String,
    bytes_per_s: f64,
}

#[derive(Serialize)]
struct RouteReport {
    src: u32,
    dst: u32,
    latency_s: f64,
    /// Links crossed, in order, by position in the report.
    links: Vec<usize>,
}

fn run_routes(args: &RoutesArgs) -> Result<(), CliError> {
    let experiment = load_file(&args.scenario, &args.set, None)?;
    let topology = &experiment.topology;
    let (sources, destinations) = (ranks(args.src, "--src", topology)?, ranks(args.dst, "--dst", topology)?);
    let pairs = sources.flat_map(|src| destinations.clone().map(move |dst| (src, dst)));
    let report = RoutesReport {
        ranks: topology.ranks(),
        links: links(topology),
        routes: pairs.filter(|(src, dst)| src != dst).map(|(src, dst)| route(topology, src, dst)).collect(),
        scenario: experiment.name,
    };
    if args.json { print_json(&report) } else { print(routes_text(&report) + "\n") }
}

/// The rank that an argument names, or all.
fn ranks(chosen: Option<u32>, argument: &str, topology: &Topology) -> Result<std::ops::Range<u32>, CliError> {
    let count = topology.ranks();
    match chosen {
        None => Ok(0..count),
        Some(rank) if rank < count => Ok(rank..rank + 1),
        Some(rank) => Err(CliError::Usage(format!(
            "`{argument} {rank}`: there is no rank {rank}\nhelp: ranks go from 0 to {}",
            count - 1
        ))),
    }
}

fn links(topology: &Topology) -> Vec<LinkReport> {
    let capacities = topology.capacities();
    let link = |link| LinkReport { name: topology.link_name(link), bytes_per_s: capacities[link.index()] };
    topology.links().map(link).collect()
}

fn route(topology: &Topology, src: u32, dst: u32) -> RouteReport {
    let route = topology.route(Rank(src), Rank(dst));
    let links = route.links().iter().map(|link| link.index()).collect();
    RouteReport { src, dst, latency_s: route.latency_s, links }
}

fn routes_text(report: &RoutesReport) -> String {
    let mut lines = table::new(&["from", "to", "latency", "slowest link", "links"], &[4]);
    for route in &report.routes {
        let links = || route.links.iter().map(|&link| &report.links[link]);
        let slowest = links().map(|link| link.bytes_per_s).fold(f64::INFINITY, f64::min);
        lines.add_row(vec![
            route.src.to_string(),
            route.dst.to_string(),
            table::seconds(route.latency_s),
            format!("{}/s", table::bytes(slowest)),
            links().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", "),
        ]);
    }
    let RoutesReport { scenario, ranks, links, .. } = report;
    format!("{scenario}: {ranks} ranks, {} links\n\n{}", links.len(), table::text(&lines))
}
