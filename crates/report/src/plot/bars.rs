//! Bars in rows, each with its parts and a text beside it.

use crate::plot::axis::{Axis, Quantity};
use crate::plot::sheet::{Anchor, Area, Ink, Paint, Sheet, key, shortened};

/// Part of a sheet's columns that names take at most.
const NAMES_PART: usize = 3;

/// Charts of bars, each with a scale of its own.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    /// Title of the values.
    pub(super) title: String,
    pub(super) quantity: Quantity,
    /// Where bars begin: 0, or 1 of speedups.
    pub(super) base: f64,
    /// Names of the paints; none where the rows say it.
    pub(super) paints: Vec<String>,
    pub(super) charts: Vec<BarChart>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct BarChart {
    /// Executor, or values of what else is swept.
    pub(super) title: String,
    /// Rows by group; a group without a name has no line of its own.
    pub(super) groups: Vec<(String, Vec<BarRow>)>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(super) struct BarRow {
    pub(super) name: String,
    /// How far each part goes on from the base, and its paint.
    pub(super) parts: Vec<(usize, f64)>,
    pub(super) beside: String,
}

impl Bars {
    /// Draws them from a line on; returns the line below.
    pub(super) fn draw(&self, sheet: &mut dyn Sheet, top: f64) -> f64 {
        let paints =
            self.paints.iter().enumerate().map(|(index, name)| (name.as_str(), Some(Paint::of(index))));
        let mut line = if self.paints.is_empty() { top } else { key(sheet, top, paints) + 1.0 };
        for chart in &self.charts {
            line = self.draw_chart(sheet, chart, line) + 1.0;
        }
        line - 1.0
    }

    fn draw_chart(&self, sheet: &mut dyn Sheet, chart: &BarChart, top: f64) -> f64 {
        let rows = || chart.groups.iter().flat_map(|(_, rows)| rows);
        let longest = |of: &dyn Fn(&BarRow) -> usize| rows().map(of).max().unwrap_or(0);
        let columns = sheet.columns();
        let names = longest(&|row| row.name.chars().count()).min(columns / NAMES_PART);
        let beside = longest(&|row| row.beside.chars().count());
        let (left, right) = ((names + 2) as f64, columns.saturating_sub(beside + 2).max(names + 12) as f64);
        let mut line = top;
        if !chart.title.is_empty() {
            sheet.text([0.0, line], Anchor::Right, Ink::Plain, &shortened(&chart.title, columns));
            line += 1.0;
        }
        let end = |row: &BarRow| self.base + row.parts.iter().map(|(_, value)| value).sum::<f64>();
        let ends: Vec<f64> = rows().map(end).chain([self.base]).collect();
        let (per, unit) = self.quantity.unit(ends.iter().copied().fold(0.0, f64::max));
        let least = ends.iter().copied().fold(self.base, f64::min);
        let most = ends.iter().copied().fold(least + 1e-9, f64::max);
        let x = Axis::between([per * least, per * most], [left, right - 1.0]);
        let lines: usize =
            chart.groups.iter().map(|(group, rows)| rows.len() + usize::from(!group.is_empty())).sum();
        let (first, bottom) = (line, line + lines as f64);
        let ticks = x.ticks();
        let places: Vec<f64> = ticks.iter().map(|(value, _)| x.at(*value)).collect();
        let below = sheet.frame(Area { left, right, top: first, bottom }, &places, &[]);
        for (group, rows) in &chart.groups {
            if !group.is_empty() {
                let room = columns - left as usize - 1;
                sheet.text([left + 0.5, line], Anchor::Right, Ink::Plain, &shortened(group, room));
                line += 1.0;
            }
            for row in rows {
                sheet.text([left - 1.2, line], Anchor::Left, Ink::Plain, &shortened(&row.name, names));
                sheet.text([right + 1.0, line], Anchor::Right, Ink::Plain, &row.beside);
                line += 1.0;
            }
        }
        self.draw_bars(sheet, chart, first, &|value| x.at(per * value));
        for (place, (_, text)) in places.iter().zip(&ticks) {
            sheet.text([*place, below], Anchor::Middle, Ink::Quiet, text);
        }
        let title = format!("{}, {unit}", self.title);
        sheet.text([right, below + 1.0], Anchor::Left, Ink::Quiet, &title);
        below + 2.0
    }

    fn draw_bars(&self, sheet: &mut dyn Sheet, chart: &BarChart, top: f64, place: &dyn Fn(f64) -> f64) {
        let mut line = top;
        for (group, rows) in &chart.groups {
            line += if group.is_empty() { 0.0 } else { 1.0 };
            for row in rows {
                let mut from = self.base;
                for &(paint, value) in &row.parts {
                    let start = from;
                    from += value;
                    sheet.bars(line, &[[place(start), place(from)]], Paint::of(paint));
                }
                line += 1.0;
            }
        }
    }
}
