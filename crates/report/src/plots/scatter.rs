//! Pairs of numbers on logarithmic axes: on the diagonal they are equal.

use crate::plots::svg::{Anchor, LINE, PUBLISHED, QUIET, Scale, Svg};

/// Pixels.
const WIDTH: f64 = 760.0;
const SIDE: f64 = 640.0;
const LEFT: f64 = 84.0;
/// Colours of series from the first on, light to dark.
const COLOURS: [&str; 3] = ["#56b4e9", "#003f63", "#000000"];

/// Points of several series.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// Title.
    pub title: String,
    /// Title of the axis of first numbers, with their unit.
    pub x_title: String,
    /// Title of the axis of second numbers.
    pub y_title: String,
    /// Powers of ten at the ends of both axes; what is beyond is drawn at the end.
    pub decades: [i32; 2],
    /// At most three, those in front last.
    pub series: Vec<ScatterSeries>,
}

/// The points of one colour.
#[derive(Clone, Debug)]
pub struct ScatterSeries {
    /// Its name.
    pub name: String,
    /// Pairs of positive numbers.
    pub points: Vec<[f64; 2]>,
}

impl Scatter {
    /// The picture.
    pub fn svg(&self) -> String {
        let (mut svg, mut top) = Svg::new(WIDTH, &self.title);
        for (series, colour) in self.series.iter().zip(COLOURS) {
            svg.points(&[[LEFT + 6.0, top]], colour);
            svg.text(LEFT + 20.0, top + 4.0, Anchor::Right, PUBLISHED, &series.name);
            top += LINE + 2.0;
        }
        let bottom = top + SIDE;
        let [least, most] = self.decades.map(f64::from);
        let x = Scale::between(least, most, LEFT, LEFT + SIDE);
        let y = Scale::between(least, most, bottom, top);
        for decade in self.decades[0]..=self.decades[1] {
            let (at, text) = (f64::from(decade), decade_text(decade));
            svg.grid([x.at(at), top], [x.at(at), bottom]);
            svg.grid([LEFT, y.at(at)], [LEFT + SIDE, y.at(at)]);
            svg.text(x.at(at), bottom + LINE, Anchor::Middle, QUIET, &text);
            svg.text(LEFT - 8.0, y.at(at) + 4.0, Anchor::Left, QUIET, &text);
        }
        svg.line([LEFT, bottom], [LEFT + SIDE, top], QUIET, true);
        svg.upright(24.0, f64::midpoint(top, bottom), &self.y_title);
        svg.text(LEFT + SIDE / 2.0, bottom + 2.5 * LINE, Anchor::Middle, PUBLISHED, &self.x_title);
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let place = |&[a, b]: &[f64; 2]| [x.at(libm::log10(a)), y.at(libm::log10(b))];
            let points: Vec<[f64; 2]> = series.points.iter().map(place).collect();
            svg.points(&points, colour);
        }
        svg.finish(bottom + 3.5 * LINE)
    }
}

/// `0.1`, `1`, `1000`.
fn decade_text(decade: i32) -> String {
    let zeros = "0".repeat(decade.unsigned_abs().saturating_sub(u32::from(decade < 0)) as usize);
    if decade < 0 { format!("0.{zeros}1") } else { format!("1{zeros}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_written_out() {
        assert_eq!([-2, -1, 0, 3].map(decade_text), ["0.01", "0.1", "1", "1000"]);
    }

    #[test]
    fn equal_pairs_are_on_the_diagonal() {
        let series = ScatterSeries { name: "large".to_owned(), points: vec![[10.0, 10.0]] };
        let text = Scatter {
            title: "t".to_owned(),
            x_title: "measured, GB/s".to_owned(),
            y_title: "predicted, GB/s".to_owned(),
            decades: [0, 2],
            series: vec![series],
        }
        .svg();
        assert!(text.contains("measured, GB/s") && text.contains("predicted, GB/s"));
        let middle = format!("M{:.1} ", LEFT + SIDE / 2.0);
        assert!(text.contains(&middle), "{text}");
    }
}
