use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn ranks(sum: Sum) -> Vec<u32> {
    sum.origins().map(|rank| rank.0).collect()
}

#[test]
fn runs_go_around() {
    assert_eq!(ranks(Sum::run(Rank(3), 4, 5, DType::F32)), [3, 4, 0, 1]);
    assert_eq!(ranks(Sum::all(3, DType::F32)), [0, 1, 2]);
    assert_eq!(ranks(Sum::one(Rank(2), 3, DType::Bf16)), [2]);
}

#[test]
fn a_sum_is_of_its_terms_in_its_order_only() {
    let one = |rank| Sum::one(Rank(rank), 6, DType::Bf16);
    let run = |first, count| Sum::run(Rank(first), count, 6, DType::F32);
    assert!(run(4, 3).is_of(&[one(4), one(5), one(0)]));
    assert!(run(4, 3).is_of(&[run(4, 2), one(0)]));
    assert!(!run(4, 3).is_of(&[one(4), run(5, 2)]), "(a + b) + c is not a + (b + c)");
    assert!(!run(4, 3).is_of(&[one(5), one(4), one(0)]));
    assert!(!run(4, 3).is_of(&[one(4), one(5)]));
    let rounded = run(4, 2).as_dtype(DType::Bf16);
    assert!(!run(4, 3).is_of(&[rounded, one(0)]), "what was rounded is not summed up");
    assert!(rounded.is_of(&[one(4), one(5)]));
    let nodes = run(0, 6).in_groups_of(3);
    assert!(nodes.is_of(&[run(0, 3), run(3, 3)]));
    assert!(!nodes.is_of(&[run(0, 3), one(3), one(4), one(5)]));
    assert!(!run(0, 6).is_of(&[run(0, 3), run(3, 3)]));
    assert_eq!(run(0, 6).in_groups_of(6), run(0, 6));
}

/// Every BF16 value survives being widened and rounded; between neighbours the nearer one is taken.
#[test]
fn rounding_is_to_nearest_even() {
    for bits in 0..=u16::MAX {
        assert_eq!(round(widen(bits)), bits);
    }
    // 1 + 2^-7 is the BF16 value behind 1.
    let cases = [
        (1.0 + 1.0 / 512.0, 0x3f80),
        (1.0 + 1.0 / 256.0, 0x3f80),
        (1.0 + 1.01 / 256.0, 0x3f81),
        (1.0 + 3.0 / 256.0, 0x3f82),
        (f32::MAX, 0x7f80),
        (-0.0, 0x8000),
    ];
    for (value, bits) in cases {
        assert_eq!(round(value), bits, "{value}");
    }
    assert!(widen(round(f32::from_bits(0x7f80_0001))).is_nan());
}

#[test]
fn sums_are_those_of_fp32() {
    let mut sums = vec![0.0; 3];
    begin(&mut sums, DType::F32, &[1e8_f32, -0.0, 1.5].map(f32::to_le_bytes).concat());
    add(&mut sums, DType::Bf16, &[0x3f80_u16, 0x8000, 0xbf80].map(u16::to_le_bytes).concat());
    // 1e8 + 1 is not an FP32 value, and -0 + -0 is -0.
    assert_eq!(
        sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>(),
        [1e8_f32, -0.0, 0.5].map(f32::to_bits)
    );
    let mut out = vec![0; 12];
    store(&sums, DType::F32, &mut out);
    assert_eq!(out, [1e8_f32, -0.0, 0.5].map(f32::to_le_bytes).concat());
}

#[test]
fn there_is_one_nan() {
    let mut sums = vec![f32::INFINITY, f32::from_bits(0xffc1_2345)];
    add(&mut sums, DType::F32, &[f32::NEG_INFINITY, 1.0].map(f32::to_le_bytes).concat());
    assert!(sums.iter().all(|sum| sum.to_bits() == 0x7fc0_0000));
}

/// The nearer of the two BF16 values around an FP32 value, on ties the even one: by distance, in FP64.
fn nearest(value: f32) -> f32 {
    let below = f32::from_bits(value.to_bits() & 0xffff_0000);
    let above = f32::from_bits((value.to_bits() & 0xffff_0000) + 0x1_0000);
    let distance = |other: f32| (f64::from(other) - f64::from(value)).abs();
    let is_even = |of: f32| of.to_bits() & 0x1_0000 == 0;
    match distance(below).total_cmp(&distance(above)) {
        std::cmp::Ordering::Less => below,
        std::cmp::Ordering::Greater => above,
        std::cmp::Ordering::Equal if is_even(below) => below,
        std::cmp::Ordering::Equal => above,
    }
}

/// Contributions of nine ranks to one value: BF16 values of which a few differ much in size, so that order and rounding show.
const VALUES: [f32; 9] = [1.0, 0.003_906_25, -0.011_718_75, 96.0, 0.5, -95.5, 3.0, 0.007_812_5, 0.031_25];

fn value(sum: Sum) -> f32 {
    let mut of_rank = |Rank(rank): Rank, out: &mut [f32]| out.fill(VALUES[rank as usize]);
    sum.of_contributions(1, &mut of_rank)[0]
}

#[test]
fn a_run_in_bf16_is_rounded_by_every_rank() {
    assert!(VALUES.iter().all(|&value| nearest(value) == value), "contributions are BF16 values");
    let mut stepwise = Vec::new();
    for first in 0..9 {
        let (mut expected, mut in_fp32) = (VALUES[first], VALUES[first]);
        for step in 1..9 {
            expected = nearest(expected + VALUES[(first + step) % 9]);
            in_fp32 += VALUES[(first + step) % 9];
        }
        let run = Sum::run(Rank(first as u32), 9, 9, DType::Bf16);
        assert_eq!(value(run.with_partials(DType::Bf16)).to_bits(), expected.to_bits());
        assert_eq!(value(run).to_bits(), in_fp32.to_bits());
        stepwise.push((expected, nearest(in_fp32)));
    }
    assert!(stepwise.iter().any(|(each, once)| each != once), "rounding once would be the same");
}

#[test]
fn a_tree_is_added_up_from_its_halves() {
    let x = VALUES;
    let run = |of: &[f32], pass: fn(f32) -> f32| pass(of[1..].iter().fold(of[0], |sum, x| sum + x));
    for (partials, pass) in [(DType::F32, (|x| x) as fn(f32) -> f32), (DType::Bf16, nearest)] {
        let tree = |count| value(Sum::along_tree(RankOrder::default(), 0..count, 9).with_partials(partials));
        assert_eq!(tree(1), x[0]);
        assert_eq!(tree(2), x[0] + x[1]);
        assert_eq!(tree(3), x[0] + x[1] + x[2]);
        assert_eq!(tree(4), run(&x[..2], pass) + x[2] + x[3]);
        assert_eq!(tree(7), run(&x[..3], pass) + x[3] + run(&x[4..7], pass));
        // Nine: 0 and 1 below 2, with 3; 4; 5 and 6 below 7, with 8.
        let lower = pass(run(&x[..2], pass) + x[2] + x[3]);
        assert_eq!(tree(9), lower + x[4] + pass(run(&x[5..7], pass) + x[7] + x[8]));
    }
}

#[test]
fn sums_of_groups_are_rounded_where_they_leave_their_node() {
    let x = VALUES;
    let node = |first: usize| x[first] + x[first + 1] + x[first + 2];
    let groups = Sum::all(9, DType::F32).in_groups_of(3);
    assert_eq!(value(groups), node(0) + node(3) + node(6));
    let rounded = groups.with_partials(DType::Bf16);
    assert_eq!(value(rounded), nearest(node(0)) + nearest(node(3)) + nearest(node(6)));
    assert_ne!(value(rounded), value(groups), "rounding shows");
    let of_node = |node: u32| Sum::run(Rank(3 * node), 3, 9, DType::Bf16);
    assert!(rounded.is_of(&[of_node(0), of_node(1), of_node(2)]));
    assert!(!groups.is_of(&[of_node(0), of_node(1), of_node(2)]), "what was rounded is another sum");
}

const COUNT: usize = 24;

/// Bits of any BF16 values: near to one another more often than not, and now and then anything, no numbers and infinities too.
fn contributions(random: &mut ChaCha8Rng, ranks: u32) -> Vec<Vec<f32>> {
    let mut value = || match random.random_range(0..40) {
        0 => widen(random.random()),
        _ => widen(random.random_range(0x3e00..0x4200) | random.random_range(0..2_u16) << 15),
    };
    (0..ranks).map(|_| (0..COUNT).map(|_| value()).collect()).collect()
}

fn stored(sum: Sum, contributions: &[Vec<f32>]) -> Vec<u8> {
    let of = |rank: Rank, out: &mut [f32]| out.copy_from_slice(&contributions[rank.index()]);
    let total = sum.of_contributions(COUNT, &mut { of });
    let mut out = vec![0; COUNT * sum.dtype().width()];
    store(&total, sum.dtype(), &mut out);
    out
}

fn added(terms: &[Sum], dtype: DType, contributions: &[Vec<f32>]) -> Vec<u8> {
    let mut sums = vec![0.0; COUNT];
    for (index, term) in terms.iter().enumerate() {
        let with = if index == 0 { begin } else { add };
        with(&mut sums, term.dtype(), &stored(*term, contributions));
    }
    let mut out = vec![0; COUNT * dtype.width()];
    store(&sums, dtype, &mut out);
    out
}

/// Some sum over `count` positions of an order.
fn some_sum(random: &mut ChaCha8Rng, order: RankOrder, first: u32, count: u32, ranks: u32) -> Sum {
    let dtypes = [DType::F32, DType::Bf16];
    let along = Sum::along(order, first % ranks, count, ranks);
    let divisors: Vec<u32> = (1..=count).filter(|group| count.is_multiple_of(*group)).collect();
    let sum = match random.random_range(0..3) {
        0 if first % ranks + count <= ranks => {
            Sum::along_tree(order, first % ranks..first % ranks + count, ranks)
        }
        1 => along.in_groups_of(divisors[random.random_range(0..divisors.len())]),
        _ => along,
    };
    sum.with_partials(dtypes[random.random_range(0..2)]).as_dtype(dtypes[random.random_range(0..2)])
}

/// Whenever a sum says that it is of some terms, adding these up gives its bits.
#[test]
#[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
fn what_a_sum_is_of_adds_up_to_its_bits() {
    let random = &mut ChaCha8Rng::seed_from_u64(11);
    let (mut said_yes, mut said_no) = ([0; 3], 0);
    for _ in 0..60_000 {
        let size = random.random_range(1..=3);
        let ranks = size * random.random_range(1..=3);
        let mut orders: Vec<RankOrder> = RankOrder::of_trees(size, size, ranks);
        orders.extend((0..size).map(|channel| RankOrder::of_ring(channel, size, size)));
        let order = orders[random.random_range(0..orders.len())];
        let (first, count) = (random.random_range(0..ranks), random.random_range(1..=ranks));
        let sum = some_sum(random, order, first, count, ranks);
        // Terms cover the sum's ranks: cut anywhere, or as its shape wants them.
        let is_cut = |after: u32, random: &mut ChaCha8Rng| match sum.shape {
            Shape::Groups(group) if random.random_bool(0.9) => after.is_multiple_of(group.into()),
            Shape::Tree if random.random_bool(0.9) => {
                let (root, _) = halves(first..first + count);
                first + after == root || first + after == root + 1
            }
            Shape::Run if random.random_bool(0.7) => after + 1 == count,
            _ => random.random_bool(0.5),
        };
        let mut cuts: Vec<u32> = (1..count).filter(|&after| is_cut(after, random)).collect();
        cuts.insert(0, 0);
        cuts.push(count);
        let as_wanted = matches!(sum.shape, Shape::Groups(_)) && random.random_bool(0.5);
        let terms: Vec<Sum> = cuts
            .windows(2)
            .map(|ends| match (first + ends[0], ends[1] - ends[0]) {
                (first, count) if as_wanted => {
                    Sum::along(order, first % ranks, count, ranks).as_dtype(sum.partials)
                }
                (first, count) => some_sum(random, order, first, count, ranks),
            })
            .collect();
        if !sum.is_of(&terms) {
            said_no += 1;
            continue;
        }
        said_yes[match sum.shape {
            Shape::Run => 0,
            Shape::Groups(_) => 1,
            Shape::Tree => 2,
        }] += 1;
        let contributions = contributions(random, ranks);
        let (got, expected) = (added(&terms, sum.dtype(), &contributions), stored(sum, &contributions));
        assert_eq!(got, expected, "{sum} is not {terms:?}");
    }
    assert!(said_yes.iter().all(|&count| count > 100), "{said_yes:?} of each shape were added up");
    assert!(said_no > 1000, "{said_no} were refused");
}

/// The sums of rings, two levels and trees are accepted: a check that refuses everything would be no check.
#[test]
fn what_algorithms_add_up_is_accepted() {
    for partials in [DType::F32, DType::Bf16] {
        for (size, nodes) in [(1, 4), (2, 2), (3, 3)] {
            let ranks = size * nodes;
            let one = |rank: Rank| Sum::one(rank, ranks, DType::Bf16);
            for order in (0..size).map(|channel| RankOrder::of_ring(channel, size, size)) {
                for (first, count) in (0..ranks).flat_map(|first| (2..=ranks).map(move |n| (first, n))) {
                    let of = |count| {
                        Sum::along(order, first, count, ranks).with_partials(partials).as_dtype(partials)
                    };
                    let own = one(order.rank((first + count - 1) % ranks, ranks));
                    assert!(of(count).is_of(&[of(count - 1), own]), "{}", of(count));
                }
            }
            for order in RankOrder::of_trees(size, size, ranks) {
                let of = |positions: &Range<u32>| {
                    Sum::along_tree(order, positions.clone(), ranks)
                        .with_partials(partials)
                        .as_dtype(partials)
                };
                let (root, [lower, upper]) = halves(0..ranks);
                let some = |half: Range<u32>| (half.start < half.end).then(|| of(&half));
                let terms: Vec<Sum> = [some(lower), Some(one(order.rank(root, ranks))), some(upper)]
                    .into_iter()
                    .flatten()
                    .collect();
                assert!(of(&(0..ranks)).is_of(&terms));
                assert!(of(&(0..ranks)).as_dtype(DType::Bf16).is_of(&terms), "the total is rounded once");
            }
        }
    }
}
