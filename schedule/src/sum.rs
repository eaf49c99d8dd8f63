//! Sums over ranks in a stated order: what a reduction computes, so that its bits are known wherever it runs.
//!
//! Floating-point addition is not associative, so a sum is its order. Additions are in FP32: values of BF16 are widened, which is
//! exact, and every addition rounds once, to nearest even. Partial sums that travel in BF16 are rounded once more, where they leave a
//! rank. How far that is from the exact sum is in `docs/reduction.md`.

use std::fmt;
use std::ops::Range;

use zipwire_cluster::Group;
use zipwire_codec::DType;

use crate::Rank;
use crate::rank_order::RankOrder;

/// The sum of what some ranks contribute, in an order: ranks that follow one another in a `RankOrder`, the first behind the last; one
/// after the other, in groups, each of which is added up before the groups are, or along a tree.
///
/// The sum of one rank is its contribution: a way to write it in another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sum {
    // Chunks hold sums, and plans hold many chunks: 16 bits each.
    /// The first position in the order.
    first: u16,
    count: u16,
    rank_count: u16,
    /// The rank at position 0 of the group that they are numbered in, and the distance of neighbours in it.
    base: u16,
    stride: u16,
    order: RankOrder,
    shape: Shape,
    /// Type of the partial sums that leave a rank.
    partials: DType,
    dtype: DType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Shape {
    /// One after the other.
    Run,
    /// Each so many in a row, and then their sums.
    Groups(u16),
    /// First the lower half of a tree, the rank in the middle, and the upper half, each by itself ([`halves`]).
    Tree,
}

/// A tree over positions: the position of its root, and the positions of the two trees below it, which may be empty. The depth of a tree of
/// `n` positions is at most log2(n + 1), rounded up.
pub(crate) fn halves(tree: Range<u32>) -> (u32, [Range<u32>; 2]) {
    let root = tree.start + (tree.end - tree.start) / 2;
    (root, [tree.start..root, root + 1..tree.end])
}

impl Sum {
    /// Contribution of one rank, as values of `dtype`.
    ///
    /// # Panics
    /// Above 65 535 ranks, as all constructors.
    pub fn one(rank: Rank, rank_count: u32, dtype: DType) -> Self {
        Self::run(rank, 1, rank_count, dtype)
    }

    /// `count` ranks one after the other, from `first` on, modulo the rank count.
    pub fn run(first: Rank, count: u32, rank_count: u32, dtype: DType) -> Self {
        Self::along(RankOrder::default(), first.0, count, rank_count).as_dtype(dtype)
    }

    /// `count` ranks one after the other in an order, from position `first` on, modulo the rank count; in FP32.
    pub(crate) fn along(order: RankOrder, first: u32, count: u32, rank_count: u32) -> Self {
        debug_assert!(0 < count && count <= rank_count && first < rank_count);
        // One rank is the same in all orders.
        let (first, order) = match count {
            1 => (order.rank(first, rank_count).0, RankOrder::default()),
            _ => (first, order),
        };
        let [first, count, rank_count] = [first, count, rank_count].map(narrow);
        let (shape, partials, dtype) = (Shape::Run, DType::F32, DType::F32);
        Self { first, count, rank_count, base: 0, stride: 1, order, shape, partials, dtype }
    }

    /// The ranks at some positions of an order, along a tree over these; in FP32.
    pub(crate) fn along_tree(order: RankOrder, positions: Range<u32>, rank_count: u32) -> Self {
        let count = positions.end - positions.start;
        let run = Self::along(order, positions.start, count, rank_count);
        Self { shape: if count == 1 { Shape::Run } else { Shape::Tree }, ..run }
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
        let group = narrow(group);
        assert!(group > 0 && self.count.is_multiple_of(group), "all groups are full");
        // Groups of one, and a single group, are no groups.
        let shape = if group == self.count || group == 1 { Shape::Run } else { Shape::Groups(group) };
        Self { shape, ..self }
    }

    /// The same sum, whose partial sums leave ranks as values of a type: those of groups, of trees, and those that each rank of a run
    /// adds to and hands on.
    #[must_use]
    pub fn with_partials(self, dtype: DType) -> Self {
        // What one rank contributes has no partial sums.
        Self { partials: if self.count == 1 { DType::F32 } else { dtype }, ..self }
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

    /// The same sum by the ranks of a group, whose positions its ranks are.
    #[must_use]
    pub(crate) fn within(self, group: &Group) -> Self {
        Self { base: narrow(group.first.0), stride: narrow(group.stride), ..self }
    }

    /// Another sum in the same group.
    fn beside(self, other: Self) -> Self {
        Self { base: self.base, stride: self.stride, ..other }
    }

    /// How many ranks contribute.
    pub fn count(self) -> usize {
        usize::from(self.count)
    }

    /// The ranks that contribute, in order.
    pub fn origins(self) -> impl Iterator<Item = Rank> {
        let (first, rank_count) = (u32::from(self.first), u32::from(self.rank_count));
        let (base, stride) = (u32::from(self.base), u32::from(self.stride));
        (0..u32::from(self.count)).map(move |index| {
            let position = self.order.rank((first + index) % rank_count, rank_count);
            Rank(base + position.0 * stride)
        })
    }

    /// The sums in FP32, before they become values of their type; `contribution` writes what a rank contributes, widened.
    pub fn of_contributions(self, len: usize, contribution: &mut dyn FnMut(Rank, &mut [f32])) -> Vec<f32> {
        let (mut total, mut more) = (vec![0.0; len], vec![0.0; len]);
        let origins: Vec<Rank> = self.origins().collect();
        let mut add_up = |sums: &mut [f32], origins: &[Rank], partials: DType| {
            for (index, &origin) in origins.iter().enumerate() {
                if index == 0 {
                    contribution(origin, sums);
                    continue;
                }
                contribution(origin, &mut more);
                sums.iter_mut().zip(&more).for_each(|(sum, &value)| *sum = plus(*sum, value));
                pass(sums, partials);
            }
        };
        match self.shape {
            Shape::Run => add_up(&mut total, &origins, self.partials),
            Shape::Groups(group) => {
                let mut of_group = vec![0.0; len];
                for (index, group) in origins.chunks(usize::from(group)).enumerate() {
                    add_up(&mut of_group, group, DType::F32);
                    pass(&mut of_group, self.partials);
                    add_all(&mut total, &of_group, index == 0);
                }
            }
            Shape::Tree => {
                let below = |tree: Range<u32>| {
                    (tree.start < tree.end)
                        .then(|| self.beside(Self::along_tree(self.order, tree, self.rank_count.into())))
                };
                let tree = u32::from(self.first)..u32::from(self.first) + u32::from(self.count);
                let (root, [lower, upper]) = halves(tree);
                let own = Some(self.beside(Self::along(self.order, root, 1, self.rank_count.into())));
                let terms = [below(lower), own, below(upper)].into_iter().flatten();
                for (index, term) in terms.enumerate() {
                    let mut sum = term.with_partials(self.partials).of_contributions(len, contribution);
                    if term.count > 1 {
                        pass(&mut sum, self.partials);
                    }
                    add_all(&mut total, &sum, index == 0);
                }
            }
        }
        total
    }

    /// Whether adding up `terms`, one after the other, gives this sum bit for bit.
    pub fn is_of(self, terms: &[Self]) -> bool {
        if !terms.iter().flat_map(|term| term.origins()).eq(self.origins()) {
            return false;
        }
        // FP32 is rounded to another type at the end only, and what was rounded is not summed up.
        let exact = terms.iter().all(|term| term.count == 1 || term.dtype == DType::F32);
        let (head, tail) = terms.split_at(terms.len().min(1));
        let is_run =
            |term: &Self, partials| term.count == 1 || term.shape == Shape::Run && term.partials == partials;
        let singles = tail.iter().all(|term| term.count == 1);
        let continues = exact && singles && head.iter().all(|head| is_run(head, DType::F32));
        // The same sum in another type.
        let is_same = exact && terms.len() == 1 && terms[0].as_dtype(self.dtype) == self;
        is_same
            || match self.shape {
                Shape::Run if self.partials == DType::F32 => continues,
                // Whoever adds to it rounds it, the last rank too: in FP32 it would be another sum.
                Shape::Run => {
                    let handed_on = |head: &Self| {
                        head.count == 1 || is_run(head, self.partials) && head.dtype == self.partials
                    };
                    self.dtype == self.partials && terms.len() == 2 && singles && handed_on(&terms[0])
                }
                Shape::Groups(group) => terms.iter().all(|term| {
                    is_run(term, DType::F32) && term.count == group && term.dtype == self.partials
                }),
                Shape::Tree => {
                    let tree = u32::from(self.first)..u32::from(self.first) + u32::from(self.count);
                    let (root, halves) = halves(tree);
                    let below = halves.into_iter().filter(|half| half.start < half.end);
                    let own = Range { start: root, end: root + 1 };
                    let mut wanted: Vec<Range<u32>> = below.chain(std::iter::once(own)).collect();
                    wanted.sort_unstable_by_key(|positions| positions.start);
                    let is_wanted = |(term, positions): (&Self, Range<u32>)| {
                        term.count == 1
                            || self
                                .beside(Self::along_tree(self.order, positions, self.rank_count.into()))
                                .with_partials(self.partials)
                                .as_dtype(self.partials)
                                == *term
                    };
                    terms.len() == wanted.len()
                        && terms
                            .iter()
                            .zip(&wanted)
                            .all(|(term, positions)| u32::from(term.count) == positions.end - positions.start)
                        && terms.iter().zip(wanted).all(is_wanted)
                }
            }
    }
}

fn narrow(number: u32) -> u16 {
    u16::try_from(number).expect("ranks of reductions are counted in 16 bits")
}

/// Adds other sums to each total, or begins with them.
fn add_all(totals: &mut [f32], sums: &[f32], is_first: bool) {
    let with = |(total, &sum): (&mut f32, &f32)| *total = if is_first { sum } else { plus(*total, sum) };
    totals.iter_mut().zip(sums).for_each(with);
}

/// Rounds sums that are handed on as values of a type.
fn pass(sums: &mut [f32], dtype: DType) {
    match dtype {
        DType::F32 => {}
        DType::Bf16 => sums.iter_mut().for_each(|sum| *sum = widen(round(*sum))),
        DType::F16 | DType::F8E4M3 | DType::F8E5M2 => panic!("{dtype} is not summed"),
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} from ", self.dtype, self.count)?;
        let (node, place, first_node, turns) = self.order.parts();
        match self.order.is_plain() {
            true => write!(f, "rank {}", self.first)?,
            false => {
                let turns = if turns { ", turning" } else { "" };
                write!(f, "position {} of nodes of {node} from {first_node}.{place}{turns}", self.first)?;
            }
        }
        if (self.base, self.stride) != (0, 1) {
            write!(f, " of those from {} on by {}", self.base, self.stride)?;
        }
        match self.shape {
            Shape::Run => {}
            Shape::Groups(group) => write!(f, " in groups of {group}")?,
            Shape::Tree => write!(f, " along a tree")?,
        }
        if self.partials == DType::F32 { Ok(()) } else { write!(f, " handed on in {}", self.partials) }
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
/// Where [`add`] does.
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
/// Where [`add`] does.
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
mod tests;
