//! Tables of rANS and what is coded by them, read a second time from docs/format.md.

use super::reader::Reader;
use super::{table, tag_of};
use zipwire_codec::DType;

/// A table of frequencies.
pub(crate) struct Table {
    start: u8,
    /// Residuals of a window, whose symbols have two bits of mantissas as well; 0 if there is none.
    pub(crate) window: usize,
    frequencies: Vec<usize>,
    /// For each slot its symbol.
    symbols: Vec<usize>,
    /// The first slot of each symbol.
    first: Vec<usize>,
}

impl Table {
    /// The one of the tests that frames name by this id.
    pub(crate) fn shared(dtype: DType, named: u32) -> Self {
        let table = ["rans", "rans:mantissa=2"].map(|spec| table(&spec.parse().unwrap(), dtype));
        let table = table.iter().find(|table| table.id() == named).unwrap();
        let (head, rest) = table.as_bytes().split_at(4);
        assert_eq!([head[0], head[1], head[3]], [5, tag_of(dtype), 0]);
        assert!((4..=11).contains(&head[2]));
        let mut source = Reader(rest);
        let table = Self::read(&mut source);
        assert!(source.0.is_empty());
        table
    }

    pub(crate) fn read(source: &mut Reader<'_>) -> Self {
        let head = source.take(8);
        assert_eq!(head[2..], [0; 6]);
        let window = usize::from(head[1]);
        let count = if window > 0 { 64 } else { 32 };
        let bytes = source.take(count * 12 / 8);
        let bit = |i: usize| usize::from(bytes[i / 8] >> (i % 8) & 1);
        let mut frequencies: Vec<usize> =
            (0..count).map(|s| (0..12).map(|i| bit(12 * s + i) << i).sum()).collect();
        if frequencies == [0; 32] {
            frequencies[31] = 4096;
        }
        assert!(frequencies.iter().sum::<usize>() == 4096 && frequencies[count - 1] > 0);
        assert!(window == 0 || (0..60).all(|s| (frequencies[s] > 0) == (s < 4 * window)));
        let mut ranked: Vec<usize> = (0..count).collect();
        ranked.sort_by(|a, b| frequencies[*b].cmp(&frequencies[*a]).then(a.cmp(b)));
        let (mut symbols, mut first) = (vec![], vec![0; count]);
        for symbol in ranked {
            first[symbol] = symbols.len();
            symbols.extend(vec![symbol; frequencies[symbol]]);
        }
        Self { start: head[0], window, frequencies, symbols, first }
    }

    /// Residuals, bits of mantissas, and what the states are in the end.
    pub(crate) fn decode(
        &self,
        [count, words, escapes]: [usize; 3],
        source: &mut Reader<'_>,
    ) -> (Vec<i32>, Vec<u32>, Vec<u64>) {
        let states = source.take(128).chunks(4);
        let mut states: Vec<u64> =
            states.map(|state| u64::from(u32::from_le_bytes(state.try_into().unwrap()))).collect();
        let mut words = source.part(2 * words).chunks(2);
        let mut symbols = vec![0; count];
        for row in 0..count.div_ceil(128) {
            for (step, lane) in (0..4).flat_map(|step| (0..32).map(move |lane| (step, lane))) {
                let Some(symbol) = symbols.get_mut(128 * row + 4 * lane + step) else { continue };
                let slot = (states[lane] % 4096) as usize;
                *symbol = self.symbols[slot];
                let state = self.frequencies[*symbol] as u64 * (states[lane] / 4096);
                states[lane] = state + (slot - self.first[*symbol]) as u64;
                if states[lane] < 1 << 15 {
                    let word = u16::from_le_bytes(words.next().unwrap().try_into().unwrap());
                    states[lane] = states[lane] << 16 | u64::from(word);
                }
            }
        }
        assert!(words.next().is_none());
        let mut escapes = source.part(escapes).iter();
        let bits =
            symbols.iter().map(|symbol| if self.window > 0 { *symbol as u32 % 4 } else { 0 }).collect();
        let (per_residual, escape) = if self.window > 0 { (4, 15) } else { (1, 31) };
        let residual = |symbol: usize| match symbol / per_residual {
            place if place == escape => i32::from(*escapes.next().unwrap()),
            place => i32::from(self.start) + place as i32,
        };
        let residuals = symbols.into_iter().map(residual).collect();
        assert!(escapes.next().is_none());
        (residuals, bits, states)
    }
}
