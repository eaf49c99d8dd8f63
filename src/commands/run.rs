//! `zipwire run`: a scenario on one or more executors, with its table, timelines and summary.

use std::io::{Write, stdout};
use std::path::Path;

use zipwire::codec::Layout;
use zipwire::scenarios::Experiment;
use zipwire::schedule::{Lane, Work};
use zipwire::traces::{Bandwidths, Executors, Metrics, Summary, Timeline, TransferRow, write_transfers};
use zipwire::{Cancel, ExecuteError, Executor, Output, OutputError, Planned, Prepared};

use crate::cli::RunArgs;
use crate::commands::{load_scenario, write_trace};
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

pub(crate) fn run(args: &RunArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    let first_variant = experiment.variants[0].name.clone();
    experiment.select(&args.scenario.variant)?;
    let executors = distinct(&args.on);
    let chosen = choose_layouts(&mut experiment, &executors);
    let mut prepared = Prepared::new(&experiment, cancel)?;
    executors.iter().try_for_each(|&executor| prepared.check(executor))?;
    for name in &chosen {
        eprintln!("variant `{name}`: frames have the layout `split`, which GPUs have kernels for");
    }
    let folder = args.out.clone().unwrap_or_else(|| Path::new("out").join(&experiment.name));
    let mut output = Output::create(&folder)?;

    let mut results = Executors::new(first_variant);
    let mut failed = Vec::new();
    let progress = Progress::new(executors.len() * experiment.variants.len());
    for &executor in &executors {
        for (index, variant) in experiment.variants.iter().enumerate() {
            progress.begin(format!("{executor}: {}", variant.name));
            let outcome = match prepared.run(index, executor, cancel) {
                Ok(outcome) => outcome,
                // One variant that fails says nothing about the others.
                Err(error) if error.is_run_failure() => {
                    progress.end();
                    failed.push(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let planned = prepared.planned(index);
            let metrics = tracing::info_span!("metrics", variant = %variant.name)
                .in_scope(|| Metrics::of(&outcome.timeline, planned.plan.bytes_raw()));
            write_timeline(&mut output, &experiment, executor, &variant.name, &outcome.timeline, planned)?;
            let (timed, digest) = (outcome.is_timed, planned.digest.clone());
            results.insert(executor.name(), timed, &variant.name, metrics, digest, outcome.verified);
            if let Some(bandwidths) = Bandwidths::of(&experiment.job, &metrics).filter(|_| timed) {
                results.insert_bandwidths(executor.name(), &variant.name, bandwidths);
            }
            progress.end();
        }
    }
    drop(progress);
    if !failed.is_empty() {
        return Err(CliError::Failed { failed, of: executors.len() * experiment.variants.len() });
    }
    let summary = Summary::new(&experiment.name, experiment.seed, results);
    output.write("summary.json", |out| summary.write(out))?;
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    output.commit()?;

    let mut out = stdout().lock();
    if args.json {
        summary.write(&mut out)?;
    } else {
        write!(out, "{}", text(&experiment, &summary, &executors))?;
    }
    out.flush()?;
    if !args.json {
        eprintln!(
            "timelines and summary.json are in {}: open a timeline at https://ui.perfetto.dev",
            folder.display()
        );
    }
    Ok(())
}

fn distinct(executors: &[Executor]) -> Vec<Executor> {
    let mut distinct: Vec<Executor> = Vec::new();
    for &executor in executors {
        if !distinct.contains(&executor) {
            distinct.push(executor);
        }
    }
    distinct
}

/// Takes the layout that GPUs have kernels for where a scenario says nothing, on all executors: they run the same plans.
/// Returns the variants that have it now.
fn choose_layouts(experiment: &mut Experiment, executors: &[Executor]) -> Vec<String> {
    if !executors.contains(&Executor::Cuda) {
        return Vec::new();
    }
    let mut chosen = Vec::new();
    for variant in &mut experiment.variants {
        if variant.protocol.layout() == Some(Layout::Compact) && variant.layout.is_none() {
            variant.layout = Some(Layout::Split);
            chosen.push(variant.name.clone());
        }
    }
    chosen
}

/// The Chrome trace of one run and, for explicit flows, the times of each.
fn write_timeline(
    output: &mut Output,
    experiment: &Experiment,
    executor: Executor,
    variant: &str,
    timeline: &Timeline,
    planned: &Planned,
) -> Result<(), OutputError> {
    write_trace(output, experiment, executor, variant, planned, timeline)?;
    if let Some(rows) = transfer_rows(experiment, timeline) {
        // The file of the contract is that of the simulation of the first variant.
        let is_main = executor == Executor::Sim && experiment.variants[0].name == variant;
        let name =
            if is_main { "transfers.csv".to_owned() } else { format!("{executor}-{variant}.transfers.csv") };
        output.write(&name, |out| write_transfers(rows, out))?;
    }
    Ok(())
}

/// Start and end of each explicit flow in the first iteration, in issue order; `None` for other workloads. An empty
/// flow ends when it could start.
fn transfer_rows(experiment: &Experiment, timeline: &Timeline) -> Option<Vec<TransferRow>> {
    let (segment, flows) =
        experiment.job.segments.iter().zip(0..).find_map(|(segment, id)| match &segment.work {
            Work::Transfers { flows, .. } => Some((id, flows)),
            Work::Compute { .. }
            | Work::AllToAll { .. }
            | Work::AllGather { .. }
            | Work::Broadcast { .. } => None,
        })?;
    let row = |flow: &zipwire::schedule::Flow| TransferRow {
        src: flow.src.0,
        dst: flow.dst.0,
        bytes: flow.bytes,
        start_s: flow.not_before_s,
        finish_s: flow.not_before_s,
    };
    let mut rows: Vec<TransferRow> = flows.iter().map(row).collect();
    for span in &timeline.spans {
        if span.iteration == 0 && span.lane == Lane::Tx && span.segment.0 == segment {
            let row = &mut rows[span.tag as usize];
            (row.start_s, row.finish_s) = (span.begin_s, span.end_s);
        }
    }
    Some(rows)
}

/// The table: one row per variant; all columns for the first executor, time and verification for the others. A collective
/// call on a timed executor has bandwidths.
fn text(experiment: &Experiment, summary: &Summary, executors: &[Executor]) -> String {
    let (&first, others) = executors.split_first().expect("the command line names at least one executor");
    let mut header: Vec<String> =
        ["variant", "time", "speedup", "communication", "waiting", "codec"].map(String::from).into();
    header.extend(["raw", "wire", "ratio"].map(String::from));
    let has_bandwidths = summary
        .executors
        .iter()
        .any(|(executor, _, result)| executor == first.name() && result.bandwidths.is_some());
    if has_bandwidths {
        header.extend(["algbw", "busbw", "effective busbw"].map(String::from));
    }
    if first.is_real() {
        header.push("verified".to_owned());
    }
    for other in others {
        header.extend([format!("{other}: time"), "verified".to_owned()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut rows = table::new(&header, &[0]);
    for variant in &experiment.variants {
        let result = |executor: Executor| {
            summary
                .executors
                .get(executor.name(), &variant.name)
                .expect("every variant ran on every executor")
        };
        let factor = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let verified =
            |executor| if result(executor).verified == Some(true) { "yes" } else { "-" }.to_owned();
        let (metrics, speedup) = (&result(first).metrics, result(first).speedup);
        let times = [metrics.comm_s, metrics.wait_s, metrics.codec_s].map(table::seconds);
        let mut row = vec![variant.name.clone(), table::seconds(metrics.iteration_s.mean), factor(speedup)];
        row.extend(times);
        row.extend([
            table::bytes(metrics.bytes_raw as f64),
            table::bytes(metrics.bytes_wire as f64),
            factor(metrics.ratio),
        ]);
        if has_bandwidths {
            let bandwidth = |of: fn(&Bandwidths) -> f64| {
                let value = result(first).bandwidths.as_ref().map(of);
                value.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.3} GB/s"))
            };
            row.extend([
                bandwidth(|of| of.algbw_gbps),
                bandwidth(|of| of.busbw_gbps),
                bandwidth(|of| of.effective_busbw_gbps),
            ]);
        }
        if first.is_real() {
            row.push(verified(first));
        }
        for &other in others {
            row.extend([table::seconds(result(other).metrics.iteration_s.mean), verified(other)]);
        }
        rows.add_row(row);
    }
    let Experiment { name, seed, iterations, topology, .. } = experiment;
    let cluster = format!("{} nodes x {} GPUs", topology.nodes, topology.gpus_per_node);
    let codec = experiment.codec.as_ref().map_or_else(String::new, |choice| format!(", {}", choice.spec));
    let mean = if *iterations == 1 { String::new() } else { format!("mean of {iterations} iterations, ") };
    let clock = match first {
        Executor::Sim => "simulated",
        Executor::Threads if !experiment.faults.is_empty() => {
            "run on threads at a fraction of the cluster's speed"
        }
        Executor::Threads => "run on threads (unpaced: times are this machine's, not the cluster's)",
        Executor::Cuda => {
            "measured on GPUs (copies between ranks: times are those of this machine, not the cluster's)"
        }
        Executor::Mpi | Executor::Nccl => "measured",
    };
    format!("{name}: {cluster}{codec}, seed {seed}, {mean}{clock}\n\n{}\n", table::text(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_named_twice_runs_once() {
        assert_eq!(
            distinct(&[Executor::Threads, Executor::Sim, Executor::Threads]),
            [Executor::Threads, Executor::Sim]
        );
    }
}
