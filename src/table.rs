//! Tables and quantities for people.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use terminal_size::{Width, terminal_size_of};
pub(crate) use zipwire::report::{bytes, seconds};

/// A table with these columns: those in `text` to the left, the others, numbers, to the right.
pub(crate) fn new(header: &[&str], text: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().copied());
    for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| !text.contains(index)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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

/// A value, or `-` for none.
pub(crate) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

pub(crate) fn verified(verified: Option<bool>) -> String {
    or_dash(verified, |all| if all { "yes" } else { "no" }.to_owned())
}

/// The table without the blanks that pad its edges.
pub(crate) fn text(table: &Table) -> String {
    let lines = table.lines().map(|line| line.trim_end().strip_prefix(' ').unwrap_or_default().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Characters of a line where there is no terminal.
const LINE_WIDTH: u16 = 100;

/// Least characters for words that go on in further lines.
const WORDS_WIDTH: usize = 20;

/// The table as wide as the terminal, or [`LINE_WIDTH`], if the words have room there: the last column, words, goes on in further lines.
pub(crate) fn fitted(mut table: Table) -> Table {
    let widths = table.column_max_content_widths();
    let others: usize = widths.iter().rev().skip(1).map(|&width| usize::from(width) + 2).sum();
    let terminal = terminal_size_of(std::io::stdout());
    let width = terminal.map_or(LINE_WIDTH, |(Width(width), _)| width);
    if usize::from(width) >= others + WORDS_WIDTH {
        table.set_width(width);
        for column in table.column_iter_mut().rev().skip(1) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

/// Most characters of a name in a table.
const NAME_LENGTH: usize = 40;

/// A name that is not too long for a table: of longer ones the middle is left out, `..`, since both ends tell names apart.
pub(crate) fn shortened(name: &str) -> String {
    const GAP: &str = "..";
    let length = name.chars().count();
    if length <= NAME_LENGTH {
        return name.to_owned();
    }
    let kept = NAME_LENGTH - GAP.len();
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
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

    #[test]
    fn long_names_lose_their_middle() {
        let forty = "model.layers.10.self_attn.q_proj.weight.";
        assert_eq!((forty.len(), shortened(forty).as_str()), (40, forty));
        assert_eq!(shortened(&format!("{forty}absmax")), "model.layers.10.sel.._proj.weight.absmax");
        assert_eq!(shortened(&"\u{e9}".repeat(500)).chars().count(), 40, "characters, not bytes");
    }
}
