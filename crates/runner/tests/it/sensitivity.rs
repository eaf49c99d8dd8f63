//! Sensitivities against runs: each speedup is that of a run with that key a tenth larger and all else as it is.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::library::{Constant, ConstantUnit, LibraryModel};
use zipwire_cluster::{DeclaredCost, Fabric, Uplink};
use zipwire_runner::sensitivity::sensitivities;
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, compare, executors::SIM};
use zipwire_scenarios::{Experiment, Source, load};
use zipwire_traces::{Executors, Sensitivity};

/// Most that a speedup may be off, as a part of it.
const OFF: f64 = 0.002;
const MORE: f64 = 1.1;

fn one_of<'a>(random: &mut ChaCha8Rng, values: &[&'a str]) -> &'a str {
    values[random.random_range(0..values.len())]
}

/// A cluster that is named, or declared, in the second case with what connects its nodes.
fn cluster(random: &mut ChaCha8Rng) -> String {
    let nodes = random.random_range(1..=4);
    if random.random() {
        let preset = one_of(random, &["a100-8x", "h100-8x", "b200-8x"]);
        let gpus = one_of(random, &["2", "4", "8"]);
        let more = one_of(
            random,
            &["", "nic_bandwidth = \"12.5 GB/s\"\n", "links = { \"gpu 0 up\" = \"20 GB/s\" }\n"],
        );
        return format!("[cluster]\npreset = \"{preset}\"\nnodes = {nodes}\ngpus_per_node = {gpus}\n{more}");
    }
    let (gpus, nics) = [(2, 1), (4, 1), (4, 4)][random.random_range(0..3)];
    let topology = one_of(
        random,
        &[
            "topology = \"nodes\"\n",
            "topology = { kind = \"nodes\", host_bandwidth = \"60 GB/s\" }\n",
            "topology = { kind = \"fat-tree\", nodes_per_leaf = 2, oversubscription = 4 }\n",
            "topology = { kind = \"rail\", uplink_bandwidth = \"10 GB/s\" }\n",
        ],
    );
    let declared =
        "library = { all-gather = { latency = \"30 us\", per_rank = \"6 us\", bandwidth = \"22 GB/s\" } }\n";
    let modelled = "library = { model = \"nccl-2.30\", gpus = \"ampere\" }\n";
    let library = one_of(random, &["", declared, modelled]);
    let gpu = one_of(random, &["25", "100", "450"]);
    let nic = one_of(random, &["3.125", "12.5", "50"]);
    let (launch, sync) = (one_of(random, &["2", "8"]), one_of(random, &["20", "60"]));
    format!(
        "[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus}\nnics_per_node = {nics}\ngpu_bandwidth = \"{gpu} GB/s\"\n\
         nic_bandwidth = \"{nic} GB/s\"\nlatency_intra = \"5 us\"\nlatency_inter = \"10 us\"\nlaunch = \"{launch} us\"\n\
         host_sync = \"{sync} us\"\nreduce = \"400 GB/s\"\n{topology}{library}"
    )
}

fn scenario(seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let cluster = cluster(&mut random);
    let bytes = one_of(&mut random, &["64 KiB", "1 MiB", "8 MiB"]);
    let collective =
        one_of(&mut random, &["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast"]);
    let size = if collective == "broadcast" { "bytes" } else { "bytes_per_rank" };
    let ratio = one_of(&mut random, &["1.1", "1.2"]);
    let protocol = one_of(&mut random, &["size-first", "static-first", "in-band", "speculative"]);
    format!(
        "name = \"drawn\"\n{cluster}[workload]\nkind = \"collective\"\ncollective = \"{collective}\"\n{size} = \"{bytes}\"\n\
         [codec]\nid = \"window7\"\nratio = {ratio}\nspeed = {{ encode = \"180 GB/s\", decode = \"260 GB/s\", launch = \"5 us\" }}\n\
         [[variant]]\nname = \"native\"\n[[variant]]\nname = \"coded\"\nprotocol = \"{protocol}\"\n"
    )
}

/// Results of a scenario with some keys changed, and the constants on which they depend most.
fn run(text: &str, sets: &[String]) -> (Experiment, Executors, Vec<Sensitivity>) {
    let experiment = load(&Source::from_text("drawn.toml", text, "."), sets, None)
        .unwrap_or_else(|error| panic!("{error:?}\n{text}\n{sets:?}"));
    let cancel = Cancel::default();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let keep = |_: &RunResult<'_>| Ok::<_, ExecuteError>(());
    let compared = compare(&mut prepared, &[SIM], "native", false, &cancel, |_, _| (), keep).unwrap();
    let found = if sets.is_empty() {
        sensitivities(&compared.executors, &mut prepared, &cancel).unwrap()
    } else {
        Vec::new()
    };
    drop(prepared);
    (experiment, compared.executors, found)
}

/// The argument of `--set` that states a whole model of a library, with a constant of this name a tenth larger: keys of presets have no parts.
fn model_with(model: &LibraryModel, larger: &str) -> String {
    let constant = |constant: Constant| {
        let more = if constant.key() == larger { MORE } else { 1.0 };
        let value = model.constants.get(constant) * more;
        let value = match constant.unit() {
            ConstantUnit::Time => format!("\"{value} s\""),
            ConstantUnit::Bandwidth => format!("\"{value} B/s\""),
            ConstantUnit::Ratio => format!("{value}"),
        };
        format!("{} = {value}", constant.key())
    };
    let constants = Constant::ALL.map(constant).join(", ");
    let name = LibraryModel::NAME;
    format!("cluster.library={{ model = \"{name}\", gpus = \"hopper\", constants = {{ {constants} }} }}")
}

/// Arguments of `--set` that make a constant of an experiment a tenth larger.
fn larger(experiment: &Experiment, path: &str) -> Vec<String> {
    let Experiment { topology, host, .. } = experiment;
    let quantity = |path: &str, value: f64, unit: &str| format!("{path}=\"{} {unit}\"", value * MORE);
    let bandwidth = |value: f64| vec![quantity(path, value, "B/s")];
    let time = |value: f64| vec![quantity(path, value, "s")];
    let number = |value: f64| vec![format!("{path}={}", value * MORE)];
    if let Some(key) = path.strip_prefix("cluster.library.constants.") {
        return vec![model_with(&host.library.model.unwrap(), key)];
    }
    let uplink = || match &topology.fabric {
        Fabric::Rail(rail) => rail.uplink,
        Fabric::FatTree(tree) => tree.uplink,
        other => panic!("{path} of {other:?}"),
    };
    let DeclaredCost { latency_s, per_rank_s, bytes_per_s } =
        host.library.all_gather.unwrap_or(DeclaredCost { latency_s: 0.0, per_rank_s: 0.0, bytes_per_s: 0.0 });
    let cost = experiment.codec.as_ref().unwrap().cost;
    match path {
        "cluster.gpu_bandwidth" => bandwidth(topology.gpu_bandwidth),
        "cluster.nic_bandwidth" => bandwidth(topology.nic_bandwidth),
        "cluster.latency_intra" => time(topology.latency_intra_s),
        "cluster.latency_inter" => time(topology.latency_inter_s),
        "cluster.launch" => time(host.launch_s),
        "cluster.host_sync" => time(host.sync_s),
        "cluster.reduce" => bandwidth(host.reduce_bytes_per_s),
        "cluster.library.all-gather.latency" => time(latency_s),
        "cluster.library.all-gather.per_rank" => time(per_rank_s),
        "cluster.library.all-gather.bandwidth" => bandwidth(bytes_per_s),
        "codec.speed.launch" => time(cost.launch_s),
        "codec.speed" => vec![
            quantity("codec.speed.encode", cost.encode_bytes_per_s, "B/s"),
            quantity("codec.speed.decode", cost.decode_bytes_per_s, "B/s"),
        ],
        "cluster.links" => {
            let links = topology.link_bandwidths.iter();
            let set = |(link, value): (_, &f64)| {
                format!("\"{}\" = \"{} B/s\"", topology.link_name(link), value * MORE)
            };
            vec![format!(
                "cluster.links={{ {} }}",
                links.map(|(&link, value)| set((link, value))).collect::<Vec<_>>().join(", ")
            )]
        }
        "cluster.topology.host_bandwidth" => match topology.fabric {
            Fabric::Host { bandwidth: value } => bandwidth(value),
            ref other => panic!("{path} of {other:?}"),
        },
        "cluster.topology.oversubscription" | "cluster.topology.uplink_bandwidth" => match uplink() {
            // Presets name their topology only.
            Uplink::Oversubscribed(value) if experiment.preset.is_some() => {
                vec![format!("cluster.topology={{ kind = \"rail\", oversubscription = {} }}", value * MORE)]
            }
            Uplink::Oversubscribed(value) => number(value),
            Uplink::Bandwidth(value) => bandwidth(value),
        },
        other => panic!("a constant that is not expected here: {other}"),
    }
}

fn check(seeds: std::ops::Range<u64>) {
    let mut with_library = 0;
    for seed in seeds {
        let text = scenario(seed);
        let (experiment, _, found) = run(&text, &[]);
        for Sensitivity { variant, constant, speedup } in found {
            with_library += usize::from(constant.starts_with("cluster.library."));
            let sets = larger(&experiment, &constant);
            let (_, again, _) = run(&text, &sets);
            let real = again.get(SIM.name(), &variant).unwrap().speedup.unwrap();
            let off = (real / speedup - 1.0).abs();
            assert!(off <= OFF, "{seed}: {speedup} was said and {real} came of {sets:?}\n{text}");
        }
    }
    assert!(with_library > 0, "libraries are part of it");
}

#[test]
fn runs_confirm_what_is_said() {
    check(0..12);
}

mod whole {
    #[test]
    #[ignore = "half a minute: .ci/run runs it, and the short form is beside it"]
    fn runs_confirm_what_is_said_of_a_hundred_scenarios() {
        super::check(0..100);
    }
}
