//! Latency and bandwidth of one series by range of sizes: `seconds = alpha + bytes / bytes_per_s`, by weighted least squares.

use serde::{Serialize, Serializer};
use zipwire_cluster::library::Operation;

use crate::series::{LEAST_SIZES, Point, Series};

/// Penalty of one more range, as a sum of squares of relative errors: four sizes that are 2 % off each.
const RANGE: f64 = 4.0 * 0.02 * 0.02;

/// A line through the times of a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AffineFit {
    /// Operation that was measured.
    #[serde(rename = "op", serialize_with = "by_name")]
    pub operation: Operation,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each node.
    pub gpus_per_node: u32,
    /// Least size of the range, in bytes.
    pub from_bytes: u64,
    /// Largest size of the range, in bytes.
    pub to_bytes: u64,
    /// Seconds that do not depend on the size, at least 0.
    pub alpha_s: f64,
    /// Bytes of size (not of the bus) per second; none where times do not grow with the size, so that any large number would do.
    pub bytes_per_s: Option<f64>,
    /// Share of the variance of times that the line explains, weighted as it is.
    pub r2: f64,
    /// Root of the mean square of relative errors, in percent.
    pub residual_pct: f64,
}

/// Share of a time below which its part by size is not seen.
const SEEN: f64 = 1e-3;

fn by_name<S: Serializer>(operation: &Operation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(operation.name())
}

/// Lines through a series, each over four sizes or more: as many as pay for themselves. None if there are fewer sizes.
pub(crate) fn affine(series: &Series) -> Vec<AffineFit> {
    let points = &series.points;
    let count = points.len();
    // The least sum up to each place, and where its last range begins.
    let mut best: Vec<Option<(f64, usize)>> = vec![None; count + 1];
    best[0] = Some((0.0, 0));
    for end in LEAST_SIZES..=count {
        for begin in 0..=end - LEAST_SIZES {
            if let Some((before, _)) = best[begin] {
                let sum = before + RANGE + squares(&points[begin..end]);
                if best[end].is_none_or(|(least, _)| sum < least) {
                    best[end] = Some((sum, begin));
                }
            }
        }
    }
    let mut fits = Vec::new();
    let mut end = count;
    while let Some((_, begin)) = best[end].filter(|_| end > 0) {
        fits.push(of_range(series, &points[begin..end]));
        end = begin;
    }
    fits.reverse();
    fits
}

fn line(points: &[Point]) -> Line {
    let samples: Vec<(u64, f64)> = points.iter().map(|point| (point.bytes, point.seconds)).collect();
    Line::through(&samples)
}

/// Sum of the squares of the relative errors of a line through points.
fn squares(points: &[Point]) -> f64 {
    (line(points).residual_pct / 100.0).powi(2) * points.len() as f64
}

fn of_range(series: &Series, points: &[Point]) -> AffineFit {
    let Line { alpha_s, bytes_per_s, r2, residual_pct } = line(points);
    let to_bytes = points[points.len() - 1].bytes;
    let is_seen = to_bytes as f64 / bytes_per_s >= SEEN * alpha_s;
    AffineFit {
        operation: series.operation,
        nodes: series.nodes,
        gpus_per_node: series.gpus_per_node,
        from_bytes: points[0].bytes,
        to_bytes,
        alpha_s,
        bytes_per_s: is_seen.then_some(bytes_per_s),
        r2,
        residual_pct,
    }
}

/// A line through the times of several sizes, `seconds = alpha + bytes / bytes_per_s`, by least squares of relative errors.
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
            r2: if variance > 0.0 { (1.0 - squares / variance).max(0.0) } else { 1.0 },
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
    use super::*;
    use crate::series::points;

    fn series(seconds: impl Fn(f64) -> f64, sizes: u32) -> Series {
        let rows = (0..sizes).map(|index| (1024 << index, seconds(f64::from(1024_u32 << index)), None));
        Series {
            file: "s".to_owned(),
            operation: Operation::AllReduce,
            nodes: 1,
            gpus_per_node: 8,
            gpu: None,
            nics: None,
            dtype: "float".to_owned(),
            points: points(rows),
        }
    }

    #[test]
    fn a_line_is_found_again() {
        let fits = affine(&series(|bytes| 1e-5 + bytes / 2e9, 12));
        assert_eq!(fits.len(), 1);
        assert!(
            (fits[0].alpha_s - 1e-5).abs() < 1e-12 && (fits[0].bytes_per_s.unwrap() / 2e9 - 1.0).abs() < 1e-9
        );
        assert!(fits[0].r2 > 0.999_999 && fits[0].residual_pct < 1e-6);
    }

    #[test]
    fn a_change_of_protocol_is_two_ranges() {
        let two = |bytes: f64| if bytes < 1e5 { 1e-5 + bytes / 1e9 } else { 5e-5 + bytes / 1e10 };
        let fits = affine(&series(two, 14));
        assert_eq!(fits.len(), 2, "{fits:?}");
        assert!(
            (fits[0].bytes_per_s.unwrap() / 1e9 - 1.0).abs() < 1e-6 && (fits[1].alpha_s - 5e-5).abs() < 1e-9
        );
    }

    #[test]
    fn flat_times_have_no_bandwidth() {
        let fits = affine(&series(|_| 2e-5, 6));
        assert_eq!((fits.len(), fits[0].bytes_per_s), (1, None));
        let json = serde_json::to_value(fits[0]).unwrap();
        assert!(json["bytes_per_s"].is_null() && json["r2"].as_f64() >= Some(0.0), "{json}");
    }

    #[test]
    fn three_sizes_are_too_few() {
        assert!(affine(&series(|bytes| bytes / 1e9, 3)).is_empty());
    }

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
