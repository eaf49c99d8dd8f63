//! The table of a frame for residuals and the two highest bits of mantissas in one symbol.

pub(super) use crate::kernel::joint::{BITS, SYMBOLS};
use crate::kernel::joint::{ESCAPE, LONGEST, Window};

use super::JointHistogram;
use super::table::{self, ESCAPE_BITS, FRACTION, HEAD};

/// Bytes of a table: first residual and length of the window, zeros, and the frequencies with 12 bits each.
pub(super) const TABLE: usize = HEAD + SYMBOLS * 12 / 8;

/// Window of residuals that have symbols, and frequencies, `SLOTS` in all. Each symbol of the window and each escape has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::blocks) struct Joint {
    pub(in crate::blocks) window: Window,
    pub(super) of: [u16; SYMBOLS],
}

/// The table for pairs that occur so often, if there are any.
pub(super) fn choose(histogram: &JointHistogram) -> Option<Joint> {
    let pairs = histogram.as_chunks::<{ 1 << BITS }>().0;
    let all: u64 = histogram.iter().map(|count| u64::from(*count)).sum();
    let of_residual =
        |residual: usize| pairs[residual % 256].iter().map(|count| u64::from(*count)).sum::<u64>();
    let in_window = |start: usize| (start..start + usize::from(LONGEST)).map(of_residual).sum::<u64>();
    // Of equal windows the first wins. It begins and ends with what occurs.
    let mut start = (0..256).rev().max_by_key(|start| in_window(*start))?;
    let mut end = start + usize::from(LONGEST);
    while start < end && of_residual(start) == 0 {
        start += 1;
    }
    while start < end && of_residual(end - 1) == 0 {
        end -= 1;
    }
    let window = Window { start: (start % 256) as u8, len: (end - start) as u8 };
    let mut counts = [0; SYMBOLS];
    for (residual, of_bits) in pairs.iter().enumerate() {
        let place = (residual as u8).wrapping_sub(window.start);
        let first = if place < window.len { usize::from(place) << BITS } else { usize::from(ESCAPE) };
        for (count, occurs) in counts[first..].iter_mut().zip(of_bits) {
            *count += u64::from(*occurs);
        }
    }
    let has_slots = |symbol: usize| symbol < usize::from(window.len) << BITS || symbol >= usize::from(ESCAPE);
    let mut of = [0; SYMBOLS];
    for (symbol, (frequency, count)) in of.iter_mut().zip(counts).enumerate() {
        *frequency = table::slots(count, all)?.max(u16::from(has_slots(symbol)));
    }
    table::settle(&mut of)?;
    Some(Joint { window, of })
}

impl Joint {
    /// Bits that pairs take which occur so often, with [`FRACTION`] bits behind the point.
    pub(super) fn cost(&self, histogram: &JointHistogram) -> u64 {
        let pairs = histogram.as_chunks::<{ 1 << BITS }>().0;
        let mut cost = 0;
        for (residual, of_bits) in pairs.iter().enumerate() {
            let place = (residual as u8).wrapping_sub(self.window.start);
            let is_escape = place >= self.window.len;
            let first = if is_escape { usize::from(ESCAPE) } else { usize::from(place) << BITS };
            for (bits, count) in of_bits.iter().enumerate() {
                let escape = if is_escape { ESCAPE_BITS << FRACTION } else { 0 };
                cost += u64::from(*count) * (table::cost(self.of[first + bits]) + escape);
            }
        }
        cost
    }

    /// Whether encoders can have chosen it.
    pub(super) fn is_possible(&self) -> bool {
        let Window { len, .. } = self.window;
        let used = |symbol: &usize| *symbol < usize::from(len) << BITS || *symbol >= usize::from(ESCAPE);
        len <= LONGEST && (0..SYMBOLS).all(|symbol| used(&symbol) == (self.of[symbol] > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rans::SLOTS;

    fn histogram(counts: &[(u8, [u32; 4])]) -> JointHistogram {
        let mut histogram = [0; _];
        for (residual, of_bits) in counts {
            histogram[usize::from(*residual) << BITS..][..4].copy_from_slice(of_bits);
        }
        histogram
    }

    #[test]
    fn windows_begin_and_end_with_what_occurs_and_everything_in_them_has_a_slot() {
        assert_eq!(choose(&[0; _]), None);
        let counts = histogram(&[(255, [400, 0, 100, 0]), (1, [100, 200, 100, 99]), (100, [0, 0, 0, 1])]);
        let joint = choose(&counts).unwrap();
        assert_eq!(joint.window, Window { start: 255, len: 3 });
        assert_eq!(joint.of[..4], [1638 - 10, 1, 410, 1]);
        assert_eq!(joint.of[4..8], [1; 4]);
        assert_eq!(joint.of[8..13], [410, 819, 410, 406, 0]);
        assert_eq!(joint.of[60..], [1, 1, 1, 4]);
        assert_eq!(joint.of.iter().sum::<u16>(), SLOTS as u16);
        assert!(joint.is_possible());
        assert!(!Joint { window: Window { start: 255, len: 2 }, ..joint }.is_possible());
        // Sixteen residuals: the last one is an escape.
        let all: Vec<(u8, [u32; 4])> = (0..16).map(|residual| (residual, [7; 4])).collect();
        let joint = choose(&histogram(&all)).unwrap();
        assert_eq!((joint.window, joint.of[0], joint.of[63]), (Window { start: 0, len: 15 }, 64, 64));
    }

    #[test]
    fn costs_are_those_of_symbols_and_listed_escapes() {
        let counts = histogram(&[(0, [2, 0, 0, 0]), (1, [0, 1, 0, 0]), (200, [0, 0, 0, 1])]);
        let joint = choose(&counts).unwrap();
        // Of 20 symbols that share slots, few are more than one.
        let expected = 2 * table::cost(joint.of[0]) + table::cost(joint.of[5]) + table::cost(joint.of[63]);
        assert_eq!(joint.cost(&counts), expected + (8 << FRACTION));
    }
}
