//! Tables of `zipwire run`: of iterations, critical paths, updates of weights, ranks, and requests.

use zipwire::Executor;
use zipwire::cluster::{Fabric, NetworkModel, TransferStart};
use zipwire::scenarios::{Experiment, Serving};
use zipwire::serving::{self, Summary as Requests};
use zipwire::timeline::{Bandwidths, ByRank, CriticalPath, Imbalance, Metrics, Updates};
use zipwire::traces::{Split, Summary, VariantSummary, by_collective};

use crate::table;

/// Shares of a critical path below this have no column of their own, unless they have one in another variant.
const NOTHING: f64 = 0.0005;

/// The table of iterations: one row per variant; all columns for the first executor, time and verification for the others. A
/// collective call on a timed executor has bandwidths. Columns that would be empty for all variants are left out.
pub(super) fn iterations(experiment: &Experiment, summary: &Summary, executors: &[&dyn Executor]) -> String {
    let (&first, others) = executors.split_first().expect("the command line names at least one executor");
    let of = |executor: &dyn Executor| -> Vec<&VariantSummary> {
        let all = experiment.variants.iter().map(|it| summary.executors.get(executor.name(), &it.name));
        all.map(|result| result.expect("every variant ran on every executor")).collect()
    };
    let results = of(first);
    let cells =
        |cell: &dyn Fn(&VariantSummary) -> String| results.iter().map(|it| cell(it)).collect::<Vec<_>>();
    let time = |of: fn(&Metrics) -> f64| cells(&|result| table::seconds(of(&result.metrics)));
    let bytes = |of: fn(&Metrics) -> u64| cells(&|result| table::bytes(of(&result.metrics) as f64));
    let split = |of: fn(Split) -> f64| cells(&|result| factor(result.split.map(of)));
    let bandwidth = |of: fn(&Bandwidths) -> f64| {
        cells(&|result| {
            table::or_dash(result.bandwidths.as_ref(), |bandwidths| format!("{:.3} GB/s", of(bandwidths)))
        })
    };
    let any = |has: fn(&VariantSummary) -> bool| results.iter().any(|result| has(result));
    let any_executor =
        |has: fn(&VariantSummary) -> bool| summary.executors.iter().any(|(_, _, result)| has(result));

    let mut columns = vec![("variant", experiment.variants.iter().map(|it| it.name.clone()).collect())];
    if any_executor(|result| !result.algorithms.is_empty()) {
        columns.push(("algorithm", cells(&|result| algorithms(&by_collective(&result.algorithms)))));
    }
    let within = |of: &Metrics| table::seconds_within(of.iteration_s.mean, of.margin_s);
    columns.push(("time", cells(&|result| within(&result.metrics))));
    columns.push(("speedup", cells(&|result| factor(result.speedup))));
    if any_executor(|result| result.split.is_some()) {
        columns.push(("by compression", split(|split| split.compression)));
        columns.push(("by algorithm", split(|split| split.algorithm)));
    }
    columns.push(("communication", time(|of| of.comm_s)));
    columns.push(("waiting", time(|of| of.wait_s)));
    columns.push(("codec", time(|of| of.codec_s - of.reduce_s)));
    if any(|result| result.metrics.reduce_s > 0.0) {
        columns.push(("sums", time(|of| of.reduce_s)));
    }
    if any(|result| result.metrics.compute_s > 0.0) {
        columns.push(("compute", time(|of| of.compute_s)));
    }
    columns.push(("raw", bytes(|of| of.bytes_raw)));
    columns.push(("wire", bytes(|of| of.bytes_wire)));
    columns.push(("ratio", cells(&|result| factor(result.metrics.ratio))));
    if any(|result| result.bandwidths.is_some()) {
        columns.push(("algbw", bandwidth(|of| of.algbw_gbps)));
        columns.push(("busbw", bandwidth(|of| of.busbw_gbps)));
        columns.push(("effective busbw", bandwidth(|of| of.effective_busbw_gbps)));
    }
    if first.capabilities().is_real {
        columns.push(("verified", cells(&|result| table::verified(result.verified))));
    }
    let names: Vec<String> = others.iter().map(|other| format!("{other}: time")).collect();
    for (&other, name) in others.iter().zip(&names) {
        let results = of(other);
        let times = results.iter().map(|it| within(&it.metrics)).collect();
        columns.push((name, times));
        columns.push(("verified", results.iter().map(|it| table::verified(it.verified)).collect()));
    }
    let mut rows = table::of_columns(&columns, &[0]);
    let times = results.iter().map(|result| result.metrics.iteration_s.mean).enumerate();
    rows.mark_best(
        times.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row).filter(|_| results.len() > 1),
    );
    format!("{}\n\n{}\n", title(experiment, first), table::text(&rows))
}

/// Line above the table: everything that tells times of one workload apart.
fn title(experiment: &Experiment, first: &dyn Executor) -> String {
    let Experiment { name, seed, iterations, .. } = experiment;
    let cluster = cluster(experiment, first);
    let codec = experiment.codec.as_ref().map_or_else(String::new, |choice| format!(", {}", choice.spec));
    let mean = if *iterations == 1 { String::new() } else { format!("mean of {iterations} iterations, ") };
    format!("{name}: {cluster}{codec}, seed {seed}, {mean}{}", first.times(experiment))
}

fn factor(value: Option<f64>) -> String {
    table::or_dash(value, |value| format!("{value:.3}"))
}

/// Size of the cluster, with its fabric and network model where these are not the default.
fn cluster(experiment: &Experiment, first: &dyn Executor) -> String {
    let Experiment { topology, model, start, .. } = experiment;
    let mut text = format!("{} nodes x {} GPUs", topology.nodes, topology.gpus_per_node);
    if topology.fabric != Fabric::default() {
        text += &format!(", {}", topology.fabric.name());
    }
    if !first.capabilities().is_real && *model != NetworkModel::default() {
        text += &format!(", model {}", model.name());
    }
    if !first.capabilities().is_real && *start != TransferStart::default() {
        text += &format!(", start {}", start.name());
    }
    text
}

/// Algorithms: by collective if there are several.
fn algorithms(by_collective: &[(&str, String)]) -> String {
    match by_collective {
        [] => "-".to_owned(),
        [(_, names)] => names.clone(),
        several => several.iter().map(|(of, names)| format!("{of} {names}")).collect::<Vec<_>>().join(", "),
    }
}

/// Critical paths of simulated iterations, in shares of the mean iteration; empty if there are none.
pub(super) fn critical_paths(summary: &Summary) -> String {
    let paths: Vec<(&str, &CriticalPath)> = summary
        .executors
        .iter()
        .filter_map(|(_, variant, result)| Some((variant, result.critical_path.as_ref()?)))
        .collect();
    let share = |path: &CriticalPath, name: &str| {
        let seconds = path.critical_path_s.get(name).copied().unwrap_or_default();
        seconds / path.critical_path_s.values().sum::<f64>()
    };
    let columns = CriticalPath::NAMES.iter().copied();
    let columns: Vec<&str> =
        columns.filter(|name| paths.iter().any(|(_, path)| share(path, name) > NOTHING)).collect();
    if columns.is_empty() {
        return String::new();
    }
    let header: Vec<&str> = ["critical path"].into_iter().chain(columns.iter().copied()).collect();
    let header = [header, vec!["busiest link"]].concat();
    let mut rows = table::new(&header, &[0, header.len() - 1]);
    for (variant, path) in paths {
        let mut row = vec![variant.to_owned()];
        row.extend(columns.iter().map(|name| format!("{:.1} %", 100.0 * share(path, name))));
        row.push(table::or_dash(path.busiest_link.as_ref(), |link| link.name.clone()));
        rows.add_row(row);
    }
    format!("\n{}\n\n", table::text(&rows))
}

/// Time that new weights take to ranks that work with them, and the age of theirs, with a row per executor and variant; empty if there are no
/// updates. Others are compared with `first_variant`, on each executor.
pub(super) fn updates(summary: &Summary, first_variant: &str) -> String {
    let all = || {
        let results = summary.executors.iter();
        results.filter_map(|(executor, variant, result)| Some((executor, variant, result.updates?)))
    };
    if all().next().is_none() {
        return String::new();
    }
    let header = [
        "updates",
        "executor",
        "time to update",
        "times as fast",
        "age",
        "at most",
        "steps behind",
        "at most",
    ];
    let mut rows = table::new(&header, &[0, 1]);
    for (executor, variant, Updates { update_s, age_s, age_steps }) in all() {
        let first = all().find(|(on, variant, _)| (*on, *variant) == (executor, first_variant));
        let faster = first.map(|(.., first)| first.update_s.mean / update_s.mean);
        rows.add_row([
            variant.to_owned(),
            executor.to_owned(),
            table::seconds(update_s.mean),
            factor(faster),
            table::seconds(age_s.mean),
            table::seconds(age_s.max),
            format!("{:.2}", age_steps.mean),
            format!("{:.0}", age_steps.max),
        ]);
    }
    format!("\n{}\n", table::text(&rows))
}

/// Load of each rank, and imbalance of each executor and variant: two tables.
pub(super) fn by_rank(summary: &Summary) -> String {
    let of_ranks =
        ["executor", "variant", "rank", "compute", "communication", "waiting", "codec", "received"];
    let mut ranks = table::new(&of_ranks, &[0, 1]);
    let uneven = ["executor", "variant", "received max/mean", "Gini", "compute max/mean", "Gini"];
    let mut imbalance = table::new(&[&uneven[..], &["waiting max/mean", "Gini"]].concat(), &[0, 1]);
    for (executor, variant, result) in summary.executors.iter() {
        let Some(by_rank) = &result.by_rank else { continue };
        let names = [executor, variant].map(str::to_owned);
        for rank in 0..by_rank.wait_s.len() {
            ranks.add_row(names.iter().cloned().chain([rank.to_string()]).chain(row(by_rank, rank)));
        }
        let all = [by_rank.imbalance.received, by_rank.imbalance.compute, by_rank.imbalance.wait];
        imbalance.add_row(names.into_iter().chain(all.into_iter().flat_map(numbers)));
    }
    format!("{}\n\n{}\n", table::text(&ranks), table::text(&imbalance))
}

/// The columns of a rank behind its number.
fn row(by_rank: &ByRank, rank: usize) -> [String; 5] {
    let ByRank { compute_s, comm_s, wait_s, codec_s, bytes_received, .. } = by_rank;
    let [compute, comm, wait, codec] =
        [compute_s, comm_s, wait_s, codec_s].map(|seconds| table::seconds(seconds[rank]));
    [compute, comm, wait, codec, table::bytes(bytes_received[rank] as f64)]
}

fn numbers(imbalance: Option<Imbalance>) -> [String; 2] {
    [imbalance.as_ref().map(|of| of.max_over_mean), imbalance.as_ref().map(|of| of.gini)].map(factor)
}

/// Results of a variant on an executor.
struct Row<'s> {
    is_simulated: bool,
    name: String,
    result: &'s VariantSummary,
    requests: &'s Requests,
}

/// Both tables, with a row for each executor and variant, and remarks on them.
pub(super) fn requests_text(
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
            let is_simulated =
                executors.iter().any(|other| other.name() == executor && !other.capabilities().is_real);
            Some(Row { is_simulated, name, result, requests: result.requests.as_ref()? })
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
    if executors.iter().any(|executor| executor.capabilities().is_real) {
        text += "real ranks move real bytes as fast as this machine does: their times say nothing about the cluster\n";
    }
    for Row { name, requests: Requests { metrics, .. }, .. } in rows.iter().filter(|row| row.is_simulated) {
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

fn latencies(rows: &[Row<'_>]) -> String {
    let column = |cell: &dyn Fn(&Row<'_>) -> String| rows.iter().map(cell).collect::<Vec<_>>();
    let times = |of: fn(&serving::Metrics) -> Option<f64>| {
        column(&|row| table::or_dash(of(&row.requests.metrics), table::seconds))
    };
    // Promises are about the cluster, and real ranks take this machine's time.
    let of_cluster = |text: fn(&serving::Metrics) -> String| {
        column(&|row| table::or_dash(row.is_simulated.then_some(&row.requests.metrics), text))
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
