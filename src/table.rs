//! Tables and quantities for people.

use std::fmt::Display;
use std::iter::once;
use std::sync::OnceLock;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, presets};
use terminal_size::{Height, Width, terminal_size_of};
pub(crate) use zipwire::report::{bytes, seconds};

use crate::style;

/// Characters of a line where there is no terminal.
const LINE_WIDTH: usize = 100;

/// Least characters for words that go on in further lines.
const WORDS_WIDTH: usize = 20;

/// Characters that are left of a name at the least, where tables are made to fit.
const LEAST_NAME: usize = 16;

/// Blanks between columns.
const GAP: usize = 2;

/// Whether tables are printed as wide as they are: `--wide`.
static WIDE: OnceLock<bool> = OnceLock::new();

/// Prints tables as wide as they are, or makes them fit the terminal. To be called once, before any table is printed.
pub(crate) fn set_wide(wide: bool) {
    let _ = WIDE.set(wide);
}

/// Characters of a line of the terminal; none where stdout is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    columns(terminal_size_of(std::io::stdout()))
}

fn columns(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(Width(width), _)| usize::from(width))
}

/// Text for stdout whose lines fit its terminal: broken between words, but with `--wide`.
pub(crate) fn fitted(text: &str) -> String {
    broken(text, terminal_width())
}

/// The same for stderr.
pub(crate) fn fitted_to_stderr(text: &str) -> String {
    broken(text, columns(terminal_size_of(std::io::stderr())))
}

fn broken(text: &str, width: Option<usize>) -> String {
    width.filter(|_| !is_wide()).map_or_else(|| text.to_owned(), |width| style::wrapped(text, width))
}

fn is_wide() -> bool {
    WIDE.get().copied().unwrap_or(false)
}

/// A table of text.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    /// Columns of text, which are to the left; others, numbers, are to the right.
    text: Vec<usize>,
    rows: Vec<Vec<String>>,
    /// The row that is best, which has a colour.
    best: Option<usize>,
    /// Whether the last column is words, which may go on in further lines.
    ends_in_words: bool,
}

/// A table with these columns: those in `text` to the left, the others, numbers, to the right.
pub(crate) fn new(header: &[&str], text: &[usize]) -> Table {
    let header = header.iter().map(ToString::to_string).collect();
    Table { header, text: text.to_vec(), rows: Vec::new(), best: None, ends_in_words: false }
}

/// A table of columns that all have a cell for each row; columns in `text` to the left.
pub(crate) fn of_columns(columns: &[(&str, Vec<String>)], text: &[usize]) -> Table {
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut table = new(&header, text);
    for row in 0..columns.first().map_or(0, |(_, cells)| cells.len()) {
        table.add_row(columns.iter().map(|(_, cells)| &cells[row]));
    }
    table
}

impl Table {
    pub(crate) fn add_row<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.to_string()).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Gives a row a colour.
    pub(crate) fn mark_best(&mut self, row: Option<usize>) {
        self.best = row;
    }

    /// The table with its last column, words, in as many lines as they take.
    pub(crate) fn with_words(mut self) -> Self {
        self.ends_in_words = true;
        self
    }

    /// Text of the table in lines of `width` characters, or as wide as it is.
    fn render(&self, width: Option<usize>) -> String {
        let all = self.all();
        if self.ends_in_words {
            let width = width.unwrap_or(LINE_WIDTH);
            let has_room =
                |&longest: &usize| self.width(&all[..all.len() - 1], longest) + GAP + WORDS_WIDTH <= width;
            let longest = once(usize::MAX).chain((LEAST_NAME..=NAME_LENGTH).rev()).find(has_room);
            return self.block(&all, longest.unwrap_or(LEAST_NAME), Some(width));
        }
        let Some(width) = width.filter(|width| self.width(&all, usize::MAX) > *width) else {
            return self.block(&all, usize::MAX, None);
        };
        let longest = (LEAST_NAME..=NAME_LENGTH).rev().find(|longest| self.width(&all, *longest) <= width);
        match longest {
            Some(longest) => self.block(&all, longest, None),
            None => self.stacked(width),
        }
    }

    fn all(&self) -> Vec<usize> {
        (0..self.header.len()).collect()
    }

    /// Blocks of columns, one below the other, each with the names of the rows.
    fn stacked(&self, width: usize) -> String {
        // Names of rows end with the first columns of text: what a sweep sets is in front of them.
        let is_text = |column: &usize| self.text.contains(column);
        let numbers = (0..self.header.len()).take_while(|column| !is_text(column)).count();
        let texts = (numbers..self.header.len()).take_while(is_text).count();
        let names: Vec<usize> = (0..(numbers + texts).clamp(1, self.header.len() - 1)).collect();
        let mut blocks = vec![names.clone()];
        for column in names.len()..self.header.len() {
            let block = blocks.last_mut().expect("there is one");
            block.push(column);
            if self.width(block, LEAST_NAME) > width && block.len() > names.len() + 1 {
                block.pop();
                blocks.push(names.iter().copied().chain([column]).collect());
            }
        }
        let blocks = blocks.iter().map(|columns| self.block(columns, LEAST_NAME, Some(width)));
        blocks.collect::<Vec<_>>().join("\n\n")
    }

    /// Characters of lines with these columns, where names are no longer than `longest`; words at the end take as few as they can.
    fn width(&self, columns: &[usize], longest: usize) -> usize {
        let width = |&column: &usize| {
            let cells = self.rows.iter().map(|row| self.cell(row, column, longest).chars().count());
            cells.chain([self.header[column].chars().count()]).max().unwrap_or(0) + GAP
        };
        columns.iter().map(width).sum::<usize>().saturating_sub(GAP)
    }

    /// A cell, with the middle of a name left out.
    fn cell(&self, row: &[String], column: usize, longest: usize) -> String {
        let text = row.get(column).map_or("", String::as_str);
        let is_name = self.text.contains(&column) && !text.trim().contains(' ');
        if is_name { cut(text, longest) } else { text.to_owned() }
    }

    /// Lines of some columns; where they are wider than `width`, the last one goes on in further lines.
    fn block(&self, columns: &[usize], longest: usize, width: Option<usize>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| &self.header[*column]));
        for row in &self.rows {
            table.add_row(columns.iter().map(|column| self.cell(row, *column, longest)));
        }
        for (column, index) in table.column_iter_mut().zip(columns) {
            if !self.text.contains(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let (last, others) = columns.split_last().expect("a table has columns");
        if let Some(width) = width.filter(|width| self.width(columns, longest) > *width)
            && self.text.contains(last)
            && width >= self.width(others, longest) + GAP + WORDS_WIDTH
        {
            // A blank on each edge is cut off below.
            table.set_width(u16::try_from(width + GAP).unwrap_or(u16::MAX));
            for column in table.column_iter_mut().take(others.len()) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        let lines =
            table.lines().map(|line| line.trim_end().strip_prefix(' ').unwrap_or_default().to_owned());
        self.painted(lines.collect()).join("\n")
    }

    /// Lines with marks for their styles.
    fn painted(&self, mut lines: Vec<String>) -> Vec<String> {
        if lines.len() == self.rows.len() + 1
            && let Some(best) = self.best
        {
            lines[best + 1] = style::GOOD.around(&lines[best + 1]);
        }
        if let Some(header) = lines.first_mut() {
            *header = style::BOLD.around(header);
        }
        lines
    }
}

/// A value, or `-` for none.
pub(crate) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

pub(crate) fn verified(verified: Option<bool>) -> String {
    or_dash(verified, |all| if all { "yes" } else { "no" }.to_owned())
}

/// The table as text that fits the terminal: where it is too wide, the middle of names is left out, and then columns follow below each other. As wide as it is
/// where stdout is no terminal, and with `--wide`.
pub(crate) fn text(table: &Table) -> String {
    table.render(terminal_width().filter(|_| !is_wide()))
}

/// Most characters of a name in a table.
const NAME_LENGTH: usize = 40;

/// A name that is not too long for a table: of longer ones the middle is left out, `..`, since both ends tell names apart.
pub(crate) fn shortened(name: &str) -> String {
    cut(name, NAME_LENGTH)
}

/// A text of at most `longest` characters, with the middle of a longer one left out.
fn cut(text: &str, longest: usize) -> String {
    const GAP: &str = "..";
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let kept = longest - GAP.len();
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}{GAP}{end}")
}

/// A time, and how far it may be off, in percent, if that is known.
pub(crate) fn seconds_within(mean_s: f64, margin_s: Option<f64>) -> String {
    let margin = margin_s.map(|margin_s| format!(" ± {:.1} %", 100.0 * margin_s / mean_s));
    format!("{}{}", seconds(mean_s), margin.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of the README's table: they take 133 characters.
    fn wide() -> Table {
        let header =
            ["variant", "time", "speedup", "by compression", "by algorithm", "communication", "waiting"];
        let mut table = new(&[&header[..], &["codec", "compute", "raw", "wire", "ratio"]].concat(), &[0]);
        for name in ["native", "static-first-with-a-long-name"] {
            table.add_row(
                [name, "5.731 ms", "1.000", "1.220", "0.877", "5.013 ms", "217 us"].iter().chain(&[
                    "380.720 us",
                    "500.000 us",
                    "511.8 MB",
                    "360.0 MB",
                    "1.421",
                ]),
            );
        }
        table
    }

    fn plain(text: &str) -> Vec<String> {
        style::paint(text, false).lines().map(str::to_owned).collect()
    }

    #[test]
    fn wide_tables_lose_the_middle_of_names_and_then_go_on_below() {
        let table = wide();
        let whole = plain(&table.render(None));
        assert_eq!((whole.len(), plain(&table.render(Some(500)))), (3, whole.clone()));
        let length = whole[0].len();
        let narrower = plain(&table.render(Some(length - 5)));
        assert_eq!((narrower.len(), narrower[0].len()), (3, length - 5));
        assert!(narrower[2].starts_with("static-firs..a-long-name"), "{}", narrower[2]);
        let narrow = plain(&table.render(Some(80)));
        assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:#?}");
        assert_eq!(narrow.len(), 7, "two blocks");
        assert_eq!((&narrow[0][..7], &narrow[4][..7], &*narrow[3]), ("variant", "variant", ""));
        let words = |lines: &[String]| -> Vec<String> {
            let words = lines.iter().flat_map(|line| line.split("  ").map(str::trim));
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let mut missing = words(&whole);
        missing.retain(|word| !words(&narrow).contains(word));
        assert_eq!(missing, ["static-first-with-a-long-name"], "all columns are there");
    }

    #[test]
    fn words_go_on_in_further_lines() {
        let mut table = new(&["file", "remarks"], &[0, 1]);
        table.add_row(["a.toml", &*["word"; 30].join(" ")]);
        let lines = plain(&table.with_words().render(Some(60)));
        assert!(lines.len() >= 4 && lines.iter().all(|line| line.len() <= 60), "{lines:#?}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let forty = "model.layers.10.self_attn.q_proj.weight.";
        assert_eq!((forty.len(), shortened(forty).as_str()), (40, forty));
        assert_eq!(shortened(&format!("{forty}absmax")), "model.layers.10.sel.._proj.weight.absmax");
        assert_eq!(shortened(&"\u{e9}".repeat(500)).chars().count(), 40, "characters, not bytes");
    }
}
