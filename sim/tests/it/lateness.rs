//! Lengths of iterations in which ranks are late, estimated from ranks that are not.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::Topology;
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Durations, Job, Layout, Protocol, Rank, Segment, Slot, Work, folding,
    plan_each, plan_folded,
};
use zipwire_sim::lateness::{OnTime, lengths};
use zipwire_timeline::Bounds;

use crate::common::{all_to_all, assert_close, call, job, nodes};
use crate::folded::{clusters, costs, simulated};

/// Layers of a phase and a call each, with buffers of their own by turns; every third call in the background.
fn layers(ranks: u32, pattern: &str) -> Job {
    let even = |bytes| vec![bytes; ranks as usize];
    let mut layers = job(ranks, []);
    layers.slots.extend(["in 1", "out 1", "in 2", "out 2"]);
    for (letter, place) in pattern.chars().zip(0_u32..) {
        let [input, output] = [Slot(place % 3 * 2), Slot(place % 3 * 2 + 1)];
        let before = Slot((place + 2) % 3 * 2 + 1);
        let phase = Work::Compute { phase: "layer", reads: vec![before], writes: vec![input] };
        layers.segments.push(Segment::new(format!("layer {place}"), phase));
        let mut work = match letter {
            'a' => all_to_all(ndarray::Array2::from_elem((ranks as usize, ranks as usize), 1 << 20)),
            'g' => call(CallKind::AllGather { bytes: even(1 << 20) }),
            _ => call(CallKind::ReduceScatter { bytes: even(3 << 19) }),
        };
        if let Work::Call { input: from, output: to, .. } = &mut work {
            (*from, *to) = (input, output);
        }
        let segment = Segment::new(format!("{letter} {place}"), work);
        layers.segments.push(if place % 3 == 2 { segment.in_background() } else { segment });
    }
    layers
}

/// Phases of `mean_s`, up to `spread` of it longer or shorter.
fn drawn(job: &Job, mean_s: f64, spread: f64, rng: &mut ChaCha8Rng) -> Durations {
    let mut durations = Durations::zeros(1, job.segments.len(), job.rank_count);
    for segment in (0..job.segments.len()).filter(|&segment| !job.segments[segment].work.communicates()) {
        for rank in 0..job.rank_count {
            durations.set(0, segment, Rank(rank), mean_s * (1.0 + rng.random_range(-spread..=spread)));
        }
    }
    durations
}

/// Bounds of the length of an iteration, and its length without lateness and with it, if all ranks are simulated.
fn estimated(
    topology: &Topology,
    job: &Job,
    each: &[&Choice],
    durations: &Durations,
) -> Option<(Bounds, [f64; 2])> {
    let layout = Layout::flat(topology.ranks());
    let symmetry = folding(job, each, &topology.symmetries(&layout), || true)?;
    let folded = plan_folded(job, each, symmetry, Some(topology), || true).unwrap();
    let even = durations.evened();
    let timeline = simulated(&folded, topology, &even);
    let on_time = OnTime { plan: &folded, topology, durations: &even, timeline: &timeline, costs: costs() };
    let bounds = lengths(&on_time, durations, 0..1, &|| true).unwrap()[0];
    let whole = simulated(&plan_each(job, each), topology, durations);
    Some((bounds, [timeline.iterations[0].length_s, whole.iterations[0].length_s]))
}

fn choices(job: &Job, protocol: Protocol, algorithm: Option<Algorithm>) -> Vec<Choice> {
    let codec = Some(crate::window7());
    let choice = |segment: &Segment| Choice {
        algorithm: segment.work.algorithm(protocol, algorithm),
        ranks_per_node: 4,
        ..Choice::of(protocol, codec.clone())
    };
    job.segments.iter().map(choice).collect()
}

/// Calls of a library begin when the last rank is there and end on all ranks at once: layers take their longest phase and their call each.
#[test]
fn with_a_library_the_slowest_rank_of_each_layer_counts() {
    let topology = nodes(4, 4, [50e9, 10e9], [2e-6, 5e-6]);
    let job = layers(16, "gg");
    let each = choices(&job, Protocol::Native, Some(Algorithm::Library));
    let durations = drawn(&job, 1e-3, 0.4, &mut ChaCha8Rng::seed_from_u64(1));
    let each: Vec<&Choice> = each.iter().collect();
    let (bounds, [on_time_s, whole_s]) = estimated(&topology, &job, &each, &durations).unwrap();
    let longest_s = |segment| (0..16).map(|rank| durations.get(0, segment, Rank(rank))).fold(0.0, f64::max);
    let even = durations.evened();
    let late_s: f64 = [0, 2].map(|segment| longest_s(segment) - even.get(0, segment, Rank(0))).iter().sum();
    assert_close(whole_s, on_time_s + late_s);
    assert_close(bounds.middle_s(), whole_s);
}

/// Nobody is late, so nothing is added.
#[test]
fn without_lateness_nothing_is_added() {
    let mut estimates = 0;
    for topology in clusters() {
        let job = layers(topology.ranks(), "garga");
        let each = choices(&job, Protocol::StaticFirst, None);
        let durations = drawn(&job, 1e-3, 0.0, &mut ChaCha8Rng::seed_from_u64(1));
        let each: Vec<&Choice> = each.iter().collect();
        let Some((bounds, [on_time_s, whole_s])) = estimated(&topology, &job, &each, &durations) else {
            continue;
        };
        assert_close(on_time_s, whole_s);
        assert_close(bounds.middle_s(), whole_s);
        assert_close(bounds.margin_s(), 0.005 * whole_s);
        estimates += 1;
    }
    assert!(estimates >= 6, "{estimates} estimates");
}

#[test]
fn lengths_are_within_the_bounds() {
    let (mut within, mut all) = (0, 0);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for topology in clusters() {
        for pattern in ["ggg", "rgrgrg", "aaaa", "garga"] {
            let job = layers(topology.ranks(), pattern);
            for (protocol, algorithm) in [
                (Protocol::Native, Some(Algorithm::Library)),
                (Protocol::Native, None),
                (Protocol::StaticFirst, None),
                (Protocol::SizeFirst, Some(Algorithm::Ring)),
            ] {
                let each = choices(&job, protocol, algorithm);
                let durations = drawn(&job, 2e-3, 0.2, &mut rng);
                let each: Vec<&Choice> = each.iter().collect();
                let Some((bounds, [on_time_s, whole_s])) = estimated(&topology, &job, &each, &durations)
                else {
                    continue;
                };
                let is_within = bounds.low_s <= whole_s && whole_s <= bounds.high_s;
                if !is_within {
                    println!(
                        "{:?} {pattern} {protocol:?} {algorithm:?}: {:.3} {:.3} of {whole_s:.5}, on time {:.3}",
                        topology.fabric,
                        bounds.low_s / whole_s,
                        bounds.high_s / whole_s,
                        on_time_s / whole_s
                    );
                }
                within += u32::from(is_within);
                all += 1;
            }
        }
    }
    println!("{within} of {all}");
    assert!(all > 100 && within * 10 >= all * 9, "{within} of {all}");
}
