//! A curve as lines over its points, on the scale on which they are spread more evenly: their first numbers may be far apart.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{begin, escaped};
use crate::Curve;

/// Pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 286.0;

/// From the ends of the axis to the outermost points.
const INSET: f64 = 30.0;

/// Of the lines, in the order of the columns.
const COLOURS: [&str; 4] = ["#1f6fc0", "#d1701f", "#3a8f3a", "#8a4fb0"];

/// The picture.
pub(super) fn plot(curve: &Curve) -> String {
    let mut svg = begin(WIDTH, HEIGHT, curve.name);
    let values = curve.points.iter().flat_map(|point| point[1..].iter().copied());
    let axis = Axis::of(values, BOTTOM, TOP);
    for (value, text) in axis.marks() {
        let y = axis.at(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\" stroke=\"#e0e0e0\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#606060\">{text}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    let places = places(&curve.points.iter().map(|point| point[0]).collect::<Vec<_>>());
    let x = |index: usize| LEFT + INSET + (RIGHT - LEFT - 2.0 * INSET) * places[index];
    for (index, point) in curve.points.iter().enumerate() {
        let (x, y, value) = (x(index), BOTTOM + 18.0, (1e3 * point[0]).round() / 1e3);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#606060\">{value}</text>"
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 40.0,
        escaped(curve.columns[0])
    );
    for (column, name) in curve.columns.iter().enumerate().skip(1) {
        let colour = COLOURS[(column - 1) % COLOURS.len()];
        let points = curve.points.iter().enumerate();
        let points = points.map(|(index, point)| format!("{:.1},{:.1}", x(index), axis.at(point[column])));
        let points = points.collect::<Vec<_>>();
        for (cx, cy) in points.iter().filter_map(|point| point.split_once(',')) {
            let _ = writeln!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let points = points.join(" ");
        let y = TOP + 20.0 * column as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>",
            RIGHT + 14.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
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
}
