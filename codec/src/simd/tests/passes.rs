//! Passes over values, of every kernel of this machine against the portable one.

use super::*;
use crate::kernel::pass::{Join, Passed, Split, SplitMut};

/// Rounding of bases, in eighths.
const EIGHTHS: u32 = 5;

/// Outputs of a pass over values.
#[derive(PartialEq)]
struct Parts {
    rest: Vec<u8>,
    planes: Vec<u8>,
    sums: Vec<GroupSums>,
    /// Residuals without a code, with [`LIST_PAD`] bytes behind them.
    list: Vec<u8>,
    sum: u64,
}

impl Parts {
    fn new(kernel: &Kernel, values: &[u8], base: Option<u8>, tier: Option<&Tier>, streaming: bool) -> Self {
        let count = values.len() / 2;
        let planes_len = tier.map_or(0, |_| tier::plane_bytes(count));
        let (mut rest, mut planes) = (Unaligned::filled(0xa5, count), Unaligned::filled(0xa5, planes_len));
        let mut sums = vec![GroupSums::default(); count.div_ceil(BASE_GROUP)];
        // Three that are passed on come before.
        let mut room = vec![7; 3 + count + LIST_PAD];
        let out = SplitMut {
            rest: rest.bytes_mut(),
            planes: planes.bytes_mut(),
            sums: &mut sums,
            list: &mut room,
            passed: 3,
        };
        let found =
            (kernel.split_pass)(values, Split { base, eighths: EIGHTHS, tier, word: 5, streaming }, out);
        settle(kernel);
        assert_eq!(room[..3], [7; 3]);
        let mut list = room[3..found.passed].to_vec();
        list.resize(list.len() + LIST_PAD, 0);
        Self { rest: rest.bytes().to_vec(), planes: planes.bytes().to_vec(), sums, list, sum: found.sum }
    }

    /// The values, how many residuals the planes have asked for, and the sum.
    fn join(
        &self,
        kernel: &Kernel,
        bases: &[Option<u8>],
        tier: Option<&Tier>,
        count: usize,
        streaming: bool,
    ) -> (Vec<u8>, Passed) {
        let mut out = Unaligned::filled(0x5a, 2 * count);
        let coded = Join {
            tier,
            word: 5,
            bases,
            planes: &self.planes,
            rest: &self.rest,
            passed: &self.list,
            streaming,
        };
        let found = (kernel.join_pass)(coded, out.bytes_mut());
        settle(kernel);
        (out.bytes().to_vec(), found)
    }
}

#[test]
fn passes_over_values_are_alike() {
    let first = Tier::new([0, 1, -1]);
    for (kernel, tier) in kernels().flat_map(|kernel| [(kernel, Some(&first)), (kernel, None)]) {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for (case, count) in lengths().enumerate() {
            let kind = case % KINDS;
            let values = values(kind, count, count as u64);
            let values = values.bytes();
            for (base, streaming) in [(None, false), (Some(START + 4), true), (Some(rng.random()), false)] {
                let parts = Parts::new(kernel, values, base, tier, streaming);
                assert!(parts == Parts::new(&PORTABLE, values, base, tier, false), "{count} {kind} {base:?}");
                let sizes = values.chunks(2 * BASE_GROUP).map(|group| group.len() as u32 / 2);
                let own = |(sums, size): (&GroupSums, u32)| Some(base.unwrap_or(sums.base(size, EIGHTHS)));
                let bases: Vec<Option<u8>> = parts.sums.iter().zip(sizes).map(own).collect();
                let (out, found) = parts.join(kernel, &bases, tier, count, streaming);
                assert!(out == values, "{count} {kind} {base:?}");
                let expected = Passed { passed: parts.list.len() - LIST_PAD, sum: parts.sum };
                assert_eq!(found, expected, "{count} {kind} {base:?}");
            }
        }
    }
}

#[test]
fn passes_over_hostile_planes_are_alike() {
    let first = Tier::new([0, 1, -1]);
    for kernel in kernels() {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        for count in lengths() {
            let groups = count.div_ceil(BASE_GROUP);
            let bases: Vec<Option<u8>> =
                (0..groups).map(|_| rng.random_bool(0.8).then(|| rng.random())).collect();
            let size = |group: usize| (count - group * BASE_GROUP).min(BASE_GROUP);
            let coded: Vec<usize> = (0..groups).filter(|group| bases[*group].is_some()).map(size).collect();
            let planes = |count: &usize| {
                let mut planes = vec![[0; 8]; tier::plane_bytes(*count) / 8];
                planes.iter_mut().for_each(|word| rng.fill(word));
                // They end clear.
                if let (1.., Some(last)) = (count % 64, planes.last_chunk_mut::<2>()) {
                    let valid = (1 << (count % 64)) - 1;
                    last.iter_mut()
                        .for_each(|word| *word = (u64::from_le_bytes(*word) & valid).to_le_bytes());
                }
                planes.into_iter().flatten()
            };
            let planes: Vec<u8> = coded.iter().flat_map(planes).collect();
            let asked: u32 = planes
                .as_chunks::<{ tier::PAIR }>()
                .0
                .iter()
                .map(|pair| {
                    let (low, high) = tier::read_pair(pair);
                    (low & high).count_ones()
                })
                .sum();
            let asked = asked as usize;
            // As many as the planes ask for; or none, fewer, more.
            for given in [asked, 0, asked / 2, asked + 70] {
                let parts = Parts {
                    rest: vec![0x91; coded.iter().sum()],
                    planes: planes.clone(),
                    sums: Vec::new(),
                    list: (0..given + LIST_PAD).map(|i| i as u8).collect(),
                    sum: 0,
                };
                let (out, found) = parts.join(kernel, &bases, Some(&first), count, count % 2 == 0);
                let (expected, of_portable) = parts.join(&PORTABLE, &bases, Some(&first), count, false);
                assert_eq!(found.passed, asked, "{count} {given}");
                assert!(given < asked || (out == expected && found == of_portable), "{count} {given}");
            }
        }
    }
}

#[test]
fn copies_that_sum_are_alike() {
    for kernel in kernels() {
        for (case, len) in lengths().enumerate() {
            let values = values(case % KINDS, len.div_ceil(2), len as u64);
            let values = &values.bytes()[..len];
            for streaming in [false, true] {
                let mut out = Unaligned::filled(0x5a, len);
                let sum = (kernel.copy_sum)(values, out.bytes_mut(), 7, streaming && !cfg!(miri));
                settle(kernel);
                assert!(out.bytes() == values, "{len}");
                assert_eq!(sum, sums::mixed(values, 7), "{len}");
            }
        }
    }
}
