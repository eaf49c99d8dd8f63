//! Lines over a number.

use crate::plots::svg::{Anchor, LINE, PUBLISHED, QUIET, Scale, Svg, colour, wrapped};
use crate::plots::{Level, Series};

/// Pixels.
const WIDTH: f64 = 800.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 580.0;
const HEIGHT: f64 = 260.0;
/// From the ends of the axis to the outermost points.
const INSET: f64 = 24.0;
/// Between texts below the axis.
const ROOM: f64 = 44.0;

/// Lines over a number, one for each series.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// Title of the axis of the number, with its unit.
    pub x_title: String,
    /// Title of the axis of values, with their unit.
    pub y_title: String,
    /// The number at each point, ascending or descending.
    pub x: Vec<f64>,
    /// At least one, each with a value for each point.
    pub series: Vec<Series>,
    /// Published numbers that hold for all points.
    pub levels: Vec<Level>,
}

impl Lines {
    /// The picture.
    pub fn svg(&self) -> String {
        let (mut svg, top) = Svg::new(WIDTH, &self.title);
        let bottom = top + HEIGHT;
        let ours = self.series.iter().flat_map(|series| &series.values).flat_map(|value| value.all());
        let levels = self.levels.iter().map(|level| level.value);
        let y = Scale::of(ours.chain(levels), bottom, top);
        for (value, text) in y.marks() {
            svg.grid([LEFT, y.at(value)], [RIGHT, y.at(value)]);
            svg.text(LEFT - 8.0, y.at(value) + 4.0, Anchor::Left, QUIET, &text);
        }
        svg.upright(20.0, f64::midpoint(top, bottom), &self.y_title);
        let places = places(&self.x);
        let x = |index: usize| LEFT + INSET + (RIGHT - LEFT - 2.0 * INSET) * places[index];
        let mut last = f64::NEG_INFINITY;
        for (index, &number) in self.x.iter().enumerate() {
            // A number that would be upon the one before it is left out.
            if (x(index) - last).abs() >= ROOM {
                let number = (1e3 * number).round() / 1e3;
                svg.text(x(index), bottom + LINE, Anchor::Middle, QUIET, &number.to_string());
                last = x(index);
            }
        }
        svg.text(f64::midpoint(LEFT, RIGHT), bottom + 2.5 * LINE, Anchor::Middle, PUBLISHED, &self.x_title);
        for level in &self.levels {
            let at = y.at(level.value);
            let colour = level.series.map_or(PUBLISHED, colour);
            svg.line([LEFT, at], [RIGHT, at], colour, true);
            svg.text(LEFT + 4.0, at - 4.0, Anchor::Right, colour, &level.value.to_string());
        }
        for (index, series) in self.series.iter().enumerate() {
            let points: Vec<[f64; 2]> = series
                .values
                .iter()
                .enumerate()
                .map(|(point, value)| [x(point), y.at(value.value)])
                .collect();
            svg.path(&points, colour(index));
            for (&[x, at], value) in points.iter().zip(&series.values) {
                if let Some([least, most]) = value.range {
                    svg.whisker([x, y.at(least)], [x, y.at(most)], colour(index));
                }
                svg.mark(x, at, index);
            }
        }
        self.legend(&mut svg, top);
        svg.finish(bottom + 3.0 * LINE)
    }

    fn legend(&self, svg: &mut Svg, top: f64) {
        let (mut y, x) = (top + 12.0, RIGHT + 20.0);
        let words = |svg: &mut Svg, text: &str, y: &mut f64| {
            for line in wrapped(text, WIDTH - x - 28.0) {
                svg.text(x + 20.0, *y + 4.0, Anchor::Right, PUBLISHED, &line);
                *y += LINE;
            }
            *y += 6.0;
        };
        for (index, series) in self.series.iter().enumerate() {
            svg.mark(x + 6.0, y, index);
            words(svg, &series.name, &mut y);
        }
        for level in &self.levels {
            svg.line([x, y], [x + 14.0, y], level.series.map_or(PUBLISHED, colour), true);
            words(svg, &level.name, &mut y);
        }
    }
}

/// Places of points from 0 to 1: by their numbers or the logarithms of these, whichever are spread more evenly.
fn places(numbers: &[f64]) -> Vec<f64> {
    let logarithms: Vec<f64> = numbers.iter().map(|&number| libm::log(number)).collect();
    let chosen = if unevenness(&logarithms) < unevenness(numbers) { &logarithms } else { numbers };
    let (first, last) = (chosen[0], chosen[chosen.len() - 1]);
    let span = if last == first { 1.0 } else { last - first };
    chosen.iter().map(|number| (number - first) / span).collect()
}

/// The widest gap between neighbours over the narrowest; infinite for logarithms of what is not positive.
fn unevenness(numbers: &[f64]) -> f64 {
    let gaps = numbers.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let (least, most) =
        gaps.fold((f64::INFINITY, 0.0_f64), |(least, most), gap| (least.min(gap), most.max(gap)));
    if numbers.iter().all(|number| number.is_finite()) { most / least } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_their_numbers_or_logarithms_are() {
        assert_eq!(places(&[0.0, 25.0, 75.0, 100.0]), [0.0, 0.25, 0.75, 1.0]);
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        near(places(&[16.0, 32.0, 64.0]), &[0.0, 0.5, 1.0]);
        near(places(&[64.0, 8.0, 1.0]), &[0.0, 0.5, 1.0]);
        assert_eq!(places(&[3.0]), [0.0]);
    }

    #[test]
    fn axes_series_and_published_numbers_have_names() {
        let series = Series { name: "in chunks".to_owned(), values: vec![1.0.into(), 1.5.into()] };
        let level = Level { value: 1.36, name: "published mean".to_owned(), series: None };
        let picture = Lines {
            title: "Speedup".to_owned(),
            x_title: "buffer, MiB".to_owned(),
            y_title: "NCCL over ours, x".to_owned(),
            x: vec![1.0, 2.0],
            series: vec![series],
            levels: vec![level],
        };
        let text = picture.svg();
        for named in ["Speedup", "buffer, MiB", "NCCL over ours, x", "in chunks", "published mean"] {
            assert!(text.contains(named), "{named}: {text}");
        }
        assert_eq!(text, picture.svg());
    }
}
