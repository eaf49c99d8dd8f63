//! FP32, F16 and FP8 values, and bit planes, of every kernel of this machine against the portable one.

use super::*;
use crate::kernel::fields::{E4, E5, PLANES};

/// `count` values of 32 bits: noise, few patterns, and zeros.
fn words(count: usize, seed: u64) -> Unaligned {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let word = |_| match seed % 4 {
        0 => rng.random::<u32>(),
        1 => rng.random::<u32>() & 0xffff_0000,
        2 => 0x3f80_0000 | rng.random::<u32>() & 0xff,
        _ if rng.random() => 0,
        _ => rng.random::<u32>() & rng.random::<u32>(),
    };
    let bytes: Vec<u8> = (0..count).map(word).flat_map(u32::to_le_bytes).collect();
    Unaligned::new(&bytes)
}

#[test]
fn fp32_values_are_taken_apart_alike() {
    for kernel in kernels() {
        for (case, count) in lengths().enumerate() {
            let values = words(count, case as u64);
            let values = values.bytes();
            let sums = |kernel: &Kernel| {
                let mut sums = vec![GroupSums::default(); count.div_ceil(BASE_GROUP)];
                (kernel.group_sums_32)(values, &mut sums);
                sums
            };
            assert!(sums(kernel) == sums(&PORTABLE), "{count}");
            assert_eq!((kernel.plane_stats)(values), (PORTABLE.plane_stats)(values), "{count}");
            let split = |kernel: &Kernel| {
                let mut out = [const { Vec::new() }; PLANES + 1];
                out.iter_mut().for_each(|out| *out = vec![0xa5; count]);
                let [a, b, c, residuals] = &mut out;
                (kernel.split_32)(values, 117, [a, b, c], residuals);
                out
            };
            let parts = split(kernel);
            assert!(parts == split(&PORTABLE), "{count}");
            let [a, b, c, residuals] = &parts;
            let mut out = Unaligned::filled(0x5a, 4 * count);
            (kernel.join_32)([a, b, c], residuals, 117, out.bytes_mut());
            assert!(out.bytes() == values, "{count}");
            let zeros = vec![0; count];
            (kernel.join_32)([a, &zeros, c], residuals, 117, out.bytes_mut());
            (kernel.add_plane)(1, b, out.bytes_mut());
            assert!(out.bytes() == values, "{count}");
        }
    }
}

#[test]
fn bits_are_in_planes_alike() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    for (kernel, count) in kernels().flat_map(|kernel| (0..200_usize).map(move |count| (kernel, count))) {
        for planes in 1..=8 {
            let bytes: Vec<u8> = (0..count).map(|_| rng.random::<u8>() >> (8 - planes)).collect();
            let packed = |kernel: &Kernel| {
                let mut bits = vec![0xa5; 8 * planes * count.div_ceil(64)];
                (kernel.pack_bits)(&bytes, planes, &mut bits);
                bits
            };
            let bits = packed(kernel);
            assert!(bits == packed(&PORTABLE), "{count} {planes}");
            let mut back = vec![0x5a; count];
            (kernel.unpack_bits)(&bits, planes, &mut back);
            assert!(back == bytes, "{count} {planes}");
        }
    }
}

#[test]
fn short_values_are_taken_apart_alike() {
    let mut rng = ChaCha8Rng::seed_from_u64(32);
    for (kernel, count) in kernels().flat_map(|kernel| lengths().map(move |count| (kernel, count))) {
        let mut values = Unaligned::filled(0, 2 * count);
        rng.fill(values.bytes_mut());
        // Some zeros.
        values.bytes_mut()[..count / 3].fill(0);
        let values = values.bytes();
        let sums = |kernel: &Kernel| {
            let mut sums = [const { Vec::new() }; 3];
            sums.iter_mut().for_each(|sums| *sums = vec![GroupSums::default(); count.div_ceil(BASE_GROUP)]);
            let [a, b, c] = &mut sums;
            (kernel.group_sums_16)(values, a);
            (kernel.group_sums_8)(&values[..count], E4, b);
            (kernel.group_sums_8)(&values[..count], E5, c);
            sums
        };
        assert!(sums(kernel) == sums(&PORTABLE), "{count}");
        let base = rng.random();
        let split = |kernel: &Kernel| {
            let [mut low, mut upper, mut residuals] = [0; 3].map(|_| vec![0xa5; count]);
            (kernel.split_16)(values, base, &mut low, &mut upper, &mut residuals);
            [low, upper, residuals]
        };
        let [low, upper, residuals] = split(kernel);
        assert!([&low, &upper, &residuals] == split(&PORTABLE).each_ref(), "{count}");
        let mut back = vec![0x5a; 2 * count];
        assert!((kernel.join_16)(&low, &upper, &residuals, base, &mut back) && back == values, "{count}");
        for bits in [E4, E5] {
            let split = |kernel: &Kernel| {
                let [mut upper, mut residuals] = [vec![0xa5; count], vec![0xa5; count]];
                (kernel.split_8)(&values[..count], bits, base, &mut upper, &mut residuals);
                [upper, residuals]
            };
            let [upper, residuals] = split(kernel);
            assert!([&upper, &residuals] == split(&PORTABLE).each_ref(), "{count}");
            let mut back = vec![0x5a; count];
            assert!((kernel.join_8)(&upper, &residuals, bits, base, &mut back) && back == values[..count]);
            // Exponents beyond the type are noticed.
            let wrong = base.wrapping_add(1);
            let join =
                |kernel: &Kernel| (kernel.join_8)(&upper, &residuals, bits, wrong, &mut vec![0; count]);
            assert_eq!(join(kernel), join(&PORTABLE), "{count}");
        }
    }
}
