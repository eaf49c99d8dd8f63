//! Unions of time intervals, and their lengths.

/// Disjoint half-open intervals in order, in seconds unless its user says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Union {
    parts: Vec<(f64, f64)>,
}

impl Union {
    /// The union of `intervals`, in any order; they may overlap, touch, or be empty.
    pub fn of(intervals: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut intervals: Vec<_> = intervals.into_iter().filter(|(begin, end)| begin < end).collect();
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut parts: Vec<(f64, f64)> = Vec::new();
        for (begin, end) in intervals {
            match parts.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => parts.push((begin, end)),
            }
        }
        Self { parts }
    }

    /// Its intervals, in order.
    pub fn parts(&self) -> &[(f64, f64)] {
        &self.parts
    }

    /// Total length in seconds.
    pub fn length(&self) -> f64 {
        self.parts.iter().fold(0.0, |length, (begin, end)| length + (end - begin))
    }

    /// Length in seconds of the part of `self` that is not in `other`.
    pub fn length_without(&self, other: &Self) -> f64 {
        let mut length = 0.0;
        self.each_without(other, |begin, end| length += end - begin);
        length
    }

    /// Part of `self` that is not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let mut parts = Vec::new();
        self.each_without(other, |begin, end| parts.push((begin, end)));
        Self { parts }
    }

    /// The intervals of the part of `self` that is not in `other`, in order.
    fn each_without(&self, other: &Self, mut each: impl FnMut(f64, f64)) {
        let mut holes = other.parts.iter().peekable();
        for &(mut begin, end) in &self.parts {
            // Holes that end here can touch no later part; one that reaches beyond may.
            while let Some(&&(hole_begin, hole_end)) = holes.peek() {
                if hole_begin >= end {
                    break;
                }
                if hole_begin > begin {
                    each(begin, hole_begin);
                }
                begin = begin.max(hole_end);
                if hole_end > end {
                    break;
                }
                holes.next();
            }
            if end > begin {
                each(begin, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(intervals: &[(f64, f64)]) -> Union {
        Union::of(intervals.iter().copied())
    }

    #[test]
    fn merges_nested_overlapping_and_touching() {
        let nested = union(&[(0.0, 10.0), (2.0, 3.0)]);
        assert_eq!(nested.parts, [(0.0, 10.0)]);
        let mixed = union(&[(7.0, 9.0), (0.0, 2.0), (2.0, 3.0), (1.0, 2.5), (5.0, 5.0)]);
        assert_eq!(mixed.parts, [(0.0, 3.0), (7.0, 9.0)]);
        assert_eq!(mixed.length(), 5.0);
        assert_eq!(union(&[]).length(), 0.0);
    }

    #[test]
    fn difference_by_hand() {
        let base = union(&[(0.0, 4.0), (6.0, 10.0)]);
        assert_eq!(
            base.without(&union(&[(1.0, 2.0), (3.0, 7.0)])).parts,
            [(0.0, 1.0), (2.0, 3.0), (7.0, 10.0)]
        );
        let without = |holes: &[(f64, f64)]| base.length_without(&union(holes));
        assert_eq!(without(&[]), 8.0);
        assert_eq!(without(&[(1.0, 2.0)]), 7.0, "inside");
        assert_eq!(without(&[(3.0, 7.0)]), 6.0, "across two parts");
        assert_eq!(without(&[(-5.0, 20.0)]), 0.0, "all");
        assert_eq!(without(&[(4.0, 6.0)]), 8.0, "in the gap");
        assert_eq!(without(&[(-1.0, 1.0), (2.0, 3.0), (9.0, 12.0)]), 5.0, "several");
    }

    /// Against counting unit cells, on all pairs of pairs of intervals of a small grid.
    #[test]
    fn difference_agrees_with_counting() {
        const CELLS: u8 = 5;
        let all: Vec<(f64, f64)> =
            (0..CELLS).flat_map(|b| (b + 1..=CELLS).map(move |e| (f64::from(b), f64::from(e)))).collect();
        let covers = |set: &[(f64, f64)], cell: u8| {
            let middle = f64::from(cell) + 0.5;
            set.iter().any(|&(begin, end)| begin < middle && middle < end)
        };
        for a in &all {
            for b in &all {
                for c in &all {
                    for d in &all {
                        let (base, holes) = ([*a, *b], [*c, *d]);
                        let cells = (0..CELLS).filter(|&x| covers(&base, x) && !covers(&holes, x)).count();
                        let length = union(&base).length_without(&union(&holes));
                        assert_eq!(length, cells as f64, "{base:?} without {holes:?}");
                    }
                }
            }
        }
    }
}
