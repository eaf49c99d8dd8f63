//! Numbers as functions of one that a paper does not state: `curves.toml`, and what comes out here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::Speedup;
use crate::{Bench, ConstantsError, Paper, ReproduceError, constants, splitzip, switcher, zipccl, zipnn};

/// The file's name, in the folder of the papers' scenarios.
const FILE: &str = "curves.toml";

/// A table whose first column is the one that the others, which have one unit, depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Names and texts.
    #[serde(flatten)]
    pub about: CurveAbout,
    /// Points, each with a number for each column.
    pub points: Vec<Vec<f64>>,
    /// The least and the most of each number over several seeds; absent where there was one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<Vec<[f64; 2]>>>,
}

/// An entry of `curves.toml`, without its points.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CurveAbout {
    /// A short name, unique in its paper.
    pub name: String,
    /// Title: the numbers, and the assumption that they hold under.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Titles of the axes with their units: of the first column, and of the others.
    pub axes: [String; 2],
    /// Names of the points, where the first column only counts them; empty elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Numbers of the paper that belong to it.
    #[serde(default, skip_serializing)]
    pub published: Vec<PublishedLevel>,
    #[serde(skip_serializing)]
    points: Points,
}

/// A published number that holds for all points of a curve, or is a mean of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedLevel {
    /// Its id in `expected.toml`.
    pub id: String,
    /// Its name in pictures.
    pub name: String,
    /// The column that it belongs to; `None` if to all.
    pub column: Option<usize>,
}

/// How the points of a curve are obtained.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Points {
    /// Speedups, one column each. Each number `over` is a row; it replaces `{}` in the values `set`.
    Sweep {
        over: Vec<f64>,
        set: Vec<String>,
        columns: Vec<Speedup>,
    },
    /// Gains of the whole by the shares of a transfer, a column for each speedup of the transfer.
    Gains {
        shares: Vec<f64>,
        transfers: Vec<Speedup>,
    },
    CoverageByRounding,
    MeansByLeastSize,
    Switcher,
    SizesByZeros,
}

impl CurveAbout {
    pub(crate) fn read(folder: &Path, paper: Paper) -> Result<Vec<Self>, ConstantsError> {
        let mut curves: BTreeMap<Paper, Vec<Self>> = constants::parse(&folder.join(FILE))?;
        Ok(curves.remove(&paper).unwrap_or_default())
    }

    pub(crate) fn measure(&self, bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
        let points = match &self.points {
            Points::Sweep { over, set, columns } => {
                let point = |&number: &f64| {
                    let speedups = columns.iter().map(|column| column.at(bench, set, number));
                    [Ok(number)].into_iter().chain(speedups).collect()
                };
                over.iter().map(point).collect::<Result<_, ReproduceError>>()?
            }
            Points::Gains { shares, transfers } => splitzip::gains(bench, shares, transfers)?,
            Points::CoverageByRounding => zipccl::coverage_by_rounding(),
            Points::MeansByLeastSize => zipccl::means_by_least_size(bench)?,
            Points::Switcher => switcher::points(bench)?,
            Points::SizesByZeros => zipnn::sizes_by_zeros(bench)?,
        };
        Ok(Curve { about: self.clone(), points, ranges: None })
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
