//! Texts that a scenario is read from, and places in them that errors point at.

use std::ops::Range;
use std::sync::Arc;

/// A text with a name: the scenario file, a data file or a command-line argument.
#[derive(Debug)]
pub(crate) struct Document {
    /// How errors call it: a path, or `command line`.
    pub(crate) name: String,
    /// All of it.
    pub(crate) text: String,
    /// Whether it is a file, so that line numbers mean something.
    pub(crate) is_file: bool,
}

impl Document {
    pub(crate) fn file(name: String, text: String) -> Arc<Self> {
        Arc::new(Self { name, text, is_file: true })
    }

    pub(crate) fn argument(text: String) -> Arc<Self> {
        Arc::new(Self { name: "command line".to_owned(), text, is_file: false })
    }
}

/// A range of bytes in a document.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) document: Arc<Document>,
    pub(crate) span: Range<usize>,
}

impl Place {
    pub(crate) fn new(document: &Arc<Document>, span: Range<usize>) -> Self {
        Self { document: Arc::clone(document), span }
    }

    /// Line, from 1.
    pub(crate) fn line(&self) -> usize {
        1 + self.before().bytes().filter(|&byte| byte == b'\n').count()
    }

    /// Column, from 1, in characters.
    pub(crate) fn column(&self) -> usize {
        let before = self.before();
        let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
        1 + line.chars().count()
    }

    fn before(&self) -> &str {
        let text = &self.document.text;
        let mut end = self.span.start.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let document = Document::file("a.toml".to_owned(), "a = 1\nµs = \"x\"\n".to_owned());
        let place = Place::new(&document, 12..15);
        assert_eq!(&document.text[place.span.clone()], "\"x\"");
        assert_eq!((place.line(), place.column()), (2, 6));
        let end = Place::new(&document, 99..99);
        assert_eq!((end.line(), end.column()), (3, 1));
    }
}
