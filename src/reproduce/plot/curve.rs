//! A curve as lines over its points, which stand side by side: their first numbers may be far apart.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{begin, escaped};
use crate::reproduce::Curve;

/// Pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 286.0;

/// Of the lines, in the order of the columns.
const COLOURS: [&str; 4] = ["#1f6fc0", "#d1701f", "#3a8f3a", "#8a4fb0"];

/// The picture.
pub(super) fn plot(curve: &Curve) -> String {
    let mut svg = begin(WIDTH, HEIGHT, &curve.name);
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
    let gap = (RIGHT - LEFT) / curve.points.len() as f64;
    let x = |index: usize| LEFT + gap * (index as f64 + 0.5);
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
        escaped(&curve.columns[0])
    );
    for (column, name) in curve.columns.iter().enumerate().skip(1) {
        let colour = COLOURS[(column - 1) % COLOURS.len()];
        let points = curve.points.iter().enumerate();
        let points = points.map(|(index, point)| format!("{:.1},{:.1}", x(index), axis.at(point[column])));
        let points = points.collect::<Vec<_>>().join(" ");
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
