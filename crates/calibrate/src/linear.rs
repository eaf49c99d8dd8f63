//! A system of linear equations with a symmetric, positive definite matrix.

/// Solves `matrix x = right` by Cholesky's method, and gives the diagonal of the inverse besides; none if the matrix is not
/// positive definite.
pub(crate) fn solve(matrix: &[Vec<f64>], right: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
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
    use super::solve;

    #[test]
    fn a_small_system_is_solved() {
        let (x, inverse) = solve(&[vec![4.0, 2.0], vec![2.0, 3.0]], &[2.0, 5.0]).unwrap();
        assert!((x[0] + 0.5).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12, "{x:?}");
        assert!((inverse[0] - 3.0 / 8.0).abs() < 1e-12 && (inverse[1] - 0.5).abs() < 1e-12, "{inverse:?}");
        assert!(solve(&[vec![1.0, 2.0], vec![2.0, 1.0]], &[0.0, 0.0]).is_none(), "not positive definite");
    }
}
