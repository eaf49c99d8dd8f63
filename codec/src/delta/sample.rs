//! How the differences of a frame are made and coded: chosen from some of its values, in integers, so that every machine chooses the
//! same.

use super::DeltaCoding;
use super::entry::{self, BLOCK_VALUES, front_len};
use crate::DType;
use crate::blocks::symbols::{self, TABLE, tier_bits};
use crate::entropy::{FRACTION, logarithm};
use crate::kernel::bits::array;
use crate::kernel::delta::{How, LARGE, difference, most_low_bits};
use crate::kernel::rans::{ESCAPE, Frequencies, LANES};

/// Blocks that are looked at, at most.
const SAMPLE_BLOCKS: usize = 8;
/// Runs of values of each.
const BLOCK_RUNS: usize = 8;
/// Values of a run.
const RUN_VALUES: usize = 32;
/// Distances from the median of the references that are tried, below and above it.
const BELOW: i32 = 4;
const ABOVE: i32 = 1;
/// Costs in whole bits.
const BIT: u64 = 1 << FRACTION;

/// Choices for a frame, and the costs per value that they were made by.
#[derive(Debug)]
pub(super) struct Choice {
    /// Coding of dense blocks, where all values have differences.
    pub(super) dense: How,
    /// Coding of sparse blocks, where only the values that differ have differences.
    pub(super) sparse: How,
    /// The table for dense blocks, if they are coded by rANS.
    pub(super) table: Option<Frequencies>,
    /// Cost of a value equal to that of the base, in a dense block.
    same: u64,
    /// Cost of a value that differs, in a dense block.
    changed: u64,
    /// Cost of a value that differs in a sparse block, without its position.
    position_apart: u64,
    /// Cost of a value that is coded without the base.
    direct: u64,
}

impl Choice {
    /// Whether a block with `changed` values that differ is cheaper as a sparse one, whose positions take `positions` bytes.
    pub(super) fn is_sparse(&self, values: usize, changed: usize, positions: usize) -> bool {
        let [values, changed, positions] = [values, changed, positions].map(|number| number as u64);
        let states = if self.table.is_some() { 8 * 4 * LANES as u64 * BIT } else { 0 };
        let dense = (values - changed) * self.same + changed * self.changed + states;
        8 * positions * BIT + changed * self.position_apart < dense
    }

    /// Whether a block is shorter without the base than with a body of this length.
    pub(super) fn is_direct(&self, values: usize, body: usize) -> bool {
        8 * body as u64 * BIT > self.direct * values as u64
    }
}

/// A value and that of the base.
#[derive(Clone, Copy)]
struct Pair {
    value: u32,
    base: u32,
    /// Difference of the two as integers.
    difference: u32,
}

/// Chooses how a frame of these values is coded, of which there is at least one.
pub(super) fn choose(coding: DeltaCoding, dtype: DType, values: &[u8], base: &[u8]) -> Choice {
    let width = dtype.width();
    let pairs = match width {
        1 => sample::<1>(values, base),
        2 => sample::<2>(values, base),
        _ => sample::<4>(values, base),
    };
    let candidates = candidates(dtype, &pairs);
    let costs: Vec<Costs> = candidates.iter().map(|how| Costs::of(*how, width, &pairs)).collect();
    // The first of equals.
    let best = |cost: fn(&Costs) -> u64| {
        let least =
            (0..costs.len()).min_by_key(|number| cost(&costs[*number])).expect("there are candidates");
        (candidates[least], &costs[least])
    };
    let (sparse, sparse_costs) = best(|costs| costs.sparse);
    let (in_tiers, tiers) = best(|costs| costs.tiers);
    let (by_rans, rans) = best(|costs| costs.rans);
    let (sampled, all) = (pairs.len() as u128, (values.len() / width) as u128);
    let per = |cost: u64, number: u64| cost.checked_div(number).unwrap_or(0);
    let unchanged = sampled as u64 - rans.changed;
    let chosen = Choice {
        dense: in_tiers,
        sparse,
        table: None,
        same: per(tiers.tiers_of_same, unchanged),
        changed: per(tiers.tiers - tiers.tiers_of_same, tiers.changed),
        position_apart: per(sparse_costs.sparse, sparse_costs.changed),
        direct: direct(dtype, &pairs) / sampled as u64,
    };
    if coding == DeltaCoding::Tiered {
        return chosen;
    }
    let blocks = all.div_ceil(BLOCK_VALUES as u128);
    let others = tiers.tiers.min(sparse_costs.sparse + sampled as u64 * BIT);
    let saved = u128::from(others.saturating_sub(rans.rans)) * all / sampled;
    let overhead = u128::from(8 * BIT) * (TABLE as u128 + 4 * LANES as u128 * blocks);
    // Fuzzers have no time for so many values.
    let table = if cfg!(fuzzing) || saved > overhead { symbols::choose_table(&rans.histogram) } else { None };
    if table.is_none() {
        return chosen;
    }
    Choice {
        dense: by_rans,
        table,
        same: per(rans.rans_of_same, unchanged),
        changed: per(rans.rans - rans.rans_of_same, rans.changed),
        ..chosen
    }
}

/// Whether a frame of this number of values can be shorter with a base, by its front matter.
pub(super) fn can_pay(dtype: DType, count: usize) -> bool {
    count > 0 && front_len(count) < dtype.width() * count
}

fn sample<const WIDTH: usize>(values: &[u8], base: &[u8]) -> Vec<Pair> {
    let (values, base) = (values.as_chunks::<WIDTH>().0, base.as_chunks::<WIDTH>().0);
    let blocks = values.len().div_ceil(BLOCK_VALUES);
    let looked_at = blocks.min(SAMPLE_BLOCKS);
    let mut pairs = Vec::with_capacity(looked_at * BLOCK_RUNS * RUN_VALUES);
    for number in 0..looked_at {
        let first = number * blocks / looked_at * BLOCK_VALUES;
        let count = (values.len() - first).min(BLOCK_VALUES);
        for run in 0..BLOCK_RUNS {
            let start = first + run * count / BLOCK_RUNS;
            let end = (first + (run + 1) * count / BLOCK_RUNS).min(start + RUN_VALUES);
            let pair = |(value, base)| {
                let (value, base) = (array(value), array(base));
                Pair { value, base, difference: difference(value, base, WIDTH, false) }
            };
            pairs.extend(values[start..end].iter().zip(&base[start..end]).map(pair));
        }
    }
    pairs
}

/// Differences of integers without low bits, and with some; and bits that differ.
fn candidates(dtype: DType, pairs: &[Pair]) -> Vec<How> {
    let (plain, width) = (entry::how(dtype), dtype.width());
    let mut all = vec![plain, How { xor: true, ..plain }];
    if most_low_bits(width) == 0 {
        return all;
    }
    // The exponents that differences have as numbers, about.
    let mut octaves: Vec<i32> = pairs
        .iter()
        .filter(|pair| pair.value != pair.base)
        .map(|Pair { base, difference, .. }| {
            let exponent = base >> plain.mantissa & u32::from(plain.last_exponent);
            exponent as i32 + difference.ilog2() as i32 + 1
        })
        .collect();
    let middle = octaves.len() / 2;
    if middle > 0 {
        let median = *octaves.select_nth_unstable(middle).1;
        let references = (median - BELOW).max(1)..=(median + ABOVE).min(i32::from(plain.last_exponent));
        all.extend(references.map(|reference| How { reference: reference as u8, ..plain }));
    }
    all
}

/// Costs of the sample when it is coded in one way.
struct Costs {
    /// How many values differ from the base.
    changed: u64,
    /// How often each symbol occurs.
    histogram: [u32; 256],
    /// Cost of symbols by rANS, and the share of values that equal those of the base.
    rans: u64,
    rans_of_same: u64,
    /// Cost of symbols in tiers.
    tiers: u64,
    tiers_of_same: u64,
    /// Cost in tiers of the values that differ only.
    sparse: u64,
}

impl Costs {
    fn of(how: How, width: usize, pairs: &[Pair]) -> Self {
        let mut costs = Self {
            changed: 0,
            histogram: [0; 256],
            rans: 0,
            rans_of_same: 0,
            tiers: 0,
            tiers_of_same: 0,
            sparse: 0,
        };
        let (mut low, mut low_of_same) = (0, 0);
        let large = 8 * width as u64;
        let beside = |symbol: u32| if symbol == u32::from(LARGE) { large } else { 0 };
        for Pair { value, base, difference } in pairs {
            let count = how.low_bits(*base, width);
            let found = if how.xor { value ^ base } else { *difference };
            let symbol = (found >> count).min(u32::from(LARGE));
            costs.histogram[symbol as usize] += 1;
            let bits = u64::from(count + tier_bits(symbol)) + beside(symbol);
            costs.tiers += bits * BIT;
            low += u64::from(count);
            if found == 0 {
                low_of_same += u64::from(count);
                costs.tiers_of_same += bits * BIT;
                continue;
            }
            costs.changed += 1;
            let symbol = ((found - 1) >> count).min(u32::from(LARGE));
            costs.sparse += (u64::from(count + tier_bits(symbol)) + beside(symbol)) * BIT;
        }
        // Symbols that have codes, and those that are escapes.
        let (named, escapes) = costs.histogram.split_at(usize::from(ESCAPE));
        let escaped: u32 = escapes.iter().sum();
        let all = logarithm(pairs.len() as u32);
        let code = |count: u32| if count == 0 { 0 } else { all - logarithm(count) };
        let codes = named.iter().chain([&escaped]).map(|count| u64::from(*count) * code(*count));
        let behind = u64::from(escaped) * 8 * BIT + u64::from(escapes[escapes.len() - 1]) * large * BIT;
        costs.rans = codes.sum::<u64>() + behind + low * BIT;
        let same = pairs.len() as u64 - costs.changed;
        costs.rans_of_same = same * code(named[0]) + low_of_same * BIT;
        costs
    }
}

/// Cost of the sample without the base: exponents at their entropy, the rest as it is; and zeros as a mask, if there are any.
fn direct(dtype: DType, pairs: &[Pair]) -> u64 {
    let how = entry::how(dtype);
    let rest = 8 * dtype.width() as u64 - u64::from(u32::from(how.last_exponent).count_ones());
    let mut histogram = [0; 256];
    let mut zeros = 0;
    for Pair { value, .. } in pairs {
        histogram[(value >> how.mantissa & u32::from(how.last_exponent)) as usize] += 1;
        zeros += u64::from(*value == 0);
    }
    histogram[0] -= zeros as u32;
    let coded = pairs.len() as u64 - zeros;
    let all = logarithm(coded as u32);
    let exponents = histogram.iter().filter(|count| **count > 0);
    let exponents: u64 = exponents.map(|count| u64::from(*count) * (all - logarithm(*count))).sum();
    let mask = if zeros > 0 { pairs.len() as u64 } else { 0 };
    exponents + (coded * rest + mask) * BIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn noise_in_the_last_bits_is_low_and_what_is_far_away_is_coded_without_the_base() {
        let noise = |i: u32| i.wrapping_mul(0x9e37_79b1) >> 16;
        let base: Vec<u8> = (0..40_000).flat_map(|i| (0x3f80_0000 + (noise(i) << 8)).to_le_bytes()).collect();
        let near: Vec<u8> = (0..40_000)
            .flat_map(|i| (0x3f80_0000 + (noise(i) << 8) + (noise(i + 9) >> 4)).to_le_bytes())
            .collect();
        let choice = choose(DeltaCoding::Rans, DType::F32, &near, &base);
        // Of differences of 12 bits, and one for the sign, most are low.
        let low = u32::from(choice.dense.reference) - 127;
        assert!((7..=11).contains(&low) && !choice.dense.xor && choice.table.is_some(), "{choice:?}");
        assert!((12 * BIT..14 * BIT).contains(&choice.changed) && choice.direct > 20 * BIT, "{choice:?}");
        assert!(
            !choice.is_direct(BLOCK_VALUES, BLOCK_VALUES * 14 / 8)
                && choice.is_direct(BLOCK_VALUES, 4 * BLOCK_VALUES)
        );
        let far: Vec<u8> = near.iter().rev().copied().collect();
        let choice = choose(DeltaCoding::Tiered, DType::F32, &far, &base);
        assert!(choice.table.is_none() && choice.changed > 20 * BIT, "{choice:?}");
    }
}
