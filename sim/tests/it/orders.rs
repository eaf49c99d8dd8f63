//! Transfer orders in virtual time: what they have in common, and what a narrow window costs each of them.

use crate::common::{all_to_all, assert_close, flat, job, nodes, setup};
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{CodecCost, HostCost, Topology};
use zipwire_schedule::{Choice, CostModel, Durations, Order, Protocol, Rank, Slot, Work, plan};
use zipwire_sim::{FrameSizes, SimSetup, run};
use zipwire_timeline::Timeline;

/// One All-to-All of ranks that start at different times.
struct Case {
    topology: Topology,
    bytes: Array2<u64>,
    start_s: Vec<f64>,
    protocol: Protocol,
}

impl Case {
    fn timeline(&self, order: Order, window: Option<u32>) -> Timeline {
        // A late rank sends late, and receives in time.
        let start = Work::Compute { phase: "start", reads: Vec::new(), writes: vec![Slot(0)] };
        let segments = [("start", start), ("exchange", all_to_all(self.bytes.clone()))];
        let job = job(self.topology.ranks(), segments);
        let codec = Some(crate::window7());
        let plan = plan(
            &job,
            &Choice { order, window, speculative_capacity: Some(0.5), ..Choice::of(self.protocol, codec) },
        );
        let mut durations = Durations::zeros(1, 2, self.topology.ranks());
        for (rank, &seconds) in (0..).zip(&self.start_s) {
            durations.set(0, 0, Rank(rank), seconds);
        }
        let setup = SimSetup {
            costs: CostModel {
                host: HostCost::default(),
                codec: Some(CodecCost {
                    encode_bytes_per_s: 180e9,
                    decode_bytes_per_s: 260e9,
                    launch_s: 20e-6,
                }),
            },
            sizes: FrameSizes::Ratio(1.33),
            ..setup(&plan, &self.topology, &durations)
        };
        run(&setup, &|| true).unwrap()
    }

    fn seconds(&self, order: Order, window: Option<u32>) -> f64 {
        self.timeline(order, window).iterations[0].length_s
    }
}

/// Exponential variate of mean 1.
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    -libm::log1p(-random.random::<f64>())
}

/// Sparse, unequal sizes among ranks of two nodes that start at different times.
fn uneven(seed: u64, protocol: Protocol) -> Case {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let per_node = random.random_range(1..=5);
    let topology = nodes(2, per_node, [5e9; 2], [30e-6, 50e-6]);
    let ranks = topology.ranks() as usize;
    let bytes = Array2::from_shape_fn((ranks, ranks), |_| match random.random_range(0..3) {
        0 => 0,
        _ => 2 * random.random_range(1..1_000_000),
    });
    let start_s = (0..ranks).map(|_| 1e-3 * exponential(&mut random)).collect();
    Case { topology, bytes, start_s, protocol }
}

#[test]
fn shifted_rounds_are_a_rotation_with_a_window_of_one() {
    for seed in 0..10 {
        for protocol in Protocol::ALL {
            let case = uneven(seed, protocol);
            assert_eq!(case.timeline(Order::ShiftedRounds, None), case.timeline(Order::Rotation, Some(1)));
        }
    }
}

/// (N - 1)(a + S / B): with equal sizes and starts every order is a sequence of perfect rounds.
#[test]
fn equal_chunks_go_in_perfect_rounds_under_every_order() {
    let (ranks, bytes) = (9, 1_000_000_u64);
    let case = Case {
        topology: flat(ranks, 5e9, 30e-6),
        bytes: Array2::from_elem((ranks as usize, ranks as usize), bytes),
        start_s: vec![0.0; ranks as usize],
        protocol: Protocol::Native,
    };
    for order in Order::ALL {
        let round_s = 30e-6 + bytes as f64 / 5e9;
        assert_close(case.seconds(order, Some(1)), f64::from(ranks - 1) * round_s);
    }
}

/// But where two exchanges share a window of all peers: then it has fewer places than there are transfers.
#[test]
fn without_a_window_order_does_not_matter() {
    for seed in 0..10 {
        for protocol in Protocol::ALL.into_iter().filter(|protocol| !protocol.sends_sign_mantissa()) {
            let case = uneven(seed, protocol);
            let expected_s = case.seconds(Order::Rotation, None);
            for order in [Order::LargestFirst, Order::AnyReady] {
                assert_close(case.seconds(order, None), expected_s);
            }
        }
    }
}

#[test]
fn every_order_and_window_ends_and_repeats() {
    for seed in 0..10 {
        for protocol in Protocol::ALL {
            let case = uneven(seed, protocol);
            for order in Order::ALL {
                for window in [1, 2, 3] {
                    let timeline = case.timeline(order, Some(window));
                    assert_eq!(timeline, case.timeline(order, Some(window)), "{order:?}, window {window}");
                }
            }
        }
    }
}

/// Two ranks have something for a third one; the one that comes first in the rotation is late.
#[test]
fn any_ready_serves_those_who_wait() {
    let mut bytes = Array2::zeros((4, 4));
    (bytes[[1, 3]], bytes[[2, 3]]) = (5_000_000, 5_000_000);
    let start_s = vec![0.0, 0.0, 10e-3, 0.0];
    let case = Case { topology: flat(4, 5e9, 30e-6), bytes, start_s, protocol: Protocol::Native };
    let transfer_s = 30e-6 + 1e-3;
    assert_close(case.seconds(Order::Rotation, Some(1)), 10e-3 + 2.0 * transfer_s);
    assert_close(case.seconds(Order::AnyReady, Some(1)), 10e-3 + transfer_s);
}

/// Every other rank is late, and the early ones have most to exchange with one another. In a rotation the late ranks fill
/// the windows of the early ones.
#[test]
fn late_ranks_do_not_occupy_the_windows_of_any_ready() {
    let (ranks, bytes) = (16_u32, 1_000_000_u64);
    let is_late = |rank: usize| rank % 2 == 1;
    let chunk = |(src, dst)| if is_late(src) || is_late(dst) { bytes } else { 4 * bytes };
    let start_s = (0..16).map(|rank| if is_late(rank) { 20.0 * bytes as f64 / 5e9 } else { 0.0 }).collect();
    let bytes = Array2::from_shape_fn((16, 16), chunk);
    let case = Case { topology: flat(ranks, 5e9, 30e-6), bytes, start_s, protocol: Protocol::Native };
    let unbounded_s = case.seconds(Order::Rotation, None);
    let rotation = case.seconds(Order::Rotation, Some(2)) / unbounded_s;
    let any_ready = case.seconds(Order::AnyReady, Some(2)) / unbounded_s;
    println!("rotation {rotation:.3}, any-ready {any_ready:.3} of the time without a window");
    assert!(any_ready < 0.85 * rotation, "rotation {rotation}, any-ready {any_ready}");
}

/// Mean seconds over seeds, relative to those without a window: rotation, any-ready, largest-first with a
/// window of 8. `size` draws the relative size of a pair, given the one of its destination.
fn window_of_eight(ranks: u32, size: impl Fn(&mut ChaCha8Rng, f64) -> f64) -> [f64; 3] {
    const SEEDS: u64 = 2;
    let mut means = [0.0; 3];
    for seed in 0..SEEDS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Popularity as of a Dirichlet distribution of parameter 16.
        let mean = |random: &mut ChaCha8Rng| (0..16).map(|_| exponential(random)).sum::<f64>() / 16.0;
        let popular: Vec<f64> = (0..ranks).map(|_| mean(&mut random)).collect();
        // 64 ranks send 67 MB each, as in an All-to-All of Qwen3-235B-A22B.
        let bytes = Array2::from_shape_fn((ranks as usize, ranks as usize), |(_, dst)| {
            2 * (5.24e5 * size(&mut random, popular[dst])) as u64
        });
        let start_s = (0..ranks).map(|_| 1e-3 * exponential(&mut random)).collect();
        let case = Case { topology: flat(ranks, 5e9, 30e-6), bytes, start_s, protocol: Protocol::Native };
        let unbounded_s = case.seconds(Order::Rotation, None);
        for (mean, order) in means.iter_mut().zip([Order::Rotation, Order::AnyReady, Order::LargestFirst]) {
            *mean += case.seconds(order, Some(8)) / unbounded_s / SEEDS as f64;
        }
    }
    means
}

/// Sizes differ from pair to pair with a heavy tail, and starts by 1 ms in the mean.
#[test]
fn narrow_windows_cost_less_out_of_turn() {
    let ratios = window_of_eight(64, |random, _| exponential(random).powi(2) / 2.0);
    println!("rotation, any-ready, largest-first: {ratios:.4?} of the time without a window");
    let [rotation, any_ready, largest_first] = ratios;
    assert!(any_ready < rotation && largest_first < rotation, "{ratios:.4?}");
}

/// Where all ranks agree on who is popular, as under shared routing, largest-first sends all of them there at once.
#[test]
fn largest_first_collides_at_popular_ranks() {
    let ratios = window_of_eight(32, |_, popular| popular);
    println!("rotation, any-ready, largest-first: {ratios:.4?} of the time without a window");
    let [rotation, _, largest_first] = ratios;
    assert!(largest_first > 1.25 * rotation, "{ratios:.4?}");
}
