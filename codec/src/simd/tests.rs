//! Every function of every kernel of this machine against the portable one.

mod delta;
mod passes;
mod rans;
mod values;
mod words;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::kernel::tier::{self, LIST_PAD, Tier};
use crate::kernel::{BASE_GROUP, GroupSums, Kernel, PORTABLE, TILE, sums};
use crate::levels;
use values::{KINDS, START, Unaligned, lengths, values};

/// The kernels that are compared with the portable one.
fn kernels() -> impl Iterator<Item = &'static Kernel> {
    levels::all().filter(|kernel| kernel.level != PORTABLE.level)
}

/// Waits for stores past the caches. Miri has none of the kernels that write in a pass so, and no such instruction.
fn settle(kernel: &Kernel) {
    if !cfg!(miri) {
        (kernel.fence)();
    }
}

#[test]
fn sums_and_counts_are_equal() {
    for kernel in kernels() {
        for count in lengths() {
            let values = values(count % KINDS, count, count as u64);
            let values = values.bytes();
            assert_eq!((kernel.histogram)(values), (PORTABLE.histogram)(values));
            assert_eq!((kernel.zeros)(values), (PORTABLE.zeros)(values), "{count}");
            for index in [0, 4096, u64::from(u32::MAX) - 4095, 1 << 40] {
                // Any number of bytes, not only whole values.
                let bytes = &values[..values.len() - usize::from(count % 3 == 2)];
                assert_eq!((kernel.checksum)(bytes, index), (PORTABLE.checksum)(bytes, index), "{count}");
            }
        }
        // Counters of bytes overflow here, if anywhere.
        let exponents = [0u16, 1, 109, 110, 111, 115, 116, 117, 255];
        for exponent in exponents.into_iter().filter(|_| !cfg!(miri)) {
            let values = exponent.wrapping_shl(7).to_le_bytes().repeat(TILE);
            assert_eq!((kernel.histogram)(&values), (PORTABLE.histogram)(&values));
            assert_eq!((kernel.zeros)(&values), (PORTABLE.zeros)(&values));
        }
    }
}

#[test]
fn zeros_are_dropped_and_restored_alike() {
    for kernel in kernels() {
        for count in lengths() {
            for kind in [1, 4, 6, 7] {
                let mut values = values(kind, count, 77 + count as u64);
                if kind == 4 {
                    // Zeros in runs.
                    values.bytes_mut().chunks_mut(200).step_by(2).for_each(|run| run.fill(0));
                }
                let zeros = |kernel: &'static Kernel| (kernel.zeros, kernel.drop_zeros, kernel.restore_zeros);
                compare_masks(2, values.bytes(), zeros(kernel), zeros(&PORTABLE));
                // The same bytes as half as many values.
                let zeros = |kernel: &'static Kernel| {
                    (kernel.zeros_32, kernel.drop_zeros_32, kernel.restore_zeros_32)
                };
                compare_masks(4, &values.bytes()[..count / 2 * 4], zeros(kernel), zeros(&PORTABLE));
            }
        }
    }
}

/// How zeros are counted, dropped and restored.
type Masks = (fn(&[u8]) -> usize, fn(&[u8], &mut [u8], &mut [u8]) -> usize, fn(&[u8], &[u8], &mut [u8]));

fn compare_masks(width: usize, values: &[u8], masks: Masks, portable: Masks) {
    let count = values.len() / width;
    let drop = |(_, drop_zeros, _): Masks| {
        let mut mask = Unaligned::filled(0xa5, count.div_ceil(8));
        let mut kept = Unaligned::filled(0xa5, values.len());
        let kept_count = drop_zeros(values, mask.bytes_mut(), kept.bytes_mut());
        (mask.bytes().to_vec(), Unaligned::new(&kept.bytes()[..width * kept_count]))
    };
    assert_eq!(masks.0(values), portable.0(values), "{count} {width}");
    let ((mask, kept), expected) = (drop(masks), drop(portable));
    assert!(mask == expected.0 && kept.bytes() == expected.1.bytes(), "{count} {width}");
    let mut out = Unaligned::filled(0x5a, values.len());
    masks.2(&mask, kept.bytes(), out.bytes_mut());
    assert!(out.bytes() == values, "{count} {width}");
}

#[test]
fn halves_are_taken_and_joined_alike() {
    for kernel in kernels() {
        for count in lengths().filter(|count| count % 2 == 0) {
            let wide = values(count / 2 % KINDS, count, count as u64);
            // In every third case no lower half has a bit, or the last one has a single bit.
            let mut wide = Unaligned::new(wide.bytes());
            if count % 3 > 0 {
                wide.bytes_mut().chunks_mut(4).for_each(|value| value[..2].fill(0));
            }
            if let (2, [.., low, _, _, _]) = (count % 3, wide.bytes_mut()) {
                *low = 1;
            }
            let halves = |kernel: &Kernel| {
                let (mut upper, mut lower) = (Unaligned::filled(0xa5, count), Unaligned::filled(0xa5, count));
                (kernel.upper_halves)(wide.bytes(), upper.bytes_mut());
                let any = (kernel.lower_halves)(wide.bytes(), lower.bytes_mut());
                (upper.bytes().to_vec(), lower, any)
            };
            let ((upper, lower, any), expected) = (halves(kernel), halves(&PORTABLE));
            assert!(upper == expected.0 && lower.bytes() == expected.1.bytes() && any == expected.2);
            let mut out = Unaligned::filled(0x5a, 2 * count);
            (kernel.join_halves)(Unaligned::new(&upper).bytes(), lower.bytes(), out.bytes_mut());
            assert!(out.bytes() == wide.bytes(), "{count}");
        }
    }
}

#[test]
fn fields_are_taken_apart_and_joined_alike() {
    for kernel in kernels() {
        for count in lengths() {
            let kind = count % KINDS;
            let values = values(kind, count, count as u64);
            let values = values.bytes();
            let sums = |kernel: &Kernel| {
                let mut sums = vec![GroupSums::default(); count.div_ceil(BASE_GROUP)];
                (kernel.group_sums)(values, &mut sums);
                sums
            };
            assert_eq!(sums(kernel), sums(&PORTABLE), "{count} {kind}");
            let base = (count * 7) as u8;
            let split = |kernel: &Kernel| {
                let (mut rest, mut residuals) =
                    (Unaligned::filled(0xa5, count), Unaligned::filled(0xa5, count));
                (kernel.split)(values, base, rest.bytes_mut(), residuals.bytes_mut());
                (rest, residuals)
            };
            let (rest, residuals) = split(kernel);
            let expected = split(&PORTABLE);
            assert!(
                rest.bytes() == expected.0.bytes() && residuals.bytes() == expected.1.bytes(),
                "{count} {kind}"
            );
            let mut out = Unaligned::filled(0x5a, 2 * count);
            (kernel.join)(rest.bytes(), residuals.bytes(), base, out.bytes_mut());
            assert!(out.bytes() == values, "{count} {kind}");
        }
    }
}

#[test]
fn tiers_are_packed_and_unpacked_alike() {
    let tiers = [[0, 1, -1], [-2, -3, 2], [-5, 2, -6], [3, -7, -8], [-7, -8, -9]].map(Tier::new);
    for kernel in kernels() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let longest = [4 * TILE].into_iter().filter(|_| !cfg!(miri));
        for (case, count) in lengths().chain(longest).enumerate() {
            // From nearly none that are passed on to all of them.
            let spread = [2, 4, 12, 60, 256][case % 5];
            let tier = &tiers[case / 5 % 5];
            let residuals: Vec<u8> =
                (0..count).map(|_| tier.symbols[0].wrapping_add(rng.random_range(0..spread) as u8)).collect();
            let pack = |kernel: &Kernel| {
                let mut list = Unaligned::new(&residuals);
                let mut planes = Unaligned::filled(0xa5, tier::plane_bytes(count));
                // In one go, or in two.
                let first = if case % 3 == 0 { count / 128 * 64 } else { 0 };
                let (first_planes, planes_left) = planes.bytes_mut().split_at_mut(tier::plane_bytes(first));
                let passed = (kernel.pack_tier)(&mut list.bytes_mut()[..first], 0, 0, tier, first_planes);
                let passed = (kernel.pack_tier)(list.bytes_mut(), first, passed, tier, planes_left);
                (list.bytes()[..passed].to_vec(), planes)
            };
            let (passed, planes) = pack(kernel);
            let expected = pack(&PORTABLE);
            assert!(passed == expected.0 && planes.bytes() == expected.1.bytes(), "{count} {spread}");

            let unpack = |kernel: &Kernel, planes: &[u8], promised: usize| {
                let mut list = Unaligned::filled(0x77, count + LIST_PAD);
                let start = count - promised;
                let len = promised.min(passed.len());
                list.bytes_mut()[start..][..len].copy_from_slice(&passed[..len]);
                (kernel.unpack_tier)(list.bytes_mut(), promised, tier, planes)
                    .map(|()| list.bytes()[..count].to_vec())
            };
            assert!(unpack(kernel, planes.bytes(), passed.len()).unwrap() == residuals, "{count} {spread}");
            // Damaged planes, and counts that are not theirs.
            let mut damaged = planes.clone();
            rng.fill(damaged.bytes_mut());
            if let Some(last) = damaged.bytes_mut().as_chunks_mut::<8>().0.last_chunk_mut::<2>() {
                let valid = if count % 64 == 0 { u64::MAX } else { (1 << (count % 64)) - 1 };
                last.iter_mut().for_each(|word| *word = (u64::from_le_bytes(*word) & valid).to_le_bytes());
            }
            assert!(tier::ends_clear(count, damaged.bytes()));
            for planes in [&planes, &damaged] {
                for promised in [0, passed.len().saturating_sub(1), (passed.len() + 1).min(count), count] {
                    let result = unpack(kernel, planes.bytes(), promised);
                    assert!(result == unpack(&PORTABLE, planes.bytes(), promised), "{count} {spread}");
                }
            }
        }
    }
}
