//! A byte plane in tiers, as exponents are, but the symbols are the plane's own: its twelve most frequent bytes.

use super::super::geometry::tail_bytes;
use super::super::tiers::{Coded, List, Order, TIERS, check_zero, unpack};
use crate::BlockFault;
use crate::kernel::Kernel;
use crate::kernel::tier::{Tier, plane_bytes, read_pair};

/// Symbols of all tiers.
const SYMBOLS: usize = 3 * TIERS;
/// Bytes in front of the planes: symbols, the number of values in each tier but the first, and of escapes, zeros.
const HEAD: usize = 24;

/// How a byte plane is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::blocks) struct PlaneTiers {
    /// Three for each tier; those that no byte has are 0.
    symbols: [u8; SYMBOLS],
    /// Bytes in each tier, and escapes.
    counts: [u16; TIERS + 1],
}

/// Bits that bytes take in tiers which occur so often; sorts them.
pub(super) fn bits(histogram: &mut [u32; 256]) -> usize {
    histogram.sort_unstable_by(|a, b| b.cmp(a));
    let mut left: u32 = histogram.iter().sum();
    let mut bits = 0;
    for named in histogram[..SYMBOLS].as_chunks::<3>().0 {
        bits += 2 * left;
        left -= named.iter().sum::<u32>();
    }
    (bits + 8 * left) as usize
}

impl PlaneTiers {
    /// The most frequent bytes first, the lower one of equals; of `count` bytes.
    pub(super) fn new(histogram: &[u32; 256], count: usize) -> Self {
        let mut keys: [u32; 256] = std::array::from_fn(|byte| histogram[byte] << 8 | (255 - byte) as u32);
        keys.sort_unstable_by(|a, b| b.cmp(a));
        let symbols = std::array::from_fn(|i| if keys[i] >> 8 == 0 { 0 } else { 255 - keys[i] as u8 });
        let mut counts = [count as u16; TIERS + 1];
        for tier in 0..TIERS {
            let named: u32 = keys[3 * tier..3 * tier + 3].iter().map(|key| key >> 8).sum();
            counts[tier + 1] = counts[tier] - named as u16;
        }
        Self { symbols, counts }
    }

    /// Bytes of the plane.
    pub(super) fn len(&self) -> usize {
        let (planes, escapes) = tail_bytes(&self.counts);
        HEAD + plane_bytes(usize::from(self.counts[0])) + planes + escapes
    }

    /// Reads what is in front of a plane of `count` bytes.
    pub(super) fn read(count: usize, source: &[u8]) -> Result<Self, BlockFault> {
        let head: &[u8; HEAD] = source.first_chunk().ok_or(BlockFault::Overrun)?;
        let (symbols, behind) = head.split_at(SYMBOLS);
        let (numbers, padding) = behind.split_at(2 * TIERS);
        check_zero(padding)?;
        let symbols = std::array::from_fn(|i| symbols[i]);
        let mut counts = [count as u16; TIERS + 1];
        for ((tier, bytes), number) in (1..).zip(numbers.as_chunks().0).zip(1..) {
            counts[number] = u16::from_le_bytes(*bytes);
            let (expected, found) = (usize::from(counts[number]), usize::from(counts[number - 1]));
            if expected > found {
                return Err(BlockFault::Passed { tier, expected, found });
            }
        }
        Ok(Self { symbols, counts })
    }

    /// Writes the plane of the bytes in `list`, as many as there are in the first tier. The list is of no meaning
    /// afterwards.
    pub(in crate::blocks) fn pack(&self, kernel: &Kernel, list: &mut [u8], out: &mut [u8]) {
        let (head, mut planes) = out.split_at_mut(HEAD);
        head.fill(0);
        head[..SYMBOLS].copy_from_slice(&self.symbols);
        for (bytes, count) in head[SYMBOLS..].as_chunks_mut::<2>().0.iter_mut().zip(&self.counts[1..]) {
            *bytes = count.to_le_bytes();
        }
        let tiers = Order::High.tiers();
        let (to, from) = self.exchange(tiers);
        list.iter_mut().for_each(|byte| *byte = to[usize::from(*byte)]);
        let mut left = list.len();
        for tier in tiers {
            let own = planes.split_off_mut(..plane_bytes(left)).expect("the plane has its length");
            left = (kernel.pack_tier)(&mut list[..left], 0, 0, tier, own);
        }
        let (escapes, padding) = planes.split_at_mut(left);
        for (out, residual) in escapes.iter_mut().zip(&*list) {
            *out = from[usize::from(*residual)];
        }
        padding.fill(0);
    }

    /// A one-to-one map of bytes that sends symbols to residuals of the same place, so that one kernel codes both; and the
    /// inverse.
    fn exchange(&self, tiers: &[Tier; TIERS]) -> ([u8; 256], [u8; 256]) {
        let (mut to, mut from) = ([0; 256], [0; 256]);
        let (mut is_symbol, mut is_taken) = ([false; 256], [false; 256]);
        let residuals = tiers.iter().flat_map(|tier| &tier.symbols[..3]);
        for (symbol, residual) in self.symbols.iter().zip(residuals) {
            // Of several zeros the first is a symbol, or stands for a byte that there is not.
            if !is_symbol[usize::from(*symbol)] {
                to[usize::from(*symbol)] = *residual;
                from[usize::from(*residual)] = *symbol;
                is_symbol[usize::from(*symbol)] = true;
                is_taken[usize::from(*residual)] = true;
            }
        }
        let mut free = (0..=u8::MAX).filter(|residual| !is_taken[usize::from(*residual)]);
        for byte in (0..=u8::MAX).filter(|byte| !is_symbol[usize::from(*byte)]) {
            let residual = free.next().expect("as many bytes as residuals are left");
            to[usize::from(byte)] = residual;
            from[usize::from(residual)] = byte;
        }
        (to, from)
    }

    /// Leaves the bytes of a plane in the list.
    ///
    /// # Errors
    /// If the plane contradicts itself.
    pub(in crate::blocks) fn unpack(
        &self,
        kernel: &Kernel,
        plane: &[u8],
        list: &mut List,
    ) -> Result<(), BlockFault> {
        let (first, planes) = plane[HEAD..].split_at(plane_bytes(usize::from(self.counts[0])));
        let (planes_len, _) = tail_bytes(&self.counts);
        let (planes, escapes) = planes.split_at(planes_len);
        let tiers = std::array::from_fn(|tier| {
            let [a, b, c] = [0, 1, 2].map(|code| self.symbols[3 * tier + code]);
            Tier { codes: [0; 16], symbols: [a, b, c, 0] }
        });
        unpack(kernel, list, &tiers, &self.counts, Coded { first, planes, escapes })?;
        self.check_symbols(&plane[HEAD..])
    }

    /// Every symbol that a code names is listed once, and every other one is 0; in planes that have been unpacked.
    fn check_symbols(&self, mut planes: &[u8]) -> Result<(), BlockFault> {
        let mut is_named = [false; 256];
        for (symbols, pair) in self.symbols.as_chunks::<3>().0.iter().zip(self.counts.windows(2)) {
            let [count, passed] = [pair[0], pair[1]].map(usize::from);
            let own = planes.split_off(..plane_bytes(count)).ok_or(BlockFault::Overrun)?;
            let (mut low, mut high) = (0, 0);
            for pair in own.as_chunks().0 {
                let (low_bits, high_bits) = read_pair(pair);
                low += low_bits.count_ones() as usize;
                high += high_bits.count_ones() as usize;
            }
            // Code 3 has both bits.
            let named = [count + passed - low - high, low - passed, high - passed];
            for (symbol, times) in symbols.iter().zip(named) {
                let is_named = &mut is_named[usize::from(*symbol)];
                if if times > 0 { *is_named } else { *symbol != 0 } {
                    return Err(BlockFault::Symbol(*symbol));
                }
                *is_named |= times > 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::geometry::BLOCK_VALUES;
    use crate::kernel::PORTABLE;
    use crate::kernel::tier::LIST_PAD;
    use crate::levels;

    fn histogram(bytes: &[u8]) -> [u32; 256] {
        let mut histogram = [0; 256];
        bytes.iter().for_each(|byte| histogram[usize::from(*byte)] += 1);
        histogram
    }

    fn packed(kernel: &Kernel, bytes: &[u8]) -> (PlaneTiers, Vec<u8>) {
        let tiers = PlaneTiers::new(&histogram(bytes), bytes.len());
        let mut plane = vec![0xa5; tiers.len()];
        tiers.pack(kernel, &mut bytes.to_vec(), &mut plane);
        assert_eq!(PlaneTiers::read(bytes.len(), &plane), Ok(tiers));
        (tiers, plane)
    }

    fn unpacked(bytes: usize, plane: &[u8]) -> Result<Vec<u8>, BlockFault> {
        let mut list = [0; BLOCK_VALUES + LIST_PAD];
        PlaneTiers::read(bytes, plane)?.unpack(levels::active(), plane, &mut list)?;
        Ok(list[BLOCK_VALUES - bytes..BLOCK_VALUES].to_vec())
    }

    #[test]
    fn planes_come_back_on_every_kernel() {
        let noise = |i: u32| (i.wrapping_mul(0x9e37_79b1) >> 13) as u8;
        let kinds: [fn(u8) -> u8; 6] = [
            |noise| noise,
            |_| 0,
            |_| 7,
            |noise| noise & noise >> 4 & 0x15,
            |noise| 200 + (noise.leading_zeros() as u8) * 3,
            |noise| noise & 0xf0 & noise << 3 | 1,
        ];
        let counts = &[1, 63, 64, 65, 1000, BLOCK_VALUES][..if cfg!(miri) { 4 } else { 6 }];
        for (kind, &count) in kinds.iter().flat_map(|kind| counts.iter().map(move |count| (kind, count))) {
            let bytes: Vec<u8> = (0..count as u32).map(|i| kind(noise(i))).collect();
            let (_, plane) = packed(&PORTABLE, &bytes);
            for kernel in levels::all() {
                assert_eq!(packed(kernel, &bytes).1, plane);
            }
            assert!(unpacked(count, &plane).as_ref() == Ok(&bytes));
        }
    }

    #[test]
    fn frequent_bytes_have_short_codes() {
        // 40 times 9, 30 times 200, 20 times 0, 7 times 3, 3 times 255.
        let bytes = [vec![9; 40], vec![200; 30], vec![0; 20], vec![3; 7], vec![255; 3]].concat();
        let (tiers, plane) = packed(levels::active(), &bytes);
        assert_eq!(tiers.symbols, [9, 200, 0, 3, 255, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(tiers.counts, [100, 10, 0, 0, 0]);
        assert_eq!((tiers.len(), plane.len()), (24 + 32 + 16, 72));
        assert_eq!(
            plane[..24],
            [9, 200, 0, 3, 255, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn planes_that_no_encoder_writes_are_refused() {
        let bytes = [vec![9; 40], vec![200; 30], vec![7; 20], vec![3; 7], vec![255; 3]].concat();
        let (_, plane) = packed(levels::active(), &bytes);
        let with = |position: usize, value| {
            let mut plane = plane.clone();
            plane[position] = value;
            unpacked(100, &plane)
        };
        assert_eq!(with(24, plane[24]), Ok(bytes));
        // A symbol twice, and one that no code names.
        assert_eq!(with(1, 9), Err(BlockFault::Symbol(9)));
        assert_eq!(with(11, 9), Err(BlockFault::Symbol(9)));
        assert_eq!(with(20, 1), Err(BlockFault::Padding));
        assert_eq!(with(23, 1), Err(BlockFault::Padding));
        assert_eq!(with(14, 11), Err(BlockFault::Passed { tier: 2, expected: 11, found: 10 }));
        assert_eq!(with(12, 11), Err(BlockFault::Passed { tier: 1, expected: 11, found: 10 }));
        assert_eq!(unpacked(100, &plane[..23]), Err(BlockFault::Overrun));
    }
}
