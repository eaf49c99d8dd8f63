//! Advice on jobs that are known: profiles of simulated runs, written in each format, must lead to what the original scenario's simulation ranks best.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fmt::Write as _;
use std::path::Path;

use zipwire_advice::{Advice, AdviceSetup, advise_profile};
use zipwire_codec::DType;
use zipwire_profiles::{
    Profile, RankTrace, merge, place, read_chakra, read_flight, read_inspector, read_kineto, read_shim,
};
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, compare, executors};
use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::{CallKind, Lane, Segment, Work};
use zipwire_timeline::Timeline;

use self::written::{CallOf, GroupOf, InspectorForm, Run};

#[path = "../../profiles/tests/it/written.rs"]
mod written;

const CANDIDATES: [&str; 3] = ["static-first", "size-first", "in-band"];

/// Numbers that look random, the same everywhere.
struct Draws(u64);

impl Draws {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A scenario with all candidates, its cluster, and its ratio.
struct Drawn {
    text: String,
    cluster: String,
    ratio: f64,
}

fn drawn(draws: &mut Draws) -> Drawn {
    let (nodes, gpus) = draws.of(&[(1, 4), (2, 2), (2, 4), (4, 1), (4, 2), (8, 1)]);
    let nic = draws.of(&["3 GB/s", "12 GB/s", "25 GB/s"]);
    let link = draws.of(&["12 GB/s", "50 GB/s", "300 GB/s"]);
    let speed = draws.of(&[150, 500, 1500]);
    let ratio = draws.of(&[1.25, 1.35, 1.45]);
    let cluster = format!(
        "nodes = {nodes}\ngpus_per_node = {gpus}\nnics_per_node = {gpus}\ngpu_bandwidth = \"{link}\"\nnic_bandwidth = \"{nic}\"\n\
         latency_intra = \"5 us\"\nlatency_inter = \"12 us\"\nlaunch = \"5 us\"\n\
         codec_speed = {{ tiered = {{ encode = \"{speed} GB/s\", decode = \"{speed} GB/s\", launch = \"15 us\", basis = \"assumed\", source = \"a test\" }} }}\n"
    );
    let mib = draws.of(&[1, 4, 16, 64, 256]);
    let workload = match draws.below(6) {
        0 => format!("kind = \"collective\"\ncollective = \"all-gather\"\nbytes_per_rank = \"{mib} MiB\""),
        1 => {
            format!("kind = \"collective\"\ncollective = \"reduce-scatter\"\nbytes_per_rank = \"{mib} MiB\"")
        }
        2 => format!("kind = \"collective\"\ncollective = \"all-reduce\"\nbytes_per_rank = \"{mib} MiB\""),
        3 => format!("kind = \"collective\"\ncollective = \"all-to-all\"\nbytes_per_rank = \"{mib} MiB\""),
        kind => {
            let kind = if kind == 4 { "dp" } else { "tp" };
            format!(
                "kind = \"{kind}\"\nmodel = {{ preset = \"llama3-8b\", layers = 2, vocabulary = 0 }}\nsequence = {}\n\
                 [compute]\ndense = \"{} TFLOP/s\"",
                draws.of(&[512, 2048]),
                draws.of(&[200, 600])
            )
        }
    };
    let mut text = format!(
        "name = \"known\"\niterations = 3\n[cluster]\n{cluster}[workload]\n{workload}\n[codec]\nid = \"tiered\"\nratio = {ratio}\n\
         [[variant]]\nname = \"native\"\n"
    );
    for protocol in CANDIDATES {
        let _ = write!(text, "[[variant]]\nname = \"{protocol}\"\nprotocol = \"{protocol}\"\n");
    }
    Drawn { text, cluster, ratio }
}

/// Times of all variants, and the timeline of the first.
fn simulated(experiment: &Experiment) -> (Vec<(String, f64)>, Timeline) {
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(experiment, &cancel).unwrap();
    let mut first = None;
    let keep = |ran: &RunResult<'_>| {
        first.get_or_insert_with(|| ran.timeline.clone());
        Ok::<(), ExecuteError>(())
    };
    let compared =
        compare(&mut prepared, &[executors::SIM], "native", false, &cancel, |_, _| {}, keep).unwrap();
    let time = |name: &str| compared.executors.get("sim", name).unwrap().metrics.iteration_s.mean;
    let names = experiment.variants.iter().map(|variant| variant.name.clone());
    (names.map(|name| (name.clone(), time(&name))).collect(), first.unwrap())
}

/// Operation of a call, and the bytes that a rank gives and gets, as profiles have them.
fn operation(segment: &Segment) -> Option<(&'static str, u64, u64)> {
    let Work::Call { kind, .. } = &segment.work else { return None };
    Some(match kind {
        CallKind::AllGather { bytes } => ("all_gather", bytes[0], bytes.iter().sum()),
        CallKind::ReduceScatter { bytes } => ("reduce_scatter", bytes.iter().sum(), bytes[0]),
        CallKind::AllReduce { bytes } => ("all_reduce", *bytes, *bytes),
        CallKind::AllToAll { bytes, .. } => ("alltoall", bytes.row(0).sum(), bytes.row(0).sum()),
        _ => return None,
    })
}

/// The run as a profiler would have seen it.
fn recorded(experiment: &Experiment, timeline: &Timeline) -> Run {
    let ranks = experiment.topology.ranks();
    let group =
        GroupOf { name: "0".to_owned(), description: "default_pg".to_owned(), ranks: (0..ranks).collect() };
    let mut run = Run {
        ranks,
        groups: vec![group],
        calls: Vec::new(),
        compute: vec![Vec::new(); ranks as usize],
        gpu: "NVIDIA H100 80GB HBM3".to_owned(),
        gpus_per_node: experiment.topology.gpus_per_node,
    };
    let ns = |iteration: u32, seconds: f64| {
        let begin_s = timeline.iterations[iteration as usize].begin_s;
        1_700_000_000_000_000_000 + ((begin_s + seconds) * 1e6).round() as i64 * 1000
    };
    let segments = experiment.work.segments();
    for (index, segment) in segments.iter().enumerate() {
        for rank in 0..ranks {
            for iteration in 0..experiment.iterations {
                let own = timeline.spans.iter().filter(|span| {
                    span.segment.index() == index && span.rank.0 == rank && span.iteration == iteration
                });
                let begin = own.clone().map(|span| span.begin_s).fold(f64::INFINITY, f64::min);
                let end = own.clone().map(|span| span.end_s).fold(0.0, f64::max);
                let times = (ns(iteration, begin), ns(iteration, end));
                match operation(segment) {
                    Some((op, bytes_in, bytes_out)) if begin < end => {
                        let is_beside = own.clone().any(|span| span.lane == Lane::Background);
                        let stream = if is_beside { 41 } else { 40 };
                        run.calls.push(CallOf {
                            rank,
                            op,
                            bytes_in,
                            bytes_out,
                            begin_ns: times.0,
                            end_ns: times.1,
                            stream,
                            ..CallOf::default()
                        });
                    }
                    None if times.0 < times.1 => run.compute[rank as usize].push(times),
                    _ => {}
                }
            }
        }
    }
    run.calls.sort_by_key(|call| (call.begin_ns, call.rank));
    run
}

#[derive(Clone, Copy, Debug)]
enum Written {
    Kineto,
    Flight,
    Inspector,
    Chakra,
}

fn profile(run: &Run, written: Written) -> Profile {
    let name = |rank: u32| match written {
        Written::Chakra => format!("job.{rank}.et"),
        _ => format!("nccl_trace_rank_{rank}"),
    };
    if let Written::Inspector = written {
        let read = |rank: u32| {
            read_inspector(&name(rank), &*written::inspector(run, rank, InspectorForm::Lines)).unwrap()
        };
        return merge(place((0..run.ranks).flat_map(read).collect()).unwrap()).unwrap();
    }
    let read = |rank: u32| -> RankTrace {
        match written {
            Written::Kineto | Written::Inspector => read_kineto(&name(rank), &*written::kineto(run, rank)),
            Written::Flight => read_flight(&name(rank), &*written::flight(run, rank)),
            Written::Chakra => read_chakra(&name(rank), &*written::chakra(run, rank)),
        }
        .unwrap()
    };
    merge((0..run.ranks).map(read).collect()).unwrap()
}

fn advised(profile: &Profile, drawn: &Drawn, folder: &Path) -> Advice {
    let path = folder.join("profile.json");
    std::fs::write(&path, serde_json::to_vec(profile).unwrap()).unwrap();
    let setup = AdviceSetup {
        cluster: Some(("known".to_owned(), drawn.cluster.clone())),
        shares: [(DType::Bf16, 1.0 / drawn.ratio)].into(),
        ran_there: true,
        without_break_even: true,
        ..AdviceSetup::default()
    };
    advise_profile(profile, &path, &setup, &Cancel::new(), &mut |_| {}).unwrap()
}

/// Random jobs whose best two variants differ by more than 2 %; advice from a profile of the uncompressed run finds the best one.
#[test]
fn advice_finds_what_the_original_ranks_best() {
    let (mut draws, mut found, mut seen) = (Draws(7), 0, String::new());
    let folder = tempfile::tempdir().unwrap();
    // Half of them are best compressed.
    let mut left = [10, 10];
    while left != [0, 0] {
        let drawn = drawn(&mut draws);
        let experiment = load(&Source::from_text("known", &*drawn.text, ""), &[], None).unwrap();
        let (mut times, timeline) = simulated(&experiment);
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        if times[1].1 / times[0].1 < 1.02 {
            continue;
        }
        let is_coded = times[0].0 != "native";
        if left[usize::from(is_coded)] == 0 {
            continue;
        }
        left[usize::from(is_coded)] -= 1;
        let number = 19 - left[0] - left[1];
        let written = [Written::Kineto, Written::Flight, Written::Inspector, Written::Chakra][number % 4];
        let advice = advised(&profile(&recorded(&experiment, &timeline), written), &drawn, folder.path());
        let chosen = if advice.verdict.compress {
            advice.verdict.variant.clone().unwrap()
        } else {
            "native".to_owned()
        };
        let chosen = chosen.strip_suffix(" tiered").unwrap_or(&chosen);
        found += usize::from(chosen == times[0].0);
        let _ = writeln!(seen, "{number} {written:?}: {chosen} of {times:?}; {:?}", advice.calibration);
    }
    println!("{found} of 20");
    assert!(found >= 18, "{found} of 20\n{seen}");
}

/// Steps of a simulated job come out as they were where the cluster is the same: compute, waits and calls beside compute.
#[test]
fn steps_of_a_known_job_come_out() {
    let mut draws = Draws(11);
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..8 {
        let drawn = drawn(&mut draws);
        let experiment = load(&Source::from_text("known", &*drawn.text, ""), &[], None).unwrap();
        let (times, timeline) = simulated(&experiment);
        let profile = profile(&recorded(&experiment, &timeline), Written::Kineto);
        let judged = advised(&profile, &drawn, folder.path()).calibration.unwrap();
        let told = format!("{times:?}\n{judged:?}\n{}", drawn.text);
        assert!(judged.step_error_pct.unwrap().abs() < 1.0, "{told}");
        assert!(judged.collectives_error_pct.abs() < 2.0, "{told}");
        assert!(judged.is_believed, "{told}");
    }
}

/// One rank of a job in which all do the same stands for all of them.
#[test]
fn one_rank_stands_for_all() {
    let mut draws = Draws(11);
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..4 {
        let drawn = drawn(&mut draws);
        let experiment = load(&Source::from_text("known", &*drawn.text, ""), &[], None).unwrap();
        let run = recorded(&experiment, &simulated(&experiment).1);
        let one = read_kineto("rank-0.json", &*written::kineto(&run, 0)).unwrap();
        let (one, all) = (merge(vec![one]).unwrap(), profile(&run, Written::Kineto));
        let [one, all] = [one, all].map(|profile| advised(&profile, &drawn, folder.path()));
        assert_eq!((one.source.ranks_here, one.source.world_size), (1, all.source.world_size));
        let error = one.calibration.unwrap().step_error_pct.unwrap();
        assert!(error.abs() < 1.0, "{error}\n{}", drawn.text);
        assert_eq!(one.verdict.compress, all.verdict.compress, "{}", drawn.text);
    }
}

/// Lines of the library in front of NCCL have no times of kernels: a cluster must be named, and then they are enough.
#[test]
fn lines_of_the_shim_alone_are_enough_on_a_named_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let run = written::run(3);
    let read =
        |rank: u32| read_shim(&format!("zipwire-nccl.{rank}.jsonl"), &*written::shim(&run, rank)).unwrap();
    let profile = merge(place((0..run.ranks).map(read).collect()).unwrap()).unwrap();
    let path = folder.path().join("profile.json");
    std::fs::write(&path, serde_json::to_vec(&profile).unwrap()).unwrap();
    let advise = |cluster: Option<&str>| {
        let cluster = cluster.map(|text| ("named".to_owned(), text.to_owned()));
        let setup = AdviceSetup { cluster, gpus_per_node: Some(2), ..AdviceSetup::default() };
        advise_profile(&profile, &path, &setup, &Cancel::new(), &mut |_| {})
    };
    let refused = advise(None).unwrap_err().to_string();
    assert!(
        refused.contains("does not say how long calls take") && refused.contains("--cluster"),
        "{refused}"
    );
    let advice = advise(Some("preset = \"h100-8x\"")).unwrap();
    assert!(advice.calibration.is_none() && advice.step.measured_s.is_none());
    let classes: Vec<&str> = advice.classes.iter().map(|class| &*class.op).collect();
    assert!(classes.contains(&"all_reduce") && classes.contains(&"alltoall"), "{classes:?}");
    // A sample of the job says what its values compress to: nothing is assumed.
    assert!(advice.first.iter().all(|line| !line.contains("--tensors")), "{:?}", advice.first);
    assert!(advice.notes.iter().any(|note| note.contains("nothing is known of what ranks compute")));
}

/// The cluster that a job is to run on is another one: its times judge nothing, and slow links are worth compressing for.
#[test]
fn a_job_on_slower_links_is_not_judged_by_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = |nic: &str| Drawn {
        text: format!(
            "name = \"known\"\niterations = 3\n[cluster]\n{}[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\n\
             bytes_per_rank = \"64 MiB\"\n",
            cluster_of(nic)
        ),
        cluster: cluster_of(nic),
        ratio: 1.4,
    };
    let fast = drawn("100 GB/s");
    let experiment = load(&Source::from_text("known", &*fast.text, ""), &[], None).unwrap();
    let run = recorded(&experiment, &simulated(&experiment).1);
    let profile = profile(&run, Written::Kineto);
    let there = advised(&profile, &fast, folder.path());
    assert!(there.calibration.unwrap().is_believed && !there.verdict.compress, "{}", there.verdict.text);
    let setup = AdviceSetup {
        cluster: Some(("slow".to_owned(), cluster_of("2 GB/s"))),
        shares: [(DType::Bf16, 1.0 / fast.ratio)].into(),
        ..AdviceSetup::default()
    };
    let path = folder.path().join("profile.json");
    let slow = advise_profile(&profile, &path, &setup, &Cancel::new(), &mut |_| {}).unwrap();
    assert!(slow.calibration.is_none() && slow.verdict.compress, "{}", slow.verdict.text);
    assert!(slow.verdict.gain.low_pct > 10.0, "{:?}", slow.verdict.gain);
}

fn cluster_of(nic: &str) -> String {
    format!(
        "nodes = 4\ngpus_per_node = 1\ngpu_bandwidth = \"300 GB/s\"\nnic_bandwidth = \"{nic}\"\nlatency_intra = \"5 us\"\n\
         latency_inter = \"12 us\"\nlaunch = \"5 us\"\n\
         codec_speed = {{ tiered = {{ encode = \"60 GB/s\", decode = \"60 GB/s\", launch = \"15 us\", basis = \"assumed\", source = \"a test\" }} }}\n"
    )
}

/// Constants are fitted to the calls of a profile where no cluster is named, and the job comes out on them.
#[test]
fn a_cluster_is_fitted_to_the_calls_of_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"known\"\niterations = 3\n[cluster]\npreset = \"h100-8x\"\nnodes = 1\ngpus_per_node = 8\n[workload]\n\
                kind = \"fsdp\"\nmodel = { preset = \"llama3-8b\", layers = 3 }\nsequence = 2048\n[compute]\ndense = \"600 TFLOP/s\"\n";
    let experiment = load(&Source::from_text("known", text, ""), &[], None).unwrap();
    let profile = profile(&recorded(&experiment, &simulated(&experiment).1), Written::Kineto);
    let path = folder.path().join("profile.json");
    std::fs::write(&path, serde_json::to_vec(&profile).unwrap()).unwrap();
    let setup = AdviceSetup { without_break_even: true, ..AdviceSetup::default() };
    let advice = advise_profile(&profile, &path, &setup, &Cancel::new(), &mut |_| {}).unwrap();
    assert_eq!((advice.cluster.from, advice.cluster.nodes, advice.cluster.gpus_per_node), ("profile", 1, 8));
    let judged = advice.calibration.unwrap();
    assert_eq!(judged.steps_fitted, [0]);
    assert!(judged.judged.iter().all(|step| step.step > 0));
    assert!(judged.is_believed && judged.collectives_error_pct.abs() < 10.0, "{judged:?}");
}
