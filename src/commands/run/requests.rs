//! The tables of workload `serving`: latencies of users, and the resources that were used.

use zipwire::Executor;
use zipwire::executors::SIM;
use zipwire::scenarios::{Experiment, Serving};
use zipwire::serving::{Metrics, Summary as Requests};
use zipwire::traces::{Summary, VariantSummary};

use crate::table;

/// Results of a variant on an executor.
struct Row<'s> {
    executor: &'s str,
    name: String,
    result: &'s VariantSummary,
    requests: &'s Requests,
}

/// Both tables, with a row for each executor and variant, and remarks on them.
pub(super) fn text(
    experiment: &Experiment,
    serving: &Serving,
    summary: &Summary,
    executors: &[&dyn Executor],
) -> String {
    let results = summary.executors.iter();
    let rows: Vec<Row<'_>> = results
        .filter_map(|(executor, variant, result)| {
            let name =
                if executors.len() > 1 { format!("{executor}: {variant}") } else { variant.to_owned() };
            Some(Row { executor, name, result, requests: result.requests.as_ref()? })
        })
        .collect();
    let (first, count) = (executors[0], serving.requests.len());
    let codec = experiment.codec.as_ref().map_or_else(String::new, |choice| format!(", {}", choice.spec));
    let pools = [serving.config.prefill.instances, serving.config.decode.instances];
    let ranks = [serving.shards.prefill_ranks(0).len(), serving.shards.decode_ranks(0).len()];
    let mut text = format!(
        "{}: {count} requests, {} x {} GPUs prefill and {} x {} decode{codec}, seed {}, {}\n\n{}\n\n{}\n",
        experiment.name,
        pools[0],
        ranks[0],
        pools[1],
        ranks[1],
        experiment.seed,
        first.times(experiment),
        latencies(&rows),
        resources(&rows)
    );
    if executors.iter().any(|executor| executor.is_real()) {
        text += "real ranks move real bytes as fast as this machine does: their times say nothing about the cluster\n";
    }
    for Row { name, requests: Requests { metrics, .. }, .. } in rows.iter().filter(|row| row.is_simulated()) {
        if metrics.is_overloaded {
            text += &format!(
                "overload: with `{name}`, the answers of {} of {count} requests had not begun when the last one arrived: they come faster than they are \
                 served, and the longer the run, the longer they wait\n",
                metrics.unanswered_at_last_arrival
            );
        }
    }
    text
}

impl Row<'_> {
    fn is_simulated(&self) -> bool {
        self.executor == SIM.name()
    }
}

fn latencies(rows: &[Row<'_>]) -> String {
    let column = |cell: &dyn Fn(&Row<'_>) -> String| rows.iter().map(cell).collect::<Vec<_>>();
    let times = |of: fn(&Metrics) -> Option<f64>| {
        column(&|row| table::or_dash(of(&row.requests.metrics), table::seconds))
    };
    // Promises are about the cluster, and real ranks take this machine's time.
    let of_cluster = |text: fn(&Metrics) -> String| {
        column(&|row| table::or_dash(row.is_simulated().then_some(&row.requests.metrics), text))
    };
    let columns = [
        ("variant", column(&|row| row.name.clone())),
        ("TTFT", times(|of| Some(of.ttft_s?.mean))),
        ("p50", times(|of| Some(of.ttft_s?.p50))),
        ("p90", times(|of| Some(of.ttft_s?.p90))),
        ("p99", times(|of| Some(of.ttft_s?.p99))),
        ("TPOT", times(|of| Some(of.tpot_s?.mean))),
        ("p99", times(|of| Some(of.tpot_s?.p99))),
        ("ITL p99", times(|of| Some(of.itl_s?.p99))),
        ("e2e", times(|of| Some(of.e2e_s?.mean))),
        ("goodput", of_cluster(|of| format!("{:.3} /s", of.goodput_per_s))),
        ("SLO met", of_cluster(|of| percent(of.slo_met))),
    ];
    table::text(&table::of_columns(&columns, &[0]))
}

fn resources(rows: &[Row<'_>]) -> String {
    let column = |cell: &dyn Fn(&Row<'_>) -> String| rows.iter().map(cell).collect::<Vec<_>>();
    let of = |cell: fn(&Requests) -> String| column(&|row| cell(row.requests));
    let columns = [
        ("variant", column(&|row| row.name.clone())),
        ("finished", of(|of| of.metrics.finished.to_string())),
        ("failed", of(|of| of.metrics.failed.to_string())),
        ("in flight", of(|of| of.metrics.in_flight.to_string())),
        ("KV raw", of(|of| table::bytes(of.kv_bytes_raw as f64))),
        ("wire", of(|of| table::bytes(of.kv_bytes_wire as f64))),
        ("ratio", column(&|row| table::or_dash(row.result.metrics.ratio, |ratio| format!("{ratio:.3}")))),
        ("KV wait", of(|of| table::or_dash(of.metrics.kv_wait_s, |wait| table::seconds(wait.mean)))),
        ("p99", of(|of| table::or_dash(of.metrics.kv_wait_s, |wait| table::seconds(wait.p99)))),
        ("prefill busy", of(|of| percent(of.prefill_busy))),
        ("decode busy", of(|of| percent(of.decode_busy))),
        ("busiest link", of(|of| table::or_dash(of.busiest_link, percent))),
        ("verified", column(&|row| table::verified(row.result.verified))),
    ];
    table::text(&table::of_columns(&columns, &[0]))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
