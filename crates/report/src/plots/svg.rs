//! The text of an SVG file, shape by shape, in pixels from the upper left corner.

use std::fmt::Write as _;

use crate::html::escape_text;

/// Colours of series that most people tell apart, black among them kept for what is published.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#aa5599", "#8a6d00"];
/// Colour of published numbers and of titles.
pub(crate) const PUBLISHED: &str = "#000000";
/// Words beside the numbers.
pub(crate) const QUIET: &str = "#505050";
const GRID: &str = "#e0e0e0";
/// Pixels of letters, and the mean width of one as a part of that.
const LETTERS: f64 = 13.0;
const TITLE: f64 = 15.0;
const LETTER_WIDTH: f64 = 0.55;
const BOLD_WIDTH: f64 = 0.63;
/// From line to line of one text.
pub(crate) const LINE: f64 = 17.0;

pub(crate) fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// Where a text is, seen from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Right,
    Middle,
    Left,
}

/// A picture that grows.
#[derive(Debug)]
pub(crate) struct Svg {
    body: String,
    width: f64,
}

impl Svg {
    /// A picture with a title in as many lines as it takes, and where the room below the title begins.
    pub(crate) fn new(width: f64, title: &str) -> (Self, f64) {
        let mut svg = Self { body: String::new(), width };
        let mut y = 8.0;
        for line in wrapped(title, (width - 24.0) * (LETTERS * LETTER_WIDTH) / (TITLE * BOLD_WIDTH)) {
            y += TITLE + 4.0;
            let _ = writeln!(
                svg.body,
                "<text x=\"12\" y=\"{y:.1}\" font-size=\"{TITLE}\" font-weight=\"bold\">{}</text>",
                escape_text(&line)
            );
        }
        (svg, y + 16.0)
    }

    pub(crate) fn finish(self, height: f64) -> String {
        let width = self.width;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
             font-size=\"{LETTERS}\">\n<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>\n{}</svg>\n",
            self.body
        )
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Right => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::Left => " text-anchor=\"end\"",
        };
        let text = escape_text(text);
        let _ =
            writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor} fill=\"{colour}\">{text}</text>");
    }

    /// A text that is read from below, around its middle.
    pub(crate) fn upright(&mut self, x: f64, y: f64, text: &str) {
        let text = escape_text(text);
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        );
    }

    pub(crate) fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], colour: &str, is_dashed: bool) {
        let dash = if is_dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{colour}\" stroke-width=\"1.5\"{dash}/>"
        );
    }

    pub(crate) fn grid(&mut self, from: [f64; 2], to: [f64; 2]) {
        let ([x1, y1], [x2, y2]) = (from, to);
        let _ = writeln!(self.body, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{GRID}\"/>");
    }

    /// A box between two corners, in any order.
    pub(crate) fn bar(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], colour: &str, opacity: f64) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>",
            x1.min(x2),
            y1.min(y2),
            (x2 - x1).abs(),
            (y2 - y1).abs()
        );
    }

    /// Boxes of one height, around a line, from left to right each.
    pub(crate) fn strokes(&mut self, y: f64, height: f64, boxes: &[[f64; 2]], colour: &str, opacity: f64) {
        if boxes.is_empty() {
            return;
        }
        let shape: String = boxes.iter().map(|[from, to]| format!("M{from:.1} {y:.1}H{to:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<path d=\"{shape}\" stroke=\"{colour}\" stroke-width=\"{height:.1}\" stroke-opacity=\"{opacity}\"/>"
        );
    }

    /// A number of a series: each series has a shape of its own.
    pub(crate) fn mark(&mut self, x: f64, y: f64, series: usize) {
        let fill = colour(series);
        let shape = match series % 4 {
            0 => return self.dot(x, y, fill),
            1 => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
            2 => format!("M{x:.1} {:.1}l5 9h-10z", y - 5.0),
            _ => format!("M{x:.1} {:.1}v10M{:.1} {y:.1}h10", y - 5.0, x - 5.0),
        };
        let _ =
            writeln!(self.body, "<path d=\"{shape}\" fill=\"{fill}\" stroke=\"{fill}\" stroke-width=\"2\"/>");
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, fill: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"white\"/>"
        );
    }

    /// A published number.
    pub(crate) fn diamond(&mut self, x: f64, y: f64) {
        let _ = writeln!(
            self.body,
            "<path d=\"M{x:.1} {:.1}l8 8l-8 8l-8 -8z\" fill=\"{PUBLISHED}\" stroke=\"white\"/>",
            y - 8.0
        );
    }

    /// A place of a curve that has a name: the outline of a diamond for a knee, else a cross.
    pub(crate) fn sign(&mut self, x: f64, y: f64, is_knee: bool) {
        let shape = if is_knee {
            format!("M{x:.1} {:.1}l8 8l-8 8l-8 -8z", y - 8.0)
        } else {
            format!("M{:.1} {:.1}l10 10M{:.1} {:.1}l-10 10", x - 5.0, y - 5.0, x + 5.0, y - 5.0)
        };
        let _ = writeln!(
            self.body,
            "<path d=\"{shape}\" fill=\"none\" stroke=\"{PUBLISHED}\" stroke-width=\"2\"/>"
        );
    }

    /// Range of a number over several seeds: a line from end to end, with a stroke across each.
    pub(crate) fn whisker(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], colour: &str) {
        let across = if (x2 - x1).abs() > (y2 - y1).abs() { "v8" } else { "h8" };
        let start = |x: f64, y: f64| if across == "v8" { (x, y - 4.0) } else { (x - 4.0, y) };
        let ((ax, ay), (bx, by)) = (start(x1, y1), start(x2, y2));
        let _ = writeln!(
            self.body,
            "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}M{ax:.1} {ay:.1}{across}M{bx:.1} {by:.1}{across}\" stroke=\"{colour}\" \
             stroke-width=\"1.5\"/>"
        );
    }

    /// Lines through points, in their order.
    pub(crate) fn path(&mut self, points: &[[f64; 2]], colour: &str) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(
            self.body,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }

    /// An area with corners.
    pub(crate) fn area(&mut self, corners: &[[f64; 2]], colour: &str, opacity: f64) {
        let corners: Vec<String> = corners.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let corners = corners.join(" ");
        let _ = writeln!(
            self.body,
            "<polygon points=\"{corners}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>"
        );
    }

    /// Many small points, as one shape.
    pub(crate) fn points(&mut self, points: &[[f64; 2]], colour: &str) {
        let mut shape = String::new();
        for [x, y] in points {
            let _ = write!(shape, "M{x:.1} {y:.1}h0");
        }
        let _ = writeln!(
            self.body,
            "<path d=\"{shape}\" stroke=\"{colour}\" stroke-width=\"5\" stroke-linecap=\"round\" stroke-opacity=\"0.6\"/>"
        );
    }
}

/// A text in lines that take at most `width` pixels, broken between words.
pub(crate) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = (width / (LETTERS * LETTER_WIDTH)).max(1.0) as usize;
    joined(text.split_whitespace(), most)
}

/// Parts of a text, with blanks between them, in lines of at most `most` letters, if none is longer.
pub(crate) fn joined<'a>(parts: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + part.chars().count() <= most => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// Marks of an axis at most.
const MARKS: f64 = 6.0;
/// Room beside the outermost values, as a part of what they span; and what a span is at least, as a part of a value.
const MARGIN: f64 = 0.08;
const NARROW: f64 = 0.02;

/// A linear scale from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    least: f64,
    most: f64,
    /// Pixels of both ends.
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis that holds all finite `values`, of which there is at least one, with room at both ends.
    pub(crate) fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let ends = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
        let finite = values.filter(|value| value.is_finite());
        let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        let largest = most.abs().max(least.abs());
        // Zeros alone have an axis, too.
        let room = MARGIN * (most - least).max(if largest > 0.0 { NARROW * largest } else { 1.0 });
        Self { least: least - room, most: most + room, from, to }
    }

    pub(crate) fn between(least: f64, most: f64, from: f64, to: f64) -> Self {
        Self { least, most, from, to }
    }

    /// Values at both ends.
    pub(crate) fn ends(self) -> [f64; 2] {
        [self.least, self.most]
    }

    /// Pixels; what is beyond an end is at it.
    pub(crate) fn at(self, value: f64) -> f64 {
        let part = (value.clamp(self.least, self.most) - self.least) / (self.most - self.least);
        // Numbers that nothing has span more than a number can hold.
        self.from + (self.to - self.from) * if part.is_finite() { part } else { 0.5 }
    }

    /// Round numbers on the axis, as texts that tell them apart; none where nothing finite lies between its ends.
    pub(crate) fn marks(self) -> Vec<(f64, String)> {
        let span = self.most - self.least;
        // Steps of less would be none.
        if !(1e-300..=f64::MAX).contains(&span) {
            return Vec::new();
        }
        let (step, decimals) = step(span / MARKS);
        let first = (self.least / step).ceil() as i64;
        let values = (first..).map(|index| index as f64 * step).take_while(|value| *value <= self.most);
        values.map(|value| (value, format!("{value:.decimals$}"))).collect()
    }
}

/// The next 1, 2 or 5 times a power of ten that is at least `raw`, and its decimals.
fn step(raw: f64) -> (f64, usize) {
    let (mut power, mut decimals) = (1.0, 0);
    while power > raw {
        (power, decimals) = (power / 10.0, decimals + 1);
    }
    while 10.0 * power <= raw {
        power *= 10.0;
    }
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw).unwrap_or(10.0);
    (factor * power, if factor == 10.0 && decimals > 0 { decimals - 1 } else { decimals })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_broken_between_words() {
        assert_eq!(escape_text("a < b & c"), "a &lt; b &amp; c");
        assert_eq!(wrapped("one two three", 60.0), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 10.0), ["unbreakable"]);
        assert!(wrapped("", 10.0).is_empty());
    }

    #[test]
    fn steps_are_round_and_have_their_decimals() {
        let near = |(step, decimals): (f64, usize), expected: (f64, usize)| {
            assert!(
                (step - expected.0).abs() < 1e-12 * expected.0 && decimals == expected.1,
                "{step} {decimals}"
            );
        };
        near(step(0.03), (0.05, 2));
        near(step(0.06), (0.1, 1));
        near(step(0.7), (1.0, 0));
        near(step(14.0), (20.0, 0));
        near(step(100.0), (100.0, 0));
    }

    #[test]
    fn an_axis_without_a_finite_span_has_no_marks() {
        for values in [vec![1.7e308, 1e-3], vec![1.7e308, -1.7e308], vec![]] {
            let axis = Scale::of(values.into_iter(), 0.0, 100.0);
            assert!(axis.marks().is_empty(), "{axis:?}");
        }
    }

    #[test]
    fn zeros_alone_are_in_the_middle() {
        let axis = Scale::of([0.0, 0.0].into_iter(), 0.0, 100.0);
        assert_eq!(axis.at(0.0), 50.0);
        assert!(axis.marks().contains(&(0.0, "0.00".to_owned())), "{:?}", axis.marks());
    }

    #[test]
    fn an_axis_holds_its_values_and_ends_hold_all_others() {
        let axis = Scale::of([1.0, 2.0, f64::INFINITY].into_iter(), 100.0, 216.0);
        assert_eq!([1.0, 2.0].map(|value| axis.at(value).round()), [108.0, 208.0]);
        assert_eq!([f64::NEG_INFINITY, f64::INFINITY].map(|value| axis.at(value)), [100.0, 216.0]);
        let texts: Vec<String> = axis.marks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]);
    }
}
