//! Critical paths, checked by hand, and on random scenarios: the parts add up, and all of them are explained.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::Fabric;
use zipwire_runner::critical_path::{Cause, causes};
use zipwire_runner::executors::SIM;
use zipwire_runner::{Cancel, Prepared};
use zipwire_scenarios::{Experiment, Source, load};

/// The paths of all variants but adaptive ones, and the length of each run.
fn paths(experiment: &Experiment) -> Vec<(String, BTreeMap<Cause, f64>, f64)> {
    let cancel = Cancel::default();
    let mut prepared = Prepared::new(experiment, &cancel).unwrap();
    let mut paths = Vec::new();
    for (index, variant) in experiment.variants.iter().enumerate().filter(|(_, v)| !v.is_adaptive()) {
        let timeline = prepared.run(index, SIM, &cancel).unwrap().timeline;
        let path = causes(experiment, variant, &prepared.planned(index).plan, &timeline);
        paths.push((variant.name.clone(), path, timeline.elapsed_s()));
    }
    paths
}

/// One iteration on a small cluster: what it goes to, in microseconds and rounded to hundredths.
fn bound_by(cluster: &str, rest: &str) -> Vec<(String, f64)> {
    const CLUSTER: &str = r#"
name = "by-hand"
[cluster]
gpu_bandwidth = "100 GB/s"
nic_bandwidth = "10 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
launch = "2 us"
host_sync = "7 us"
reduce = "50 GB/s"
"#;
    let experiment =
        load(&Source::from_text("test", format!("{CLUSTER}{cluster}\n{rest}"), "."), &[], None).unwrap();
    let name = |cause: &Cause| match cause {
        Cause::Link(link) => experiment.topology.link_name(*link),
        other => format!("{other:?}").to_lowercase(),
    };
    let (_, path, _) = paths(&experiment).pop().unwrap();
    let rounded = path.iter().map(|(cause, seconds)| (name(cause), (seconds * 1e8).round() / 1e2));
    rounded.filter(|(_, us)| *us > 0.0).collect()
}

fn named<const N: usize>(parts: [(&str, f64); N]) -> Vec<(String, f64)> {
    parts.map(|(name, seconds)| (name.to_owned(), seconds)).to_vec()
}

/// 2 MB from the first node to the second, not before 4 us.
#[test]
fn a_flow() {
    let flow = r#"
[workload]
kind = "transfers"
order = "burst"
flows = [{ src = 0, dst = 2, bytes = "2 MB", start = "4 us" }]
"#;
    let parts = bound_by("nodes = 2\ngpus_per_node = 2", flow);
    assert_eq!(parts, named([("nic 0 up", 200.0), ("latency", 10.0), ("start", 4.0)]));
}

/// 1 MB each way: encode, sizes and their way to the host, frames of half the length, decode.
#[test]
fn a_coded_call() {
    let call = r#"
[workload]
kind = "collective"
collective = "all-to-all"
bytes_per_rank = "2 MB"
[codec]
id = "window7"
ratio = 2.0
speed = { encode = "100 GB/s", decode = "200 GB/s", launch = "3 us" }
[[variant]]
name = "coded"
protocol = "size-first"
"#;
    let parts = bound_by("nodes = 1\ngpus_per_node = 2", call);
    let host = 3.0 + 2.0 + 7.0 + 2.0 + 3.0;
    assert_eq!(parts, named([("codec", 15.0), ("gpu 0 up", 5.0), ("latency", 10.0), ("host", host)]));
}

/// 2 MB from the first node to the second, ready after 40 us: encode, the size and its way to the host, a frame of half the length, decode.
#[test]
fn a_coded_flow() {
    let flow = r#"
[workload]
kind = "transfers"
flows = [{ src = 0, dst = 2, bytes = "2 MB", start = "40 us" }, { src = 1, dst = 0, bytes = "2 KB" }]
[codec]
id = "window7"
ratio = 2.0
speed = { encode = "100 GB/s", decode = "200 GB/s", launch = "3 us" }
[[variant]]
name = "coded"
protocol = "size-first"
"#;
    let parts = bound_by("nodes = 2\ngpus_per_node = 2", flow);
    let host = 3.0 + 2.0 + 7.0 + 2.0 + 3.0;
    let rest = [("latency", 20.0), ("host", host), ("start", 40.0)];
    assert_eq!(parts, [named([("codec", 30.0), ("nic 0 up", 100.0)]), named(rest)].concat());
}

/// A window of one: three transfers of 1 MB follow one another.
#[test]
fn a_window() {
    let call = r#"
[workload]
kind = "collective"
collective = "all-to-all"
bytes_per_rank = "4 MB"
[[variant]]
name = "native"
window = 1
"#;
    let parts = bound_by("nodes = 1\ngpus_per_node = 4", call);
    let links: f64 = parts.iter().filter(|(name, _)| name.starts_with("gpu ")).map(|(_, us)| us).sum();
    let others: Vec<_> = parts.into_iter().filter(|(name, _)| !name.starts_with("gpu ")).collect();
    assert_eq!((links, others), (30.0, named([("latency", 15.0), ("host", 2.0)])));
}

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new("../../scenarios/smoke");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    files
}

/// Scenarios of all kinds, with seeds and costs of hosts of their own.
#[test]
fn parts_add_up() {
    let mut random = ChaCha8Rng::seed_from_u64(20);
    let files = scenarios();
    let (mut scenarios, mut variants) = (0, 0);
    while scenarios < 100 {
        let file = files.choose(&mut random).unwrap();
        let mut sets = Vec::new();
        for (key, most) in [("launch", 20), ("host_sync", 60), ("latency_inter", 50)] {
            if random.random() {
                sets.push(format!("cluster.{key}=\"{} us\"", random.random_range(0..=most)));
            }
        }
        let seed = random.random_range(0..1000);
        let source = Source::read(file).unwrap();
        let Ok(experiment) = load(&source, &sets, Some(seed)) else { continue };
        for (variant, path, elapsed_s) in paths(&experiment) {
            let place = format!("{} {sets:?} seed {seed}: {variant}: {path:?}", file.display());
            assert!(
                (path.values().sum::<f64>() - elapsed_s).abs() <= 1e-9 * elapsed_s,
                "{place}: {elapsed_s}"
            );
            assert!(path.values().all(|&seconds| seconds > 0.0), "{place}");
            let other = path.get(&Cause::Other).copied().unwrap_or_default();
            assert!(other <= 1e-6 * elapsed_s, "{place}: {other} of {elapsed_s} are not explained");
            variants += 1;
        }
        scenarios += 1;
    }
    assert!(variants > 200, "{variants}");
}

/// A change that makes ops of some causes slower, and these causes.
type Change = (fn(&mut Experiment), fn(&Cause) -> bool);

/// If all that is of a cause took a millionth longer, the run would take a millionth of the cause's part longer: found by running it so.
#[test]
fn parts_are_what_a_little_more_costs() {
    const MORE: f64 = 1e-6;
    let slower_links: fn(&mut Experiment) = |experiment| {
        let topology = &mut experiment.topology;
        topology.gpu_bandwidth /= 1.0 + MORE;
        topology.nic_bandwidth /= 1.0 + MORE;
        topology.link_bandwidths.values_mut().for_each(|bandwidth| *bandwidth /= 1.0 + MORE);
    };
    let slower_codecs: fn(&mut Experiment) = |experiment| {
        let own = experiment.variants.iter_mut().filter_map(|variant| variant.codec.as_mut());
        for codec in own.chain(&mut experiment.codec) {
            codec.cost.encode_bytes_per_s /= 1.0 + MORE;
            codec.cost.decode_bytes_per_s /= 1.0 + MORE;
        }
    };
    let slower_sums: fn(&mut Experiment) = |experiment| experiment.host.reduce_bytes_per_s /= 1.0 + MORE;
    let changes: [Change; 3] = [
        (slower_links, |cause| matches!(cause, Cause::Link(_))),
        (slower_codecs, |cause| *cause == Cause::Codec),
        (slower_sums, |cause| *cause == Cause::Sums),
    ];
    let (mut checked, mut inexact) = ([0; 3], 0);
    for file in scenarios() {
        let experiment = load(&Source::read(&file).unwrap(), &[], None).unwrap();
        // Switches have bandwidths of their own.
        if !matches!(experiment.topology.fabric, Fabric::Flat | Fabric::Nodes) {
            continue;
        }
        let before = paths(&experiment);
        for (number, (change, is_of)) in changes.into_iter().enumerate() {
            let mut changed = experiment.clone();
            change(&mut changed);
            for ((variant, path, before_s), (_, _, after_s)) in before.iter().zip(paths(&changed)) {
                let part_s: f64 =
                    path.iter().filter(|(cause, _)| is_of(cause)).map(|(_, seconds)| seconds).sum();
                let found_s = (after_s - before_s) / MORE;
                let place = format!("{}: {variant}: {path:?}", file.display());
                let off = (found_s - part_s).abs() / before_s;
                // Where transfers of unlike lengths share links, who delays whom is more than a chain says.
                assert!(off <= 0.015, "{place}: {found_s} s, not {part_s}");
                inexact += usize::from(off > 1e-3);
                checked[number] += usize::from(part_s > 0.0);
            }
        }
    }
    assert!(checked.iter().all(|&checked| checked > 5), "{checked:?}");
    assert!(20 * inexact <= checked.iter().sum(), "{inexact} of {checked:?}");
}
