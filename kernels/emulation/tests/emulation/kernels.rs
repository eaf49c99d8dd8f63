//! Kernels that are right give the right results, in every order of threads.

use zipwire_emulation::Controls;

use crate::Test;
use crate::gpu::{Gpu, arg};

pub(crate) const TESTS: &[Test] = &[
    ("kernels::block_reduction", block_reduction),
    ("kernels::look_back_over_2000_blocks", look_back),
    ("kernels::warp_collectives", warp_collectives),
    ("kernels::barriers_with_predicates", barriers),
    ("kernels::indices_in_three_dimensions", shape),
    ("kernels::parameters_of_all_sizes", parameters),
    ("kernels::atomics_between_blocks", atomics),
    ("kernels::dynamic_shared_memory", dynamic_shared_memory),
    ("kernels::shared_memory_is_poisoned_before_each_block", unwritten),
];

/// Orders of threads that are tried. 0 is the plain one.
const SEEDS: std::ops::Range<u64> = 0..6;

fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

/// With each seed, and several blocks at a time.
fn in_all_orders(mut test: impl FnMut(&Gpu)) {
    let gpu = Gpu::open(0);
    for workers in [1, 2, 4] {
        controls().set_workers(workers);
        for seed in SEEDS {
            controls().set_seed(seed);
            test(&gpu);
        }
    }
    controls().set_seed(0);
    controls().set_workers(2);
}

fn block_reduction() {
    let values: Vec<u32> = (0..256 * 40).map(|i| i * 7 % 1000).collect();
    let expected: Vec<u32> = values.chunks(256).map(|block| block.iter().sum()).collect();
    in_all_orders(|gpu| {
        let input = gpu.upload(&values);
        let output = gpu.zeros::<u32>(40);
        let before = controls().launches();
        gpu.launch("block_sums", 40, 256, 0, &mut [input.arg(), output.arg()]);
        assert_eq!(gpu.download(&output), expected);
        assert_eq!(controls().launches(), before + 1);
    });
}

fn look_back() {
    const BLOCKS: u32 = 2000;
    let counts: Vec<u32> = (0..BLOCKS).map(|i| i.wrapping_mul(2_654_435_761) >> 24).collect();
    let expected: Vec<u64> = counts
        .iter()
        .scan(0u64, |sum, count| {
            let before = *sum;
            *sum += u64::from(*count);
            Some(before)
        })
        .collect();
    let pauses = controls().pauses();
    in_all_orders(|gpu| {
        let input = gpu.upload(&counts);
        let output = gpu.zeros::<u64>(counts.len());
        let state = gpu.zeros::<u64>(counts.len());
        let ticket = gpu.zeros::<u32>(1);
        gpu.launch("look_back", BLOCKS, 64, 0, &mut [input.arg(), output.arg(), state.arg(), ticket.arg()]);
        assert_eq!(gpu.download(&output), expected);
    });
    let pauses = controls().pauses() - pauses;
    eprintln!("threads have waited for other blocks {pauses} times");
    assert!(pauses > 0, "blocks must be under way at the same time");
}

fn warp_collectives() {
    let lanes = || 0..32u64;
    let same = |value: u64| vec![value; 32];
    let ballot = |chosen: &dyn Fn(u64) -> bool| {
        lanes().filter(|lane| chosen(*lane)).fold(0, |mask, lane| mask | 1 << lane)
    };
    let expected: Vec<Vec<u64>> = vec![
        same(ballot(&|lane| lane % 3 == 0)),
        same(1),
        same(0),
        same(50),
        lanes().map(|lane| (lane / 8 * 8 + 1) * 10).collect(),
        lanes().map(|lane| if lane < 3 { lane } else { lane - 3 }).collect(),
        lanes().map(|lane| if lane % 8 < 3 { lane } else { lane - 3 }).collect(),
        lanes().map(|lane| if lane > 28 { lane } else { lane + 3 }).collect(),
        lanes().map(|lane| if lane % 8 > 4 { lane } else { lane + 3 }).collect(),
        lanes().map(|lane| lane ^ 5).collect(),
        // Lanes of earlier groups can be read, lanes of later ones cannot.
        lanes().map(|lane| if (lane ^ 12) / 8 > lane / 8 { lane } else { lane ^ 12 }).collect(),
        lanes().map(|lane| (31 - lane) << 40 | (31 - lane)).collect(),
        lanes().map(|lane| ballot(&|other| other / 5 == lane / 5)).collect(),
        same(0xffff_ffff),
        same(1),
        same(0),
        same(0),
        same(496),
        same(4),
        same(35),
        same(u64::from(-9i32 as u32)),
        same(u64::from(-9i32 as u32)),
        same(64),
        same(5),
        same(lanes().fold(0, |sum, lane| sum ^ (lane * lane))),
        lanes().map(|lane| if lane < 16 { 0xaaaa } else { 0xaaaa_0000 }).collect(),
        lanes().map(|lane| if (20..24).contains(&lane) { lane ^ 1 } else { 99 }).collect(),
        lanes().map(|lane| if lane < 10 { 0x3ff } else { 0 }).collect(),
    ];
    in_all_orders(|gpu| {
        let output = gpu.zeros::<u64>(32 * expected.len());
        gpu.launch("collectives", 1, 32, 0, &mut [output.arg()]);
        let results = gpu.download(&output);
        for (row, (results, expected)) in results.chunks(32).zip(&expected).enumerate() {
            assert_eq!(results, expected, "result {row} of each lane");
        }
    });
}

fn barriers() {
    in_all_orders(|gpu| {
        let output = gpu.zeros::<u32>(400);
        gpu.launch("barriers", 1, 100, 0, &mut [output.arg()]);
        let results = gpu.download(&output);
        assert_eq!(results[..100], [20; 100]);
        assert_eq!(results[100..200], [0; 100]);
        assert_eq!(results[200..300], [1; 100]);
        assert_eq!(results[300..360], [60; 60]);
        assert_eq!(results[360..], [0; 40]);
    });
}

fn shape() {
    let gpu = Gpu::open(0);
    let (grid, block) = ((3, 2, 2), (4, 3, 2));
    let output = gpu.zeros::<u32>(12 * 24);
    gpu.launch_shape(gpu.stream, "shape", grid, block, 0, &mut [output.arg()]).unwrap();
    let mut expected = Vec::new();
    for b in 0..12 {
        for t in 0..24 {
            expected.push(t / 12 * 10000 + b / 6 * 1000 + t / 4 % 3 * 100 + b % 3);
        }
    }
    assert_eq!(gpu.download(&output), expected);
}

fn parameters() {
    #[repr(C)]
    struct Mixed {
        small: u8,
        large: u64,
        last: u16,
    }
    let gpu = Gpu::open(0);
    let output = gpu.zeros::<u64>(4);
    let (mut a, mut b, mut d) = (200u8, u64::MAX - 5, 1.5f32);
    let mut c = Mixed { small: 1, large: 1 << 40, last: 3 };
    // The stream is kept busy, so that the kernel runs after the parameters have changed.
    controls().set_delay_us(20_000);
    for _ in 0..4 {
        let more = gpu.zeros::<u8>(1);
        assert_eq!(more.bytes(), 1);
    }
    gpu.launch(
        "parameters",
        1,
        1,
        0,
        &mut [output.arg(), arg(&mut a), arg(&mut b), arg(&mut c), arg(&mut d)],
    );
    (a, b, d) = (0, 0, 0.0);
    c = Mixed { small: 0, large: 0, last: 0 };
    controls().set_delay_us(0);
    assert_eq!(gpu.download(&output), [200, u64::MAX - 5, (1 << 40) + 4, u64::from(1.5f32.to_bits())]);
    assert_eq!((u64::from(a), b, c.large, c.small, c.last, d), (0, 0, 0, 0, 0, 0.0));
}

fn atomics() {
    const THREADS: u32 = 20 * 64;
    in_all_orders(|gpu| {
        let words = gpu.upload(&[0, 0, u32::MAX, 0, u32::MAX, 0, 0, 0]);
        let longs = gpu.zeros::<u64>(3);
        gpu.launch("atomics", 20, 64, 0, &mut [words.arg(), longs.arg()]);
        let all = || 0..THREADS;
        let (last, sum) = (THREADS - 1, all().map(u64::from).sum::<u64>());
        let expected = [THREADS, u32::MAX, 0, last, 0, last.wrapping_neg(), all().fold(0, |x, i| x ^ i), 0];
        assert_eq!(gpu.download(&words), expected);
        assert_eq!(gpu.download(&longs), [sum << 20, u64::from(last) << 33, sum]);
    });
}

fn dynamic_shared_memory() {
    let values: Vec<u32> = (1..=512).collect();
    in_all_orders(|gpu| {
        let input = gpu.upload(&values);
        let sum = gpu.zeros::<u32>(1);
        gpu.launch("dynamic_sum", 1, 512, 2048, &mut [input.arg(), sum.arg(), arg(&mut 512u32)]);
        assert_eq!(gpu.download(&sum), [512 * 513 / 2]);
    });
    let gpu = Gpu::open(0);
    let sum = gpu.zeros::<u32>(1);
    let launch = |dynamic| {
        let input = gpu.upload(&values);
        gpu.launch_on(
            gpu.stream,
            "dynamic_sum",
            1,
            512,
            dynamic,
            &mut [input.arg(), sum.arg(), arg(&mut 512u32)],
        )
    };
    assert!(launch(48 << 10).is_ok());
    assert!(launch((48 << 10) + 1).is_err(), "more must be asked for before");
}

fn unwritten() {
    in_all_orders(|gpu| {
        let output = gpu.zeros::<u32>(64);
        gpu.launch("unwritten", 5, 32, 128, &mut [output.arg()]);
        assert_eq!(gpu.download(&output), [0xa5a5_a5a5; 64]);
    });
}
