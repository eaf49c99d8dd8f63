//! Numbers as a function of one that a paper does not state.

use serde::Serialize;

/// A table whose first column is what the others, which have one unit, depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// A short name, unique in its paper.
    pub name: &'static str,
    /// What it shows, and under which assumption.
    pub title: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// What the first column is, and what the others are, with their units: titles of axes.
    pub axes: [&'static str; 2],
    /// Names of the points, where the first column does nothing but count them; empty elsewhere.
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub groups: &'static [&'static str],
    /// Numbers of the paper that belong to it.
    #[serde(skip)]
    pub published: &'static [PublishedLevel],
    /// Points, each with a number for each column.
    pub points: Vec<Vec<f64>>,
    /// The least and the most of each number over several seeds; absent where there was one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<Vec<[f64; 2]>>>,
}

/// A published number that holds for all points of a curve, or is a mean of them.
#[derive(Clone, Copy, Debug)]
pub struct PublishedLevel {
    /// Its id in `expected.toml`.
    pub id: &'static str,
    /// What pictures call it.
    pub name: &'static str,
    /// The column that it belongs to; `None` if to all.
    pub column: Option<usize>,
}

impl PublishedLevel {
    pub(crate) const fn of(id: &'static str, name: &'static str, column: Option<usize>) -> Self {
        Self { id, name, column }
    }
}

impl Curve {
    /// Takes in the same curve with another seed.
    pub(crate) fn widen(&mut self, other: &Self) {
        let ranges = self.ranges.get_or_insert_with(|| {
            self.points.iter().map(|point| point.iter().map(|&number| [number; 2]).collect()).collect()
        });
        for (range, &number) in ranges.iter_mut().flatten().zip(other.points.iter().flatten()) {
            *range = [range[0].min(number), range[1].max(number)];
        }
    }
}
