//! The table of a frame: chosen from counts of residuals, in integers, so that every machine chooses the same.

use crate::blocks::order::{Order, TIERS};
use crate::kernel::rans::{ESCAPE, Frequencies, SCALE_BITS, SLOTS, SYMBOLS};
use crate::{DecodeError, Section};

/// Bytes of a table: the first residual, zeros, and the frequencies with 12 bits each.
pub(in crate::blocks) const TABLE: usize = HEAD + SYMBOLS * SCALE_BITS as usize / 8;
const HEAD: usize = 8;
/// Fraction bits of costs in bits.
pub(super) const FRACTION: u32 = 8;
/// Bits of an escape beside its code.
const ESCAPE_BITS: u64 = 8;

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
    let slots = |count: u64| Some((count * SLOTS as u64 + all / 2).checked_div(all)? as u16);
    let mut frequencies = Frequencies { start: start as u8, of: [0; SYMBOLS] };
    for (frequency, count) in frequencies.of.iter_mut().zip(counts) {
        *frequency = slots(count)?.max(u16::from(count > 0));
    }
    let escape = &mut frequencies.of[usize::from(ESCAPE)];
    *escape = (*escape).max(1);
    // What rounding has left over or taken too much is little to the most frequent one.
    let sum: u16 = frequencies.of.iter().sum();
    let largest = frequencies.of.iter_mut().max().expect("there are symbols");
    *largest = (*largest + SLOTS as u16).checked_sub(sum).filter(|frequency| *frequency > 0)?;
    Some(frequencies)
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

/// Bits of a symbol that has so many of [`SLOTS`] slots, by squaring: each time that gives a bit of the logarithm.
fn cost(frequency: u16) -> u64 {
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

/// The bytes of a table.
pub(in crate::blocks) fn to_bytes(frequencies: &Frequencies) -> [u8; TABLE] {
    let mut bytes = [0; TABLE];
    bytes[0] = frequencies.start;
    for (bytes, pair) in
        bytes[HEAD..].as_chunks_mut::<3>().0.iter_mut().zip(frequencies.of.as_chunks::<2>().0)
    {
        // No symbol has all slots but the escape, which then is the only one: 4096 is written as 0.
        let [first, second] = pair.map(|frequency| u32::from(frequency) % SLOTS as u32);
        let [low, middle, high, _] = (first | second << SCALE_BITS).to_le_bytes();
        *bytes = [low, middle, high];
    }
    bytes
}

/// Takes a table off `dynamic`; returns its bytes as well.
///
/// # Errors
/// If no encoder writes such a table.
pub(in crate::blocks) fn read<'a>(dynamic: &mut &'a [u8]) -> Result<(Frequencies, &'a [u8]), DecodeError> {
    let (section, found) = (Section::Dynamic, dynamic.len());
    let bytes = dynamic.split_off(..TABLE).ok_or(DecodeError::Truncated { section, needed: TABLE, found })?;
    let mut frequencies = Frequencies { start: bytes[0], of: [0; SYMBOLS] };
    if bytes[1..HEAD].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    for (pair, bytes) in
        frequencies.of.as_chunks_mut::<2>().0.iter_mut().zip(bytes[HEAD..].as_chunks::<3>().0)
    {
        let [low, middle, high] = *bytes;
        let both = u32::from_le_bytes([low, middle, high, 0]);
        *pair = [both % SLOTS as u32, both >> SCALE_BITS].map(|frequency| frequency as u16);
    }
    let sum = frequencies.of.iter().map(|frequency| usize::from(*frequency)).sum();
    let escape = &mut frequencies.of[usize::from(ESCAPE)];
    match sum {
        0 => *escape = SLOTS as u16,
        SLOTS if *escape > 0 => {}
        _ => return Err(DecodeError::Frequencies { sum, escape: *escape }),
    }
    Ok((frequencies, bytes))
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
        for table in [chosen, only_escapes] {
            let bytes = to_bytes(&table);
            let mut source = &[&bytes[..], &[9]].concat()[..];
            assert_eq!(read(&mut source), Ok((table, &bytes[..])));
            assert_eq!(source, [9]);
            let (section, needed, found) = (Section::Dynamic, TABLE, TABLE - 1);
            let truncated = Err(DecodeError::Truncated { section, needed, found });
            assert_eq!(read(&mut &bytes[..found]), truncated);
        }
        let with = |position: usize, value| {
            let mut bytes = to_bytes(&chosen);
            bytes[position] = value;
            read(&mut &bytes[..]).map(|_| ())
        };
        assert_eq!(with(7, 1), Err(DecodeError::Padding));
        // 16 more for symbol 1; 256 less for symbol 30 and none for escapes.
        assert_eq!(with(10, 1), Err(DecodeError::Frequencies { sum: 4112, escape: 4 }));
        assert_eq!(with(TABLE - 2, 0), Err(DecodeError::Frequencies { sum: 3836, escape: 0 }));
    }
}
