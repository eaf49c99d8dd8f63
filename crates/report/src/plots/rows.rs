//! Numbers with long names, a row each: ours beside what is published.

use crate::plots::Value;
use crate::plots::svg::{Anchor, LINE, PUBLISHED, QUIET, Scale, Svg, colour, wrapped};

/// Pixels.
const LABELS: f64 = 330.0;
const AXIS: f64 = 330.0;
const BESIDE: f64 = 190.0;
const PADDING: f64 = 12.0;

/// Rows with one unit.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Title.
    pub title: String,
    /// Title of the axis, with its unit.
    pub x_title: String,
    /// Where a bar to each number of ours begins: 1 of speedups, so that the bar is the gain; `None` for dots.
    pub base: Option<f64>,
    /// At least one.
    pub rows: Vec<Row>,
}

/// One number.
#[derive(Clone, Debug)]
pub struct Row {
    /// Label left of the axis.
    pub name: String,
    /// The ends of what is published, the same twice for a number; infinite where there is no end.
    pub published: [f64; 2],
    /// Ours, if there is one.
    pub ours: Option<Value>,
    /// Text right of the axis.
    pub beside: String,
}

impl Rows {
    /// The picture.
    pub fn svg(&self) -> String {
        let right = LABELS + AXIS;
        let (mut svg, top) = Svg::new(right + BESIDE, &self.title);
        let top = self.legend(&mut svg, top);
        let values = self.rows.iter().flat_map(|row| {
            let ours = row.ours.into_iter().flat_map(Value::all);
            row.published.into_iter().chain(ours)
        });
        let x = Scale::of(values.chain(self.base), LABELS, right);
        let names: Vec<Vec<String>> = self.rows.iter().map(|row| wrapped(&row.name, LABELS - 20.0)).collect();
        let heights: Vec<f64> =
            names.iter().map(|lines| LINE * lines.len().max(1) as f64 + PADDING).collect();
        let bottom = top + heights.iter().sum::<f64>();
        for (value, text) in x.marks() {
            svg.grid([x.at(value), top], [x.at(value), bottom]);
            svg.text(x.at(value), bottom + LINE, Anchor::Middle, QUIET, &text);
        }
        if let Some(base) = self.base {
            svg.line([x.at(base), top], [x.at(base), bottom], QUIET, false);
        }
        let mut above = top;
        for ((row, name), height) in self.rows.iter().zip(&names).zip(heights) {
            let y = above + height / 2.0;
            for (line, text) in name.iter().enumerate() {
                let at = y + LINE * (line as f64 - (name.len() as f64 - 1.0) / 2.0) + 4.0;
                svg.text(LABELS - 10.0, at, Anchor::Left, PUBLISHED, text);
            }
            self.draw(&mut svg, row, x, y);
            svg.text(right + 12.0, y + 4.0, Anchor::Right, QUIET, &row.beside);
            above += height;
        }
        let below = bottom + 2.5 * LINE;
        svg.text(LABELS + AXIS / 2.0, below, Anchor::Middle, PUBLISHED, &self.x_title);
        svg.finish(below + 14.0)
    }

    fn draw(&self, svg: &mut Svg, row: &Row, x: Scale, y: f64) {
        let [least, most] = row.published;
        let is_range = least != most;
        if is_range {
            svg.bar([x.at(least), y - 8.0], [x.at(most), y + 8.0], PUBLISHED, 0.2);
        }
        // A dot leaves the corners of a diamond below it to be seen; a bar would leave nothing.
        if !is_range && self.base.is_none() {
            svg.diamond(x.at(least), y);
        }
        if let Some(ours) = row.ours {
            match self.base {
                Some(base) => svg.bar([x.at(base), y - 5.0], [x.at(ours.value), y + 5.0], colour(0), 0.85),
                None => svg.dot(x.at(ours.value), y, colour(0)),
            }
            if let Some([least, most]) = ours.range {
                svg.whisker([x.at(least), y], [x.at(most), y], colour(1));
            }
        }
        if !is_range && self.base.is_some() {
            svg.diamond(x.at(least), y);
        }
    }

    /// Draws the legend; returns where the room below it begins.
    fn legend(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut x = 12.0;
        let mut sign = |svg: &mut Svg, draw: &dyn Fn(&mut Svg, f64), text: &str| {
            draw(svg, x);
            svg.text(x + 20.0, y + 4.0, Anchor::Right, PUBLISHED, text);
            x += 20.0 + 9.0 * text.chars().count() as f64;
        };
        let is_range = |row: &Row| row.published[0] != row.published[1];
        if self.rows.iter().any(|row| !is_range(row)) {
            sign(svg, &|svg, x| svg.diamond(x + 6.0, y), "published");
        }
        if self.rows.iter().any(is_range) {
            sign(
                svg,
                &|svg, x| svg.bar([x, y - 8.0], [x + 12.0, y + 8.0], PUBLISHED, 0.2),
                "published range or bound",
            );
        }
        if self.base.is_some() {
            sign(svg, &|svg, x| svg.bar([x, y - 5.0], [x + 12.0, y + 5.0], colour(0), 0.85), "ours");
        } else {
            sign(svg, &|svg, x| svg.dot(x + 6.0, y, colour(0)), "ours");
        }
        if self.rows.iter().filter_map(|row| row.ours).any(|ours| ours.range.is_some()) {
            sign(
                svg,
                &|svg, x| svg.whisker([x, y], [x + 12.0, y], colour(1)),
                "least and most of several seeds",
            );
        }
        y + LINE + 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_in_the_legend_and_nothing_else() {
        let row = |published, range| Row {
            name: "DeepSeek".to_owned(),
            published,
            ours: Some(Value { value: 1.1, range }),
            beside: "-5 %".to_owned(),
        };
        let rows = |base, rows| Rows { title: "t".to_owned(), x_title: "speedup".to_owned(), base, rows };
        let plain = rows(Some(1.0), vec![row([1.2, 1.2], None)]).svg();
        assert!(plain.contains(">published<") && !plain.contains("range") && !plain.contains("seeds"));
        let all = rows(None, vec![row([1.2, f64::INFINITY], Some([1.0, 1.15]))]).svg();
        assert!(!all.contains(">published<") && all.contains("range or bound") && all.contains("seeds"));
    }
}
