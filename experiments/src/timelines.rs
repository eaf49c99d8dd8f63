//! The files that hold what one variant did: its timeline, and the times of explicit flows.

use std::collections::HashMap;
use std::io::{Write as _, stderr};

use zipwire_scenarios::Experiment;
use zipwire_schedule::{Flow, Lane, Plan, Rank, SegmentId, Work};
use zipwire_timeline::Timeline;
use zipwire_traces::{
    Limit, TraceMeta, TransferRow, write_chrome, write_request_tracks, write_requests, write_transfers,
};

use crate::{Executor, Output, OutputError, Planned, RunResult, Served};

/// The Chrome trace of one run and, for explicit flows, the times of each.
///
/// # Errors
/// If a file cannot be written.
pub fn write_run(output: &mut Output, ran: &RunResult<'_>) -> Result<(), OutputError> {
    let &RunResult { experiment, executor, variant, planned, ref timeline, ref served } = ran;
    write_trace(output, experiment, executor, variant, planned, timeline)?;
    if let Some(served) = served {
        write_served(output, ran, served)?;
    }
    if let Some(rows) = transfer_rows(experiment, &planned.plan, timeline) {
        // The file of the contract is that of the simulation of the first variant.
        let is_main = !executor.is_real() && experiment.variants[0].name == variant;
        let name =
            if is_main { "transfers.csv".to_owned() } else { format!("{executor}-{variant}.transfers.csv") };
        output.write(&name, |out| write_transfers(rows, out))?;
    }
    Ok(())
}

/// A row for each request, and a track for each.
fn write_served(output: &mut Output, ran: &RunResult<'_>, served: &Served) -> Result<(), OutputError> {
    let &RunResult { experiment, executor, variant, .. } = ran;
    // The file of the contract is that of the simulation of the first variant.
    let is_main = !executor.is_real() && experiment.variants[0].name == variant;
    let name = if is_main { "requests.csv".to_owned() } else { format!("{executor}-{variant}.requests.csv") };
    output.write(&name, |out| write_requests(&served.requests, &served.records, out))?;
    let name = format!("{executor}-{variant}.requests.trace.json");
    let mut drawn = 0;
    output.write(&name, |out| {
        drawn = write_request_tracks(&served.requests, &served.records, out)?;
        Ok(())
    })?;
    let count = served.requests.len();
    if drawn < count {
        // Whether anybody reads it does not matter.
        let _ = writeln!(stderr(), "{name}: the first {drawn} of {count} requests are drawn");
    }
    for note in &served.notes {
        let _ = writeln!(stderr(), "{note}");
    }
    if served.spans_left_out > 0 {
        let left_out = served.spans_left_out;
        let _ = writeln!(
            stderr(),
            "{executor}-{variant}.trace.json: {left_out} spans behind the first {} are not kept; all results count everything",
            ran.timeline.spans.len()
        );
    }
    Ok(())
}

/// Start and end of each explicit flow in the first iteration, in issue order; `None` for other workloads. An empty
/// flow ends when it could start.
fn transfer_rows(experiment: &Experiment, plan: &Plan, timeline: &Timeline) -> Option<Vec<TransferRow>> {
    let (segment, flows) =
        experiment.job.segments.iter().zip(0..).find_map(|(segment, id)| match &segment.work {
            Work::Transfers { flows, .. } => Some((id, flows)),
            Work::Compute { .. } | Work::Call { .. } => None,
        })?;
    let row = |flow: &Flow| TransferRow {
        src: flow.src.0,
        dst: flow.dst.0,
        bytes: flow.bytes,
        start_s: flow.not_before_s,
        finish_s: flow.not_before_s,
    };
    let mut rows: Vec<TransferRow> = flows.iter().map(row).collect();
    let flows = flows_by_transfer(plan, SegmentId(segment));
    let sent = timeline.spans.iter().filter(|span| span.iteration == 0 && span.lane == Lane::Tx);
    for span in sent {
        let flow = span.peer.and_then(|peer| flows.get(&(span.rank, peer, span.tag)));
        if let Some(&flow) = flow {
            let row = &mut rows[flow as usize];
            (row.start_s, row.finish_s) = (span.begin_s, span.end_s);
        }
    }
    Some(rows)
}

/// The flow that each transfer of a segment of explicit flows is, by sender, receiver and number.
fn flows_by_transfer(plan: &Plan, segment: SegmentId) -> HashMap<(Rank, Rank, u32), u32> {
    let sends = plan.programs.iter().flat_map(|program| {
        let ops = program.ops.iter().filter(move |op| op.segment == segment);
        let sends = ops.filter_map(|op| op.kind.exchange()).flat_map(|exchange| &exchange.sends);
        sends.map(|send| ((program.rank, send.peer, send.number), send.chunk.flow))
    });
    sends.collect()
}

/// Writes the Chrome trace of one variant on one executor, under the name that the contract gives it.
///
/// # Errors
/// If the file cannot be written.
pub fn write_trace(
    output: &mut Output,
    experiment: &Experiment,
    executor: &dyn Executor,
    variant: &str,
    planned: &Planned,
    timeline: &Timeline,
) -> Result<(), OutputError> {
    let _span = tracing::info_span!("write timeline", %variant, %executor).entered();
    let meta = TraceMeta {
        scenario: experiment.name.clone(),
        variant: variant.to_owned(),
        executor: executor.name().to_owned(),
        seed: experiment.seed,
        plan_digest: planned.digest.clone(),
        clock: executor.clock(),
        codec: planned.plan.codec.as_ref().map(ToString::to_string),
    };
    let limit = Limit { bytes: Limit::BYTES, ranks_per_node: experiment.topology.gpus_per_node };
    let name = format!("{executor}-{variant}.trace.json");
    let mut sampling = None;
    output.write(&name, |out| {
        sampling = write_chrome(timeline, &meta, &limit, out)?;
        Ok(())
    })?;
    if let Some(sampling) = sampling {
        let megabytes = Limit::BYTES / 1_000_000;
        // Whether anybody reads it does not matter.
        let _ = writeln!(
            stderr(),
            "{name}: {sampling} are drawn, to stay below {megabytes} MB; all results count everything"
        );
    }
    Ok(())
}
