//! The tables of workload `serving`: what users saw, and what it took.

use zipwire::Executor;
use zipwire::executors::SIM;
use zipwire::scenarios::{Experiment, Serving};
use zipwire::serving::{Percentiles, Summary as Requests};
use zipwire::traces::Summary;

use crate::table;

/// Both tables, with a row for each executor and variant, and what is to be said of them.
pub(super) fn text(
    experiment: &Experiment,
    serving: &Serving,
    summary: &Summary,
    executors: &[&dyn Executor],
) -> String {
    let has_several = executors.len() > 1;
    let all = || {
        let results = summary.executors.iter();
        results.filter_map(|(executor, variant, result)| Some((executor, variant, result, result.requests?)))
    };
    let name = |executor: &str, variant: &str| {
        if has_several { format!("{executor}: {variant}") } else { variant.to_owned() }
    };
    let columns =
        ["variant", "TTFT", "p50", "p90", "p99", "TPOT", "p99", "ITL p99", "e2e", "goodput", "SLO met"];
    let mut users = table::new(&columns, &[0]);
    let columns = [
        "variant",
        "finished",
        "failed",
        "in flight",
        "KV raw",
        "wire",
        "ratio",
        "KV wait",
        "p99",
        "prefill busy",
        "decode busy",
        "busiest link",
        "verified",
    ];
    let mut work = table::new(&columns, &[0]);
    for (executor, variant, result, requests) in all() {
        let Requests { metrics, .. } = requests;
        // Promises are about the cluster, and real ranks take this machine's time.
        let is_cluster = executor == SIM.name();
        let name = name(executor, variant);
        let percentile = |of: Option<Percentiles>, value: fn(&Percentiles) -> f64| {
            of.as_ref().map_or_else(|| "-".to_owned(), |of| table::seconds(value(of)))
        };
        let share = |share: f64| format!("{:.1} %", 100.0 * share);
        users.add_row([
            name.clone(),
            percentile(metrics.ttft_s, |of| of.mean),
            percentile(metrics.ttft_s, |of| of.p50),
            percentile(metrics.ttft_s, |of| of.p90),
            percentile(metrics.ttft_s, |of| of.p99),
            percentile(metrics.tpot_s, |of| of.mean),
            percentile(metrics.tpot_s, |of| of.p99),
            percentile(metrics.itl_s, |of| of.p99),
            percentile(metrics.e2e_s, |of| of.mean),
            if is_cluster { format!("{:.3} /s", metrics.goodput_per_s) } else { "-".to_owned() },
            if is_cluster { share(metrics.slo_met) } else { "-".to_owned() },
        ]);
        work.add_row([
            name,
            metrics.finished.to_string(),
            metrics.failed.to_string(),
            metrics.in_flight.to_string(),
            table::bytes(requests.kv_bytes_raw as f64),
            table::bytes(requests.kv_bytes_wire as f64),
            result.metrics.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            percentile(metrics.kv_wait_s, |of| of.mean),
            percentile(metrics.kv_wait_s, |of| of.p99),
            share(requests.prefill_busy),
            share(requests.decode_busy),
            requests.busiest_link.map_or_else(|| "-".to_owned(), share),
            match result.verified {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            }
            .to_owned(),
        ]);
    }
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
        table::text(&users),
        table::text(&work)
    );
    if executors.iter().any(|executor| executor.is_real()) {
        text += "real ranks move real bytes as fast as this machine does: their times say nothing about the cluster\n";
    }
    let overloaded =
        all().filter(|(executor, .., requests)| *executor == SIM.name() && requests.metrics.is_overloaded);
    for (executor, variant, _, requests) in overloaded {
        let waiting = requests.metrics.unanswered_at_last_arrival;
        text += &format!(
            "overload: with `{}`, the answers of {waiting} of {count} requests had not begun when the last one arrived: they come faster than they are \
             served, and the longer the run, the longer they wait\n",
            name(executor, variant)
        );
    }
    text
}
