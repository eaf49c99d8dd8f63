//! Exponents to 4-bit codes by a table of sixteen, and back.
//!
//! Two codes are in a byte, the first one in its low half.

/// Exponents that have a code.
pub(crate) const ENTRIES: usize = 16;
/// Set where a table has a code, so that code 0 differs from none.
const PRESENT: u8 = 0x10;

/// Codes of exponents, in the forms that kernels look them up in.
pub(crate) struct CodeTable {
    /// For each exponent its code and [`PRESENT`], or 0.
    marked: [u8; 256],
    windows: [Window; ENTRIES],
    window_count: usize,
}

/// Part of a table: what is in it for sixteen consecutive exponents, modulo 256.
#[derive(Clone, Copy, Default)]
pub(crate) struct Window {
    /// The first of them.
    pub(crate) start: u8,
    /// Code and [`PRESENT`], or 0.
    pub(crate) marked: [u8; ENTRIES],
}

impl CodeTable {
    /// A table for these exponents, strictly ascending: each has its place as code.
    pub(crate) fn new(exponents: &[u8; ENTRIES]) -> Self {
        debug_assert!(exponents.is_sorted_by(|a, b| a < b));
        let mut table = Self { marked: [0; 256], windows: [Window::default(); ENTRIES], window_count: 0 };
        for (exponent, code) in exponents.iter().zip(0u8..) {
            table.marked[usize::from(*exponent)] = code | PRESENT;
            let count = table.window_count;
            let open = count > 0 && usize::from(exponent - table.windows[count - 1].start) < ENTRIES;
            if !open {
                table.windows[count].start = *exponent;
                table.window_count += 1;
            }
            let window = &mut table.windows[table.window_count - 1];
            window.marked[usize::from(exponent - window.start)] = code | PRESENT;
        }
        table
    }

    /// Whether the exponent has a code.
    pub(crate) fn contains(&self, exponent: u8) -> bool {
        self.marked[usize::from(exponent)] != 0
    }

    /// For each exponent its code and [`PRESENT`], or 0.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for kernels that permute"))]
    pub(crate) fn marked(&self) -> &[u8; 256] {
        &self.marked
    }

    /// Windows that hold all codes between them. Exponents of a Gaussian need one; with zeros, two.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "for kernels that shuffle")
    )]
    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows[..self.window_count]
    }
}

pub(crate) fn pack_codes(
    exponents: &[u8],
    table: &CodeTable,
    codes: &mut [u8],
    escaped: &mut [u64],
    _streaming: bool,
) {
    let chunks = exponents.chunks(64).zip(codes.chunks_mut(32)).zip(escaped);
    for ((exponents, codes), escaped) in chunks {
        let mut marked = [PRESENT; 64];
        for (marked, exponent) in marked.iter_mut().zip(exponents) {
            *marked = table.marked[usize::from(*exponent)];
        }
        for (byte, pair) in codes.iter_mut().zip(marked.as_chunks::<2>().0) {
            *byte = pair[0] & 15 | pair[1] << 4;
        }
        *escaped = 0;
        for (i, marked) in marked.iter().enumerate() {
            *escaped |= u64::from(*marked == 0) << i;
        }
    }
}

pub(crate) fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) {
    for (pair, byte) in exponents.chunks_mut(2).zip(codes) {
        for (exponent, shift) in pair.iter_mut().zip([0, 4]) {
            *exponent = book[usize::from(byte >> shift & 15)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: [u8; ENTRIES] =
        [0, 100, 101, 102, 103, 104, 105, 106, 107, 108, 110, 115, 116, 130, 254, 255];

    #[test]
    fn windows_hold_what_the_table_holds() {
        let contiguous = CodeTable::new(&std::array::from_fn(|i| 240 + i as u8));
        assert_eq!(contiguous.windows().len(), 1);
        let table = CodeTable::new(&BOOK);
        let starts: Vec<u8> = table.windows().iter().map(|window| window.start).collect();
        assert_eq!(starts, [0, 100, 116, 254]);
        for exponent in 0..=u8::MAX {
            // A window may pass 255: what would begin again at 0 is empty.
            let in_windows = table.windows().iter().fold(0, |found, window| {
                let place = usize::from(exponent.wrapping_sub(window.start));
                found | window.marked.get(place).copied().unwrap_or(0)
            });
            assert_eq!(in_windows, table.marked[usize::from(exponent)], "{exponent}");
            assert_eq!(table.contains(exponent), BOOK.contains(&exponent));
        }
    }

    #[test]
    fn codes_are_places_and_what_has_none_is_marked() {
        let table = CodeTable::new(&BOOK);
        let exponents = [100, 0, 99, 255, 108];
        let (mut codes, mut escaped) = ([0xee; 3], [7]);
        pack_codes(&exponents, &table, &mut codes, &mut escaped, false);
        assert_eq!((codes, escaped), ([0x01, 0xf0, 0x09], [0b00100]));
        let mut back = [0; 5];
        unpack_codes(&codes, &BOOK, &mut back);
        assert_eq!(back, [100, 0, 0, 255, 108]);
    }
}
