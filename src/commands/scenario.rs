//! `zipwire scenario check|routes|schema|presets|list|unpack`: what a file says, or may say, before anything runs.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;

use zipwire::scenarios::{Experiment, Source, Traffic, load_sweep};
use zipwire::{Cancel, Prepared, Shared, sweep};

use super::serving_check::ServingReport;
use super::{list, presets, print, print_json};
use crate::cli::{ScenarioArgs, ScenarioCommand};
use crate::commands::{load_scenario, say_warnings};
use crate::error::CliError;
use crate::table;

pub(crate) fn run(command: &ScenarioCommand, cancel: &Cancel) -> Result<(), CliError> {
    match command {
        ScenarioCommand::Check { scenario, memory, json } => check(scenario, *memory, *json, cancel),
        ScenarioCommand::Routes(args) => super::routes::run(args),
        ScenarioCommand::Schema => print_json(&zipwire::scenarios::schema()),
        ScenarioCommand::Presets { name, json } => presets::run(name.as_deref(), *json),
        ScenarioCommand::List { folder, json } => list::run(folder.as_deref(), *json, cancel),
        ScenarioCommand::Unpack { folder } => list::unpack(folder),
    }
}

/// A resolved scenario.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<SweepReport>,
}

/// Points of `[sweep]`.
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
    /// Bytes of all ranks' buffers: what a real run allocates.
    buffer_bytes: u64,
}

fn check(args: &ScenarioArgs, memory: Option<u64>, json: bool, cancel: &Cancel) -> Result<(), CliError> {
    let mut experiment = load_scenario(args)?;
    experiment.select(&args.variant)?;
    let mut report = report(&experiment, memory, cancel)?;
    report.sweep = check_sweep(args, cancel)?;
    if json {
        return print_json(&report);
    }
    print(text(&report))?;
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
    let share = |ratio: Option<f64>| table::or_dash(ratio, |ratio| format!("{ratio:.2}"));
    for t in &report.traffic {
        traffic.add_row(vec![
            t.segment.to_string(),
            table::bytes(t.bytes as f64),
            t.transfers.to_string(),
            share(t.sent_max_over_mean),
            share(t.sent_gini),
            share(t.received_max_over_mean),
            share(t.received_gini),
        ]);
    }
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
fn check_sweep(args: &ScenarioArgs, cancel: &Cancel) -> Result<Option<SweepReport>, CliError> {
    let Some(swept) = load_sweep(&Source::read(&args.scenario)?, &args.set, args.seed)? else {
        return Ok(None);
    };
    sweep::check(&swept, cancel)?;
    let paths = swept.paths().map(str::to_owned).collect();
    Ok(Some(SweepReport { points: swept.point_count(), paths }))
}

fn report(experiment: &Experiment, memory: Option<u64>, cancel: &Cancel) -> Result<Report, CliError> {
    let prepared = Prepared::planned_only(experiment, Arc::new(Shared::with_memory(memory)), cancel)?;
    let variants = prepared.variants().map(|(variant, planned)| VariantReport {
        name: variant.name.clone(),
        plan_digest: planned.digest.clone(),
        buffer_bytes: planned.plan.buffer_bytes(),
    });
    Ok(Report {
        scenario: experiment.name.clone(),
        description: experiment.description.clone(),
        workload: experiment.job.name,
        ranks: experiment.topology.ranks(),
        seed: experiment.seed,
        iterations: experiment.iterations,
        codec: experiment.codec.as_ref().map(|choice| choice.spec.to_string()),
        traffic: experiment.traffic().iter().map(traffic_report).collect(),
        serving: experiment.serving.as_ref().map(ServingReport::of),
        variants: variants.collect(),
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
