//! Excerpts of texts for errors that point into them: the lines of the places, and of a long line what is around a place. Neither takes
//! more memory for a longer text.

#![allow(clippy::single_range_in_vec_init, reason = "a span is one of several")]

use std::borrow::Cow;
use std::ops::Range;

/// Longest line that is shown whole, in bytes.
const LONGEST: usize = 1000;
/// Bytes of a longer line that are shown in front of a place, and from its begin on.
const BEFORE: usize = 100;
const AFTER: usize = 200;
/// Stands for what is left out of a line.
const GAP: &str = "...";
/// Bytes between places that are shown in excerpts of their own, though they are of one text.
const APART: usize = 1 << 16;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Line of the text where the excerpt begins, from 1.
    pub(crate) line: usize,
    /// The place of each span in the excerpt.
    pub(crate) spans: Vec<Range<usize>>,
    /// Whether the begin of the line is left out, so that columns are others.
    pub(crate) is_cut: bool,
}

/// Excerpts of a text that show all of these spans, in their order; one, if they are near each other and their lines are short. Spans lie
/// within the text.
pub(crate) fn excerpts<'t>(text: &'t str, spans: &[Range<usize>]) -> Vec<Excerpt<'t>> {
    let (Some(start), Some(end)) =
        (spans.iter().map(|span| span.start).min(), spans.iter().map(|span| span.end).max())
    else {
        return Vec::new();
    };
    let region = line_of(text, start).start..line_of(text, end).end;
    let shown = &text[region.clone()];
    if shown.len() > APART || shown.split('\n').any(|line| line.len() > LONGEST) {
        return spans.iter().map(|span| around(text, span)).collect();
    }
    let within = |span: &Range<usize>| {
        span.start.min(region.end) - region.start..span.end.min(region.end) - region.start
    };
    let spans = spans.iter().map(within).collect();
    vec![Excerpt { text: shown.into(), line: line_number(text, region.start), spans, is_cut: false }]
}

/// The line in which a span begins, or the part of it that is around the begin.
fn around<'t>(text: &'t str, span: &Range<usize>) -> Excerpt<'t> {
    let line = line_of(text, span.start);
    let mut shown = line.clone();
    if line.len() > LONGEST {
        let (from, to) = (span.start.saturating_sub(BEFORE), span.start.saturating_add(AFTER));
        shown = floor(text, from.max(line.start))..floor(text, to.min(line.end));
    }
    let (is_cut, is_short) = (shown.start > line.start, shown.end < line.end);
    let (front, back) = (if is_cut { GAP } else { "" }, if is_short { GAP } else { "" });
    let place = |at: usize| front.len() + at.clamp(shown.start, shown.end) - shown.start;
    Excerpt {
        line: line_number(text, line.start),
        spans: vec![place(span.start)..place(span.end)],
        is_cut,
        text: if is_cut || is_short {
            format!("{front}{}{back}", &text[shown]).into()
        } else {
            text[shown].into()
        },
    }
}

/// The line of a place, without its line break.
fn line_of(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| at + newline);
    let is_returned = start < end && bytes[end - 1] == b'\r';
    start..end - usize::from(is_returned)
}

fn line_number(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// The last begin of a character up to a place.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_shown_from_the_first_place_to_the_last() {
        let text = "a = 1\nb = 2\nc = 3\nd = 4\n";
        let shown = excerpts(text, &[16..17, 6..7]);
        let expected =
            Excerpt { text: "b = 2\nc = 3".into(), line: 2, spans: vec![10..11, 0..1], is_cut: false };
        assert_eq!(shown, [expected]);
        assert_eq!(excerpts(text, &[]), []);
        let returned = excerpts("a\r\nb\r\n", &[1..2, 3..5]);
        assert_eq!((returned[0].text.as_ref(), &returned[0].spans), ("a\r\nb", &vec![1..2, 3..4]));
        let end = excerpts(text, &[24..24]);
        assert_eq!((end[0].text.as_ref(), end[0].line, &end[0].spans[0]), ("", 5, &(0..0)));
    }

    #[test]
    fn long_lines_are_shown_around_a_place() {
        // Characters of two bytes, whose middle is no begin.
        let text = format!("first\n{}x = {}\nlast", "\u{e9}".repeat(50_000), "\u{e9}".repeat(50_000));
        let at = text.find('x').unwrap();
        let shown = &excerpts(&text, &[at..at + 1])[0];
        assert!(shown.text.len() < 400 && shown.is_cut, "{shown:?}");
        assert!(shown.text.starts_with("...\u{e9}") && shown.text.ends_with("\u{e9}..."), "{shown:?}");
        assert_eq!((shown.line, &shown.text[shown.spans[0].clone()]), (2, "x"));
        // A place as long as its line.
        let whole = &excerpts(&text, &[6..text.len() - 5])[0];
        assert!(whole.text.len() < 400 && !whole.is_cut && whole.spans[0].start == 0, "{whole:?}");
    }

    #[test]
    fn places_far_apart_have_excerpts_of_their_own() {
        let text = format!("a = 1\n{}b = 2\n", "\n".repeat(APART));
        let shown = excerpts(&text, &[0..1, text.len() - 6..text.len() - 5]);
        let parts: Vec<(&str, usize)> = shown.iter().map(|part| (part.text.as_ref(), part.line)).collect();
        assert_eq!(parts, [("a = 1", 1), ("b = 2", APART + 2)]);
    }
}
