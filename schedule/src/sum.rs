//! Sums over ranks in a stated order: what a reduction computes, so that its bits are known wherever it runs.
//!
//! Floating-point addition is not associative, so a sum is its order. Sums are in FP32: values of BF16 are widened, which is
//! exact, and every addition rounds once, to nearest even. How far that is from the exact sum is in `docs/reduction.md`.

use std::fmt;

use zipwire_codec::DType;

use crate::Rank;

/// The sum of what some ranks contribute, in this order: consecutive ranks from the first one on, the first rank behind the
/// last; in groups, each of which is added up before the groups are.
///
/// The sum of one rank is its contribution: a way to write it in another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sum {
    // Chunks hold sums, and plans hold many chunks: 16 bits each.
    first: u16,
    count: u16,
    group: u16,
    rank_count: u16,
    dtype: DType,
}

impl Sum {
    /// What one rank contributes, as values of `dtype`.
    ///
    /// # Panics
    /// Above 65 535 ranks, as all constructors.
    pub fn one(rank: Rank, rank_count: u32, dtype: DType) -> Self {
        Self::run(rank, 1, rank_count, dtype)
    }

    /// `count` ranks one after the other, from `first` on, modulo the rank count.
    pub fn run(first: Rank, count: u32, rank_count: u32, dtype: DType) -> Self {
        let narrow = |number: u32| u16::try_from(number).expect("ranks of reductions are counted in 16 bits");
        debug_assert!(0 < count && count <= rank_count && first.0 < rank_count);
        Self { first: narrow(first.0), count: narrow(count), group: 1, rank_count: narrow(rank_count), dtype }
    }

    /// All ranks, from rank 0 on.
    pub fn all(rank_count: u32, dtype: DType) -> Self {
        Self::run(Rank(0), rank_count, rank_count, dtype)
    }

    /// The same ranks, of which each `group` in a row are added up before the sums are.
    ///
    /// # Panics
    /// If the groups are not all full.
    #[must_use]
    pub fn in_groups_of(self, group: u32) -> Self {
        let group = u16::try_from(group).expect("groups are no larger than sums");
        assert!(group > 0 && self.count.is_multiple_of(group), "all groups are full");
        // Groups of one, and a single group, are no groups.
        Self { group: if group == self.count { 1 } else { group }, ..self }
    }

    /// Type of the result: FP32, or what FP32 is rounded to once, at the end.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The same sum, as values of another type.
    #[must_use]
    pub fn as_dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// The same sum as it would be from rank 0 on.
    #[must_use]
    pub(crate) fn of_first(self) -> Self {
        Self { first: 0, ..self }
    }

    /// How many ranks contribute.
    pub fn count(self) -> usize {
        usize::from(self.count)
    }

    /// Ranks that are added up before the groups are; 1 if all are added up one after the other.
    pub fn group(self) -> usize {
        usize::from(self.group)
    }

    /// The ranks that contribute, in order.
    pub fn origins(self) -> impl Iterator<Item = Rank> {
        let (first, rank_count) = (u32::from(self.first), u32::from(self.rank_count));
        (0..u32::from(self.count)).map(move |index| Rank((first + index) % rank_count))
    }

    /// Whether adding up `terms`, one after the other, gives this sum bit for bit.
    pub fn is_of(self, terms: &[Self]) -> bool {
        let origins = terms.iter().flat_map(|term| term.origins());
        let same_ranks = origins.eq(self.origins());
        // FP32 is rounded to another type at the end only, and what was rounded is not summed up.
        let exact = terms.iter().all(|term| term.count == 1 || term.dtype == DType::F32);
        let (head, tail) = terms.split_at(terms.len().min(1));
        let flat =
            head.iter().all(|term| term.group == self.group) && tail.iter().all(|term| term.count == 1);
        let grouped = self.group > 1 && terms.iter().all(|term| term.group == 1 && term.count == self.group);
        same_ranks && exact && (self.group == 1 && flat || grouped || terms.len() == 1 && flat)
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} from rank {}", self.dtype, self.count, self.first)?;
        if self.group > 1 { write!(f, " in groups of {}", self.group) } else { Ok(()) }
    }
}

/// Adds values to sums, one by one.
///
/// # Panics
/// If there are not as many values as sums, or they are neither BF16 nor FP32.
pub fn add(sums: &mut [f32], dtype: DType, values: &[u8]) {
    combine(sums, dtype, values, plus);
}

/// The first values of sums.
///
/// # Panics
/// As [`add`].
pub fn begin(sums: &mut [f32], dtype: DType, values: &[u8]) {
    combine(sums, dtype, values, |_, value| value);
}

fn combine(sums: &mut [f32], dtype: DType, values: &[u8], with: impl Fn(f32, f32) -> f32) {
    assert_eq!(values.len(), sums.len() * dtype.width(), "there is a value for each sum");
    match dtype {
        DType::Bf16 => {
            let values = values.as_chunks().0.iter().map(|&bytes| widen(u16::from_le_bytes(bytes)));
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = with(*sum, value));
        }
        DType::F32 => {
            let values = values.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = with(*sum, value));
        }
        DType::F16 | DType::F8E4M3 | DType::F8E5M2 => panic!("{dtype} is not summed"),
    }
}

/// Writes sums as values of a type, little-endian; BF16 is rounded to nearest even.
///
/// # Panics
/// As [`add`].
pub fn store(sums: &[f32], dtype: DType, out: &mut [u8]) {
    assert_eq!(out.len(), sums.len() * dtype.width(), "there is room for each sum");
    match dtype {
        DType::Bf16 => {
            let out = out.as_chunks_mut().0.iter_mut();
            out.zip(sums).for_each(|(out, &sum)| *out = round(sum).to_le_bytes());
        }
        DType::F32 => {
            let out = out.as_chunks_mut().0.iter_mut();
            out.zip(sums).for_each(|(out, &sum)| *out = sum.to_le_bytes());
        }
        DType::F16 | DType::F8E4M3 | DType::F8E5M2 => panic!("{dtype} is not summed"),
    }
}

/// One addition. Which of its operands' bits a NaN takes over differs between machines and compilers: here it is always the
/// same NaN.
fn plus(a: f32, b: f32) -> f32 {
    let sum = a + b;
    if sum.is_nan() { f32::from_bits(0x7fc0_0000) } else { sum }
}

/// A BF16 value as FP32, exactly, also if it is no number.
fn widen(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

/// The nearest BF16 value, on ties the even one; a NaN keeps its upper bits, with one that says that it is one.
fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let upper = (bits >> 16) as u16;
    let lower = bits & 0xffff;
    if value.is_nan() {
        // Upper bits that say NaN already are those of a BF16 value that was widened.
        return if lower == 0 { upper } else { upper | 0x40 };
    }
    let rounds_up = lower > 0x8000 || lower == 0x8000 && upper & 1 == 1;
    upper + u16::from(rounds_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(sum: Sum) -> Vec<u32> {
        sum.origins().map(|rank| rank.0).collect()
    }

    #[test]
    fn runs_go_around() {
        assert_eq!(ranks(Sum::run(Rank(3), 4, 5, DType::F32)), [3, 4, 0, 1]);
        assert_eq!(ranks(Sum::all(3, DType::F32)), [0, 1, 2]);
        assert_eq!(ranks(Sum::one(Rank(2), 3, DType::Bf16)), [2]);
    }

    #[test]
    fn a_sum_is_of_its_terms_in_its_order_only() {
        let one = |rank| Sum::one(Rank(rank), 6, DType::Bf16);
        let run = |first, count| Sum::run(Rank(first), count, 6, DType::F32);
        assert!(run(4, 3).is_of(&[one(4), one(5), one(0)]));
        assert!(run(4, 3).is_of(&[run(4, 2), one(0)]));
        assert!(!run(4, 3).is_of(&[one(4), run(5, 2)]), "(a + b) + c is not a + (b + c)");
        assert!(!run(4, 3).is_of(&[one(5), one(4), one(0)]));
        assert!(!run(4, 3).is_of(&[one(4), one(5)]));
        let rounded = run(4, 2).as_dtype(DType::Bf16);
        assert!(!run(4, 3).is_of(&[rounded, one(0)]), "what was rounded is not summed up");
        assert!(rounded.is_of(&[one(4), one(5)]));
        let nodes = run(0, 6).in_groups_of(3);
        assert!(nodes.is_of(&[run(0, 3), run(3, 3)]));
        assert!(!nodes.is_of(&[run(0, 3), one(3), one(4), one(5)]));
        assert!(!run(0, 6).is_of(&[run(0, 3), run(3, 3)]));
        assert_eq!(run(0, 6).in_groups_of(6), run(0, 6));
    }

    /// Every BF16 value survives being widened and rounded; between neighbours the nearer one is taken.
    #[test]
    fn rounding_is_to_nearest_even() {
        for bits in 0..=u16::MAX {
            assert_eq!(round(widen(bits)), bits);
        }
        // 1 + 2^-7 is the BF16 value behind 1.
        let cases = [
            (1.0 + 1.0 / 512.0, 0x3f80),
            (1.0 + 1.0 / 256.0, 0x3f80),
            (1.0 + 1.01 / 256.0, 0x3f81),
            (1.0 + 3.0 / 256.0, 0x3f82),
            (f32::MAX, 0x7f80),
            (-0.0, 0x8000),
        ];
        for (value, bits) in cases {
            assert_eq!(round(value), bits, "{value}");
        }
        assert!(widen(round(f32::from_bits(0x7f80_0001))).is_nan());
    }

    #[test]
    fn sums_are_those_of_fp32() {
        let mut sums = vec![0.0; 3];
        begin(&mut sums, DType::F32, &[1e8_f32, -0.0, 1.5].map(f32::to_le_bytes).concat());
        add(&mut sums, DType::Bf16, &[0x3f80_u16, 0x8000, 0xbf80].map(u16::to_le_bytes).concat());
        // 1e8 + 1 is not an FP32 value, and -0 + -0 is -0.
        assert_eq!(
            sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>(),
            [1e8_f32, -0.0, 0.5].map(f32::to_bits)
        );
        let mut out = vec![0; 12];
        store(&sums, DType::F32, &mut out);
        assert_eq!(out, [1e8_f32, -0.0, 0.5].map(f32::to_le_bytes).concat());
    }

    #[test]
    fn there_is_one_nan() {
        let mut sums = vec![f32::INFINITY, f32::from_bits(0xffc1_2345)];
        add(&mut sums, DType::F32, &[f32::NEG_INFINITY, 1.0].map(f32::to_le_bytes).concat());
        assert!(sums.iter().all(|sum| sum.to_bits() == 0x7fc0_0000));
    }
}
