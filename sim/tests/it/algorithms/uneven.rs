//! Calls whose ranks give blocks of unequal lengths: the way that is chosen is nearly the best one.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use zipwire_cluster::{CrossRail, Fabric, Rail, Topology, Uplink};
use zipwire_codec::DType;
use zipwire_schedule::estimate::Way;
use zipwire_schedule::{Algorithm, CallKind, Protocol, Slot, Work};

use crate::algorithms::call::{Call, nodes};
use crate::common;

/// Most that the chosen way may be slower than the best one.
const LOSS: f64 = 0.02;

fn one_of<T: Copy>(random: &mut ChaCha8Rng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

fn topology(random: &mut ChaCha8Rng) -> Topology {
    let (count, gpus) = loop {
        let shape = (random.random_range(1..=7), random.random_range(1..=8));
        if shape.0 * shape.1 > 1 {
            break shape;
        }
    };
    let nics = one_of(random, &[1, gpus]);
    let fabric = match random.random_range(0..4) {
        0 => Fabric::Rail(Rail {
            uplink: Uplink::Oversubscribed(one_of(random, &[1.0, 2.0])),
            cross_rail: one_of(random, &[CrossRail::Spine, CrossRail::Pxn]),
        }),
        _ => Fabric::Nodes,
    };
    Topology {
        fabric,
        gpu_bandwidth: one_of(random, &[25e9, 100e9, 450e9]),
        nic_bandwidth: one_of(random, &[3.125e9, 12.5e9, 25e9, 50e9]),
        latency_intra_s: one_of(random, &[0.0, 1e-6, 5e-6]),
        latency_inter_s: one_of(random, &[2.5e-6, 5e-6, 10e-6, 20e-6]),
        ..nodes(count, gpus, nics)
    }
}

fn call(seed: u64) -> Call {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topology = topology(&mut random);
    let total = one_of(&mut random, &[1 << 18, 1 << 20, 8 << 20, 32 << 20]);
    let shape = LogNormal::new(0.0, one_of(&mut random, &[0.3, 1.0, 1.5])).unwrap();
    let shares: Vec<f64> = (0..topology.ranks()).map(|_| shape.sample(&mut random)).collect();
    let all: f64 = shares.iter().sum();
    let bytes: Vec<u64> =
        shares.iter().map(|share| (f64::from(total) * share / all) as u64 / 2 * 2).collect();
    let work = if random.random() {
        common::call(CallKind::AllGather { bytes })
    } else {
        Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes })
    };
    let call = Call::new(topology, work, Algorithm::Direct).launched();
    match seed % 3 {
        0 => call,
        1 => call.coded(),
        _ => {
            let mut call = call.coded();
            call.choice.protocol = Protocol::StaticFirst;
            call
        }
    }
}

/// The part by which the chosen way of a call is slower than the best one.
fn loss(call: &Call) -> (f64, String) {
    let is_coded = call.choice.protocol.is_coded();
    let mut ways: Vec<(Way, f64, f64)> = Vec::new();
    let algorithms = call.work.algorithms().iter().copied();
    for algorithm in
        algorithms.filter(|&algorithm| super::estimates::is_planned(&call.work, algorithm, is_coded))
    {
        for slices in [1, 2, 4, 8, 16] {
            let (way, predicted_s) = call.best(Some(algorithm), Some(slices)).unwrap();
            if way.slices == slices {
                ways.push((way, predicted_s, call.clone().way(way).seconds()));
            }
        }
    }
    let (chosen, _) = call.best(None, None).unwrap();
    let seconds = ways.iter().find(|(way, ..)| *way == chosen).unwrap().2;
    let least = ways.iter().map(|way| way.2).fold(f64::INFINITY, f64::min);
    let about = ways.iter().map(|(way, predicted_s, seconds)| {
        format!(
            "{} x{} {:.1} us {:+.1}%; ",
            way.algorithm.name(),
            way.slices,
            seconds * 1e6,
            100.0 * (predicted_s / seconds - 1.0)
        )
    });
    (seconds / least - 1.0, format!("{chosen:?}: {}", about.collect::<String>()))
}

fn check(seeds: std::ops::Range<u64>) {
    let mut off = Vec::new();
    for seed in seeds {
        let call = call(seed);
        let (loss, about) = loss(&call);
        if loss > LOSS {
            off.push(format!("{seed}: {loss:.3} {about} {call:?}"));
        }
    }
    assert!(off.is_empty(), "{} are off: {off:#?}", off.len());
}

#[test]
fn the_chosen_way_is_nearly_the_best() {
    check(0..30);
}

mod whole {
    #[test]
    #[ignore = "a minute: .ci/run runs it, and the short form is beside it"]
    fn three_hundred_chosen_ways_are_nearly_the_best() {
        super::check(0..300);
    }
}
