//! Predicted against measured times, with the band in which they agree; below it the pairs with their errors.

use crate::agreement::{BAND, ErrorSign, Pair};
use crate::plot::axis::{Axis, Quantity, ends};
use crate::plot::sheet::{Anchor, Area, Ink, Sheet, shortened};
use crate::quantity::{seconds, signed_percent};

/// Lines of the chart, its columns at most, and pairs below it.
const LINES: f64 = 18.0;
const COLUMNS: f64 = 60.0;
const MOST_PAIRS: usize = 20;

/// Draws pairs from a line on; returns the line below.
pub(super) fn draw_agreement(pairs: &[Pair], sheet: &mut dyn Sheet, top: f64) -> f64 {
    let (least, most) = ends(pairs.iter().flat_map(|pair| [pair.predicted_s, pair.measured_s]));
    let (per, unit) = Quantity::Seconds.unit(most);
    // The band is to be seen beside the outermost pairs.
    let held = || [per * least * (1.0 - BAND), per * most * (1.0 + BAND)].into_iter();
    let (top, bottom) = (top + 1.0, top + 1.0 + LINES);
    let y = Axis::of(held(), false, [bottom, top]);
    let ticks = y.ticks();
    let left = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0) as f64 + 2.0;
    let right = (sheet.columns() as f64).min(COLUMNS);
    let x = Axis::of(held(), false, [left, right - 1.0]);
    let columns: Vec<f64> = ticks.iter().map(|(value, _)| x.at(*value)).collect();
    let rows: Vec<f64> = ticks.iter().map(|(value, _)| y.at(*value)).collect();
    sheet.text([0.0, top - 1.0], Anchor::Right, Ink::Quiet, &format!("measured, {unit}"));
    let below = sheet.frame(Area { left, right, top, bottom }, &columns, &rows);
    for ((_, text), (column, row)) in ticks.iter().zip(columns.iter().zip(&rows)) {
        sheet.label([left - 1.2, *row], Anchor::Left, Ink::Quiet, text);
        sheet.text([*column, below], Anchor::Middle, Ink::Quiet, text);
    }
    sheet.text([right, below + 1.0], Anchor::Left, Ink::Quiet, &format!("predicted, {unit}"));
    let [least, most] = y.ends();
    for (slope, is_dashed) in [(1.0, false), (1.0 - BAND, true), (1.0 + BAND, true)] {
        let from = least.max(least / slope);
        let to = most.min(most / slope);
        let ends = [from, to].map(|value| [x.at(value), y.at(value * slope)]);
        sheet.line(ends[0], ends[1], Ink::Quiet, is_dashed);
    }
    for (index, pair) in pairs.iter().enumerate() {
        sheet.mark([x.at(per * pair.predicted_s), y.at(per * pair.measured_s)], index);
    }
    let mut line = below + 2.0;
    sheet.text([0.0, line], Anchor::Right, Ink::Quiet, "solid: equal; dotted: 5 % more or less");
    line += 1.0;
    for (index, pair) in pairs.iter().take(MOST_PAIRS).enumerate() {
        let times = format!(
            "{} predicted, {} measured, {}",
            seconds(pair.predicted_s),
            seconds(pair.measured_s),
            signed_percent(100.0 * ErrorSign::OfMeasured.of(pair))
        );
        sheet.mark([0.5, line + 0.5], index);
        let room = sheet.columns().saturating_sub(times.chars().count() + 4).max(8);
        sheet.text(
            [2.0, line],
            Anchor::Right,
            Ink::Plain,
            &format!("{}: {times}", shortened(&pair.name, room)),
        );
        line += 1.0;
    }
    if pairs.len() > MOST_PAIRS {
        let more = format!("and {} more", pairs.len() - MOST_PAIRS);
        sheet.text([2.0, line], Anchor::Right, Ink::Quiet, &more);
        line += 1.0;
    }
    line
}
