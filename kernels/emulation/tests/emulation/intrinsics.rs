//! Intrinsics against plain loops, on random inputs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Test;
use crate::gpu::{Gpu, arg};

pub(crate) const TESTS: &[Test] = &[("intrinsics::against_loops", against_loops)];

type Intrinsic = Box<dyn Fn(u32, u32, u32) -> u32>;

fn against_loops() {
    const COUNT: usize = 4000;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut column = || -> Vec<u32> {
        // Small parts and equal ones would be rare among random words.
        let word = |i: usize| match i % 4 {
            0 => random.random::<u32>(),
            1 => random.random::<u32>() & 0x0101_0101,
            2 => random.random::<u32>() | 0x7f7f_7f7f,
            _ => 1u32.rotate_left(random.random::<u32>() & 31).wrapping_sub(random.random::<u32>() & 1),
        };
        (0..COUNT).map(word).collect()
    };
    let inputs = [column(), column(), column()];
    let mut expected: Vec<(String, Intrinsic)> = Vec::new();
    packed(&mut expected, 16);
    packed(&mut expected, 8);
    expected.extend(others());

    let gpu = Gpu::open(0);
    let columns = [gpu.upload(&inputs[0]), gpu.upload(&inputs[1]), gpu.upload(&inputs[2])];
    let output = gpu.zeros::<u32>(COUNT * expected.len());
    let [a, b, c] = &columns;
    let mut count = COUNT as u32;
    gpu.launch(
        "intrinsics",
        count.div_ceil(256),
        256,
        0,
        &mut [a.arg(), b.arg(), c.arg(), output.arg(), arg(&mut count)],
    );
    let results = gpu.download(&output);
    for ((name, intrinsic), results) in expected.iter().zip(results.chunks(COUNT)) {
        for (i, result) in results.iter().enumerate() {
            let (x, y, z) = (inputs[0][i], inputs[1][i], inputs[2][i]);
            assert_eq!(*result, intrinsic(x, y, z), "{name} of {x:#x}, {y:#x}, {z:#x}");
        }
    }
}

/// The parts of a word, lowest first, as unsigned numbers.
fn parts(word: u32, bits: u32) -> Vec<i64> {
    (0..32 / bits).map(|i| i64::from(word >> (i * bits)) & ((1 << bits) - 1)).collect()
}

fn signed(part: i64, bits: u32) -> i64 {
    if part >> (bits - 1) == 1 { part - (1 << bits) } else { part }
}

fn packed(list: &mut Vec<(String, Intrinsic)>, bits: u32) {
    let (least, most) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
    let all = (1i64 << bits) - 1;
    let each = move |op: fn(i64, i64) -> i64, is_signed: bool, range: Option<(i64, i64)>| -> Intrinsic {
        Box::new(move |x, y, _| {
            let value = move |part| if is_signed { signed(part, bits) } else { part };
            let mut word = 0;
            for (i, (x, y)) in parts(x, bits).into_iter().zip(parts(y, bits)).enumerate() {
                let mut result = op(value(x), value(y));
                if let Some((least, most)) = range {
                    result = result.clamp(least, most);
                }
                word |= ((result & all) as u32) << (i as u32 * bits);
            }
            word
        })
    };
    let mut put = |name: &str, op, is_signed, range| {
        list.push((format!("{name}{}", 32 / bits), each(op, is_signed, range)));
    };
    put("vadd", |x, y| x + y, false, None);
    put("vsub", |x, y| x - y, false, None);
    put("vaddss", |x, y| x + y, true, Some((least, most)));
    put("vsubss", |x, y| x - y, true, Some((least, most)));
    put("vaddus", |x, y| x + y, false, Some((0, all)));
    put("vsubus", |x, y| x - y, false, Some((0, all)));
    put("vabsdiffu", |x, y| (x - y).abs(), false, None);
    put("vavgu", |x, y| (x + y + 1) / 2, false, None);
    put("vmins", Ord::min, true, None);
    put("vminu", Ord::min, false, None);
    put("vmaxs", Ord::max, true, None);
    put("vmaxu", Ord::max, false, None);
    put("vneg", |x, _| -x, true, None);
    put("vcmpeq", |x, y| -i64::from(x == y), false, None);
    put("vcmpgtu", |x, y| -i64::from(x > y), false, None);
    put("vcmpgts", |x, y| -i64::from(x > y), true, None);
    put("vcmpleu", |x, y| -i64::from(x <= y), false, None);
    put("vsetltu", |x, y| i64::from(x < y), false, None);
    let sum = move |x, y, _| {
        parts(x, bits).into_iter().zip(parts(y, bits)).map(|(x, y)| x.abs_diff(y) as u32).sum()
    };
    list.push((format!("vsadu{}", 32 / bits), Box::new(sum)));
}

/// Applies `op` to the two halves of three words.
fn halves(x: u32, y: u32, z: u32, op: fn(u16, u16, u16) -> u16) -> u32 {
    let low = op(x as u16, y as u16, z as u16);
    let high = op((x >> 16) as u16, (y >> 16) as u16, (z >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

fn dot(x: u32, y: u32, sum: u32, value: fn(i64) -> i64) -> u32 {
    let products = parts(x, 8).into_iter().zip(parts(y, 8)).map(|(x, y)| value(x) * value(y));
    (i64::from(sum) + products.sum::<i64>()) as u32
}

fn others() -> Vec<(String, Intrinsic)> {
    let wide = |x: u32, y: u32| u64::from(y) << 32 | u64::from(x);
    let list: Vec<(&str, Intrinsic)> = vec![
        ("viaddmin_u16x2", Box::new(|x, y, z| halves(x, y, z, |x, y, z| x.wrapping_add(y).min(z)))),
        (
            "viaddmax_s16x2",
            Box::new(|x, y, z| halves(x, y, z, |x, y, z| (x.wrapping_add(y) as i16).max(z as i16) as u16)),
        ),
        ("vimin3_u16x2", Box::new(|x, y, z| halves(x, y, z, |x, y, z| x.min(y).min(z)))),
        (
            "byte_perm",
            Box::new(move |x, y, z| {
                let bytes = wide(x, y).to_le_bytes();
                u32::from_le_bytes(std::array::from_fn(|i| bytes[(z >> (4 * i) & 7) as usize]))
            }),
        ),
        ("funnelshift_l", Box::new(move |x, y, z| (wide(x, y) << (z % 32) >> 32) as u32)),
        ("funnelshift_r", Box::new(move |x, y, z| (wide(x, y) >> (z % 32)) as u32)),
        ("funnelshift_lc", Box::new(move |x, y, z| (wide(x, y) << (z % 64).min(32) >> 32) as u32)),
        ("funnelshift_rc", Box::new(move |x, y, z| (wide(x, y) >> (z % 64).min(32)) as u32)),
        ("umulhi", Box::new(|x, y, _| ((u64::from(x) * u64::from(y)) >> 32) as u32)),
        ("mulhi", Box::new(|x, y, _| ((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32)),
        ("popc", Box::new(|x, _, _| x.count_ones())),
        ("popcll", Box::new(move |x, y, _| wide(x, y).count_ones())),
        ("ffs", Box::new(|x, _, _| if x == 0 { 0 } else { x.trailing_zeros() + 1 })),
        ("ffsll", Box::new(move |x, y, _| if wide(x, y) == 0 { 0 } else { wide(x, y).trailing_zeros() + 1 })),
        ("clz", Box::new(|x, _, _| x.leading_zeros())),
        ("clzll", Box::new(move |x, y, _| wide(x, y).leading_zeros())),
        ("brev", Box::new(|x, _, _| x.reverse_bits())),
        ("usad", Box::new(|x, y, z| x.abs_diff(y).wrapping_add(z))),
        ("dp4a of unsigned bytes", Box::new(|x, y, z| dot(x, y, z, |byte| byte))),
        ("dp4a of signed bytes", Box::new(|x, y, z| dot(x, y, z, |byte| signed(byte, 8)))),
        ("min", Box::new(|x, y, _| x.min(y))),
        ("max", Box::new(|x, y, _| (x as i32).max(y as i32) as u32)),
    ];
    list.into_iter().map(|(name, intrinsic)| (name.to_owned(), intrinsic)).collect()
}
