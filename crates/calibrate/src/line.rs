//! A line through times: `seconds = alpha + bytes / bytes_per_s`, by least squares of relative errors.

use serde::Serialize;

/// A line through the times of several sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Seconds that do not depend on the size; below 0 only where a line of growth begins there.
    pub alpha_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Share of the variance of times that the line explains, weighted as it is.
    pub r2: f64,
    /// Root of the mean square of relative errors, in percent.
    pub residual_pct: f64,
}

impl Line {
    /// The line that meets relative times best, of all that grow: with links that let the first bytes after a pause pass at once, `alpha_s` is
    /// below 0. `None` if times do not grow with the size.
    pub fn of_growth(samples: &[(u64, f64)]) -> Option<Self> {
        let (alpha_s, s_per_byte) = best(samples);
        (alpha_s.is_finite() && s_per_byte > 0.0).then(|| Self::new(samples, alpha_s, s_per_byte))
    }

    /// The line that meets relative times best, of those that do not begin below 0 nor fall; `samples` are bytes and seconds above 0.
    ///
    /// ```
    /// use zipwire_calibrate::Line;
    ///
    /// let line = Line::through(&[(1000, 3.0), (2000, 4.0), (4000, 6.0)]);
    /// assert!((line.alpha_s - 2.0).abs() < 1e-9 && (line.bytes_per_s - 1000.0).abs() < 1e-6);
    /// ```
    pub fn through(samples: &[(u64, f64)]) -> Self {
        let (alpha_s, s_per_byte) = best(samples);
        if !alpha_s.is_finite() || alpha_s < 0.0 {
            let s_per_byte =
                sum(samples, |bytes, s| bytes / s) / sum(samples, |bytes, s| (bytes / s).powi(2));
            Self::new(samples, 0.0, s_per_byte)
        } else if s_per_byte <= 0.0 {
            // Times that do not grow: a bandwidth of which nothing is seen.
            let largest = samples.iter().map(|(bytes, _)| *bytes).max().unwrap_or(1);
            let mean = mean(samples);
            Self::new(samples, mean, f64::EPSILON * mean / largest as f64)
        } else {
            Self::new(samples, alpha_s, s_per_byte)
        }
    }

    fn new(samples: &[(u64, f64)], alpha_s: f64, s_per_byte: f64) -> Self {
        let error = |&(bytes, seconds): &(u64, f64)| (alpha_s + bytes as f64 * s_per_byte) / seconds - 1.0;
        let squares: f64 = samples.iter().map(|sample| error(sample).powi(2)).sum();
        let mean = mean(samples);
        let variance: f64 = samples.iter().map(|(_, seconds)| ((seconds - mean) / seconds).powi(2)).sum();
        Self {
            alpha_s,
            bytes_per_s: 1.0 / s_per_byte,
            r2: if variance > 0.0 { 1.0 - squares / variance } else { 1.0 },
            residual_pct: 100.0 * (squares / samples.len() as f64).sqrt(),
        }
    }
}

/// Intercept and slope of the line with the least relative errors.
fn best(samples: &[(u64, f64)]) -> (f64, f64) {
    let aa = sum(samples, |_, s| 1.0 / (s * s));
    let ab = sum(samples, |bytes, s| bytes / (s * s));
    let bb = sum(samples, |bytes, s| (bytes / s).powi(2));
    let a = sum(samples, |_, s| 1.0 / s);
    let b = sum(samples, |bytes, s| bytes / s);
    let determinant = aa * bb - ab * ab;
    ((a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant)
}

/// The time that meets all relative times best.
fn mean(samples: &[(u64, f64)]) -> f64 {
    sum(samples, |_, s| 1.0 / s) / sum(samples, |_, s| 1.0 / (s * s))
}

fn sum(samples: &[(u64, f64)], term: impl Fn(f64, f64) -> f64) -> f64 {
    samples.iter().map(|&(bytes, seconds)| term(bytes as f64, seconds)).sum()
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn what_passes_at_once_after_a_pause_is_seen_in_lines_of_growth_only() {
        // 1000 bytes per second behind the first 500 bytes.
        let samples = [1000, 2000, 3000, 4000].map(|bytes| (bytes, (bytes as f64 - 500.0) / 1000.0));
        let growth = Line::of_growth(&samples).unwrap();
        assert!((growth.alpha_s + 0.5).abs() < 1e-9 && (growth.bytes_per_s - 1000.0).abs() < 1e-6);
        assert_eq!(Line::through(&samples).alpha_s, 0.0);
        assert!(Line::of_growth(&[(1000, 2.0), (2000, 1.0)]).is_none());
    }
}
