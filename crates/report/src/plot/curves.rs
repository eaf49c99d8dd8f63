//! Curves over a swept number, a chart for each combination of what else is swept: with their knees, and where they cross that of the first variant.

use crate::plot::axis::{Axis, Quantity, Swept, ends, is_spread_by_factors, number};
use crate::plot::sheet::{Anchor, Area, Ink, Point, Sheet, key, shortened};
use crate::plots::svg::joined;

/// Columns of a chart at the least, and charts beside each other at the most.
const CHART_COLUMNS: usize = 38;
const MOST_BESIDE: usize = 4;
/// Lines of a chart alone, and of one among several.
const ALONE_LINES: f64 = 16.0;
const AMONG_LINES: f64 = 11.0;
/// Ends of an axis of positive values that are this factor apart make it logarithmic.
const HIGH: f64 = 30.0;

/// Points of a curve that a knee takes, and how far it is from the line between the curve's ends, in parts of what the curve spans.
const KNEE_POINTS: usize = 4;
const KNEE_DEPTH: f64 = 0.1;
/// How far a curve that has a knee may go back, in parts of what it spans; and what a curve that is not flat spans at least, in parts of its values.
const BACK: f64 = 0.05;
const FLAT: f64 = 0.01;

/// Charts over the same axes.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    pub(super) x: Swept,
    /// Title of the values.
    pub(super) y_title: String,
    pub(super) y_quantity: Quantity,
    /// Name of each curve, and the curve of the same executor's first variant.
    pub(super) names: Vec<(String, usize)>,
    pub(super) charts: Vec<Chart>,
}

/// One of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    /// Values of what else is swept.
    pub(super) title: String,
    /// For each curve its points, ascending.
    pub(super) curves: Vec<Vec<Point>>,
}

/// A place of a curve that has a name.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    at: Point,
    is_knee: bool,
    text: String,
}

impl Curves {
    /// Draws it from a line on; returns the line below.
    pub(super) fn draw(&self, sheet: &mut dyn Sheet, top: f64) -> f64 {
        let names = self.names.iter().map(|(name, _)| (name.as_str(), None));
        let mut top = key(sheet, top, names) + 1.0;
        let most = (sheet.columns() / CHART_COLUMNS).clamp(1, MOST_BESIDE);
        let beside = self.charts.len().div_ceil(self.charts.len().div_ceil(most)).max(1);
        let width = (sheet.columns() / beside) as f64;
        for row in self.charts.chunks(beside) {
            let bottoms = row.iter().enumerate().map(|(index, chart)| {
                self.draw_chart(sheet, chart, [width * index as f64, top], width - 2.0)
            });
            top = bottoms.fold(top, f64::max) + 1.0;
        }
        top - 1.0
    }

    fn draw_chart(&self, sheet: &mut dyn Sheet, chart: &Chart, [left, top]: Point, width: f64) -> f64 {
        let (numbers, is_log) = (self.numbers(), is_spread_by_factors(self.numbers()));
        let lines = if self.charts.len() > 1 { AMONG_LINES } else { ALONE_LINES };
        sheet.text([left, top], Anchor::Right, Ink::Plain, &shortened(&chart.title, width as usize));
        let top = if chart.title.is_empty() { top } else { top + 1.0 };
        let (most, is_high) = (self.ends().1, self.is_high());
        let (per, unit) = self.y_quantity.unit(most);
        let title = format!("{}, {unit}{}", self.y_title, if is_high { " (log)" } else { "" });
        sheet.text([left, top], Anchor::Right, Ink::Quiet, &title);
        let (top, bottom) = (top + 1.0, top + 1.0 + lines);
        let all = self.charts.iter().flat_map(|chart| chart.curves.iter().flatten());
        let y = Axis::of(all.map(|point| per * point[1]), is_high, [bottom, top]);
        let ticks = y.ticks();
        let margin = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0) as f64 + 2.0;
        let area = Area { left: left + margin, right: left + width, top, bottom };
        let x = Axis::of(numbers.iter().copied(), is_log, [area.left, area.right - 1.0]);
        let columns: Vec<f64> = numbers.iter().map(|&number| x.at(number)).collect();
        let rows: Vec<f64> = ticks.iter().map(|(value, _)| y.at(*value)).collect();
        let below = sheet.frame(area, &columns, &rows);
        for (row, (_, text)) in rows.iter().zip(&ticks) {
            sheet.label([area.left - 1.2, *row], Anchor::Left, Ink::Quiet, text);
        }
        let mut free = f64::NEG_INFINITY;
        for (&column, &value) in columns.iter().zip(numbers) {
            let (text, half) = (number(value), number(value).chars().count() as f64 / 2.0);
            if column - half > free {
                sheet.text([column, below], Anchor::Middle, Ink::Quiet, &text);
                free = column + half + 1.0;
            }
        }
        let unit = if self.x.unit.is_empty() { String::new() } else { format!(", {}", self.x.unit) };
        let title = format!("{}{unit}{}", self.x.path, if is_log { " (log)" } else { "" });
        sheet.text([area.right, below + 1.0], Anchor::Left, Ink::Quiet, &title);
        let place = |point: Point| [x.at(point[0]), y.at(per * point[1])];
        self.draw_curves(sheet, chart, &place);
        self.draw_findings(sheet, chart, [left, below + 2.0], width)
    }

    /// Draws curves, and signs where they have a break-even or a knee.
    fn draw_curves(&self, sheet: &mut dyn Sheet, chart: &Chart, place: &dyn Fn(Point) -> Point) {
        for (series, curve) in chart.curves.iter().enumerate() {
            for two in curve.windows(2) {
                sheet.line(place(two[0]), place(two[1]), Ink::Series(series), false);
            }
            curve.iter().for_each(|&point| sheet.mark(place(point), series));
        }
        for index in 0..chart.curves.len() {
            for finding in self.findings(chart, index) {
                sheet.sign(place(finding.at), finding.is_knee);
            }
        }
    }

    /// Says for each curve where it breaks even and where its knee is; returns the line below.
    fn draw_findings(&self, sheet: &mut dyn Sheet, chart: &Chart, [left, top]: Point, width: f64) -> f64 {
        let mut line = top;
        for (index, (name, base)) in self.names.iter().enumerate() {
            let (least, most) = ends(chart.curves[index].iter().map(|point| point[1]));
            // One that speedups are over is 1 everywhere.
            if chart.curves[index].is_empty() || index == *base && least == most {
                continue;
            }
            let findings = self.findings(chart, index);
            let texts = |is_knee: bool, none: &str| {
                let own = findings.iter().filter(|finding| finding.is_knee == is_knee);
                let mut texts: Vec<String> = own.map(|finding| finding.text.clone()).collect();
                texts.extend(texts.is_empty().then(|| none.to_owned()));
                texts
            };
            let mut texts = [texts(false, "no break-even"), texts(true, "no knee")].concat();
            texts.drain(..usize::from(index == *base));
            let last = texts.len() - 1;
            texts[..last].iter_mut().for_each(|text| text.push(','));
            texts.insert(0, format!("{name}:"));
            sheet.mark([left + 0.5, line + 0.5], index);
            for text in joined(texts.iter().map(String::as_str), width as usize - 2) {
                sheet.text([left + 2.0, line], Anchor::Right, Ink::Plain, &text);
                line += 1.0;
            }
        }
        line
    }

    fn findings(&self, chart: &Chart, index: usize) -> Vec<Finding> {
        let (is_log, curve, base) =
            (is_spread_by_factors(self.numbers()), &chart.curves[index], self.names[index].1);
        let finding = |at: Point, is_knee: bool| {
            let text =
                format!("{} at {}", if is_knee { "◆ knee" } else { "× even" }, self.x.with_unit(at[0]));
            Finding { at, is_knee, text }
        };
        let evens = if index == base { Vec::new() } else { break_evens(curve, &chart.curves[base], is_log) };
        let evens = evens.into_iter().map(|at| finding(at, false));
        evens.chain(knee(curve, is_log).map(|at| finding(at, true))).collect()
    }

    fn numbers(&self) -> &[f64] {
        self.x.numbers.as_deref().unwrap_or_default()
    }

    fn ends(&self) -> (f64, f64) {
        let all = self.charts.iter().flat_map(|chart| chart.curves.iter().flatten());
        ends(all.map(|point| point[1]))
    }

    /// Whether the axis of values is logarithmic.
    fn is_high(&self) -> bool {
        let (least, most) = self.ends();
        self.y_quantity == Quantity::Seconds && least > 0.0 && most >= HIGH * least
    }
}

/// Place on an axis.
fn along(value: f64, is_log: bool) -> f64 {
    if is_log { libm::log(value) } else { value }
}

/// Knee of a curve: the point furthest, up or down, from the straight line between the curve's ends. There is none unless it is at least a tenth of what the
/// curve spans away from that line, on a curve of at least four points that rises or falls all the way. Distances along a logarithmic axis are those of logarithms.
fn knee(curve: &[Point], is_log: bool) -> Option<Point> {
    let (first, last) = (curve.first()?, curve.last()?);
    let (least, most) = ends(curve.iter().map(|point| point[1]));
    let span = most - least;
    let is_flat = span <= FLAT * most.abs().max(least.abs());
    let rises = last[1] > first[1];
    let goes_back = curve.windows(2).any(|two| {
        let step = two[1][1] - two[0][1];
        (if rises { -step } else { step }) > BACK * span
    });
    if curve.len() < KNEE_POINTS || is_flat || goes_back {
        return None;
    }
    let depth = |point: &Point| {
        let [from, at, to] = [first[0], point[0], last[0]].map(|x| along(x, is_log));
        let line = first[1] + (last[1] - first[1]) * (at - from) / (to - from);
        (point[1] - line).abs() / span
    };
    let deepest = curve.iter().reduce(|best, next| if depth(next) > depth(best) { next } else { best })?;
    (depth(deepest) >= KNEE_DEPTH).then_some(*deepest)
}

/// Break-even points of a curve: where it crosses another one, on straight lines between neighbouring points as the axis has them. Curves that only touch do
/// not cross.
fn break_evens(curve: &[Point], base: &[Point], is_log: bool) -> Vec<Point> {
    let other = |x: f64| base.iter().find(|other| other[0] == x);
    let above: Vec<(Point, f64)> =
        curve.iter().filter_map(|point| Some((*point, point[1] - other(point[0])?[1]))).collect();
    let unequal: Vec<usize> = (0..above.len()).filter(|&index| above[index].1 != 0.0).collect();
    let crossings = unequal.windows(2).filter_map(|two| {
        let [(a, before), (b, after)] = [above[two[0]], above[two[1]]];
        if before.signum() == after.signum() {
            return None;
        }
        if two[1] - two[0] > 1 {
            return Some(above[two[0] + 1].0);
        }
        let part = before / (before - after);
        let [from, to] = [a[0], b[0]].map(|x| along(x, is_log));
        let x = from + part * (to - from);
        Some([if is_log { libm::exp(x) } else { x }, a[1] + part * (b[1] - a[1])])
    });
    crossings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_is_the_point_furthest_from_the_line_between_the_ends() {
        // The line falls from 4 to 1 in three steps: 4, 3, 2, 1. The curve is 0, 1.5, 0.8, 0 below.
        let curve = [[1.0, 4.0], [2.0, 1.5], [3.0, 1.2], [4.0, 1.0]];
        assert_eq!(knee(&curve, false), Some([2.0, 1.5]));
        // On a logarithmic axis from 1 to 8 the line is 8, 5.67, 3.33, 1, and the curve is 1.67 below it at 2, 1.33 at 4.
        let curve = [[1.0, 8.0], [2.0, 4.0], [4.0, 2.0], [8.0, 1.0]];
        assert_eq!(knee(&curve, true), Some([2.0, 4.0]));
        // A rising one, above its line.
        assert_eq!(knee(&[[1.0, 0.0], [2.0, 1.0], [3.0, 2.9], [4.0, 3.0]], false), Some([3.0, 2.9]));
    }

    #[test]
    fn straight_flat_short_and_turning_curves_have_no_knee() {
        let at = |values: &[f64]| -> Vec<Point> {
            values.iter().enumerate().map(|(index, value)| [index as f64, *value]).collect()
        };
        for none in [
            &[1.0, 2.0, 3.0, 4.0][..],
            &[1.0, 1.0, 1.0, 1.0],
            &[1.0, 1.001, 1.004, 1.005],
            &[1.0, 5.0, 5.0],
            &[],
        ] {
            assert_eq!(knee(&at(none), false), None, "{none:?}");
        }
        assert_eq!(knee(&at(&[1.0, 3.0, 4.0, 2.0]), false), None, "it turns");
        // 0.09 of the span off the line, and 0.11 of it.
        assert_eq!(knee(&at(&[0.0, 1.0, 2.0, 3.27, 4.0]), false), None);
        assert_eq!(knee(&at(&[0.0, 1.0, 2.0, 3.44, 4.0]), false), Some([3.0, 3.44]));
    }

    #[test]
    fn curves_break_even_where_they_cross() {
        let base = [[1.0, 1.0], [2.0, 1.0], [4.0, 1.0]];
        // 0.3 above, then 0.1 below: three quarters of the way from 1 to 2.
        let curve = [[1.0, 1.3], [2.0, 0.9], [4.0, 0.8]];
        let found = break_evens(&curve, &base, false);
        assert!(found.len() == 1 && (found[0][0] - 1.75).abs() < 1e-12 && (found[0][1] - 1.0).abs() < 1e-12);
        // On a logarithmic axis 2 to the power of that.
        let found = break_evens(&curve, &base, true);
        assert!((found[0][0] - libm::pow(2.0, 0.75)).abs() < 1e-12, "{found:?}");
        assert!(break_evens(&[[1.0, 1.1], [2.0, 1.0], [4.0, 1.2]], &base, false).is_empty(), "they touch");
        let found = break_evens(&[[1.0, 1.5], [2.0, 1.0], [4.0, 0.5]], &base, false);
        assert_eq!(found, [[2.0, 1.0]], "equal in between");
        assert!(break_evens(&curve, &[[3.0, 1.0]], false).is_empty());
    }
}
