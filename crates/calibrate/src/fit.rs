//! Constants of the model that meet measurements best.
//!
//! Minimises the sum of squares of two kinds of residuals: errors of log times, in units of 5 %, and distances of log constants from their
//! start, in units of their [`prior`]. So a constant that nothing determines stays where it was. Residuals
//! beyond 15 % count less and less (weights after Huber), and each series counts the same in sum, whatever its number of sizes to the
//! square root. The method is that of Levenberg and Marquardt with differences for derivatives, and a fixed order of everything.

use zipwire_cluster::library::{Constant, Constants, Hardware, LibraryModel};

use crate::calibrate::LARGE_BYTES;
use crate::series::Series;

/// Relative error that counts as one.
const STEP: f64 = 0.05;
/// Steps beyond which a residual counts less.
const HUBER: f64 = 3.0;
/// Weight of sizes of 32 MiB and more, and of less.
const WEIGHTS: (f64, f64) = (1.5, 0.7);
/// Most iterations: fits of all public logs take under 40.
const ITERATIONS: usize = 80;
/// Relative change of the sum at which it is done.
const DONE: f64 = 1e-7;

/// Fitted constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The constants.
    pub constants: Constants,
    /// Constants that the measurements determine: their uncertainty is less than 0.7 of what it was before.
    pub determined: Vec<Constant>,
    /// Constants that measurements would have larger than anything can be.
    pub at_most: Vec<Constant>,
}

/// Fits constants to series, each with the hardware that it ran on, beginning from `start`.
pub fn fit(series: &[(&Series, Hardware)], start: &Constants) -> Fit {
    let free: Vec<Constant> =
        Constant::ALL.into_iter().filter(|constant| start.get(*constant) > 0.0).collect();
    let problem = Problem { series, start, free };
    let mut x = vec![0.0; problem.free.len()];
    let mut sum = problem.sum(&problem.residuals(&x), &x);
    let mut damping = 1e-2;
    for _ in 0..ITERATIONS {
        let (mut matrix, mut right) = problem.normal(&x);
        problem.hold(&x, &mut matrix, &mut right);
        let mut is_better = false;
        while damping < 1e8 {
            let mut damped = matrix.clone();
            for (index, row) in damped.iter_mut().enumerate() {
                row[index] *= 1.0 + damping;
            }
            let Some((step, _)) = solve(&damped, &right) else { break };
            let tried: Vec<f64> = x
                .iter()
                .zip(&step)
                .zip(problem.most())
                .map(|((x, step), most)| (x - step).min(most))
                .collect();
            let tried_sum = problem.sum(&problem.residuals(&tried), &tried);
            if tried_sum < sum {
                is_better = sum - tried_sum > DONE * sum;
                (x, sum) = (tried, tried_sum);
                damping = (damping / 4.0).max(1e-9);
                break;
            }
            damping *= 5.0;
        }
        if !is_better {
            break;
        }
    }
    let (mut matrix, mut right) = problem.normal(&x);
    let variances = solve(&matrix, &right).map(|(_, diagonal)| diagonal).unwrap_or_default();
    let held = problem.hold(&x, &mut matrix, &mut right);
    let is_determined = |(constant, variance): &(&Constant, &f64)| variance.sqrt() < 0.7 * prior(**constant);
    let determined = problem.free.iter().zip(&variances).filter(is_determined).map(|(constant, _)| *constant);
    let at_most =
        problem.free.iter().zip(held).filter_map(|(constant, is_held)| is_held.then_some(*constant));
    Fit { constants: problem.constants(&x), determined: determined.collect(), at_most: at_most.collect() }
}

struct Problem<'a> {
    series: &'a [(&'a Series, Hardware)],
    start: &'a Constants,
    free: Vec<Constant>,
}

impl Problem<'_> {
    fn constants(&self, x: &[f64]) -> Constants {
        let mut constants = *self.start;
        for (constant, x) in self.free.iter().zip(x) {
            constants.set(*constant, self.start.get(*constant) * libm::exp(*x));
        }
        constants
    }

    /// Largest logarithm of each constant over its start.
    fn most(&self) -> impl Iterator<Item = f64> {
        self.free.iter().map(|constant| libm::log(most(*constant) / self.start.get(*constant)).max(0.0))
    }

    /// Takes the constants out of a step that are as large as they can be and would grow, and says which.
    fn hold(&self, x: &[f64], matrix: &mut [Vec<f64>], right: &mut [f64]) -> Vec<bool> {
        let would_grow =
            x.iter().zip(self.most()).zip(right.iter()).map(|((x, most), right)| *x >= most && *right < 0.0);
        let held: Vec<bool> = would_grow.collect();
        for index in (0..x.len()).filter(|index| held[*index]) {
            matrix.iter_mut().for_each(|row| row[index] = 0.0);
            matrix[index].fill(0.0);
            (matrix[index][index], right[index]) = (1.0, 0.0);
        }
        held
    }

    /// How far each time is off, in weighted steps; positive where the model is slower.
    fn residuals(&self, x: &[f64]) -> Vec<f64> {
        let constants = self.constants(x);
        let of_series = |(series, hardware): &(&Series, Hardware)| {
            let cost = LibraryModel { hardware: *hardware, constants }.cost(series.operation, series.ranks());
            let share = 4.0 / (series.points.len() as f64).sqrt();
            let residual = |point: &crate::series::Point| {
                let weight = if point.bytes >= LARGE_BYTES { WEIGHTS.0 } else { WEIGHTS.1 };
                share * weight * libm::log(cost.seconds(point.bytes as f64) / point.seconds) / STEP
            };
            series.points.iter().map(residual).collect::<Vec<f64>>()
        };
        self.series.iter().flat_map(of_series).collect()
    }

    /// Twice the weighted sum of squares, with those of constants: quadratic up to [`HUBER`], linear beyond.
    fn sum(&self, residuals: &[f64], x: &[f64]) -> f64 {
        let square = |residual: &f64| {
            let size = residual.abs();
            if size <= HUBER { size * size } else { HUBER * (2.0 * size - HUBER) }
        };
        let priors = self.free.iter().zip(x).map(|(constant, x)| (x / prior(*constant)).powi(2));
        residuals.iter().map(square).sum::<f64>() + priors.sum::<f64>()
    }

    /// Normal equations of a step.
    fn normal(&self, x: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
        const DIFFERENCE: f64 = 1e-3;
        let residuals = self.residuals(x);
        let columns: Vec<Vec<f64>> = (0..x.len())
            .map(|index| {
                let shifted = |by: f64| {
                    let mut x = x.to_vec();
                    x[index] += by;
                    self.residuals(&x)
                };
                let (more, less) = (shifted(DIFFERENCE), shifted(-DIFFERENCE));
                more.iter().zip(&less).map(|(more, less)| (more - less) / (2.0 * DIFFERENCE)).collect()
            })
            .collect();
        let weights: Vec<f64> = residuals.iter().map(|residual| (HUBER / residual.abs()).min(1.0)).collect();
        let product = |a: &[f64], b: &[f64]| -> f64 {
            a.iter().zip(b).zip(&weights).map(|((a, b), weight)| a * b * weight).sum()
        };
        let mut matrix: Vec<Vec<f64>> =
            columns.iter().map(|a| columns.iter().map(|b| product(a, b)).collect()).collect();
        let mut right: Vec<f64> = columns.iter().map(|column| product(column, &residuals)).collect();
        for (index, constant) in self.free.iter().enumerate() {
            let weight = 1.0 / (prior(*constant) * prior(*constant));
            matrix[index][index] += weight;
            right[index] += weight * x[index];
        }
        (matrix, right)
    }
}

/// Largest value of a constant: nothing is faster than its line, and LL sends a flag with every value.
fn most(constant: Constant) -> f64 {
    use Constant as C;
    match constant {
        C::NicShare
        | C::TreeNicShare
        | C::PeerNicShare
        | C::SharpShare
        | C::Ll128Share
        | C::TreeLl128Share => 1.0,
        C::LlNicShare => 0.5,
        _ => f64::INFINITY,
    }
}

/// Standard deviation of the logarithm of a constant about that of its GPU's generation, before anything is measured. Latencies differ by
/// hosts and networks; shares of links are the same for all of a generation, and those of NICs nearly so.
fn prior(constant: Constant) -> f64 {
    use Constant as C;
    match constant {
        C::LinkShare | C::TreeShare | C::NvlsShare | C::PairShare | C::PeerLinkShare | C::Ll128Share => 0.1,
        C::NicShare | C::TreeNicShare | C::PeerNicShare | C::TreeLl128Share | C::PeerChannelShare => 0.15,
        C::LlBandwidth
        | C::RingCrowd
        | C::Ll128Base
        | C::Ll128Step
        | C::SimpleBase
        | C::SimpleStep
        | C::OwnShare => 0.3,
        C::Launch
        | C::LlStep
        | C::LlNicShare
        | C::Lag
        | C::NvlsBase
        | C::NvlsStep
        | C::NvlsLag
        | C::NicLag
        | C::RingLlHop
        | C::RingLl128Hop
        | C::RingSimpleHop
        | C::TreeLlHop
        | C::TreeLl128Hop
        | C::TreeSimpleHop
        | C::NvlsTreeHop
        | C::SharpShare
        | C::PeerLlBase
        | C::PeerBase
        | C::PeerLlBandwidth
        | C::PeerLag
        | C::PeerHop => 0.7,
    }
}

/// Solves `matrix x = right` by Cholesky's method, and gives the diagonal of the inverse besides; none if the matrix is not
/// positive definite.
fn solve(matrix: &[Vec<f64>], right: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let lower = cholesky(matrix)?;
    let solution = solve_with(&lower, right);
    let count = right.len();
    let diagonal = (0..count).map(|index| {
        let mut unit = vec![0.0; count];
        unit[index] = 1.0;
        solve_with(&lower, &unit)[index]
    });
    let diagonal = diagonal.collect();
    Some((solution, diagonal))
}

fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let count = matrix.len();
    let mut lower = vec![vec![0.0; count]; count];
    for row in 0..count {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let rest = matrix[row][column] - known;
            lower[row][column] = if row == column {
                if rest <= 0.0 {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / lower[column][column]
            };
        }
    }
    Some(lower)
}

fn solve_with(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let count = right.len();
    let mut x = right.to_vec();
    for row in 0..count {
        let known: f64 = (0..row).map(|k| lower[row][k] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|k| lower[k][row] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_system_is_solved() {
        let (x, inverse) = solve(&[vec![4.0, 2.0], vec![2.0, 3.0]], &[2.0, 5.0]).unwrap();
        assert!((x[0] + 0.5).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12, "{x:?}");
        assert!((inverse[0] - 3.0 / 8.0).abs() < 1e-12 && (inverse[1] - 0.5).abs() < 1e-12, "{inverse:?}");
        assert!(solve(&[vec![1.0, 2.0], vec![2.0, 1.0]], &[0.0, 0.0]).is_none(), "not positive definite");
    }
}
