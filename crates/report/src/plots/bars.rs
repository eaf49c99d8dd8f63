//! Bars where what is compared has names.

use crate::plots::svg::{Anchor, LINE, PUBLISHED, QUIET, Scale, Svg, colour, wrapped};
use crate::plots::{Level, Series};

/// Pixels.
const WIDTH: f64 = 800.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 784.0;
const HEIGHT: f64 = 260.0;
/// The part of a group's room that its bars take.
const FILLED: f64 = 0.76;

/// Groups of bars, one for each series.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Title of the axis of groups.
    pub x_title: String,
    /// Title of the axis of values, with their unit.
    pub y_title: String,
    /// Where bars begin: 0, or 1 of speedups.
    pub base: f64,
    /// Names of the groups, of which there is at least one.
    pub groups: Vec<String>,
    /// At least one, each with a value for each group.
    pub series: Vec<Series>,
    /// Published numbers that hold for all groups.
    pub levels: Vec<Level>,
}

impl Bars {
    /// The picture.
    pub fn svg(&self) -> String {
        let (mut svg, top) = Svg::new(WIDTH, &self.title);
        let top = self.legend(&mut svg, top);
        let bottom = top + HEIGHT;
        let ours = self.series.iter().flat_map(|series| &series.values).flat_map(|value| value.all());
        let all = ours.chain(self.levels.iter().map(|level| level.value));
        let y = Scale::of(all.chain([self.base]), bottom, top);
        for (value, text) in y.marks() {
            svg.grid([LEFT, y.at(value)], [RIGHT, y.at(value)]);
            svg.text(LEFT - 8.0, y.at(value) + 4.0, Anchor::Left, QUIET, &text);
        }
        svg.upright(20.0, f64::midpoint(top, bottom), &self.y_title);
        let room = (RIGHT - LEFT) / self.groups.len() as f64;
        let width = room * FILLED / self.series.len() as f64;
        let mut lines = 1;
        for (group, name) in self.groups.iter().enumerate() {
            let middle = LEFT + room * (group as f64 + 0.5);
            let name = wrapped(name, room - 6.0);
            lines = lines.max(name.len());
            for (line, text) in name.iter().enumerate() {
                svg.text(middle, bottom + LINE * (line as f64 + 1.0), Anchor::Middle, QUIET, text);
            }
            for (index, series) in self.series.iter().enumerate() {
                let x = middle + width * (index as f64 - self.series.len() as f64 / 2.0);
                let value = series.values[group];
                svg.bar(
                    [x + 1.0, y.at(self.base)],
                    [x + width - 1.0, y.at(value.value)],
                    colour(index),
                    0.85,
                );
                if let Some([least, most]) = value.range {
                    svg.whisker([x + width / 2.0, y.at(least)], [x + width / 2.0, y.at(most)], PUBLISHED);
                }
            }
        }
        svg.line([LEFT, y.at(self.base)], [RIGHT, y.at(self.base)], QUIET, false);
        for level in &self.levels {
            let at = y.at(level.value);
            svg.line([LEFT, at], [RIGHT, at], PUBLISHED, true);
            svg.text(RIGHT - 4.0, at - 4.0, Anchor::Left, PUBLISHED, &level.value.to_string());
        }
        let below = bottom + LINE * (lines as f64 + 1.5);
        svg.text(f64::midpoint(LEFT, RIGHT), below, Anchor::Middle, PUBLISHED, &self.x_title);
        svg.finish(below + 14.0)
    }

    /// A line for each name; gives where the room below begins.
    fn legend(&self, svg: &mut Svg, top: f64) -> f64 {
        let mut y = top;
        for (index, series) in self.series.iter().enumerate() {
            svg.bar([LEFT, y - 6.0], [LEFT + 12.0, y + 6.0], colour(index), 0.85);
            svg.text(LEFT + 20.0, y + 4.0, Anchor::Right, PUBLISHED, &series.name);
            y += LINE + 2.0;
        }
        for level in &self.levels {
            svg.line([LEFT, y], [LEFT + 12.0, y], PUBLISHED, true);
            svg.text(LEFT + 20.0, y + 4.0, Anchor::Right, PUBLISHED, &level.name);
            y += LINE + 2.0;
        }
        y + 4.0
    }
}
