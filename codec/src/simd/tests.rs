//! Every function of every kernel of this machine against the portable one.

mod delta;
mod passes;
mod rans;
mod words;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::kernel::codes::{CodeTable, ENTRIES};
use crate::kernel::tier::{self, LIST_PAD, Tier};
use crate::kernel::window::EDGES;
use crate::kernel::window::tests::bounds_of;
use crate::kernel::{
    BASE_GROUP, CODE_GROUP, Coded, CodedMut, GroupSums, INDEX_GROUP, Kernel, PORTABLE, Starts, TILE,
    Unpacked, sums,
};
use crate::levels;
use crate::scale::{LAST_START, covered};

/// Every short length, and those around groups and tiles; three of these under Miri, which takes seconds for a thousand values.
fn lengths() -> impl Iterator<Item = usize> {
    let all = || (0..2101).chain([3 * CODE_GROUP - 1, 3 * CODE_GROUP, 5000, TILE - 1, TILE]);
    let few = [34, 290, CODE_GROUP + 5].into_iter();
    few.filter(|_| cfg!(miri)).chain(all().filter(|_| !cfg!(miri)))
}

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

/// The first exponent of the windows below.
const START: u8 = 110;

/// Kinds of values, by number.
const KINDS: usize = 8;

/// `count` values, at an address that no vector is aligned to.
fn values(kind: usize, count: usize, seed: u64) -> Unaligned {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bytes = (0..count).flat_map(|i| {
        let rest = rng.random::<u16>() & 0x807f;
        let inside = u16::from(START) + rng.random_range(0..7u16);
        let outside = (u16::from(START) + 7 + rng.random_range(0..249u16)) % 256;
        let exponent = match kind {
            0 => rng.random_range(0..256),
            1 => inside,
            2 => outside,
            3 if i % 2 == 0 => inside,
            3 => outside,
            // As Gaussian values are.
            4 => u16::from(START) + 6 - rng.random::<u32>().trailing_zeros() as u16,
            5 if i / 64 % 2 == 0 => inside,
            5 => outside,
            6 => [0, 1, 255, 254, inside][rng.random_range(0..5)],
            _ if rng.random_range(0..3) > 0 => return 0u16.to_le_bytes(),
            _ => inside,
        };
        (exponent << 7 | rest).to_le_bytes()
    });
    Unaligned::new(&bytes.collect::<Vec<u8>>())
}

/// Bytes at an odd address.
#[derive(Clone)]
struct Unaligned(Vec<u8>);

impl Unaligned {
    fn new(bytes: &[u8]) -> Self {
        let mut buffer = vec![0; bytes.len() + 2];
        let shift = Self::shift(&buffer);
        buffer[shift..][..bytes.len()].copy_from_slice(bytes);
        Self(buffer)
    }

    fn filled(byte: u8, len: usize) -> Self {
        Self::new(&vec![byte; len])
    }

    fn shift(buffer: &[u8]) -> usize {
        1 - buffer.as_ptr().addr() % 2
    }

    fn bytes(&self) -> &[u8] {
        &self.0[Self::shift(&self.0)..][..self.0.len() - 2]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let (shift, len) = (Self::shift(&self.0), self.0.len() - 2);
        &mut self.0[shift..][..len]
    }
}

fn code_bytes(count: usize) -> usize {
    count / CODE_GROUP * (CODE_GROUP / 8 * 3) + (count % CODE_GROUP).div_ceil(32) * 12
}

/// Rest, codes, escapes and escape index.
#[derive(Clone)]
struct Packed {
    starts: Starts,
    rest: Unaligned,
    codes: Unaligned,
    escapes: Unaligned,
    index: Vec<u16>,
    edges: [u32; 4],
    sum: u64,
}

impl Packed {
    fn new(kernel: &Kernel, starts: Starts, values: &[u8]) -> Self {
        let count = values.len() / 2;
        let groups = values.chunks(2 * INDEX_GROUP).zip(starts);
        let inside = groups.map(|(group, start)| covered(&(PORTABLE.histogram)(group), start) as usize);
        let escapes = count - inside.sum::<usize>();
        let mut room = [0xa5; TILE + 64];
        let mut packed = Self {
            starts,
            rest: Unaligned::filled(0xa5, count),
            codes: Unaligned::filled(0xa5, code_bytes(count)),
            escapes: Unaligned::filled(0, 0),
            index: Vec::new(),
            edges: [0; 4],
            sum: 0,
        };
        let coded = CodedMut {
            starts: &starts,
            rest: packed.rest.bytes_mut(),
            codes: packed.codes.bytes_mut(),
            escapes: &mut room,
            word: Some(9),
            streaming: count % 3 == 1,
        };
        let found = (kernel.pack)(values, coded);
        settle(kernel);
        packed.sum = found.sum;
        assert_eq!(found.escapes, escapes, "{count} values");
        packed.escapes = Unaligned::new(&room[..escapes]);
        packed.index = found.index[..count.div_ceil(INDEX_GROUP)].to_vec();
        packed.edges = found.edges;
        packed
    }

    /// Whether both are the same byte by byte.
    fn equals(&self, other: &Self) -> bool {
        self.rest.bytes() == other.rest.bytes()
            && self.codes.bytes() == other.codes.bytes()
            && self.escapes.bytes() == other.escapes.bytes()
            && (&self.index, self.edges, self.sum) == (&other.index, other.edges, other.sum)
    }

    /// Values and index, or the fault.
    fn unpack(&self, kernel: &Kernel) -> Result<(Vec<u8>, Vec<u16>), crate::TileFault> {
        let mut out = Unaligned::filled(0x5a, 2 * self.rest.bytes().len());
        let coded = Coded {
            starts: &self.starts,
            rest: self.rest.bytes(),
            codes: self.codes.bytes(),
            escapes: self.escapes.bytes(),
            word: Some(9),
            streaming: self.rest.bytes().len() % 3 == 2,
        };
        let unpacked = (kernel.unpack)(coded, out.bytes_mut());
        settle(kernel);
        let Unpacked { index, sum } = unpacked?;
        assert_eq!(sum, sums::mixed(out.bytes(), 9), "whatever comes of the codes is summed");
        Ok((out.bytes().to_vec(), index[..self.rest.bytes().len().div_ceil(INDEX_GROUP)].to_vec()))
    }
}

#[test]
fn sums_and_counts_are_equal() {
    for kernel in kernels() {
        for count in lengths() {
            let values = values(count % KINDS, count, count as u64);
            let values = values.bytes();
            let histogram = (PORTABLE.histogram)(values);
            assert_eq!((kernel.histogram)(values), histogram);
            assert_eq!((kernel.zeros)(values), (PORTABLE.zeros)(values), "{count}");
            for index in [0, 4096, u64::from(u32::MAX) - 4095, 1 << 40] {
                // Any number of bytes, not only whole values.
                let bytes = &values[..values.len() - usize::from(count % 3 == 2)];
                assert_eq!((kernel.checksum)(bytes, index), (PORTABLE.checksum)(bytes, index), "{count}");
            }
            let starts = [0, 1, 2, START - 1, START, START + 1, LAST_START - 1, LAST_START];
            for start in starts.into_iter().chain([(count % 250) as u8]) {
                let bounds = (kernel.window_bounds)(values, start);
                assert_eq!(bounds, Some(bounds_of(&histogram, start)), "{count} {start}");
            }
        }
        // Counters of bytes overflow here, if anywhere.
        let exponents = [0u16, 1, 109, 110, 111, 115, 116, 117, 255];
        for exponent in exponents.into_iter().filter(|_| !cfg!(miri)) {
            let values = exponent.wrapping_shl(7).to_le_bytes().repeat(TILE);
            let histogram = (PORTABLE.histogram)(&values);
            assert_eq!((kernel.zeros)(&values), (PORTABLE.zeros)(&values));
            for start in [0, START, LAST_START] {
                assert_eq!((kernel.window_bounds)(&values, start), Some(bounds_of(&histogram, start)));
            }
        }
    }
}

#[test]
fn packed_tiles_are_equal_and_come_back() {
    for kernel in kernels() {
        for count in lengths() {
            for kind in (0..KINDS).step_by(if cfg!(miri) { 3 } else { 1 }) {
                let values = values(kind, count, count as u64);
                let own = std::array::from_fn(|i| START - 3 + (i * count % 7) as u8);
                let starts = [own, [START; 16], [0; 16], [LAST_START; 16]];
                for starts in starts.into_iter().take(2 + 2 * usize::from(count % 50 == 13)) {
                    let packed = Packed::new(kernel, starts, values.bytes());
                    let histogram = (PORTABLE.histogram)(values.bytes());
                    if starts.iter().all(|start| *start == starts[0]) {
                        let expected = EDGES.map(|code| histogram[usize::from(starts[0] + code)]);
                        assert_eq!(packed.edges, expected, "{count} {kind}");
                    }
                    let expected = Packed::new(&PORTABLE, starts, values.bytes());
                    assert!(packed.equals(&expected), "{count} {kind}");
                    let (out, index) = packed.unpack(kernel).unwrap();
                    assert!(out == values.bytes() && index == packed.index, "{count} {kind}");
                }
            }
        }
    }
}

#[test]
fn hostile_tiles_are_read_or_refused_alike() {
    for kernel in kernels() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut refused = 0;
        for case in 0..if cfg!(miri) { 5 } else { 6000 } {
            let count = [rng.random_range(0..2100), rng.random_range(0..=TILE), TILE][case % 3];
            let count = if cfg!(miri) { count % (CODE_GROUP + 70) } else { count };
            let values = values(case % KINDS, count, case as u64);
            let mut packed = Packed::new(&PORTABLE, [START; 16], values.bytes());
            match rng.random_range(0..5) {
                // More or fewer escapes than the codes have, from none to as many as there are values.
                0 => packed.escapes = Unaligned::filled(9, rng.random_range(0..=count)),
                1 => {
                    let escapes = (packed.escapes.bytes().len() + 1).saturating_sub(case / 2 % 3);
                    packed.escapes = Unaligned::filled(9, escapes);
                }
                // Any codes, also beyond the last value.
                2 => rng.fill(packed.codes.bytes_mut()),
                3 => packed.codes.bytes_mut().fill(0xff),
                _ => {
                    let escapes = rng.random_range(0..=count);
                    packed.escapes = Unaligned::filled(200, escapes);
                    packed.codes.bytes_mut().iter_mut().for_each(|byte| *byte |= rng.random::<u8>());
                }
            }
            // Exponents of the window may be among the escapes, and pass 255.
            packed.starts = std::array::from_fn(|_| rng.random_range(0..=LAST_START));
            let result = packed.unpack(kernel);
            refused += usize::from(result.is_err());
            assert_eq!(result, packed.unpack(&PORTABLE), "case {case}, {count} values");
        }
        assert!(cfg!(miri) || (3000..6000).contains(&refused), "{refused} of 6000 are refused");
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

#[test]
fn codes_are_packed_and_unpacked_alike() {
    // One window, two, three, and as many as there are entries.
    let books: [[u8; ENTRIES]; 5] = [
        std::array::from_fn(|i| 110 + i as u8),
        std::array::from_fn(|i| if i == 0 { 0 } else { 239 + i as u8 }),
        std::array::from_fn(|i| 3 * i as u8),
        std::array::from_fn(|i| 17 * i as u8),
        std::array::from_fn(|i| 1 + 16 * i as u8),
    ];
    for kernel in kernels() {
        let mut rng = ChaCha8Rng::seed_from_u64(10);
        for (case, count) in lengths().enumerate() {
            let book = &books[case % books.len()];
            // Any exponents, or those of the book and few others.
            let exponents: Vec<u8> = (0..count)
                .map(|_| match rng.random_range(0..20) {
                    0 => rng.random(),
                    _ if (case / books.len()).is_multiple_of(3) => rng.random(),
                    _ => book[rng.random_range(0..ENTRIES)],
                })
                .collect();
            let exponents = Unaligned::new(&exponents);
            let table = CodeTable::new(book);
            let pack = |kernel: &Kernel, streaming| {
                let mut codes = Unaligned::filled(0xa5, count.div_ceil(2));
                let mut escaped = vec![0xa5; count.div_ceil(64)];
                (kernel.pack_codes)(exponents.bytes(), &table, codes.bytes_mut(), &mut escaped, streaming);
                settle(kernel);
                (codes.bytes().to_vec(), escaped)
            };
            let (codes, escaped) = pack(&PORTABLE, false);
            for streaming in [false, true] {
                assert!(pack(kernel, streaming) == (codes.clone(), escaped.clone()), "{count} {book:?}");
            }
            let mut out = Unaligned::filled(0x5a, count);
            (kernel.unpack_codes)(Unaligned::new(&codes).bytes(), book, out.bytes_mut());
            for (i, (exponent, decoded)) in exponents.bytes().iter().zip(out.bytes()).enumerate() {
                let absent = !book.contains(exponent);
                assert_eq!(escaped[i / 64] >> (i % 64) & 1 == 1, absent);
                assert_eq!(*decoded, if absent { book[0] } else { *exponent });
            }
        }
    }
}
