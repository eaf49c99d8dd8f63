//! Errors over all numbers of a paper, and those of a null model without a simulator: the least that a simulator has to beat.

use serde::Serialize;

use crate::Row;
use crate::expected::{Anchor, Number};

/// Sums over the rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions that were measured, of a value or of both ends of a range, known misses among them.
    pub predictions: Errors,
    /// Independent ones among them: they follow from nothing that was fitted, and from no other number.
    pub independent: Errors,
    /// Predictions of one end only, which have no error as long as they are on the right side: not among the others.
    pub bounds: usize,
    /// Numbers beyond their tolerance.
    pub missed: usize,
    /// Numbers that wait for something.
    pub pending: usize,
}

/// Absolute errors of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// How many rows.
    pub rows: usize,
    /// Their mean error, in percent; `None` without rows.
    pub mean_error_pct: Option<f64>,
    /// The largest one.
    pub worst_error_pct: Option<f64>,
    /// How many of the rows are speedups with a gain.
    pub gains: usize,
    /// The mean error of the gain, speedup less 1, in percent; `None` without gains.
    pub mean_gain_error_pct: Option<f64>,
    /// The largest one.
    pub worst_gain_error_pct: Option<f64>,
}

impl Score {
    pub(super) fn of(rows: &[Row]) -> Self {
        let predicted = rows.iter().filter(|row| row.independent.is_some() && row.ours.is_some());
        let (bounds, values): (Vec<&Row>, Vec<&Row>) = predicted.partition(|row| row.paper.is_bound());
        let errors = |row: &&Row| (row.error_pct, row.gain_error_pct);
        Self {
            predictions: Errors::of(values.iter().map(errors)),
            independent: Errors::of(values.iter().filter(|row| row.independent == Some(true)).map(errors)),
            bounds: bounds.len(),
            missed: rows.iter().filter(|row| row.reached == Some(false)).count(),
            pending: rows.iter().filter(|row| row.pending.is_some()).count(),
        }
    }
}

impl Errors {
    /// Sums up errors of values and of gains, in percent.
    pub(super) fn of(errors: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Self {
        let (values, gains): (Vec<Option<f64>>, Vec<Option<f64>>) = errors.unzip();
        let rows = values.len();
        let (mean_error_pct, worst_error_pct) = mean_and_worst(&values);
        let (mean_gain_error_pct, worst_gain_error_pct) = mean_and_worst(&gains);
        let gains = gains.iter().flatten().count();
        Self { rows, mean_error_pct, worst_error_pct, gains, mean_gain_error_pct, worst_gain_error_pct }
    }
}

/// Mean and maximum of the absolute errors that there are.
fn mean_and_worst(errors: &[Option<f64>]) -> (Option<f64>, Option<f64>) {
    let errors: Vec<f64> = errors.iter().flatten().map(|error| error.abs()).collect();
    let mean = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    (mean, errors.into_iter().reduce(f64::max))
}

/// Steps between no communication at all and nothing else, in which its part is looked for.
const STEPS: u32 = 1000;

/// Amdahl's law with a single part of communication for all models and clusters. A collective is as much faster as the calibration that
/// its number names was published to be; an iteration, of which communication is a part f, is 1 / (1 - f + f / s) times as fast. The part is
/// the one that comes nearest to the published numbers which it is then held against, so its error is the least that it can have.
/// No simulator is in it: it is the least that one has to beat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NullModel {
    /// The part of an iteration that is communication.
    pub part: f64,
    /// Its errors over the independent rows.
    #[serde(flatten)]
    pub independent: Errors,
    /// Its errors over all predictions that it has a value for.
    pub predictions: Errors,
}

impl NullModel {
    /// With the part whose mean error of the gain over independent numbers is least; `None` if no number names a calibration for it.
    pub(super) fn fit(numbers: &[Number]) -> Option<Self> {
        let candidates = (0..=STEPS).map(|step| Self::with(f64::from(step) / f64::from(STEPS), numbers));
        let errors = |model: &Self| model.independent.mean_gain_error_pct;
        candidates.filter(|model| errors(model).is_some()).min_by(|a, b| {
            let [a, b] = [a, b].map(|model| errors(model).unwrap_or(f64::INFINITY));
            a.total_cmp(&b)
        })
    }

    fn with(part: f64, numbers: &[Number]) -> Self {
        let mut model = Self { part, independent: Errors::default(), predictions: Errors::default() };
        let measured = || numbers.iter().filter(|number| number.pending.is_none());
        let errors = |number: &Number| {
            let speedup = model.speedup(number, numbers)?;
            let percent = |error: Option<f64>| error.map(|error| 100.0 * error);
            Some((percent(number.paper.error(speedup)), percent(number.paper.gain_error(speedup))))
        };
        let predictions = Errors::of(measured().filter_map(errors));
        let independent = Errors::of(measured().filter(|number| number.follows.is_none()).filter_map(errors));
        (model.predictions, model.independent) = (predictions, independent);
        model
    }

    /// Speedup of a number by this model, if the number names a calibration.
    pub(super) fn speedup(&self, number: &Number, numbers: &[Number]) -> Option<f64> {
        let anchor = number.null.as_ref()?;
        let published = numbers.iter().find(|number| number.id == anchor.id())?.paper.middle();
        Some(match anchor {
            Anchor::Collective(_) => published,
            Anchor::Iteration(_) => 1.0 / (1.0 - self.part + self.part / published),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expected, Paper};

    /// Two iterations of half communication and a collective that is as published: it finds the half, and no error is left.
    #[test]
    fn it_finds_the_part_that_there_is() {
        let common = "figure = \"f\"\nplace = \"p\"\nquantity = \"q\"\nunit = \"x\"\n";
        let number = |id: &str, paper: f64, rest: &str| {
            format!("[[lmc]]\nid = \"{id}\"\n{common}paper = {paper}\n{rest}\n")
        };
        let calibration = |id: &str| number(id, 1.5, "role = \"calibration\"\ngain_tolerance = 0.1");
        let row = |id: &str, paper, null: &str| {
            number(
                id,
                paper,
                &format!("role = \"prediction\"\ngain_tolerance = 0.1\nnull = {{ {null} = \"a\" }}"),
            )
        };
        let calibrations = ["a", "b", "c", "d"].map(calibration).concat();
        let text = calibrations + &row("e", 1.2, "iteration") + &row("f", 1.5, "collective");
        let expected = Expected::parse("e.toml", &text).unwrap();
        let model = NullModel::fit(expected.of(Paper::Lmc)).unwrap();
        assert_eq!((model.part, model.independent.gains), (0.5, 2));
        assert!(model.independent.mean_gain_error_pct.unwrap() < 1e-9, "{model:?}");
        assert_eq!(NullModel::fit(&[]), None);
    }
}
