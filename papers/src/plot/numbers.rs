//! The numbers of a figure: a grey mark, or a band where a range is published, and a blue dot for ours.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{begin, escaped};
use crate::{Row, signed_percent};

/// Pixels.
const ROW: f64 = 26.0;
const LABELS: f64 = 560.0;
const AXIS: f64 = 320.0;
const ERRORS: f64 = 90.0;
const HEAD: f64 = 58.0;
const FOOT: f64 = 34.0;

/// The picture of rows with one unit, of which there is at least one.
pub(super) fn plot(paper: &str, rows: &[&Row]) -> String {
    let values = rows.iter().flat_map(|row| {
        let (least, most) = row.paper.ends();
        [least, most, row.ours.unwrap_or(least)]
    });
    let axis = Axis::of(values, LABELS, LABELS + AXIS);
    let bottom = HEAD + ROW * rows.len() as f64;
    let unit = match rows[0].unit.as_str() {
        // A ratio is named by its quantity.
        "none" | "x" => String::new(),
        unit => format!(", {unit}"),
    };
    let title = format!("{paper}, {}{unit}: published (grey) and ours (blue)", rows[0].figure);
    let mut svg = begin(LABELS + AXIS + ERRORS, bottom + FOOT, &title);
    for (value, text) in axis.marks() {
        let x = axis.at(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{HEAD}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e0e0e0\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#606060\">{text}</text>",
            bottom + 18.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        draw(&mut svg, row, axis, HEAD + ROW * (index as f64 + 0.5));
    }
    svg.push_str("</svg>\n");
    svg
}

/// One row, of which `y` is the middle.
fn draw(svg: &mut String, row: &Row, axis: Axis, y: f64) {
    let label = escaped(&format!("{} ({})", row.quantity, row.role.name()));
    let (least, most) = row.paper.ends();
    let (from, to) = (axis.at(least) - 2.0, axis.at(most) + 2.0);
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\">{label}</text>\n\
         <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\" fill=\"#a0a0a0\"/>",
        LABELS - 10.0,
        y + 4.0,
        y - 8.0,
        to - from
    );
    if let Some(ours) = row.ours {
        let _ = writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#1f6fc0\"/>", axis.at(ours));
    }
    let beside = match (row.error_pct, &row.pending) {
        (Some(error), _) => signed_percent(error),
        (None, Some(_)) => "pending".to_owned(),
        (None, None) => String::new(),
    };
    let x = LABELS + AXIS + 12.0;
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{beside}</text>", y + 4.0);
}
