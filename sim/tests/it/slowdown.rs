//! Compute that overlaps with codec ops and transfers of its rank, against closed forms and a plain integration over spans.

use crate::common::{flat, setup};
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{CodecCost, HostCost, Slowdown};
use zipwire_codec::DType;
use zipwire_schedule::{
    CallKind, Choice, CostModel, Durations, Job, Lane, Order, Protocol, Rank, Segment, Slot, Work, plan,
};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::{Span, Timeline};

/// Compute phases of a memory of their own beside calls, one per `bytes`, each from a slot to the next.
struct Case {
    protocol: Protocol,
    bytes: Vec<Array2<u64>>,
    /// Seconds of each compute phase, by rank.
    compute_s: Vec<Vec<f64>>,
    /// Whether compute claims all memory, so that nothing overlaps it.
    claims_all: bool,
    slowdown: Slowdown,
}

/// Bytes per second of a link.
const BANDWIDTH: f64 = 1e6;
const LATENCY_S: f64 = 1.0;
const CODEC: CodecCost = CodecCost { encode_bytes_per_s: 2e6, decode_bytes_per_s: 3e6, launch_s: 0.25 };

fn timeline(case: &Case, slowdown: Slowdown) -> Timeline {
    let ranks = case.bytes[0].nrows() as u32;
    let calls = case.bytes.len() as u32;
    let own = Slot(2 * calls);
    let claimed = if case.claims_all { (0..=own.0).map(Slot).collect() } else { vec![own] };
    let compute = |_: &Vec<f64>| {
        let work = Work::Compute { phase: "work", reads: Vec::new(), writes: claimed.clone() };
        Segment::new("work", work)
    };
    let mut segments: Vec<Segment> = case.compute_s.iter().map(compute).collect();
    for (call, bytes) in (0..).zip(&case.bytes) {
        let (input, output) = (Slot(2 * call), Slot(2 * call + 1));
        let kind = CallKind::AllToAll { bytes: bytes.clone().into(), tokens: None };
        let work = Work::of_call(DType::Bf16, [input, output], kind);
        segments.push(Segment::new("call", work));
    }
    let mut durations = Durations::zeros(1, segments.len(), ranks);
    for (segment, times) in case.compute_s.iter().enumerate() {
        (0..).zip(times).for_each(|(rank, &seconds)| durations.set(0, segment, Rank(rank), seconds));
    }
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let job = Job { name: "case", rank_count: ranks, slots: names[..=own.index()].to_vec(), segments };
    let codec = (case.protocol != Protocol::Native).then(crate::window7);
    let (protocol, order) = (case.protocol, Order::Rotation);
    let plan = plan(&job, &Choice { order, speculative_capacity: Some(0.5), ..Choice::of(protocol, codec) });
    plan.validate().unwrap();
    let topology = flat(ranks, BANDWIDTH, LATENCY_S);
    let setup = SimSetup {
        costs: CostModel {
            host: HostCost { launch_s: 0.5, compute_slowdown: slowdown, ..HostCost::default() },
            codec: Some(CODEC),
        },
        sizes: if case.protocol == Protocol::Native { FrameSizes::None } else { FrameSizes::Ratio(1.25) },
        ..setup(&plan, &topology, &durations)
    };
    run(&setup, &|| true).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected, "{found} s, expected {expected} s");
}

fn compute_ends_s(timeline: &Timeline) -> Vec<f64> {
    timeline.spans.iter().filter(|span| span.lane == Lane::Compute).map(|span| span.end_s).collect()
}

fn pair(bytes: u64) -> Array2<u64> {
    Array2::from_elem((2, 2), bytes)
}

/// One transfer each way: 0.5 s of launch, 1 s of latency, 3 s on the link; compute has begun at 0.5 s, too.
#[test]
fn an_exchange_slows_compute_while_a_transfer_is_under_way() {
    let case = Case {
        protocol: Protocol::Native,
        bytes: vec![pair(3_000_000)],
        compute_s: vec![vec![10.0; 2]],
        claims_all: false,
        slowdown: Slowdown { exchange: 1.5, ..Slowdown::default() },
    };
    let timeline = timeline(&case, case.slowdown);
    let expected = 0.5 + 4.0 + (10.0 - 4.0 / 1.5);
    compute_ends_s(&timeline).iter().for_each(|&end_s| close(end_s, expected));
    close(timeline.iterations[0].length_s, expected);
    // Nothing else is slower for it.
    let sends: Vec<&Span> = timeline.spans.iter().filter(|span| span.lane == Lane::Tx).collect();
    assert!(sends.iter().all(|span| (span.begin_s, span.end_s) == (0.5, 4.5)));
}

/// A phase that ends while the transfer is still under way was slow all the time; the next one is for a part of it.
#[test]
fn the_end_of_a_phase_moves_within_the_exchange() {
    let case = Case {
        protocol: Protocol::Native,
        bytes: vec![pair(3_000_000)],
        compute_s: vec![vec![1.0; 2], vec![2.0; 2]],
        claims_all: false,
        slowdown: Slowdown { exchange: 2.0, ..Slowdown::default() },
    };
    let ends_s = compute_ends_s(&timeline(&case, case.slowdown));
    // 0.5 to 2.5; launched until 3; until 4.5 at half speed, then 1.25 s.
    for (found, expected) in ends_s.iter().zip([2.5, 2.5, 5.75, 5.75]) {
        close(*found, expected);
    }
}

/// 4 MB: encoding takes 0.25 s + 2 s from 0 on, decoding 0.25 s + 4/3 s, whenever it comes.
#[test]
fn the_codec_slows_compute_while_it_works() {
    let case = Case {
        protocol: Protocol::SizeFirst,
        bytes: vec![pair(4_000_000)],
        compute_s: vec![vec![30.0; 2]],
        claims_all: false,
        slowdown: Slowdown { codec: 1.25, ..Slowdown::default() },
    };
    // The first half second of encoding is in the launch of the phase, which nothing slows.
    let coding_s = (2.25 - 0.5) + 0.25 + 4.0 / 3.0;
    let expected = 30.5 + coding_s * (1.0 - 1.0 / 1.25);
    compute_ends_s(&timeline(&case, case.slowdown)).iter().for_each(|&end_s| close(end_s, expected));
}

/// Undisturbed seconds that a phase has worked between two moments, by the spans of its rank alone.
fn worked_s(spans: &[&Span], slowdown: Slowdown, begin_s: f64, end_s: f64) -> f64 {
    let mut moments: Vec<f64> = spans.iter().flat_map(|span| [span.begin_s, span.end_s]).collect();
    moments.extend([begin_s, end_s]);
    moments.retain(|moment| (begin_s..=end_s).contains(moment));
    moments.sort_by(f64::total_cmp);
    let during = |lanes: &[Lane], at_s: f64| {
        spans.iter().any(|span| lanes.contains(&span.lane) && span.begin_s < at_s && at_s < span.end_s)
    };
    let part = |pair: &[f64]| {
        let middle_s = f64::midpoint(pair[0], pair[1]);
        let codec = if during(&[Lane::Codec], middle_s) { slowdown.codec } else { 1.0 };
        let moving = if during(&[Lane::Tx, Lane::Rx], middle_s) { slowdown.exchange } else { 1.0 };
        (pair[1] - pair[0]) / (codec * moving)
    };
    moments.windows(2).map(part).sum()
}

/// Several calls and phases of unequal lengths: encodes of one call beside transfers of another, and compute beside both.
#[test]
fn phases_do_their_work_whatever_is_beside_them() {
    let mut slowed = 0;
    for seed in 0..40 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let ranks = random.random_range(2..6);
        let mut seconds = || (0..ranks).map(|_| random.random_range(0.0..8.0)).collect::<Vec<f64>>();
        let compute_s = vec![seconds(), seconds(), seconds()];
        let bytes =
            (0..3).map(|_| Array2::from_shape_fn((ranks, ranks), |_| 2 * random.random_range(1..2_000_000)));
        let bytes = bytes.collect();
        let slowdown =
            Slowdown { codec: random.random_range(1.0..3.0), exchange: random.random_range(1.0..3.0) };
        let protocol = Protocol::ALL[seed as usize % 3];
        let case = Case { protocol, bytes, compute_s, claims_all: false, slowdown };
        let timeline = timeline(&case, slowdown);
        for span in timeline.spans.iter().filter(|span| span.lane == Lane::Compute) {
            let of_rank: Vec<&Span> = timeline.spans.iter().filter(|other| other.rank == span.rank).collect();
            let seconds = case.compute_s[span.segment.index()][span.rank.index()];
            let worked_s = worked_s(&of_rank, slowdown, span.begin_s + 0.5, span.end_s);
            assert!((worked_s - seconds).abs() < 1e-9, "seed {seed}: worked {worked_s} s of {seconds} s");
            slowed += usize::from(span.end_s - span.begin_s > 1.01 * (seconds + 0.5));
        }
    }
    assert!(slowed > 150, "overlap is what is tested: {slowed}");
}

#[test]
fn without_overlap_nothing_changes() {
    for protocol in Protocol::ALL {
        let case = Case {
            protocol,
            bytes: vec![pair(4_000_000)],
            compute_s: vec![vec![0.1, 0.3]],
            claims_all: true,
            slowdown: Slowdown { codec: 2.0, exchange: 3.0 },
        };
        assert_eq!(timeline(&case, case.slowdown), timeline(&case, Slowdown::default()));
    }
}
