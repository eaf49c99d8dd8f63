//! Pieces of HTML: text that is escaped, tables that can be sorted, strips that stretch.

use std::fmt::Write as _;

/// Text as HTML that shows it: also as the value of an attribute. Control characters become their pictures, since they come from files.
pub(crate) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(letter),
            letter if letter.is_control() => html.push('\u{fffd}'),
            letter => html.push(letter),
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

/// Cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    html: String,
    /// Number that rows are sorted by; text is sorted as it stands.
    sort: Option<f64>,
    /// Part of its room that a bar below the number fills, from and to.
    bar: Option<[f64; 2]>,
    is_good: Option<bool>,
    is_long: bool,
}

impl Cell {
    fn of(html: String) -> Self {
        Self { html, sort: None, bar: None, is_good: None, is_long: false }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self { is_long: text.chars().count() > LONG, ..Self::of(prose(text)) }
    }

    /// Name, as code.
    pub(crate) fn name(name: &str) -> Self {
        Self { is_long: name.chars().count() > LONG, ..Self::of(format!("<code>{}</code>", escape(name))) }
    }

    /// A number as text, or a dash for none.
    pub(crate) fn number(value: Option<f64>, text: impl FnOnce(f64) -> String) -> Self {
        let value = value.filter(|value| value.is_finite());
        let html = value.map_or_else(|| "-".to_owned(), |value| escape(&text(value)));
        Self { sort: Some(value.unwrap_or(f64::NEG_INFINITY)), ..Self::of(html) }
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
        classes.extend(self.sort.map(|_| "n"));
        classes.extend(self.is_long.then_some("w"));
        classes.extend(self.is_good.map(|is_good| if is_good { "good" } else { "bad" }));
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
        let sort = self.sort.filter(|sort| sort.is_finite());
        let sort = sort.map_or(String::new(), |sort| format!(" data-v=\"{sort}\""));
        let bar = self.bar.map_or(String::new(), bar);
        format!("<td{class}{sort}>{}{bar}</td>", self.html)
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
        let is_number = rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.sort.is_some()));
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
    }

    #[test]
    fn numbers_are_sorted_by_value_and_dashes_last() {
        let cell = Cell::number(Some(1.5), |value| format!("{value} s"));
        assert_eq!(cell.html(), "<td class=\"n\" data-v=\"1.5\">1.5 s</td>");
        assert_eq!(Cell::number(None, |_| unreachable!()).html(), "<td class=\"n\">-</td>");
        assert_eq!(Cell::number(Some(f64::NAN), |_| unreachable!()).html(), "<td class=\"n\">-</td>");
    }
}
