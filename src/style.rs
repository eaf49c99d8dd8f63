//! Styles of text in terminals. Text carries marks, noncharacters of Unicode, until it is printed: then they become escapes for a terminal, or nothing.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// A style: the mark in front of styled text, and the escape for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    mark: char,
    escape: &'static str,
}

pub(crate) const BOLD: Style = Style { mark: '\u{fdd0}', escape: "\u{1b}[1m" };
pub(crate) const GOOD: Style = Style { mark: '\u{fdd1}', escape: "\u{1b}[32m" };
const BAD: Style = Style { mark: '\u{fdd2}', escape: "\u{1b}[1;31m" };
const CARE: Style = Style { mark: '\u{fdd3}', escape: "\u{1b}[1;33m" };
const HINT: Style = Style { mark: '\u{fdd4}', escape: "\u{1b}[1;36m" };
const ALL: [Style; 5] = [BOLD, GOOD, BAD, CARE, HINT];

/// The mark in front of lines that are not to be broken.
pub(crate) const WHOLE: char = '\u{fdd6}';

/// The mark behind styled text.
const END: char = '\u{fdd5}';

const RESET: &str = "\u{1b}[0m";

/// Words that lines begin with, and their styles.
const LABELS: [(&str, Style); 5] =
    [("verdict:", BOLD), ("error:", BAD), ("warning:", CARE), ("note:", HINT), ("help:", HINT)];

impl Style {
    /// The text between marks.
    pub(crate) fn around(self, text: &str) -> String {
        format!("{}{text}{END}", self.mark)
    }
}

/// Whether there are no colours, whatever streams are.
static PLAIN: OnceLock<bool> = OnceLock::new();

/// Decides whether all output is plain. To be called once, before anything is printed.
pub(crate) fn set_plain(is_plain: bool) {
    let _ = PLAIN.set(is_plain);
}

/// Whether a stream shows colours: it is a terminal that knows them, and `NO_COLOR` is unset or empty (no-color.org).
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is =
        |name, value: fn(&std::ffi::OsStr) -> bool| std::env::var_os(name).is_some_and(|set| value(&set));
    !PLAIN.get().is_some_and(|is_plain| *is_plain)
        && stream.is_terminal()
        && !is("NO_COLOR", |value| !value.is_empty())
        && !is("TERM", |value| value == "dumb")
}

/// Text with lines that are longer than `width` characters broken between words; what goes on is indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    const INDENT: &str = "  ";
    let length = |text: &str| text.chars().filter(|c| !('\u{fdd0}'..='\u{fdef}').contains(c)).count();
    let line = |line: &str| {
        if length(line) <= width || line.starts_with(WHOLE) {
            return line.to_owned();
        }
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        let (mut lines, mut last, mut is_first) = (String::new(), indent.to_owned(), true);
        for word in words.split(' ') {
            if is_first {
                last += word;
            } else if length(&last) + 1 + length(word) > width {
                lines += &format!("{last}\n");
                last = format!("{indent}{INDENT}{word}");
            } else {
                last += &format!(" {word}");
            }
            is_first = false;
        }
        lines + &last
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Text with its marks as escapes, and labels at the beginnings of lines styled; or without marks.
pub(crate) fn paint(text: &str, is_coloured: bool) -> String {
    let marked = if is_coloured { labelled(text) } else { text.to_owned() };
    let mut painted = String::with_capacity(marked.len());
    // Names from files may hold marks: their styles end with the line.
    let mut is_open = false;
    for character in marked.chars() {
        if character == '\n' && is_open {
            painted.push_str(RESET);
            is_open = false;
        }
        match ALL.iter().find(|style| style.mark == character) {
            Some(style) if is_coloured => {
                painted.push_str(style.escape);
                is_open = true;
            }
            None if character == END && is_coloured => {
                painted.push_str(RESET);
                is_open = false;
            }
            None if character != END && character != WHOLE => painted.push(character),
            _ => {}
        }
    }
    painted
}

fn labelled(text: &str) -> String {
    let line = |line: &str| {
        let label =
            LABELS.iter().find_map(|(label, style)| Some((style.around(label), line.strip_prefix(label)?)));
        label.map_or_else(|| line.to_owned(), |(label, rest)| label + rest)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "a line of words\nverdict: it is a long one that goes on\n/a/path/that/has/no/blanks";
        let narrow =
            "a line of words\nverdict: it is a\n  long one that\n  goes on\n/a/path/that/has/no/blanks";
        assert_eq!(wrapped(text, 16), narrow);
        assert_eq!(wrapped(text, 80), text);
        assert_eq!(wrapped("    indented words of a line", 16), "    indented\n      words of a\n      line");
        let whole = format!("{WHOLE}a row of a table that is long");
        assert_eq!(wrapped(&whole, 10), whole);
        assert_eq!(wrapped(&BOLD.around("bold words"), 10), BOLD.around("bold words"), "marks take no room");
    }

    #[test]
    fn marks_become_escapes_or_nothing() {
        let text = format!("{}\nwarning: slow\n`error:` in words", BOLD.around("a  b"));
        assert_eq!(paint(&text, false), "a  b\nwarning: slow\n`error:` in words");
        let painted = "\u{1b}[1ma  b\u{1b}[0m\n\u{1b}[1;33mwarning:\u{1b}[0m slow\n`error:` in words";
        assert_eq!(paint(&text, true), painted);
    }
}
