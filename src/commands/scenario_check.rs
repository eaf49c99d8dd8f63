//! `zipwire scenario check`.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use zipwire::scenarios::{Experiment, Serving, Sweep, Traffic};
use zipwire::{Cancel, ExecuteError, Outlook, Prepared, Shared, sweep};

use super::{folded_note, open_scenario, print, print_json, say_warnings, whole_note};
use crate::cli::ScenarioArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

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
    /// Beside the tables only.
    #[serde(skip)]
    notes: Vec<String>,
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
    /// Absent where planning takes long.
    plan_digest: Option<String>,
    /// Ranks that each of the first ones stands for, if some do.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks_alike: Option<u32>,
    /// Bytes of all ranks' buffers: what a real run allocates. Absent where planning takes long.
    buffer_bytes: Option<u64>,
    estimate: Estimate,
}

/// Estimate of a simulation.
#[derive(Serialize)]
struct Estimate {
    /// Ranks that are planned and simulated.
    ranks: u32,
    /// Why these are all, if they are.
    whole_because: Option<String>,
    /// Spans of an iteration.
    spans: u64,
    /// Bytes of the plan, and of the timeline of all iterations.
    memory_bytes: u64,
    /// Seconds to plan and simulate it once, within a factor of three.
    seconds: f64,
}

impl Estimate {
    fn of(outlook: &Outlook) -> Self {
        Self {
            ranks: outlook.planned_ranks(),
            whole_because: outlook.why_whole(),
            spans: outlook.spans(),
            memory_bytes: outlook.bytes(),
            seconds: outlook.run_s(),
        }
    }
}

/// `zipwire scenario check`: resolves a scenario, says what it moves and what a simulation of it takes, and plans it where that is fast.
pub(super) fn run(
    args: &ScenarioArgs,
    memory: Option<u64>,
    json: bool,
    cancel: &Cancel,
) -> Result<(), CliError> {
    let scenario = open_scenario(args)?;
    let mut experiment = scenario.base()?;
    experiment.select(&args.variant)?;
    let shared = Shared::with_memory(memory).folding(true);
    let progress = Progress::of_unknown("planning");
    let (mut report, fits) = report(&experiment, shared, cancel)?;
    report.sweep = scenario.into_sweep().map(|sweep| check_sweep(&sweep, cancel)).transpose()?;
    drop(progress);
    if json {
        print_json(&report)?;
        return Ok(fits?);
    }
    print(text(&report))?;
    report.notes.iter().for_each(|note| say!("{note}"));
    say_warnings(&experiment);
    Ok(fits?)
}

fn text(report: &Report) -> String {
    let Report { scenario, workload, ranks, seed, iterations, .. } = report;
    let mut text = format!("{scenario}: {workload} on {ranks} ranks, {iterations} iterations, seed {seed}\n");
    if let Some(SweepReport { points, paths }) = &report.sweep {
        let paths = paths.join("`, `");
        let _ = writeln!(
            text,
            "all {points} points of its sweep over `{paths}` are scenarios; `run` tells whether each can be run; this is the scenario without"
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
    let columns = [
        "variant",
        "plan digest",
        "buffers of all ranks",
        "ranks planned",
        "spans",
        "memory",
        "one simulation",
    ];
    let mut variants = table::new(&columns, &[0, 1]);
    for VariantReport { name, plan_digest, buffer_bytes, estimate, .. } in &report.variants {
        variants.add_row(vec![
            name.clone(),
            plan_digest.clone().unwrap_or_else(|| "-".to_owned()),
            table::or_dash(*buffer_bytes, |bytes| table::bytes(bytes as f64)),
            estimate.ranks.to_string(),
            estimate.spans.to_string(),
            table::bytes(estimate.memory_bytes as f64),
            format!("~ {}", table::seconds(estimate.seconds)),
        ]);
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

/// Plans are made and checked where that takes a second or less and a run fits into memory; otherwise a note or an error says why not.
fn report(
    experiment: &Experiment,
    shared: Shared,
    cancel: &Cancel,
) -> Result<(Report, Result<(), ExecuteError>), CliError> {
    let outlooks: Vec<Outlook> =
        experiment.variants.iter().map(|variant| Outlook::of(experiment, variant, true, cancel)).collect();
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    let fits = Outlook::check_memory(experiment, &outlooks, &shared);
    let is_fast = outlooks.iter().map(Outlook::plan_s).sum::<f64>() <= 1.0;
    let is_planned = is_fast && fits.is_ok();
    let prepared =
        is_planned.then(|| Prepared::planned_only(experiment, Arc::new(shared), cancel)).transpose()?;
    let variants =
        experiment.variants.iter().zip(&outlooks).enumerate().map(|(index, (variant, outlook))| {
            let planned = prepared.as_ref().map(|prepared| prepared.planned(index));
            let ranks_alike = experiment.topology.ranks() / outlook.planned_ranks();
            VariantReport {
                name: variant.name.clone(),
                plan_digest: planned.map(|planned| planned.digest.clone()),
                ranks_alike: Some(ranks_alike).filter(|&alike| alike > 1),
                buffer_bytes: planned.map(|planned| planned.plan.buffer_bytes()),
                estimate: Estimate::of(outlook),
            }
        });
    let unplanned = "note: plans are not made here, because that takes more than a second: `zipwire run` makes and checks them";
    let notes = [
        (!is_fast).then(|| unplanned.to_owned()),
        whole_note(experiment, &outlooks),
        folded_note(experiment, &outlooks),
    ];
    let report = Report {
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
        notes: notes.into_iter().flatten().collect(),
        sweep: None,
    };
    Ok((report, fits))
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
    fn of(serving: &Serving) -> Self {
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

    fn text(&self) -> String {
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
