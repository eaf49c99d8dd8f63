//! Foreign text on a terminal: names of tensors, values of scenarios, whatever a file holds.

use std::borrow::Cow;

/// Longest line that is shown whole, in characters, and what is shown of a longer one, from its begin and its end.
const LONGEST: usize = 1000;
const BEGIN: usize = 600;
const END: usize = 200;

/// Like [`escaped`], with lines of more than a thousand characters cut in the middle: for errors that quote user input.
///
/// ```
/// # use zipwire_traces::printable;
/// assert_eq!(printable("tensor `a\u{1b}[31m`\nline"), "tensor `a\\u{1b}[31m`\nline");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.split('\n').all(|line| line.len() <= LONGEST) {
        return escaped(text);
    }
    Cow::Owned(text.split('\n').map(cut).collect::<Vec<_>>().join("\n"))
}

/// The text with control characters escaped, line breaks apart, so that it cannot move the cursor, change colours or ring.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    Cow::Owned(plain)
}

/// Control characters, and those that turn the direction of what follows.
fn is_escaped(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cut(line: &str) -> String {
    let count = line.chars().count();
    if count <= LONGEST {
        return escaped(line).into_owned();
    }
    let (begin, end): (String, String) =
        (line.chars().take(BEGIN).collect(), line.chars().skip(count - END).collect());
    format!("{}... ({} characters left out) ...{}", escaped(&begin), count - BEGIN - END, escaped(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_text_is_not() {
        assert_eq!(printable("ä `b`: 1 \\ 2\n\n"), "ä `b`: 1 \\ 2\n\n");
        assert_eq!(printable("a\r\u{7}\u{9b}\u{202e}b"), "a\\r\\u{7}\\u{9b}\\u{202e}b");
    }

    #[test]
    fn long_lines_are_cut() {
        let long = format!("first\n{}\nlast", "x".repeat(100_000));
        let shown = printable(&long);
        assert!(shown.len() < 1000 && shown.contains("(99200 characters left out)"), "{shown}");
        assert!(shown.starts_with("first\nxxx") && shown.ends_with("xxx\nlast"));
    }
}
