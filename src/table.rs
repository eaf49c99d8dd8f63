//! Tables and quantities for people.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::iter::once;
use std::sync::OnceLock;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, presets};
use terminal_size::{Height, Width, terminal_size_of};
use zipwire::report::shortened;
pub(crate) use zipwire::report::{bytes, seconds};

use crate::style;

/// Least characters for words that go on in further lines.
const WORDS_WIDTH: usize = 20;

/// Characters that are left of a name at the least, and at first, where tables are made to fit; and the most that it ever has.
const LEAST_NAME: usize = 16;
const NAME_LENGTH: usize = 40;
const LONGEST_NAME: usize = 120;

/// Lengths to which names are cut, if they differ then.
const NAME_LENGTHS: [usize; 7] = [LEAST_NAME, 20, 26, 32, NAME_LENGTH, 60, 80];

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
    /// Columns that name a row, if they are not the first ones.
    keys: Option<Vec<usize>>,
    /// The row that is best, which has a colour.
    best: Option<usize>,
    /// Whether the last column is words, which may go on in further lines.
    ends_in_words: bool,
}

/// A table with these columns: those in `text` to the left, the others, numbers, to the right.
pub(crate) fn new(header: &[&str], text: &[usize]) -> Table {
    let header = header.iter().map(ToString::to_string).collect();
    Table { header, text: text.to_vec(), rows: Vec::new(), keys: None, best: None, ends_in_words: false }
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

    /// The table with other columns to name its rows than the first ones.
    pub(crate) fn with_keys(mut self, keys: &[usize]) -> Self {
        self.keys = Some(keys.to_vec());
        self
    }

    /// Text of the table in lines of `width` characters, or as wide as it is.
    fn render(&self, width: Option<usize>) -> String {
        let all: Vec<usize> = (0..self.header.len()).collect();
        let fit = Fit::of(self);
        let Some(width) = width.filter(|width| fit.width(&all, LONGEST_NAME) > *width) else {
            return self.block(&fit, &all, LONGEST_NAME, None);
        };
        // Words at the end need some room only.
        let (of, room) = if self.ends_in_words {
            (&all[..all.len() - 1], width.saturating_sub(GAP + WORDS_WIDTH))
        } else {
            (&all[..], width)
        };
        match fit.longest(of, room) {
            Some(longest) => self.block(&fit, &all, longest, Some(width)),
            None => self.stacked(&fit, width),
        }
    }

    /// Blocks of columns, one below the other, each with the names of the rows.
    fn stacked(&self, fit: &Fit, width: usize) -> String {
        let keys = self.keys_within(fit, width / 2);
        let mut blocks = vec![keys.clone()];
        for column in (0..self.header.len()).filter(|column| !keys.contains(column)) {
            let block = blocks.last_mut().expect("there is one");
            block.push(column);
            if fit.width(block, LEAST_NAME) > width && block.len() > keys.len() + 1 {
                block.pop();
                blocks.push(keys.iter().copied().chain([column]).collect());
            }
        }
        let blocks = blocks.iter().map(|columns| {
            let longest = fit.longest(columns, width).unwrap_or(LEAST_NAME);
            self.block(fit, columns, longest, Some(width))
        });
        blocks.collect::<Vec<_>>().join("\n\n")
    }

    /// Columns that name a row: the first ones of text, and what a sweep sets, which is in front of them; only the first of all where these take more
    /// than `most` characters.
    fn keys_within(&self, fit: &Fit, most: usize) -> Vec<usize> {
        let is_text = |column: &usize| self.text.contains(column);
        let numbers = (0..self.header.len()).take_while(|column| !is_text(column)).count();
        let texts = (numbers..self.header.len()).take_while(is_text).count();
        let keys = self.keys.clone().unwrap_or_else(|| (0..(numbers + texts).max(1)).collect());
        if fit.width(&keys, LEAST_NAME) <= most { keys } else { keys[..1].to_vec() }
    }

    /// Lines of some columns; where they are wider than `width`, the last one goes on in further lines.
    fn block(&self, fit: &Fit, columns: &[usize], longest: usize, width: Option<usize>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| &self.header[*column]));
        for row in &self.rows {
            let cell = |column: &usize| {
                let text = row.get(*column).map_or("", String::as_str);
                fit.cut(*column, longest).map_or_else(|| text.to_owned(), |length| shortened(text, length))
            };
            table.add_row(columns.iter().map(cell));
        }
        for (column, index) in table.column_iter_mut().zip(columns) {
            if !self.text.contains(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let (last, others) = columns.split_last().expect("a table has columns");
        if let Some(width) = width.filter(|width| fit.width(columns, longest) > *width)
            && self.text.contains(last)
            && width >= fit.width(others, longest) + GAP + WORDS_WIDTH
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

    /// Lines with marks for their styles, and that they are not to be broken.
    fn painted(&self, mut lines: Vec<String>) -> Vec<String> {
        if lines.len() == self.rows.len() + 1
            && let Some(best) = self.best
        {
            lines[best + 1] = style::GOOD.around(&lines[best + 1]);
        }
        if let Some(header) = lines.first_mut() {
            *header = style::BOLD.around(header);
        }
        lines.iter().map(|line| format!("{}{line}", style::WHOLE)).collect()
    }
}

/// Widths of the columns of a table.
struct Fit {
    /// Characters of the longest cell or the header.
    whole: Vec<usize>,
    /// Characters that names keep at the least, so that different ones stay different; none of columns of numbers or words.
    least: Vec<Option<usize>>,
}

impl Fit {
    fn of(table: &Table) -> Self {
        let cells = |column: usize| table.rows.iter().filter_map(move |row| row.get(column));
        let whole = table.header.iter().enumerate().map(|(column, header)| {
            let lengths = cells(column).map(|cell| cell.chars().count());
            lengths.chain([header.chars().count()]).max().unwrap_or(0)
        });
        let least = (0..table.header.len()).map(|column| {
            let are_names =
                table.text.contains(&column) && cells(column).all(|cell| !cell.trim().contains(' '));
            are_names.then(|| {
                let names: BTreeSet<&String> = cells(column).collect();
                let are_different = |length: &usize| {
                    let short: BTreeSet<String> = names.iter().map(|name| shortened(name, *length)).collect();
                    short.len() == names.len()
                };
                NAME_LENGTHS.into_iter().find(are_different).unwrap_or(LONGEST_NAME)
            })
        });
        Self { whole: whole.collect(), least: least.collect() }
    }

    /// Characters to which names of a column are cut, if it has names.
    fn cut(&self, column: usize, longest: usize) -> Option<usize> {
        self.least[column].map(|least| least.max(longest))
    }

    /// Characters that names may have for these columns to fit; none if they never do.
    fn longest(&self, columns: &[usize], width: usize) -> Option<usize> {
        let mut lengths = once(LONGEST_NAME).chain((LEAST_NAME..=NAME_LENGTH).rev());
        lengths.find(|longest| self.width(columns, *longest) <= width)
    }

    /// Characters of lines with these columns, where names are no longer than `longest` if they can.
    fn width(&self, columns: &[usize], longest: usize) -> usize {
        let width = |&column: &usize| {
            let whole = self.whole[column];
            self.cut(column, longest).map_or(whole, |length| length.min(whole)) + GAP
        };
        columns.iter().map(width).sum::<usize>().saturating_sub(GAP)
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
    fn names_that_differ_stay_different() {
        let mut table = new(&["tensor", "size"], &[0]);
        let names = (0..3).flat_map(|layer| (0..3).map(move |expert| (layer, expert)));
        for (layer, expert) in names {
            table.add_row([
                format!("model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"),
                "1".to_owned(),
            ]);
        }
        let lines = plain(&table.render(Some(40)));
        let different: BTreeSet<&String> = lines.iter().collect();
        assert_eq!(different.len(), 10, "{lines:#?}");
        assert!(
            plain(&table.render(Some(80)))[1].starts_with("model.layers.0.mlp.experts.0.gate_proj.weight")
        );
    }

    #[test]
    fn rows_have_the_names_that_they_are_given_or_the_first_one() {
        let header =
            ["first text of five", "second text of five", "third text of five", "fourth", "a number"];
        let mut table = new(&header, &[0, 1, 2, 3]);
        table.add_row(["one", "two", "three", "four", "5"]);
        let lines = plain(&table.render(Some(50)));
        assert!(
            lines.iter().all(|line| line.len() <= 50)
                && lines.iter().filter(|line| line.starts_with("one")).count() >= 2,
            "{lines:#?}"
        );
        let lines = plain(&table.with_keys(&[3]).render(Some(50)));
        assert!(lines.iter().filter(|line| line.starts_with("four")).count() >= 2, "{lines:#?}");
        let mut alone = new(&["only one column, which is long"], &[0]);
        alone.add_row(["x"]);
        assert_eq!(plain(&alone.render(Some(10))).len(), 2);
    }
}
