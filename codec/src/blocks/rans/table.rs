//! The table of a frame: chosen from counts of residuals, in integers, so that every machine chooses the same.

use super::super::tiers::{Order, TIERS};
use super::joint::{self, Joint};
use crate::kernel::joint::Window;
use crate::kernel::rans::{DecodeTable, ESCAPE, Frequencies, SCALE_BITS, SLOTS, SYMBOLS};
use crate::{DecodeError, Section};

/// Bytes of a table: the first residual, zeros, and the frequencies with 12 bits each.
pub(in crate::blocks) const TABLE: usize = HEAD + SYMBOLS * SCALE_BITS as usize / 8;
pub(super) const HEAD: usize = 8;
/// Fraction bits of costs in bits.
pub(super) const FRACTION: u32 = 8;
/// Bits of an escape beside its code.
pub(super) const ESCAPE_BITS: u64 = 8;

/// The table for residuals that occur so often, if there are any.
pub(super) fn choose(histogram: &[u32; 256]) -> Option<Frequencies> {
    let all: u64 = histogram.iter().map(|count| u64::from(*count)).sum();
    let in_window = |start: usize| {
        (0..usize::from(ESCAPE)).map(|symbol| u64::from(histogram[(start + symbol) % 256])).sum()
    };
    // Of equal windows the first wins.
    let start = (0..256).rev().max_by_key(|start| -> u64 { in_window(*start) })?;
    let mut counts: [u64; SYMBOLS] =
        std::array::from_fn(|symbol| u64::from(histogram[(start + symbol) % 256]));
    counts[usize::from(ESCAPE)] = all - in_window(start);
    let mut frequencies = Frequencies { start: start as u8, of: [0; SYMBOLS] };
    for (frequency, count) in frequencies.of.iter_mut().zip(counts) {
        *frequency = slots(count, all)?.max(u16::from(count > 0));
    }
    let escape = &mut frequencies.of[usize::from(ESCAPE)];
    *escape = (*escape).max(1);
    settle(&mut frequencies.of)?;
    Some(frequencies)
}

/// Slots of a symbol that occurs so often among all; none if there are none.
pub(super) fn slots(count: u64, all: u64) -> Option<u16> {
    Some((count * SLOTS as u64 + all / 2).checked_div(all)? as u16)
}

/// Makes frequencies add up to [`SLOTS`]: what rounding has left over or taken too much is little to the most frequent one.
pub(super) fn settle(of: &mut [u16]) -> Option<()> {
    let sum: u16 = of.iter().sum();
    let largest = of.iter_mut().max()?;
    *largest = (*largest + SLOTS as u16).checked_sub(sum).filter(|frequency| *frequency > 0)?;
    Some(())
}

/// Bits that residuals take which occur so often, by this table and in tiers, with [`FRACTION`] bits behind the point.
pub(super) fn costs(histogram: &[u32; 256], frequencies: &Frequencies) -> (u64, u64) {
    let by_symbol = frequencies.of.map(cost);
    let in_tiers = in_tiers(Order::High);
    let (mut rans, mut tiers) = (0, 0);
    for (residual, count) in (0..=u8::MAX).zip(histogram) {
        let symbol = frequencies.symbol(residual);
        let escape = if symbol == ESCAPE { ESCAPE_BITS << FRACTION } else { 0 };
        rans += u64::from(*count) * (by_symbol[usize::from(symbol)] + escape);
        tiers += (u64::from(*count) * u64::from(in_tiers[usize::from(residual)])) << FRACTION;
    }
    (rans, tiers)
}

/// Bits of each residual in tiers.
fn in_tiers(order: Order) -> [u8; 256] {
    let mut bits = [2 * TIERS as u8 + ESCAPE_BITS as u8; 256];
    for (tier, number) in order.tiers().iter().zip(1..) {
        tier.symbols[..3].iter().for_each(|symbol| bits[usize::from(*symbol)] = 2 * number);
    }
    bits
}

/// Bits of a symbol with this frequency, of [`SLOTS`] in all, by squaring: each time that gives a bit of the logarithm.
pub(super) fn cost(frequency: u16) -> u64 {
    let Some(whole) = frequency.checked_ilog2() else { return 0 };
    let mut log = u64::from(whole);
    // From 1 to 2, with 31 bits behind the point.
    let mut x = u64::from(frequency) << (31 - whole);
    for _ in 0..FRACTION {
        x = (x * x) >> 31;
        log <<= 1;
        if x >> 32 != 0 {
            x >>= 1;
            log += 1;
        }
    }
    (u64::from(SCALE_BITS) << FRACTION) - log
}

/// Model that the values of a frame are coded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::blocks) enum Model {
    /// Residuals.
    Residuals(Frequencies),
    /// Residuals and the two highest bits of mantissas.
    Joint(Joint),
}

impl Model {
    /// Its bytes in a frame.
    pub(in crate::blocks) fn to_bytes(self) -> Vec<u8> {
        let (start, len, of) = match &self {
            Self::Residuals(frequencies) => (frequencies.start, 0, &frequencies.of[..]),
            Self::Joint(joint) => (joint.window.start, joint.window.len, &joint.of[..]),
        };
        let mut bytes = vec![0; HEAD];
        (bytes[0], bytes[1]) = (start, len);
        for pair in of.as_chunks::<2>().0 {
            // No symbol has all slots but the escape, which then is the only one: 4096 is written as 0.
            let [first, second] = pair.map(|frequency| u32::from(frequency) % SLOTS as u32);
            bytes.extend_from_slice(&(first | second << SCALE_BITS).to_le_bytes()[..3]);
        }
        bytes
    }

    /// The model of joint symbols, if it is one.
    pub(in crate::blocks) fn joint(&self) -> Option<&Joint> {
        match self {
            Self::Residuals(_) => None,
            Self::Joint(joint) => Some(joint),
        }
    }

    /// Table for decoding.
    pub(in crate::blocks) fn decode_table(&self) -> DecodeTable {
        match self {
            Self::Residuals(frequencies) => DecodeTable::new(frequencies),
            Self::Joint(joint) => DecodeTable::joint(&joint.of),
        }
    }
}

/// Takes a table off `dynamic`; returns its bytes as well.
///
/// # Errors
/// If the bytes are not a valid table.
pub(in crate::blocks) fn read<'a>(dynamic: &mut &'a [u8]) -> Result<(Model, &'a [u8]), DecodeError> {
    let (section, found) = (Section::Dynamic, dynamic.len());
    let is_joint = dynamic.get(1).is_some_and(|len| *len > 0);
    let needed = if is_joint { joint::TABLE } else { TABLE };
    let bytes = dynamic.split_off(..needed).ok_or(DecodeError::Truncated { section, needed, found })?;
    let (head, pairs) = bytes.split_at(HEAD);
    if head[2..].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let mut of = [0; joint::SYMBOLS];
    for (pair, bytes) in of.as_chunks_mut::<2>().0.iter_mut().zip(pairs.as_chunks::<3>().0) {
        let [low, middle, high] = *bytes;
        let both = u32::from_le_bytes([low, middle, high, 0]);
        *pair = [both % SLOTS as u32, both >> SCALE_BITS].map(|frequency| frequency as u16);
    }
    let sum = of.iter().map(|frequency| usize::from(*frequency)).sum();
    if is_joint {
        let joint = Joint { window: Window { start: head[0], len: head[1] }, of };
        return if sum == SLOTS && joint.is_possible() {
            Ok((Model::Joint(joint), bytes))
        } else {
            Err(DecodeError::Frequencies { sum, escape: of[joint::SYMBOLS - 1] })
        };
    }
    let mut frequencies = Frequencies { start: head[0], of: *of.first_chunk().expect("it is longer") };
    let escape = &mut frequencies.of[usize::from(ESCAPE)];
    match sum {
        0 => *escape = SLOTS as u16,
        SLOTS if *escape > 0 => {}
        _ => return Err(DecodeError::Frequencies { sum, escape: *escape }),
    }
    Ok((Model::Residuals(frequencies), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[(u8, u32)]) -> [u32; 256] {
        let mut histogram = [0; 256];
        counts.iter().for_each(|(residual, count)| histogram[usize::from(*residual)] = *count);
        histogram
    }

    #[test]
    fn slots_are_shared_by_frequency() {
        assert_eq!(choose(&[0; 256]), None);
        let table = choose(&histogram(&[(255, 500), (0, 400), (1, 99), (100, 1)])).unwrap();
        let symbol = |residual: u8| usize::from(table.symbol(residual));
        // 100 has a symbol, unless others that are far from it take all.
        assert_eq!((table.start, symbol(255), symbol(0), symbol(100)), (227, 28, 29, 31));
        assert_eq!([255, 0, 1, 100].map(|residual| table.of[symbol(residual)]), [2048, 1638, 406, 4]);
        // A residual that has not been seen is an escape.
        assert_eq!(table.symbol(254), ESCAPE);
        for all in [1, 4096, 1 << 30] {
            let table = choose(&histogram(&[(9, all)])).unwrap();
            assert_eq!((table.of[usize::from(table.symbol(9))], table.of[31]), (4095, 1));
        }
        // 256 residuals equally often: all but 31 are escapes.
        let table = choose(&[7; 256]).unwrap();
        assert_eq!((table.start, table.of[0], table.of[30], table.of[31]), (0, 16, 16, 3600));
    }

    #[test]
    fn costs_are_logarithms() {
        assert_eq!([4096, 2048, 1, 0].map(cost), [0, 256, 12 * 256, 0]);
        for frequency in 1..=4096u16 {
            let exact = 12.0 - libm::log2(f64::from(frequency));
            assert!((cost(frequency) as f64 / 256.0 - exact).abs() <= 1.0 / 256.0, "{frequency}");
        }
        let counts = histogram(&[(255, 2), (0, 1), (100, 1)]);
        let mut table = Frequencies { start: 250, of: [0; SYMBOLS] };
        (table.of[5], table.of[6], table.of[31]) = (2048, 1024, 1024);
        assert_eq!(costs(&counts, &table), ((2 + 2 + 2 + 8) << 8, (3 * 2 + 16) << 8));
    }

    #[test]
    fn tables_come_back_and_others_are_refused() {
        let mut only_escapes = Frequencies { start: 3, of: [0; SYMBOLS] };
        only_escapes.of[31] = SLOTS as u16;
        let chosen = choose(&histogram(&[(255, 500), (0, 400), (1, 99), (100, 1)])).unwrap();
        for table in [chosen, only_escapes].map(Model::Residuals) {
            let bytes = table.to_bytes();
            let mut source = &[&bytes[..], &[9]].concat()[..];
            assert_eq!(read(&mut source), Ok((table, &bytes[..])));
            assert_eq!(source, [9]);
            let (section, needed, found) = (Section::Dynamic, TABLE, TABLE - 1);
            let truncated = Err(DecodeError::Truncated { section, needed, found });
            assert_eq!(read(&mut &bytes[..found]), truncated);
        }
        let with = |position: usize, value| {
            let mut bytes = Model::Residuals(chosen).to_bytes();
            bytes[position] = value;
            read(&mut &bytes[..]).map(|_| ())
        };
        assert_eq!(with(7, 1), Err(DecodeError::Padding));
        // 16 more for symbol 1; 256 less for symbol 30 and none for escapes.
        assert_eq!(with(10, 1), Err(DecodeError::Frequencies { sum: 4112, escape: 4 }));
        assert_eq!(with(TABLE - 2, 0), Err(DecodeError::Frequencies { sum: 3836, escape: 0 }));
    }
    #[test]
    fn joint_tables_come_back_and_others_are_refused() {
        let mut counts = [0; _];
        counts[40..60].fill(5);
        let joint = joint::choose(&counts).unwrap();
        let bytes = Model::Joint(joint).to_bytes();
        assert_eq!(bytes[..2], [10, 5]);
        assert_eq!(read(&mut &bytes[..]), Ok((Model::Joint(joint), &bytes[..])));
        let (section, needed, found) = (Section::Dynamic, joint::TABLE, joint::TABLE - 1);
        assert_eq!(read(&mut &bytes[..found]), Err(DecodeError::Truncated { section, needed, found }));
        let with = |position: usize, value| {
            let mut bytes = bytes.clone();
            bytes[position] = value;
            read(&mut &bytes[..]).map(|_| ())
        };
        let refused = |sum| Err(DecodeError::Frequencies { sum, escape: 1 });
        // Windows with another length have other symbols; a byte more is another sum.
        assert_eq!(with(1, 4), refused(SLOTS));
        assert_eq!(with(1, 16), refused(SLOTS));
        assert_eq!(with(HEAD, bytes[HEAD] + 1), refused(SLOTS + 1));
        assert_eq!(with(2, 1), Err(DecodeError::Padding));
    }
}
