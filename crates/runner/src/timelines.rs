//! The files that hold what one variant did: its timeline, and the times of explicit flows.

use std::collections::HashMap;
use std::io::{Write as _, stderr};

use zipwire_scenarios::Experiment;
use zipwire_schedule::{Flow, Lane, Plan, Rank, SegmentId, Work};
use zipwire_timeline::Timeline;
use zipwire_traces::{
    Limit, Sampling, TraceMeta, TransferRow, write_chrome, write_request_tracks, write_requests,
    write_transfers,
};

use crate::{Executor, Output, OutputError, Planned, RunResult, Served};

/// The Chrome trace of one run and, for explicit flows, the times of each.
///
/// # Errors
/// If a file cannot be written.
pub fn write_run(output: &mut Output, ran: &RunResult<'_>) -> Result<(), OutputError> {
    let &RunResult { experiment, executor, variant, planned, ref timeline, ref served, .. } = ran;
    write_trace(output, experiment, executor, variant, planned, timeline)?;
    if let Some(served) = served {
        write_served(output, ran, served)?;
    }
    if let Some(rows) = transfer_rows(experiment, &planned.plan, timeline) {
        // The file of the contract is that of the simulation of the first variant.
        let is_main = !executor.capabilities().is_real && experiment.variants[0].name == variant;
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
    let is_main = !executor.capabilities().is_real && experiment.variants[0].name == variant;
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

/// Start and end of each explicit flow in the first iteration, in issue order; `None` for other workloads. A flow begins with its coding, or
/// with its transfer if it is not coded, and ends when its last value is where it should be. An empty flow ends when it could start.
fn transfer_rows(experiment: &Experiment, plan: &Plan, timeline: &Timeline) -> Option<Vec<TransferRow>> {
    let (segment, flows) =
        experiment.work.segments().iter().zip(0..).find_map(|(segment, id)| match &segment.work {
            Work::Transfers { flows, .. } => Some((SegmentId(id), flows)),
            Work::Compute { .. } | Work::Call { .. } => None,
        })?;
    let by_transfer = flows_by_transfer(plan, segment);
    let mut times: Vec<Option<(f64, f64)>> = vec![None; flows.len()];
    for span in timeline.spans.iter().filter(|span| span.iteration == 0 && span.segment == segment) {
        let mut add = |flow: u32| {
            let (begin_s, end_s) = times[flow as usize].get_or_insert((span.begin_s, span.end_s));
            (*begin_s, *end_s) = (begin_s.min(span.begin_s), end_s.max(span.end_s));
        };
        match (span.lane, span.peer) {
            (Lane::Tx, Some(peer)) => {
                by_transfer.get(&(span.rank, peer, span.tag)).into_iter().for_each(|flow| add(*flow));
            }
            (Lane::Codec, _) => {
                let op = &plan.program(span.rank).ops[span.op.index()];
                op.kind.batch().into_iter().flat_map(|batch| &batch.blocks).for_each(|b| add(b.chunk.flow));
            }
            _ => {}
        }
    }
    let row = |(flow, times): (&Flow, Option<(f64, f64)>)| {
        let (start_s, finish_s) = times.unwrap_or((flow.not_before_s, flow.not_before_s));
        TransferRow { src: flow.src.0, dst: flow.dst.0, bytes: flow.bytes, start_s, finish_s }
    };
    Some(flows.iter().zip(times).map(row).collect())
}

/// The flow that each transfer of a segment of explicit flows is of, by sender, receiver and number.
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
    // Ranks that others stand for are not left out.
    let has_members = |sampling: &Sampling| {
        let iterations = sampling.iterations.len() == timeline.iterations.len();
        sampling.ranks.len() == timeline.members() as usize && iterations
    };
    if let Some(sampling) = sampling.filter(|sampling| !has_members(sampling)) {
        let megabytes = Limit::BYTES / 1_000_000;
        // Whether anybody reads it does not matter.
        let _ = writeln!(
            stderr(),
            "{name}: {sampling} are drawn, to stay below {megabytes} MB; all results count everything"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zipwire_scenarios::{Source, load};

    use super::*;
    use crate::executors::SIM;
    use crate::{Cancel, Prepared};

    /// One that is coded from the time on at which it is ready, and one that is not.
    #[test]
    fn flows_last_from_their_coding_to_their_last_value() {
        const SCENARIO: &str = r#"
name = "flows"
[cluster]
nodes = 1
gpus_per_node = 3
gpu_bandwidth = "100 GB/s"
latency_intra = "5 us"
[workload]
kind = "transfers"
flows = [
    { src = 0, dst = 1, bytes = "2 MiB", start = "40 us" },
    { src = 2, dst = 1, bytes = "1000 B", start = "7 us" },
]
[codec]
id = "window7"
ratio = 2.0
speed = { encode = "100 GB/s", decode = "200 GB/s", launch = "3 us" }
[[variant]]
name = "coded"
protocol = "size-first"
raw_below = "1 MB"
parts = 2
"#;
        let experiment = load(&Source::from_text("test", SCENARIO.to_owned(), "."), &[], None).unwrap();
        let cancel = Cancel::default();
        let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
        let timeline = prepared.run(0, SIM, &cancel).unwrap().timeline;
        let rows = transfer_rows(&experiment, &prepared.planned(0).plan, &timeline).unwrap();
        let times = rows.iter().map(|row| [row.start_s, row.finish_s].map(|s| (s * 1e8).round() / 1e2));
        // Half of it is encoded, then size and frame of that half and of the other cross the latency each, and the other one is decoded.
        let half = 1.048576;
        let finish = 40.0 + (3.0 + 10.0 * half) + 2.0 * (5.0 + 5.0 + 5.0 * half) + (3.0 + 5.0 * half);
        assert_eq!(times.collect::<Vec<_>>(), [[40.0, (finish * 1e2_f64).round() / 1e2], [7.0, 12.01]]);
        assert_eq!(rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), [2 << 20, 1000]);
    }
}
