//! Every scenario that is shipped loads, says what it is for, and together they cover the language.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use zipwire_cluster::{CrossRail, Fabric, FatTree, NetworkModel, Rail};
use zipwire_scenarios::{Experiment, Source, is_scenario_file, load, open};
use zipwire_schedule::{Algorithm, CallKind, Order, Pace, Protocol, Work};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn scenarios(name: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.retain(|path| path.file_name().unwrap() != "Cargo.toml");
    files.retain(|path| is_scenario_file(&fs::read_to_string(path).unwrap()));
    files.sort();
    files
}

fn load_file(path: &Path) -> Experiment {
    let source = Source::read(path).unwrap();
    load(&source, &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

#[test]
fn every_scenario_loads_and_says_what_it_is_for() {
    let files =
        ["", "smoke", "validate", "sweeps", "switcher", "training", "weight-sync", "serving", "paper"]
            .map(scenarios)
            .concat();
    assert!(files.len() > 10, "{files:?}");
    let mut names = BTreeSet::new();
    for path in files {
        let experiment = load_file(&path);
        let description = experiment.description.unwrap_or_default();
        assert!(description.ends_with(['.', '?']), "{}: `{description}`", path.display());
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(experiment.name.ends_with(stem), "{} is called `{}`", path.display(), experiment.name);
        assert!(names.insert(experiment.name), "{}", path.display());
    }
}

#[test]
fn sweeps_are_small_and_all_their_points_valid() {
    for path in scenarios("sweeps") {
        let sweep = open(&Source::read(&path).unwrap(), &[], None).unwrap().into_sweep().unwrap();
        assert!((2..=100).contains(&sweep.point_count()), "{}", path.display());
        for point in 0..sweep.point_count() {
            sweep.check(point).unwrap_or_else(|error| panic!("{}", error.render(false)));
        }
    }
}

#[test]
fn smoke_scenarios_are_small() {
    for path in scenarios("smoke") {
        let experiment = load_file(&path);
        let ranks = experiment.topology.ranks();
        assert!((2..=16).contains(&ranks) && experiment.iterations <= 3, "{}", path.display());
        for traffic in experiment.traffic() {
            let most = traffic.sent.iter().copied().max().unwrap();
            assert!(most <= 512 << 10, "{}: {most} bytes", path.display());
            assert!(traffic.total() > 0, "{}", path.display());
        }
    }
}

/// Validation is a matter of seconds: what limits it is the codec of a small machine.
#[test]
fn validation_scenarios_are_many_and_small() {
    let files = scenarios("validate");
    assert!(files.len() >= 12, "{files:?}");
    for path in files {
        let experiment = load_file(&path);
        assert!(experiment.topology.ranks() <= 32 && experiment.iterations <= 3, "{}", path.display());
        for traffic in experiment.traffic() {
            assert!(traffic.total() <= 256 << 20, "{}: {} bytes", path.display(), traffic.total());
        }
    }
}

/// Words of which each stands in a smoke scenario.
const WORDS: [&str; 13] = [
    "matrix = \"",
    "trace = ",
    "dirichlet = ",
    "zipf = ",
    "\"uniform\"",
    "gaussian = ",
    "\"noise\"",
    "skew = ",
    "sigma = ",
    "placement = ",
    "replicas = ",
    "noise = ",
    "\npreset = ",
];

/// Features by the names that [`of_cluster_and_variants`] and [`of_segments`] give them, besides all values of enums.
const FEATURES: [&str; 34] = [
    "empty sum",
    "all-reduce of BF16",
    "all-reduce of F32",
    "moe all-to-all of F8_E4M3",
    "moe-training all-to-all of F8_E4M3",
    "moe on 1 nodes",
    "moe on 2 nodes",
    "weight-sync on 1 nodes",
    "weight-sync on 2 nodes",
    "collective on 1 nodes",
    "collective on 2 nodes",
    "moe-training on 2 nodes",
    "fsdp on 2 nodes",
    "transfers on 1 nodes",
    "transfers on 2 nodes",
    "flat",
    "nodes",
    "rail",
    "rail with pxn",
    "fat-tree with pods",
    "graph",
    "several NICs",
    "narrow window",
    "empty pair",
    "empty shard",
    "another root",
    "skew",
    "expert-skew",
    "expert",
    "start",
    "L1 shared experts backward",
    "M1 L0 gate",
    "L2 forward skew",
    "head",
];

#[test]
fn smoke_scenarios_cover_the_language() {
    let mut covered = BTreeSet::new();
    for path in scenarios("smoke") {
        let text = fs::read_to_string(&path).unwrap();
        covered.extend(WORDS.iter().filter(|word| text.contains(**word)).map(|&word| word.to_owned()));
        let experiment = load_file(&path);
        covered.extend(of_cluster_and_variants(&experiment));
        covered.extend(of_segments(&experiment));
    }
    let mut wanted = of_enums();
    wanted.extend(WORDS.iter().chain(&FEATURES).map(|&feature| feature.to_owned()));
    let missing: Vec<&String> = wanted.difference(&covered).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn of_cluster_and_variants(experiment: &Experiment) -> Vec<String> {
    let fabric = match &experiment.topology.fabric {
        Fabric::Flat => "flat",
        Fabric::Nodes => "nodes",
        Fabric::Host { .. } => "nodes with a shared host",
        Fabric::Rail(Rail { cross_rail: CrossRail::Spine, .. }) => "rail",
        Fabric::Rail(_) => "rail with pxn",
        Fabric::FatTree(FatTree { pods: Some(_), .. }) => "fat-tree with pods",
        Fabric::FatTree(_) => "fat-tree",
        Fabric::Graph(_) => "graph",
    };
    let mut covered = vec![fabric.to_owned(), experiment.model.name().to_owned()];
    covered.push(format!("{} on {} nodes", experiment.job().name, experiment.topology.nodes));
    covered.extend((experiment.topology.nics_per_node > 1).then(|| "several NICs".to_owned()));
    for variant in &experiment.variants {
        covered.extend([variant.protocol.name(), variant.order.name()].map(str::to_owned));
        let is_narrow = variant.window.is_some_and(|window| window < experiment.topology.ranks() - 1);
        covered.extend(is_narrow.then(|| "narrow window".to_owned()));
    }
    covered
}

fn of_segments(experiment: &Experiment) -> Vec<String> {
    let mut covered = Vec::new();
    let protocols = || experiment.variants.iter().map(|variant| variant.protocol.name());
    for (index, segment) in experiment.job().segments.iter().enumerate() {
        for variant in &experiment.variants {
            if let Some(way) = variant.ways[index] {
                let (algorithm, protocol) = (way.algorithm.name(), variant.protocol.name());
                covered.push(format!("{} {algorithm} {protocol}", segment.name));
            }
        }
        let special = match &segment.work {
            Work::Compute { .. } => Some(segment.name.to_string()),
            Work::Call { dtype, kind: CallKind::AllToAll { bytes, .. }, .. } => {
                covered.push(format!("{} all-to-all of {dtype}", experiment.job().name));
                let mut pairs = bytes.indexed_iter();
                pairs.any(|((src, dst), &bytes)| src != dst && bytes == 0).then(|| "empty pair".to_owned())
            }
            Work::Call { kind: CallKind::AllGather { bytes }, .. } => {
                bytes.contains(&0).then(|| "empty shard".to_owned())
            }
            Work::Call { kind: CallKind::Send { .. }, .. } => Some("send".to_owned()),
            Work::Call { kind: CallKind::Broadcast { root, .. }, .. } => {
                (root.0 > 0).then(|| "another root".to_owned())
            }
            Work::Call { kind: CallKind::ReduceScatter { bytes }, .. } => {
                bytes.contains(&0).then(|| "empty sum".to_owned())
            }
            Work::Call { dtype, kind: CallKind::AllReduce { .. }, .. } => {
                Some(format!("all-reduce of {dtype}"))
            }
            Work::Transfers { pace, .. } => {
                covered.extend(protocols().map(|protocol| format!("{pace:?} {protocol}")));
                None
            }
        };
        covered.extend(special);
    }
    covered
}

/// All protocols, orders and models, paces with protocols, and algorithms with protocols.
fn of_enums() -> BTreeSet<String> {
    let mut wanted = BTreeSet::from(Protocol::ALL.map(|protocol| protocol.name().to_owned()));
    wanted.extend(Order::ALL.map(|order| order.name().to_owned()));
    wanted.extend(NetworkModel::ALL.map(|model| model.name().to_owned()));
    wanted.extend(Protocol::ALL.map(|protocol| format!("{:?} {}", Pace::Burst, protocol.name())));
    let coded = [Protocol::SizeFirst, Protocol::StaticFirst];
    for pace in [Pace::Chain, Pace::SendReceive] {
        let protocols = coded.into_iter().chain([Protocol::Native, Protocol::InBand]);
        wanted.extend(protocols.map(|protocol| format!("{pace:?} {}", protocol.name())));
    }
    for (name, algorithms) in
        [("all-gather", Algorithm::OF_ALL_GATHER), ("broadcast", Algorithm::OF_BROADCAST)]
    {
        for algorithm in algorithms {
            // Values are never padded.
            let native = (*algorithm != Algorithm::PaddedRing).then_some(Protocol::Native);
            let protocols = coded.into_iter().chain(native).map(Protocol::name);
            wanted.extend(protocols.map(|protocol| format!("{name} {} {protocol}", algorithm.name())));
        }
    }
    for (name, algorithms) in
        [("reduce-scatter", Algorithm::OF_REDUCE_SCATTER), ("all-reduce", Algorithm::OF_ALL_REDUCE)]
    {
        for algorithm in algorithms {
            let takes = |protocol: &Protocol| !protocol.is_coded() || algorithm.takes_frames(true);
            let protocols = Protocol::ALL.into_iter().filter(takes);
            wanted
                .extend(protocols.map(|protocol| format!("{name} {} {}", algorithm.name(), protocol.name())));
        }
    }
    wanted
}

#[test]
fn quickstart_is_what_its_comment_says() {
    let experiment = load_file(&folder("quickstart.toml"));
    assert_eq!((experiment.topology.nodes, experiment.topology.gpus_per_node), (2, 8));
    assert_eq!((experiment.seed, experiment.iterations), (7, 3));
    let names: Vec<&str> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["native", "size-first", "static-first"]);
    let segments: Vec<&str> = experiment.job().segments.iter().map(|segment| &*segment.name).collect();
    assert_eq!(segments, ["dispatch", "expert", "combine"]);
    let Work::Call { kind: CallKind::AllToAll { bytes, .. }, .. } = &experiment.job().segments[0].work else {
        panic!("dispatch communicates")
    };
    for row in bytes.rows() {
        assert_eq!(row.sum(), 1024 * 2 * 4096 * 2, "16.8 MB per GPU");
    }
    let Work::Call { kind: CallKind::AllToAll { bytes: back, .. }, .. } = &experiment.job().segments[2].work
    else {
        panic!("combine communicates")
    };
    assert_eq!(back, &bytes.t());
}

#[test]
fn the_reference_is_true() {
    let text = fs::read_to_string(folder("../docs/scenarios.md")).unwrap();
    let block = |start: &str| {
        let begin = text.find(start).unwrap() + start.len();
        &text[begin..begin + text[begin..].find("\n```").unwrap()]
    };
    let example = Source::from_text("example.toml", block("```toml\n"), ".");
    assert!(load(&example, &[], None).is_ok());
    let error = load(&example, &["cluster.nodse=4".to_owned()], None).unwrap_err();
    assert!(text.contains(&error.render(false)), "{}", error.render(false));
    let documented = documented(&text);
    for algorithm in Algorithm::ALL {
        assert!(documented.contains(algorithm.name()), "{algorithm:?}");
    }
    for (path, junk) in [
        ("cluster", "{ x = 1 }"),
        ("x", "1"),
        ("workload.kind", "x"),
        ("codec.id", "x"),
        ("codec.speed", "{ x = 1 }"),
        ("variant.native.x", "1"),
        ("variant.native.protocol", "x"),
        ("variant.native.order", "x"),
        ("workload.x", "1"),
        ("workload.dtype", "x"),
        ("workload", "{ kind = 'moe', x = 1 }"),
        ("workload", "{ kind = 'moe', model = 'x' }"),
        ("workload", "{ kind = 'moe', model = { x = 1 } }"),
        ("workload", "{ kind = 'collective', collective = 'x' }"),
        ("workload", "{ kind = 'collective', collective = 'all-gather', x = 1 }"),
        ("workload", "{ kind = 'collective', collective = 'broadcast', x = 1 }"),
        ("workload", "{ kind = 'transfers', x = 1 }"),
        ("workload", "{ kind = 'transfers', order = 'x' }"),
        ("workload", "{ kind = 'transfers', start = 'x' }"),
        ("cluster.latency_intra", "5"),
        ("cluster.gpu_bandwidth", "5"),
        ("workload.bytes_per_rank", "5"),
        ("workload.payload", "{ x = 1 }"),
        ("workload.payload", "x"),
        ("workload", "{ kind = 'moe', model = 'mixtral-8x7b', routing = { x = 1 } }"),
        ("workload", "{ kind = 'moe', model = 'mixtral-8x7b', routing = 'uniform', skew = { x = 1 } }"),
        (
            "workload",
            "{ kind = 'moe', model = 'mixtral-8x7b', routing = 'uniform', skew = { distribution = 'x' } }",
        ),
        ("workload", "{ kind = 'moe', model = 'mixtral-8x7b', routing = 'uniform', experts = { x = 1 } }"),
        (
            "workload",
            "{ kind = 'moe', model = 'mixtral-8x7b', routing = 'uniform', experts = { placement = 'x' } }",
        ),
    ] {
        names_are_documented(&example, path, junk, &documented);
    }
}

#[test]
fn training_is_in_the_reference() {
    let text = fs::read_to_string(folder("../docs/scenarios.md")).unwrap();
    let documented = documented(&text);
    let smoke = |name: &str| Source::read(&folder("smoke").join(name)).unwrap();
    for (name, path, junk) in [
        ("moe-training-2x2.toml", "workload.x", "1"),
        ("moe-training-2x2.toml", "workload.model", "x"),
        ("moe-training-2x2.toml", "workload.model", "{ x = 1 }"),
        ("moe-training-2x2.toml", "workload.payload", "{ x = 1 }"),
        ("moe-training-2x2.toml", "compute.x", "1"),
        ("moe-training-2x2.toml", "compute.dense", "5"),
        ("fsdp-2x2.toml", "workload.x", "1"),
        ("fsdp-2x2.toml", "workload.model", "x"),
        ("fsdp-2x2.toml", "workload.payload", "{ x = 1 }"),
        ("fsdp-2x2.toml", "compute.x", "1"),
    ] {
        names_are_documented(&smoke(name), path, junk, &documented);
    }
}

/// Everything that is in a text as code: every name that an error can list should be.
fn documented(text: &str) -> BTreeSet<&str> {
    let is_sign = |c: char| !c.is_alphanumeric() && !"_-/".contains(c);
    text.split('`').skip(1).step_by(2).flat_map(|code| code.split(is_sign)).collect()
}

/// Every name that the error of a wrong value lists is among `documented`.
fn names_are_documented(source: &Source, path: &str, junk: &str, documented: &BTreeSet<&str>) {
    let error = load(source, &[format!("{path}={junk}")], None).unwrap_err();
    let help = error.problem().help().unwrap_or_default();
    let names: Vec<&str> = help.split('`').skip(1).step_by(2).filter(|name| !name.starts_with('"')).collect();
    assert!(!names.is_empty(), "{path}={junk}: {}", error.render(false));
    for name in names {
        assert!(documented.contains(name), "`{name}` is not in the reference");
    }
}
