//! Pieces of HTML: text that is escaped, tables that can be sorted, strips that stretch.

use std::fmt::Write as _;

use zipwire_traces::escaped;

/// Text as HTML that shows it: also as the value of an attribute.
pub(crate) fn escape(text: &str) -> String {
    escape_text(text).replace('"', "&quot;").replace('\'', "&#39;")
}

/// Text between tags. Control characters, which come from files, become replacement characters, and those that turn the direction of
/// what follows are named, as on a terminal; line ends of Windows are line ends.
pub(crate) fn escape_text(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.replace("\r\n", "\n").chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '\n' | '\t' => html.push(letter),
            letter if letter.is_control() => html.push('\u{fffd}'),
            letter => html.push_str(&escaped(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    html
}

/// A sentence in which names stand between backticks.
pub(crate) fn prose(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escape(part);
        let _ = if index % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

/// A paragraph of such sentences.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", prose(text))
}

/// A list of such sentences; nothing without any.
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", prose(item.as_ref()))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Text as it is, in a box that opens.
pub(crate) fn verbatim(title: &str, text: &str) -> String {
    format!("<details open><summary>{}</summary><pre>{}</pre></details>\n", prose(title), escape(text))
}

/// Characters of a cell's text above which it goes on in further lines.
const LONG: usize = 56;

/// Place of a cell among the others of its column: numbers by their value, then texts, then cells with nothing in them, whichever way it is sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Text,
    Number(f64),
    /// Nothing where others have a number.
    NoNumber,
    Nothing,
}

impl Sort {
    fn is_number(self) -> bool {
        matches!(self, Self::Number(_) | Self::NoNumber)
    }

    /// Attribute that the script sorts by.
    fn attribute(self) -> String {
        match self {
            Self::Text => String::new(),
            Self::Number(number) => format!(" data-v=\"{number}\""),
            Self::NoNumber | Self::Nothing => " data-v=\"\"".to_owned(),
        }
    }
}

/// Cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    html: String,
    sort: Sort,
    /// Part of its room that a bar below the number fills, from and to.
    bar: Option<[f64; 2]>,
    is_good: Option<bool>,
    is_long: bool,
}

impl Cell {
    fn of(html: String) -> Self {
        Self { html, sort: Sort::Text, bar: None, is_good: None, is_long: false }
    }

    /// A sentence, or a word; a dash is nothing.
    pub(crate) fn text(text: &str) -> Self {
        let sort = if text == "-" { Sort::Nothing } else { Sort::Text };
        Self { is_long: text.chars().count() > LONG, sort, ..Self::of(prose(text)) }
    }

    /// Name, as code.
    pub(crate) fn name(name: &str) -> Self {
        Self { is_long: name.chars().count() > LONG, ..Self::of(format!("<code>{}</code>", escape(name))) }
    }

    /// A number as text, or a dash for none.
    pub(crate) fn number(value: Option<f64>, text: impl FnOnce(f64) -> String) -> Self {
        let value = value.filter(|value| value.is_finite());
        let html = value.map_or_else(|| "-".to_owned(), |value| escape(&text(value)));
        Self { sort: value.map_or(Sort::NoNumber, Sort::Number), ..Self::of(html) }
    }

    /// The same cell with a bar between two parts of its width.
    pub(crate) fn with_bar(self, bar: Option<[f64; 2]>) -> Self {
        Self { bar, ..self }
    }

    /// The same cell, coloured as a gain or a loss.
    pub(crate) fn coloured(self, is_good: Option<bool>) -> Self {
        Self { is_good, ..self }
    }

    fn html(&self) -> String {
        let mut classes = Vec::new();
        classes.extend(self.sort.is_number().then_some("n"));
        classes.extend(self.is_long.then_some("w"));
        classes.extend(self.is_good.map(|is_good| if is_good { "good" } else { "bad" }));
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
        let sort = self.sort.attribute();
        let bar = self.bar.map_or(String::new(), bar);
        format!("<td{class}{sort}>{}{bar}</td>", self.html)
    }
}

/// Scale of the bars of a column: values to parts of the width, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarScale {
    base: f64,
    least: f64,
    most: f64,
}

impl BarScale {
    /// A scale that holds all finite values and `base`, at which bars begin.
    pub(crate) fn of(base: f64, values: impl Iterator<Item = f64>) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let [least, most] =
            finite.fold([base; 2], |[least, most], value| [least.min(value), most.max(value)]);
        Self { base, least, most }
    }

    pub(crate) fn at(self, value: f64) -> f64 {
        let largest = self.most.abs().max(self.least.abs());
        (value - self.least) / (self.most - self.least).max(1e-9 * largest).max(f64::MIN_POSITIVE)
    }

    /// Ends of a bar that begins at the base.
    pub(crate) fn bar_to(self, value: f64) -> [f64; 2] {
        [self.at(self.base), self.at(value)]
    }
}

/// A bar between two parts of a width, from 0 to 1.
fn bar([from, to]: [f64; 2]) -> String {
    let (from, to) = (100.0 * from.min(to).clamp(0.0, 1.0), 100.0 * from.max(to).clamp(0.0, 1.0));
    let width = (to - from).max(0.7);
    let rectangle = format!("<rect x=\"{from:.1}\" width=\"{width:.1}\" height=\"6\"/>");
    strip("bar", 100.0, 6.0, &rectangle)
}

/// A table that a reader can sort.
pub(crate) fn table(header: &[&str], rows: &[Vec<Cell>]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table class=\"sort\">\n<thead><tr>");
    for (column, title) in header.iter().enumerate() {
        let is_number = rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.sort.is_number()));
        let class = if is_number { " class=\"n\"" } else { "" };
        let _ = write!(html, "<th{class} scope=\"col\">{}</th>", escape(title));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let cells: String = row.iter().map(Cell::html).collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// A picture without letters that is as wide as its room and `height` pixels high; shapes count from 0 to `width`.
pub(crate) fn strip(class: &str, width: f64, height: f64, shapes: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" height=\"{height}\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{shapes}</svg>"
    )
}

/// Meaning of colours: class and words of each.
pub(crate) fn legend(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter().map(|(class, words)| {
        let swatch = "<rect width=\"12\" height=\"12\"/>";
        format!(
            "<span><svg class=\"key {class}\" viewBox=\"0 0 12 12\">{swatch}</svg>{}</span>",
            escape(words)
        )
    });
    format!("<p class=\"legend\">{}</p>\n", entries.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_and_not_obeyed() {
        assert_eq!(escape("<b a='1'>&\"\u{1b}"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;\u{fffd}");
        assert_eq!(prose("`<x>` gains & `y`"), "<code>&lt;x&gt;</code> gains &amp; <code>y</code>");
        assert_eq!(escape("a\r\nb\rc\td"), "a\nb\u{fffd}c\td");
        assert_eq!(escape("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        assert_eq!(escape_text("a's \"b\" < c"), "a's \"b\" &lt; c");
    }

    #[test]
    fn numbers_are_sorted_by_value_and_dashes_last() {
        let cell = Cell::number(Some(1.5), |value| format!("{value} s"));
        assert_eq!(cell.html(), "<td class=\"n\" data-v=\"1.5\">1.5 s</td>");
        let nothing = "<td class=\"n\" data-v=\"\">-</td>";
        assert_eq!(Cell::number(None, |_| unreachable!()).html(), nothing);
        assert_eq!(Cell::number(Some(f64::NAN), |_| unreachable!()).html(), nothing);
        assert_eq!(
            [Cell::text("-"), Cell::text("2 x")].map(|cell| cell.html()),
            ["<td data-v=\"\">-</td>", "<td>2 x</td>"]
        );
        // All that the script sorts by.
        let script = include_str!("page.js");
        assert!(script.contains("dataset.v") && !script.contains("classList"));
    }

    #[test]
    fn bars_hold_all_values_and_begin_at_the_base() {
        let scale = BarScale::of(1.0, [0.5, 1.5, f64::NAN].into_iter());
        assert_eq!((scale.bar_to(1.5), scale.at(0.5)), ([0.5, 1.0], 0.0));
        assert_eq!(BarScale::of(0.0, std::iter::empty()).bar_to(0.0), [0.0, 0.0]);
    }
}
