//! Every loop of every level of this machine against the portable one.

#[path = "../../../../codec/src/simd/tests/values.rs"]
mod values;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::TileFault;
use crate::kernel::codes::{CodeTable, ENTRIES};
use crate::kernel::window::EDGES;
use crate::kernel::window::tests::bounds_of;
use crate::kernel::{
    self, CODE_GROUP, Coded, CodedMut, INDEX_GROUP, Kernel, Starts, TILE, Unpacked, portable, sums,
};
use crate::scale::{LAST_START, covered};
use values::{KINDS, START, Unaligned, lengths, values};

/// The kernels that are compared with the portable one.
fn kernels() -> impl Iterator<Item = &'static Kernel> {
    kernel::all()[1..].iter()
}

/// Waits for stores past the caches. Miri has none of the kernels that write in a pass so, and no such instruction.
fn settle(kernel: &Kernel) {
    if !cfg!(miri) {
        (kernel.fence)();
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
        let inside = groups.map(|(group, start)| covered(&(portable().histogram)(group), start) as usize);
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
        let found = (kernel.loops().pack)(values, coded);
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
    fn unpack(&self, kernel: &Kernel) -> Result<(Vec<u8>, Vec<u16>), TileFault> {
        let mut out = Unaligned::filled(0x5a, 2 * self.rest.bytes().len());
        let coded = Coded {
            starts: &self.starts,
            rest: self.rest.bytes(),
            codes: self.codes.bytes(),
            escapes: self.escapes.bytes(),
            word: Some(9),
            streaming: self.rest.bytes().len() % 3 == 2,
        };
        let unpacked = (kernel.loops().unpack)(coded, out.bytes_mut());
        settle(kernel);
        let Unpacked { index, sum } = unpacked?;
        assert_eq!(sum, sums::mixed(out.bytes(), 9), "whatever comes of the codes is summed");
        Ok((out.bytes().to_vec(), index[..self.rest.bytes().len().div_ceil(INDEX_GROUP)].to_vec()))
    }
}

#[test]
fn counts_around_a_window_are_those_of_the_histogram() {
    for kernel in kernels() {
        let mut cases: Vec<Unaligned> =
            lengths().map(|count| values(count % KINDS, count, count as u64)).collect();
        // Counters of bytes overflow here, if anywhere.
        let exponents = [0u16, 1, 109, 110, 111, 115, 116, 117, 255];
        let constant = |exponent: u16| Unaligned::new(&exponent.wrapping_shl(7).to_le_bytes().repeat(TILE));
        cases.extend(exponents.into_iter().filter(|_| !cfg!(miri)).map(constant));
        for (case, values) in cases.iter().enumerate() {
            let histogram = (portable().histogram)(values.bytes());
            let starts = [0, 1, 2, START - 1, START, START + 1, LAST_START - 1, LAST_START];
            for start in starts.into_iter().chain([(case % 250) as u8]) {
                let bounds = (kernel.loops().window_bounds)(values.bytes(), start);
                assert_eq!(bounds, Some(bounds_of(&histogram, start)), "{case} {start}");
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
                    let histogram = (portable().histogram)(values.bytes());
                    if starts.iter().all(|start| *start == starts[0]) {
                        let expected = EDGES.map(|code| histogram[usize::from(starts[0] + code)]);
                        assert_eq!(packed.edges, expected, "{count} {kind}");
                    }
                    let expected = Packed::new(portable(), starts, values.bytes());
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
            let mut packed = Packed::new(portable(), [START; 16], values.bytes());
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
            assert_eq!(result, packed.unpack(portable()), "case {case}, {count} values");
        }
        assert!(cfg!(miri) || (3000..6000).contains(&refused), "{refused} of 6000 are refused");
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
                (kernel.loops().pack_codes)(
                    exponents.bytes(),
                    &table,
                    codes.bytes_mut(),
                    &mut escaped,
                    streaming,
                );
                settle(kernel);
                (codes.bytes().to_vec(), escaped)
            };
            let (codes, escaped) = pack(portable(), false);
            for streaming in [false, true] {
                assert!(pack(kernel, streaming) == (codes.clone(), escaped.clone()), "{count} {book:?}");
            }
            let mut out = Unaligned::filled(0x5a, count);
            (kernel.loops().unpack_codes)(Unaligned::new(&codes).bytes(), book, out.bytes_mut());
            for (i, (exponent, decoded)) in exponents.bytes().iter().zip(out.bytes()).enumerate() {
                let absent = !book.contains(exponent);
                assert_eq!(escaped[i / 64] >> (i % 64) & 1 == 1, absent);
                assert_eq!(*decoded, if absent { book[0] } else { *exponent });
            }
        }
    }
}
