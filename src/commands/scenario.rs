//! `zipwire scenario check|routes|schema|presets|list|unpack`: what a file says, or may say, before anything runs.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use zipwire::cluster::Topology;
use zipwire::scenarios::{Experiment, Serving, Source, Sweep, Traffic, nearest, presets};
use zipwire::schedule::Rank;
use zipwire::{Cancel, ExecuteError, Prepared, Shared, sweep};

use super::{folded_note, load_file, open_scenario, print, print_json, say_warnings};
use crate::cli::{RoutesArgs, ScenarioArgs, ScenarioCommand};
use crate::error::CliError;
use crate::{shipped, table};

pub(crate) fn run(command: &ScenarioCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        ScenarioCommand::Check { scenario, memory, json } => check(scenario, *memory, *json, cancel),
        ScenarioCommand::Routes(args) => run_routes(args),
        ScenarioCommand::Schema => print_json(&zipwire::scenarios::schema()),
        ScenarioCommand::Presets { name, json } => run_presets(name.as_deref(), *json),
        ScenarioCommand::List { folder, json } => run_list(folder.as_deref(), *json, cancel),
        ScenarioCommand::Unpack { folder } => unpack(folder, cancel),
    }
}

#[derive(Serialize)]
struct Report {
    scenario: String,
    description: Option<String>,
    workload: &'static str,
    ranks: u32,
    seed: u64,
    iterations: u32,
    codec: Option<String>,
    traffic: Vec<TrafficReport>,
    /// Present for workload `serving`, which has no calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<ServingReport>,
    variants: Vec<VariantReport>,
    /// Which ranks stand for all; beside the tables only.
    #[serde(skip)]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<SweepReport>,
}

#[derive(Serialize)]
struct SweepReport {
    points: usize,
    paths: Vec<String>,
}

/// Traffic of a communication segment in one iteration.
#[derive(Serialize)]
struct TrafficReport {
    segment: String,
    bytes: u64,
    transfers: u64,
    /// Largest over mean of the bytes that a rank sends, and receives; their Gini coefficients.
    sent_max_over_mean: Option<f64>,
    received_max_over_mean: Option<f64>,
    sent_gini: Option<f64>,
    received_gini: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    between_nodes: Option<TokensReport>,
}

/// Bytes that cross from node to node, with all copies of a token and with one for each node.
#[derive(Serialize)]
struct TokensReport {
    copies_bytes: u64,
    distinct_bytes: u64,
    /// Copies over distinct bytes.
    factor: f64,
}

#[derive(Serialize)]
struct VariantReport {
    name: String,
    plan_digest: String,
    /// Ranks that each of the first ones stands for, if some do.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks_alike: Option<u32>,
    /// Bytes of all ranks' buffers: what a real run allocates.
    buffer_bytes: u64,
}

fn check(args: &ScenarioArgs, memory: Option<u64>, json: bool, cancel: &Cancel) -> Result<(), CliError> {
    let scenario = open_scenario(args)?;
    let mut experiment = scenario.base()?;
    experiment.select(&args.variant)?;
    let mut report = report(&experiment, memory, cancel)?;
    report.sweep = scenario.into_sweep().map(|sweep| check_sweep(&sweep, cancel)).transpose()?;
    if json {
        return print_json(&report);
    }
    print(text(&report))?;
    report.note.iter().for_each(|note| say!("{note}"));
    say_warnings(&experiment);
    Ok(())
}

fn text(report: &Report) -> String {
    let Report { scenario, workload, ranks, seed, iterations, .. } = report;
    let mut text = format!("{scenario}: {workload} on {ranks} ranks, {iterations} iterations, seed {seed}\n");
    if let Some(SweepReport { points, paths }) = &report.sweep {
        let paths = paths.join("`, `");
        let _ = writeln!(
            text,
            "all {points} points of its sweep over `{paths}` are valid; this is the scenario without"
        );
    }
    if let Some(serving) = &report.serving {
        let _ = write!(text, "\n{}", serving.text());
        return text;
    }
    let mut traffic = table::new(
        &["segment", "raw bytes", "transfers", "sent max/mean", "Gini", "received max/mean", "Gini"],
        &[0],
    );
    traffic_rows(&report.traffic).into_iter().for_each(|row| {
        traffic.add_row(row);
    });
    let tokens: Vec<String> = report.traffic.iter().filter_map(tokens_line).collect();
    let mut variants = table::new(&["variant", "plan digest", "buffers of all ranks"], &[0, 1]);
    for v in &report.variants {
        variants.add_row(vec![v.name.clone(), v.plan_digest.clone(), table::bytes(v.buffer_bytes as f64)]);
    }
    let _ = write!(text, "\n{}\n\n", table::text(&traffic));
    if !tokens.is_empty() {
        let _ = write!(text, "{}\n\n", tokens.join("\n"));
    }
    text + &table::text(&variants) + "\n"
}

/// Rows of segments; one for those that are alike but for numbers in their names, such as those of layers, with a star for the number.
fn traffic_rows(traffic: &[TrafficReport]) -> Vec<Vec<String>> {
    let share = |ratio: Option<f64>| table::or_dash(ratio, |ratio| format!("{ratio:.2}"));
    let mut rows: Vec<(String, Vec<String>, u32)> = Vec::new();
    for t in traffic {
        let cells = vec![
            t.segment.clone(),
            table::bytes(t.bytes as f64),
            t.transfers.to_string(),
            share(t.sent_max_over_mean),
            share(t.sent_gini),
            share(t.received_max_over_mean),
            share(t.received_gini),
        ];
        let name = without_numbers(&t.segment);
        match rows.iter_mut().find(|(other, row, _)| *other == name && row[1..] == cells[1..]) {
            Some((name, row, count)) => {
                *count += 1;
                row[0] = format!("{name} ({count})");
            }
            None => rows.push((name, cells, 1)),
        }
    }
    rows.into_iter().map(|(_, row, _)| row).collect()
}

/// A name with a star in place of each number.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character.is_ascii_digit() {
            true if text.ends_with('*') => {}
            true => text.push('*'),
            false => text.push(character),
        }
    }
    text
}

/// Savings of de-duplication between nodes, if it is known which tokens a segment sends.
fn tokens_line(traffic: &TrafficReport) -> Option<String> {
    let TokensReport { copies_bytes, distinct_bytes, factor } = traffic.between_nodes.as_ref()?;
    Some(format!(
        "{}: from node to node {} in copies, {} with each token once per node: a factor of {factor:.2}",
        traffic.segment,
        table::bytes(*copies_bytes as f64),
        table::bytes(*distinct_bytes as f64),
    ))
}

/// Resolves all points; planning them is left to a run.
fn check_sweep(swept: &Sweep, cancel: &Cancel) -> Result<SweepReport, CliError> {
    sweep::check(swept, cancel)?;
    let paths = swept.paths().map(str::to_owned).collect();
    Ok(SweepReport { points: swept.point_count(), paths })
}

fn report(experiment: &Experiment, memory: Option<u64>, cancel: &Cancel) -> Result<Report, CliError> {
    let prepared =
        Prepared::planned_only(experiment, Arc::new(Shared::with_memory(memory).folding(true)), cancel)?;
    let variants = prepared.variants().map(|(variant, planned)| VariantReport {
        name: variant.name.clone(),
        plan_digest: planned.digest.clone(),
        ranks_alike: Some(planned.plan.symmetry.alike()).filter(|&alike| alike > 1),
        buffer_bytes: planned.plan.buffer_bytes(),
    });
    Ok(Report {
        scenario: experiment.name.clone(),
        description: experiment.description.clone(),
        workload: experiment.workload_name(),
        ranks: experiment.topology.ranks(),
        seed: experiment.seed,
        iterations: experiment.iterations,
        codec: experiment.codec.as_ref().map(|choice| choice.spec.to_string()),
        traffic: experiment.traffic().iter().map(traffic_report).collect(),
        serving: experiment.as_serving().map(ServingReport::of),
        variants: variants.collect(),
        note: folded_note(&prepared),
        sweep: None,
    })
}

fn traffic_report(traffic: &Traffic) -> TrafficReport {
    let (sent, received) = (traffic.sent_imbalance(), traffic.received_imbalance());
    TrafficReport {
        segment: traffic.segment.to_string(),
        bytes: traffic.sent.iter().sum(),
        transfers: traffic.transfers,
        sent_max_over_mean: sent.map(|of| of.max_over_mean),
        received_max_over_mean: received.map(|of| of.max_over_mean),
        sent_gini: sent.map(|of| of.gini),
        received_gini: received.map(|of| of.gini),
        between_nodes: traffic.between_nodes.map(|between| TokensReport {
            copies_bytes: between.copies,
            distinct_bytes: between.distinct,
            factor: between.factor(),
        }),
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
    print(table::text(&table::fitted(rows)) + "\n")?;
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
    let entry =
        |file| if cancel.is_cancelled() { Err(ExecuteError::Cancelled.into()) } else { Ok(entry(file)) };
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

/// Requests and pools of a scenario of serving.
#[derive(Serialize)]
struct ServingReport {
    requests: usize,
    /// Seconds from the first arrival to the last.
    arrivals_s: f64,
    /// Means of all requests.
    input_tokens: f64,
    output_tokens: f64,
    /// Bytes that a token's cache has when it moves, all shards together.
    token_bytes: u64,
    /// Seconds of computing a prompt, mean of all requests, none of it cached.
    prefill_s: f64,
    /// Seconds of computing all prompts over those that prefill instances have from the first arrival to the last: above 1 they cannot keep up, unless earlier
    /// prompts help. `None` if all arrive at once.
    prefill_load: Option<f64>,
    /// Tokens whose caches an instance of each pool has room for.
    prefill_kv_tokens: u64,
    decode_kv_tokens: u64,
}

impl ServingReport {
    pub(super) fn of(serving: &Serving) -> Self {
        let (list, config) = (serving.requests.list(), &serving.config);
        let count = list.len() as f64;
        let seconds = |input: u32| {
            let chunks = (0..input).step_by(config.chunk_tokens as usize);
            let of = |begin: u32| {
                let end = input.min(begin.saturating_add(config.chunk_tokens));
                serving.compute.prefill.seconds(&(begin..end))
            };
            chunks.map(of).sum::<f64>()
        };
        let all_s: f64 = list.iter().map(|request| seconds(request.input_tokens)).sum();
        let first_s = list.first().map_or(0.0, |request| request.arrival_s);
        let arrivals_s = serving.requests.last_arrival_s() - first_s;
        let mean = |of: fn(&zipwire::serving::Request) -> u32| {
            list.iter().map(|request| f64::from(of(request))).sum::<f64>() / count
        };
        let instances = f64::from(config.prefill.instances);
        Self {
            requests: list.len(),
            arrivals_s,
            input_tokens: mean(|request| request.input_tokens),
            output_tokens: mean(|request| request.output_tokens),
            token_bytes: serving.shards.bytes(1, serving.shards.layers()),
            prefill_s: all_s / count,
            prefill_load: (arrivals_s > 0.0).then(|| all_s / (instances * arrivals_s)),
            prefill_kv_tokens: config.prefill.kv_tokens,
            decode_kv_tokens: config.decode.kv_tokens,
        }
    }

    pub(super) fn text(&self) -> String {
        let cache = table::bytes(self.token_bytes as f64 * self.input_tokens);
        let load = self.prefill_load.map_or_else(String::new, |load| {
            let too_much =
                if load > 1.0 { ", more than they can compute unless earlier prompts help" } else { "" };
            format!("prefill instances are asked for {:.0} % of their time{too_much}\n", 100.0 * load)
        });
        format!(
            "{} requests in {}: prompts of {:.0} tokens and answers of {:.0}, in the mean\n\
             a prompt takes {} to compute, and its cache, {} a token, has {cache}\n\
             {load}room for caches of {} tokens on each prefill instance and {} on each decode instance\n",
            self.requests,
            table::seconds(self.arrivals_s),
            self.input_tokens,
            self.output_tokens,
            table::seconds(self.prefill_s),
            table::bytes(self.token_bytes as f64),
            self.prefill_kv_tokens,
            self.decode_kv_tokens
        )
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
        return print(preset.text);
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
    print(table::text(&table::fitted(rows)) + "\n")
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
