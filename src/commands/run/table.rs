//! The table of `zipwire run`.

use zipwire::Executor;
use zipwire::cluster::{Fabric, NetworkModel, TransferStart};
use zipwire::scenarios::Experiment;
use zipwire::timeline::Bandwidths;
use zipwire::traces::{Summary, by_collective};

use crate::table;

/// The table: one row per variant; all columns for the first executor, time and verification for the others. A collective
/// call on a timed executor has bandwidths.
pub(super) fn text(experiment: &Experiment, summary: &Summary, executors: &[&dyn Executor]) -> String {
    let (&first, others) = executors.split_first().expect("the command line names at least one executor");
    let mut header: Vec<String> =
        ["variant", "time", "speedup", "communication", "waiting", "codec"].map(String::from).into();
    let of_first = || summary.executors.iter().filter(|(executor, ..)| *executor == first.name());
    // What no variant does has no column.
    let has_sums = of_first().any(|(_, _, result)| result.metrics.reduce_s > 0.0);
    let has_compute = of_first().any(|(_, _, result)| result.metrics.compute_s > 0.0);
    if has_sums {
        header.push("sums".to_owned());
    }
    if has_compute {
        header.push("compute".to_owned());
    }
    header.extend(["raw", "wire", "ratio"].map(String::from));
    let has_bandwidths = of_first().any(|(_, _, result)| result.bandwidths.is_some());
    let mut results = summary.executors.iter();
    let has_algorithms = results.any(|(_, _, result)| !result.algorithms.is_empty());
    let has_splits = summary.executors.iter().any(|(_, _, result)| result.split.is_some());
    if has_splits {
        let place = header.iter().position(|name| name == "speedup").expect("it is there") + 1;
        header.splice(place..place, ["by compression", "by algorithm"].map(String::from));
    }
    if has_algorithms {
        header.insert(1, "algorithm".to_owned());
    }
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
        let result = |executor: &dyn Executor| {
            summary
                .executors
                .get(executor.name(), &variant.name)
                .expect("every variant ran on every executor")
        };
        let factor = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let verified = |executor| {
            match result(executor).verified {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            }
            .to_owned()
        };
        let (metrics, speedup) = (&result(first).metrics, result(first).speedup);
        let mut times = vec![metrics.comm_s, metrics.wait_s, metrics.codec_s - metrics.reduce_s];
        times.extend(has_sums.then_some(metrics.reduce_s));
        times.extend(has_compute.then_some(metrics.compute_s));
        let mut row = vec![variant.name.clone(), table::seconds(metrics.iteration_s.mean), factor(speedup)];
        if has_splits {
            let split = result(first).split;
            row.extend(
                [split.map(|split| split.compression), split.map(|split| split.algorithm)].map(factor),
            );
        }
        if has_algorithms {
            row.insert(1, algorithms(&by_collective(&result(first).algorithms)));
        }
        row.extend(times.into_iter().map(table::seconds));
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
    let Experiment { name, seed, iterations, .. } = experiment;
    let cluster = cluster(experiment, first);
    let codec = experiment.codec.as_ref().map_or_else(String::new, |choice| format!(", {}", choice.spec));
    let mean = if *iterations == 1 { String::new() } else { format!("mean of {iterations} iterations, ") };
    let clock = first.times(experiment);
    format!("{name}: {cluster}{codec}, seed {seed}, {mean}{clock}\n\n{}\n", table::text(&rows))
}

/// Size of the cluster, and what connects it and how transfers share it where that is not the default: all that tells times of
/// one workload apart.
fn cluster(experiment: &Experiment, first: &dyn Executor) -> String {
    let Experiment { topology, model, start, .. } = experiment;
    let mut text = format!("{} nodes x {} GPUs", topology.nodes, topology.gpus_per_node);
    if topology.fabric != Fabric::default() {
        text += &format!(", {}", topology.fabric.name());
    }
    if !first.is_real() && *model != NetworkModel::default() {
        text += &format!(", model {}", model.name());
    }
    if !first.is_real() && *start != TransferStart::default() {
        text += &format!(", start {}", start.name());
    }
    text
}

/// In one word where there is one collective, and else by collective.
fn algorithms(by_collective: &[(&str, String)]) -> String {
    match by_collective {
        [] => "-".to_owned(),
        [(_, names)] => names.clone(),
        several => several.iter().map(|(of, names)| format!("{of} {names}")).collect::<Vec<_>>().join(", "),
    }
}
