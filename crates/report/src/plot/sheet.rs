//! Sheets on which pictures are laid out in columns and lines of text: an SVG, or the cells of a terminal.

use zipwire_traces::escaped;

pub(super) use crate::plots::svg::Anchor;
use crate::plots::svg::{LINE, PUBLISHED, QUIET, Svg, colour};

/// Columns of an SVG.
const SVG_COLUMNS: usize = 110;
/// Pixels of a column of an SVG, and beside the outermost ones.
const COLUMN: f64 = 7.15;
const BESIDE: f64 = 12.0;

/// Column and line, from the upper left corner; both may be fractions.
pub(super) type Point = [f64; 2];

/// Ink of letters and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Quiet,
    Series(usize),
}

/// Fill of a bar: a colour, and the letter of which a terminal makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    pub(super) series: usize,
    pub(super) letter: char,
    pub(super) is_pale: bool,
}

impl Paint {
    /// The paint of a series of bars.
    pub(super) fn of(series: usize) -> Self {
        const LETTERS: [char; 10] = ['█', '░', '▒', '▓', '▚', '#', '=', '+', 'x', ':'];
        Self { series, letter: LETTERS[series % LETTERS.len()], is_pale: series % LETTERS.len() >= 5 }
    }
}

/// Area of a chart: columns from left to right, lines from top to bottom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// A sheet.
pub(super) trait Sheet {
    fn columns(&self) -> usize;
    /// Parts of a column that bars can tell apart.
    fn cells_per_column(&self) -> usize;
    /// A text in a line, seen from a column.
    fn text(&mut self, at: Point, anchor: Anchor, ink: Ink, text: &str);
    /// A text beside a point, or around it.
    fn label(&mut self, at: Point, anchor: Anchor, ink: Ink, text: &str);
    /// Axes left of and below an area, with ticks in these columns and lines. Returns the line below.
    fn frame(&mut self, area: Area, columns: &[f64], lines: &[f64]) -> f64;
    fn line(&mut self, from: Point, to: Point, ink: Ink, is_dashed: bool);
    /// Bars in a line, each between two columns.
    fn bars(&mut self, line: f64, bars: &[[f64; 2]], paint: Paint);
    /// A number of a series.
    fn mark(&mut self, at: Point, series: usize);
    /// A place that has a name: a knee, or a break-even.
    fn sign(&mut self, at: Point, is_knee: bool);
}

/// A sheet that becomes an SVG.
#[derive(Debug)]
pub(super) struct SvgSheet {
    svg: Svg,
    top: f64,
}

impl SvgSheet {
    pub(super) fn new(title: &str) -> Self {
        let (svg, top) = Svg::new(2.0 * BESIDE + COLUMN * SVG_COLUMNS as f64, title);
        Self { svg, top }
    }

    pub(super) fn finish(self, lines: f64) -> String {
        let height = self.top + LINE * (lines + 0.5);
        self.svg.finish(height)
    }

    fn at(&self, [column, line]: Point) -> Point {
        [BESIDE + COLUMN * column, self.top + LINE * line]
    }
}

fn ink_colour(ink: Ink) -> &'static str {
    match ink {
        Ink::Plain => PUBLISHED,
        Ink::Quiet => QUIET,
        Ink::Series(series) => colour(series),
    }
}

impl Sheet for SvgSheet {
    fn columns(&self) -> usize {
        SVG_COLUMNS
    }

    fn cells_per_column(&self) -> usize {
        4
    }

    fn text(&mut self, [column, line]: Point, anchor: Anchor, ink: Ink, text: &str) {
        let [x, y] = self.at([column, line + 0.75]);
        self.svg.text(x, y, anchor, ink_colour(ink), text);
    }

    fn label(&mut self, [column, line]: Point, anchor: Anchor, ink: Ink, text: &str) {
        self.text([column, line - 0.5], anchor, ink, text);
    }

    fn frame(&mut self, area: Area, columns: &[f64], lines: &[f64]) -> f64 {
        let [left, top] = self.at([area.left, area.top]);
        let [right, bottom] = self.at([area.right, area.bottom]);
        for column in columns {
            let [x, _] = self.at([*column, 0.0]);
            self.svg.grid([x, top], [x, bottom]);
        }
        for line in lines {
            let [_, y] = self.at([0.0, *line]);
            self.svg.grid([left, y], [right, y]);
        }
        self.svg.line([left, top], [left, bottom], QUIET, false);
        self.svg.line([left, bottom], [right, bottom], QUIET, false);
        area.bottom + 0.25
    }

    fn line(&mut self, from: Point, to: Point, ink: Ink, is_dashed: bool) {
        let (from, to) = (self.at(from), self.at(to));
        self.svg.line(from, to, ink_colour(ink), is_dashed);
    }

    fn bars(&mut self, line: f64, bars: &[[f64; 2]], paint: Paint) {
        let [_, y] = self.at([0.0, line + 0.5]);
        let bars: Vec<[f64; 2]> =
            bars.iter().map(|bar| bar.map(|column| self.at([column, 0.0])[0])).collect();
        self.svg.strokes(y, 0.76 * LINE, &bars, colour(paint.series), if paint.is_pale { 0.4 } else { 0.85 });
    }

    fn mark(&mut self, at: Point, series: usize) {
        let [x, y] = self.at(at);
        self.svg.mark(x, y, series);
    }

    fn sign(&mut self, at: Point, is_knee: bool) {
        let [x, y] = self.at(at);
        self.svg.sign(x, y, is_knee);
    }
}

/// A sheet of cells: a letter each, or eight dots of Braille.
#[derive(Debug)]
pub(super) struct Canvas {
    columns: usize,
    lines: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    dots: u8,
    letter: Option<char>,
    ink: Ink,
}

const EMPTY: Cell = Cell { dots: 0, letter: None, ink: Ink::Plain };
/// Lines of a sheet at the most.
const MOST_LINES: f64 = 1e4;
/// Dots of a Braille cell, column by column, in its number.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// Colours of series among the 256 of a terminal, legible on light and dark: first those of an SVG, then others.
const TERMINAL_COLOURS: [u8; 10] = [32, 166, 35, 133, 136, 67, 173, 72, 139, 143];
const TERMINAL_QUIET: u8 = 244;
/// Letters of marks.
const MARKS: [char; 4] = ['●', '■', '▲', '+'];

impl Canvas {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, lines: Vec::new() }
    }

    /// The cell at a place; nothing beside the sheet.
    fn cell(&mut self, [column, line]: Point) -> Option<&mut Cell> {
        if column < 0.0 || line < 0.0 || column >= self.columns as f64 || line >= MOST_LINES {
            return None;
        }
        let line = line as usize;
        while self.lines.len() <= line {
            self.lines.push(vec![EMPTY; self.columns]);
        }
        self.lines[line].get_mut(column as usize)
    }

    fn put(&mut self, at: Point, letter: char, ink: Ink) {
        if let Some(cell) = self.cell(at) {
            *cell = Cell { letter: Some(letter), ink, ..*cell };
        }
    }

    /// The lines as text, with the sequences that colour them if that is asked for.
    pub(super) fn finish(&self, is_coloured: bool) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let last = line.iter().rposition(|cell| cell.dots > 0 || cell.letter.is_some_and(|l| l != ' '));
            let mut ink = Ink::Plain;
            for cell in &line[..last.map_or(0, |last| last + 1)] {
                if is_coloured && cell.ink != ink {
                    text.push_str(&sequence(cell.ink));
                    ink = cell.ink;
                }
                let braille = char::from_u32(0x2800 + u32::from(cell.dots)).filter(|_| cell.dots > 0);
                text.push(cell.letter.or(braille).unwrap_or(' '));
            }
            text.push_str(if ink == Ink::Plain { "\n" } else { "\u{1b}[0m\n" });
        }
        text
    }
}

/// Sequence after which a terminal writes in an ink.
fn sequence(ink: Ink) -> String {
    let colour = match ink {
        Ink::Plain => return "\u{1b}[0m".to_owned(),
        Ink::Quiet => TERMINAL_QUIET,
        Ink::Series(series) => TERMINAL_COLOURS[series % TERMINAL_COLOURS.len()],
    };
    format!("\u{1b}[38;5;{colour}m")
}

impl Sheet for Canvas {
    fn columns(&self) -> usize {
        self.columns
    }

    fn cells_per_column(&self) -> usize {
        1
    }

    fn text(&mut self, [column, line]: Point, anchor: Anchor, ink: Ink, text: &str) {
        let text = escaped(text);
        let count = text.chars().count() as f64;
        let first = match anchor {
            Anchor::Right => column,
            Anchor::Middle => column - (count / 2.0).floor(),
            Anchor::Left => column - count,
        };
        // Sums of columns that are not exact stay in one cell.
        let first = (first + 1e-6).floor();
        for (index, letter) in text.chars().enumerate() {
            self.put([first + index as f64, line], letter, ink);
        }
    }

    fn label(&mut self, at: Point, anchor: Anchor, ink: Ink, text: &str) {
        self.text(at, anchor, ink, text);
    }

    fn frame(&mut self, area: Area, columns: &[f64], lines: &[f64]) -> f64 {
        let (left, bottom) = (area.left - 1.0, area.bottom);
        for line in area.top as usize..bottom as usize {
            self.put([left, line as f64], '│', Ink::Quiet);
        }
        for column in area.left as usize..area.right as usize {
            self.put([column as f64, bottom], '─', Ink::Quiet);
        }
        self.put([left, bottom], '└', Ink::Quiet);
        lines.iter().for_each(|line| self.put([left, *line], '┤', Ink::Quiet));
        columns.iter().for_each(|column| self.put([*column, bottom], '┬', Ink::Quiet));
        bottom + 1.0
    }

    fn line(&mut self, [x1, y1]: Point, [x2, y2]: Point, ink: Ink, is_dashed: bool) {
        let steps = (2.0 * (x2 - x1).abs()).max(4.0 * (y2 - y1).abs()).ceil().max(1.0);
        for step in 0..=steps as usize {
            let part = step as f64 / steps;
            let at = [x1 + part * (x2 - x1), y1 + part * (y2 - y1)];
            if is_dashed && step / 2 % 2 == 1 {
                continue;
            }
            if let Some(cell) = self.cell(at) {
                let [column, line] = [2.0 * at[0], 4.0 * at[1]].map(|place| place as usize);
                cell.dots |= DOTS[column % 2][line % 4];
                cell.ink = if cell.letter.is_some() { cell.ink } else { ink };
            }
        }
    }

    fn bars(&mut self, line: f64, bars: &[[f64; 2]], paint: Paint) {
        for bar in bars {
            let [from, to] = bar.map(|column| column.round() as usize);
            for column in from.min(to)..from.max(to) {
                self.put([column as f64, line], paint.letter, Ink::Series(paint.series));
            }
        }
    }

    fn mark(&mut self, at: Point, series: usize) {
        self.put(at, MARKS[series % MARKS.len()], Ink::Series(series));
    }

    fn sign(&mut self, at: Point, is_knee: bool) {
        self.put(at, if is_knee { '◆' } else { '×' }, Ink::Plain);
    }
}

/// Key of the marks or the paints of series, in as many lines as it takes. Returns the line below.
pub(super) fn key<'a>(
    sheet: &mut dyn Sheet,
    top: f64,
    names: impl Iterator<Item = (&'a str, Option<Paint>)>,
) -> f64 {
    let (mut column, mut line) = (0.0, top);
    for (series, (name, paint)) in names.enumerate() {
        let width = name.chars().count() as f64 + 5.0;
        if column > 0.0 && column + width > sheet.columns() as f64 {
            (column, line) = (0.0, line + 1.0);
        }
        match paint {
            Some(paint) => sheet.bars(line, &[[column, column + 2.0]], paint),
            None => sheet.mark([column + 0.5, line + 0.5], series),
        }
        sheet.text([column + 3.0, line], Anchor::Right, Ink::Plain, name);
        column += width + 1.0;
    }
    line + 1.0
}

/// A name of at most `most` letters: of longer ones the middle is left out, since both ends tell names apart.
pub fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let tail = most.saturating_sub(2) / 2;
    let head = most.saturating_sub(2 + tail);
    let parts = [&letters[..head], &['.', '.'], &letters[letters.len() - tail..]];
    parts.concat().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_dots_and_letters_stay_above_them() {
        let mut canvas = Canvas::new(4);
        canvas.text([1.0, 0.0], Anchor::Right, Ink::Quiet, "a\u{1b}");
        canvas.line([0.0, 0.0], [3.9, 0.0], Ink::Series(0), false);
        // What is beside the sheet is left out.
        canvas.mark([9.0, 0.0], 0);
        canvas.line([0.0, 1.0], [0.0, 1.9], Ink::Series(1), false);
        assert_eq!(canvas.finish(false), "⠉a\\u\n⡇\n");
        let coloured = canvas.finish(true);
        assert!(coloured.starts_with("\u{1b}[38;5;32m⠉\u{1b}[38;5;244ma"), "{coloured:?}");
        assert!(coloured.ends_with("\u{1b}[38;5;166m⡇\u{1b}[0m\n"), "{coloured:?}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("abcdefghij", 8), "abc..hij");
        assert_eq!(shortened("abc", 8), "abc");
        assert_eq!(shortened("abcdef", 2), "..");
        let forty = "model.layers.10.self_attn.q_proj.weight.";
        assert_eq!((forty.len(), shortened(forty, 40).as_str()), (40, forty));
        assert_eq!(shortened(&format!("{forty}absmax"), 40), "model.layers.10.sel.._proj.weight.absmax");
        assert_eq!(shortened(&"\u{e9}".repeat(500), 40).chars().count(), 40, "characters, not bytes");
    }
}
