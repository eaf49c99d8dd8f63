//! Ranks that are alike, simulated once: what those do that stand for others is what they do among all.

use std::collections::{BTreeMap, HashMap};

use ndarray::Array2;
use zipwire_cluster::library::{Generation, LibraryModel};
use zipwire_cluster::{
    CodecCost, CrossRail, DeclaredCost, Fabric, FatTree, HostCost, LibraryCost, Rail, Topology, Uplink,
};
use zipwire_codec::DType;
use zipwire_schedule::plan::{Plan, PlanSize};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, CostModel, Dimension, Durations, Job, Layout, Order, Protocol, Rank,
    Segment, Slot, Symmetry, Work, folding, plan_each, plan_folded,
};
use zipwire_sim::{FrameSizes, SimError, SimSetup, run};
use zipwire_timeline::{Metrics, Span, Timeline};

use crate::common::{all_to_all, assert_close, call, job, nodes, setup, start};

pub(crate) fn clusters() -> Vec<Topology> {
    let plain = || nodes(4, 4, [50e9, 10e9], [2e-6, 5e-6]);
    let rail = |cross_rail| Fabric::Rail(Rail { uplink: Uplink::Oversubscribed(2.0), cross_rail });
    let tree =
        Fabric::FatTree(FatTree { nodes_per_leaf: 2, uplink: Uplink::Oversubscribed(4.0), pods: None });
    vec![
        plain(),
        Topology { nics_per_node: 4, ..plain() },
        Topology { nics_per_node: 2, ..plain() },
        Topology { nodes_per_domain: 2, ..plain() },
        Topology { nics_per_node: 4, fabric: rail(CrossRail::Spine), ..plain() },
        Topology { nics_per_node: 4, fabric: rail(CrossRail::Pxn), ..plain() },
        Topology { fabric: tree, ..plain() },
        Topology { fabric: Fabric::Host { bandwidth: 30e9 }, ..plain() },
    ]
}

/// Two calls at a time, on either channel, of buffers of their own.
fn job_of(ranks: u32, work: &Work) -> Job {
    let mut other = work.clone();
    if let Work::Call { input, output, .. } = &mut other {
        (*input, *output) = (Slot(2), Slot(3));
    }
    let mut job = job(ranks, [("start", start()), ("first", work.clone())]);
    job.slots.extend(["other in", "other out"]);
    job.segments.push(Segment::new("second", other).in_background());
    job
}

fn works(ranks: usize) -> Vec<Work> {
    let bytes = 3 << 20;
    // Unlike by distance, and alike for all.
    let by_distance =
        |(src, dst): (usize, usize)| ((dst + ranks - src) % ranks % 4) as u64 * 100_000 + 50_000;
    vec![
        call(CallKind::AllGather { bytes: vec![bytes; ranks] }),
        call(CallKind::ReduceScatter { bytes: vec![bytes; ranks] }),
        call(CallKind::AllReduce { bytes: bytes * ranks as u64 }),
        all_to_all(Array2::from_elem((ranks, ranks), bytes)),
        all_to_all(Array2::from_shape_fn((ranks, ranks), by_distance)),
    ]
}

fn choices(work: &Work, ranks_per_node: u32) -> Vec<Choice> {
    let codec = Some(crate::window7());
    let mut all = Vec::new();
    let algorithms = if work.algorithms().is_empty() {
        vec![None]
    } else {
        work.algorithms().iter().copied().map(Some).collect()
    };
    for (protocol, algorithm) in
        Protocol::ALL.into_iter().flat_map(|p| algorithms.iter().map(move |a| (p, *a)))
    {
        let chosen = work.algorithm(protocol, algorithm);
        let pads_values = algorithm == Some(Algorithm::PaddedRing) && !protocol.is_coded();
        if algorithm.is_some() && chosen != algorithm || pads_values {
            continue;
        }
        let speculative_capacity = (protocol == Protocol::Speculative).then_some(0.7);
        let plain =
            Choice { algorithm, ranks_per_node, speculative_capacity, ..Choice::of(protocol, codec.clone()) };
        all.push(Choice { parts: if protocol.is_coded() { 2 } else { 1 }, ..plain.clone() });
        if algorithm.is_none() {
            all.push(Choice { window: Some(3), ..plain.clone() });
            all.push(Choice { order: Order::ShiftedRounds, ..plain.clone() });
        }
        all.push(plain);
    }
    all
}

pub(crate) fn costs() -> CostModel {
    let ring = DeclaredCost { bytes_per_s: 9e9, latency_s: 1e-5, per_rank_s: 1e-6 };
    let library = LibraryCost {
        all_gather: Some(ring),
        reduce_scatter: Some(ring),
        all_reduce: Some(ring),
        ..LibraryCost::default()
    };
    let host = HostCost { launch_s: 3e-6, sync_s: 4e-6, library, ..HostCost::default() };
    let codec = CodecCost { encode_bytes_per_s: 180e9, decode_bytes_per_s: 260e9, launch_s: 2e-6 };
    CostModel { host, codec: Some(codec) }
}

pub(crate) fn simulated(plan: &Plan, topology: &Topology, durations: &Durations) -> Timeline {
    let costs = costs();
    let sizes = if plan.codec.is_some() { FrameSizes::Ratio(1.4) } else { FrameSizes::None };
    let setup = SimSetup { costs, sizes, ..setup(plan, topology, durations) };
    run(&setup, &|| true).unwrap()
}

type Of = (Rank, zipwire_schedule::OpId, zipwire_schedule::Lane, Option<Rank>, u32);

fn by_op<'t>(timeline: &'t Timeline, symmetry: &Symmetry) -> HashMap<Of, &'t Span> {
    let of = |span: &Span| (span.rank, span.op, span.lane, span.peer, span.tag);
    let of_members = timeline.spans.iter().filter(|span| symmetry.member(span.rank) == span.rank);
    of_members.map(|span| (of(span), span)).collect()
}

/// How often ranks stood for so many.
type FoldedBy = BTreeMap<u32, u32>;

/// A folded plan of a job, if there is one, has the spans and the metrics of the whole one; with transfers that are alike merged, its metrics.
fn check(topology: &Topology, layout: &Layout, job: &Job, each: &[&Choice], folded_by: &mut FoldedBy) {
    let durations = Durations::zeros(1, job.segments.len(), topology.ranks());
    let Some(symmetry) = folding(job, each, &topology.symmetries(layout), || true) else {
        *folded_by.entry(1).or_default() += 1;
        return;
    };
    let planned = |merged| plan_folded(job, each, symmetry, merged, || true).unwrap();
    let (whole, folded) = (plan_each(job, each), planned(None));
    *folded_by.entry(symmetry.alike()).or_default() += 1;
    let context = format!("{topology:?} {:?} {each:?}", job.segments);
    folded.validate_for(job).unwrap();
    let (few, all) = (simulated(&folded, topology, &durations), simulated(&whole, topology, &durations));
    let [few_s, all_s] = [&few, &all].map(|timeline| timeline.iterations[0].length_s);
    let context = format!("{symmetry:?} {few_s} s of {all_s} s: {context}");
    let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * all_s;
    let (members, among) = (by_op(&few, &symmetry), by_op(&all, &symmetry));
    assert_eq!(members.len(), among.len(), "{context}");
    assert_eq!(members.len(), few.spans.len(), "{context}");
    for (of, span) in members {
        let other = among[&of];
        let is_same = is_near(span.begin_s, other.begin_s) && is_near(span.end_s, other.end_s);
        assert!(is_same && span.bytes == other.bytes, "{context}\n{span:?}\n{other:?}");
    }
    let merged = planned(Some(topology));
    let sizes = [&folded, &merged].map(PlanSize::of);
    assert_eq!(PlanSize::count_folded(job, each, symmetry, topology), sizes, "{context}");
    assert_eq!(PlanSize::count(job, each, |_| true), PlanSize::of(&whole), "{context}");
    assert!(PlanSize::of(&merged).bytes() <= PlanSize::of(&folded).bytes(), "{context}");
    assert!(PlanSize::of(&folded).bytes() * 2 <= PlanSize::of(&whole).bytes().max(1), "{context}");
    let all = Metrics::of(&all, whole.bytes_raw());
    let of_merged = simulated(&merged, topology, &durations);
    for (timeline, plan) in [(&few, &folded), (&of_merged, &merged)] {
        assert_eq!(plan.bytes_raw(), whole.bytes_raw(), "{context}");
        assert_eq!(plan.bytes_verified(), whole.bytes_verified(), "{context}");
        let few = Metrics::of(timeline, plan.bytes_raw());
        assert!(is_near(few.iteration_s.mean, all.iteration_s.mean), "{} s {context}", few.iteration_s.mean);
        assert_eq!((few.bytes_raw, few.bytes_wire), (all.bytes_raw, all.bytes_wire), "{context}");
        let seconds = |metrics: &Metrics| [metrics.comm_s, metrics.wait_s, metrics.codec_s];
        let mut pairs = seconds(&few).into_iter().zip(seconds(&all));
        assert!(pairs.all(|(a, b)| is_near(a, b)), "{few:?} {all:?} {context}");
    }
}

#[test]
fn members_do_what_they_do_among_all() {
    let mut folded_by = FoldedBy::new();
    for topology in clusters() {
        let layout = Layout::flat(topology.ranks());
        for work in works(topology.ranks() as usize) {
            let job = job_of(topology.ranks(), &work);
            for choice in choices(&work, topology.gpus_per_node) {
                check(&topology, &layout, &job, &[&choice; 3], &mut folded_by);
            }
        }
    }
    println!("{folded_by:?}");
    assert!(folded_by[&16] > 100 && folded_by[&4] > 100, "{folded_by:?}");
}

/// Dimensions by name and size, the innermost first; stages of a pipeline are not alike.
fn layout(dimensions: &[(&'static str, u32)]) -> Layout {
    let of = |&(name, size): &(&'static str, u32)| Dimension { name, size, is_alike: name != "pp" };
    Layout::new(dimensions.iter().map(of).collect())
}

/// Two stages, each with a call along one dimension, a send between them, and a call along another one beside it.
fn staged_job(
    layout: &Layout,
    [inner, outer]: [&[&'static str]; 2],
    works: &dyn Fn(usize) -> Vec<Work>,
) -> Vec<Job> {
    let sizes = [inner, outer].map(|names| layout.groups(names, None).size() as usize);
    let of_inner = works(sizes[0]).into_iter();
    let jobs = of_inner.zip(works(sizes[1])).map(|(first, mut second)| {
        if let Work::Call { input, output, .. } = &mut second {
            (*input, *output) = (Slot(4), Slot(5));
        }
        let mut job = job(layout.ranks(), [("start", start())]);
        job.slots.extend(["sent", "got", "beside in", "beside out"]);
        for stage in 0..2 {
            let groups = layout.groups(inner, Some(("pp", stage)));
            job.segments.push(Segment::new(format!("inner {stage}"), first.clone()).among(groups, inner[0]));
            if stage == 0 {
                let kind = CallKind::Send { bytes: 1 << 20, from: Rank(0) };
                let send = Work::of_call(DType::Bf16, [Slot(1), Slot(3)], kind);
                job.segments.push(Segment::new("send", send).among(layout.pairs("pp", [0, 1]), "pp"));
            }
            let groups = layout.groups(outer, Some(("pp", stage)));
            let beside = Segment::new(format!("outer {stage}"), second.clone()).among(groups, outer[0]);
            job.segments.push(beside.in_background());
        }
        job
    });
    jobs.collect()
}

#[test]
fn members_of_a_layout_do_what_they_do_among_all() {
    let mut folded_by = FoldedBy::new();
    let layouts: [(Layout, [&[&'static str]; 2]); 6] = [
        (layout(&[("tp", 4), ("pp", 2), ("dp", 2)]), [&["tp"], &["dp"]]),
        (layout(&[("tp", 2), ("cp", 2), ("pp", 2), ("dp", 2)]), [&["cp"], &["tp"]]),
        (layout(&[("dp", 8), ("pp", 2)]), [&["dp"], &["dp"]]),
        (layout(&[("tp", 4), ("dp", 2), ("pp", 2)]), [&["dp"], &["tp"]]),
        (layout(&[("pp", 2), ("tp", 2), ("dp", 4)]), [&["tp"], &["dp"]]),
        // Pairs of the inner groups have sent before; other pairs of the outer ones have not: their numbers differ.
        (layout(&[("tp", 2), ("dp", 4), ("pp", 2)]), [&["tp"], &["tp", "dp"]]),
    ];
    for topology in clusters() {
        for (layout, dimensions) in &layouts {
            for job in staged_job(layout, *dimensions, &works) {
                job_of_layout(&topology, layout, &job, &mut folded_by);
            }
        }
    }
    println!("{folded_by:?}");
    assert!(folded_by[&8] > 50 && folded_by[&2] > 50, "{folded_by:?}");
}

fn job_of_layout(topology: &Topology, layout: &Layout, job: &Job, folded_by: &mut FoldedBy) {
    let part = |segment: &Segment| topology.part(&segment.groups(job.rank_count).group(0)).unwrap();
    let codec = Some(crate::window7());
    for protocol in [Protocol::Native, Protocol::StaticFirst] {
        let choice = |segment: &Segment| Choice {
            algorithm: segment.work.algorithm(protocol, None),
            ranks_per_node: part(segment).gpus_per_node,
            ..Choice::of(protocol, codec.clone())
        };
        let each: Vec<Choice> = job.segments.iter().map(choice).collect();
        check(topology, layout, job, &each.iter().collect::<Vec<_>>(), folded_by);
    }
}

/// A job of calls by letter; every third one in the background, and each with the buffers of the one three places before it.
fn repeated_job(ranks: u32, pattern: &str) -> Job {
    let even = |bytes| vec![bytes; ranks as usize];
    let exchange = |bytes| all_to_all(Array2::from_elem((ranks as usize, ranks as usize), bytes));
    let mut job = job(ranks, [("start", start())]);
    job.slots.extend(["in 1", "out 1", "in 2", "out 2"]);
    for (letter, place) in pattern.chars().zip(0_u32..) {
        let mut work = match letter {
            'a' => exchange(1 << 20),
            'b' => exchange(1 << 19),
            'c' | 'm' => call(CallKind::AllGather { bytes: even(1 << 20) }),
            'd' => call(CallKind::AllGather { bytes: even(1 << 18) }),
            _ => call(CallKind::ReduceScatter { bytes: even(3 << 19) }),
        };
        if let Work::Call { input, output, .. } = &mut work {
            (*input, *output) = (Slot(place % 3 * 2), Slot(place % 3 * 2 + 1));
        }
        let segment = Segment::new(format!("{letter} {place}"), work);
        job.segments.push(if place % 3 == 2 { segment.in_background() } else { segment });
    }
    job
}

/// Calls that come again, in other orders: not all of them are compared, and what one waits for are those before it that had the memory of its frames.
#[test]
fn repeated_calls_do_what_they_do_among_all() {
    let mut folded_by = FoldedBy::new();
    let codec = Some(crate::window7());
    for topology in clusters() {
        for pattern in ["cadabcab", "rrrrrrrr", "crcrcrcr", "aamaaaama", "rabcrabcrabcbarbarbarr"] {
            let job = repeated_job(topology.ranks(), pattern);
            for (protocol, arenas) in [
                (Protocol::Native, 1),
                (Protocol::StaticFirst, 1),
                (Protocol::StaticFirst, 2),
                (Protocol::SizeFirst, 3),
            ] {
                let choice = |segment: &Segment| {
                    let pads = segment.name.starts_with('m') && protocol.is_coded();
                    let chosen = pads.then_some(Algorithm::PaddedRing);
                    let algorithm = segment.work.algorithm(protocol, chosen);
                    Choice { algorithm, arenas, ranks_per_node: 4, ..Choice::of(protocol, codec.clone()) }
                };
                let each: Vec<Choice> = job.segments.iter().map(choice).collect();
                let each: Vec<&Choice> = each.iter().collect();
                check(&topology, &Layout::flat(topology.ranks()), &job, &each, &mut folded_by);
            }
        }
    }
    let folded: u32 = folded_by.iter().filter(|(alike, _)| **alike > 1).map(|(_, times)| times).sum();
    assert!(folded > 100, "{folded_by:?}");
}

/// The leaves of a library's trees have less to do than their inner nodes. That is no matter while nothing else moves.
#[test]
fn a_call_of_unlike_links_is_alone_or_ends_the_run() {
    let topology = Topology { nics_per_node: 4, ..nodes(4, 4, [400e9, 50e9], [2e-6, 5e-6]) };
    let model = LibraryModel { hardware: topology.hardware(), constants: Generation::Hopper.constants() };
    let library = LibraryCost { model: Some(model), ..LibraryCost::default() };
    let durations = Durations::zeros(1, 3, topology.ranks());
    let seconds = |with: Option<&Work>| {
        let by_library = Choice { algorithm: Some(Algorithm::Library), ..Choice::of(Protocol::Native, None) };
        let straight = Choice::of(Protocol::Native, None);
        let reduced = call(CallKind::AllReduce { bytes: 1 << 20 });
        let mut job = job(topology.ranks(), [("start", start()), ("sums", reduced)]);
        let mut choices = vec![&straight, &by_library];
        if let Some(work) = with {
            job.slots.extend(["other in", "other out"]);
            job.segments.push(Segment::new("others", work.clone()).in_background());
            choices.push(&straight);
        }
        let symmetry = folding(&job, &choices, &topology.symmetries(&Layout::flat(16)), || true).unwrap();
        let [whole, folded] =
            [plan_each(&job, &choices), plan_folded(&job, &choices, symmetry, None, || true).unwrap()];
        let costs = CostModel { host: HostCost { library, ..HostCost::default() }, codec: None };
        let simulate = |plan: &Plan| run(&SimSetup { costs, ..setup(plan, &topology, &durations) }, &|| true);
        (
            simulate(&folded).map(|timeline| timeline.iterations[0].length_s),
            simulate(&whole).unwrap().iterations[0].length_s,
        )
    };
    let (folded_s, whole_s) = seconds(None);
    assert_close(folded_s.unwrap(), whole_s);
    // Of buffers of their own, so nothing waits.
    let kind = CallKind::AllToAll { bytes: Array2::from_elem((16, 16), 1 << 20).into(), tokens: None };
    let beside = Work::of_call(DType::Bf16, [Slot(2), Slot(3)], kind);
    let error = seconds(Some(&beside)).0.unwrap_err();
    assert!(matches!(error, SimError::Unlike), "{error}");
    assert!(error.to_string().contains("help: `--unfolded`"), "{error}");
}

#[test]
fn a_plan_that_is_stopped_ends_with_the_next_program() {
    let topology = Topology { nics_per_node: 2, ..nodes(4, 4, [50e9, 10e9], [2e-6, 5e-6]) };
    let job = job_of(16, &call(CallKind::AllGather { bytes: vec![1 << 20; 16] }));
    let choice = Choice::of(Protocol::StaticFirst, Some(crate::window7()));
    let symmetry = folding(&job, &[&choice; 3], &topology.symmetries(&Layout::flat(16)), || true).unwrap();
    let planned = |most: u32| {
        let mut asked = 0;
        let plan = plan_folded(&job, &[&choice; 3], symmetry, None, || {
            asked += 1;
            asked <= most
        });
        (plan.map(|plan| plan.programs.len()), asked)
    };
    assert_eq!(planned(4), (Some(4), 4));
    assert_eq!(planned(2), (None, 3));
    assert_eq!(folding(&job, &[&choice; 3], &topology.symmetries(&Layout::flat(16)), || false), None);
}
