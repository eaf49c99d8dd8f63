//! CSV files with a place for every field, so that errors can point into them.

use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord};

use crate::error::{Result, ScenarioError};
use crate::files::Files;
use crate::language::Field;
use crate::problem::Problem;
use crate::tree::{Document, Place};

/// Most rows of a file.
const ROW_LIMIT: usize = 4_194_304;

/// The rows of a file, the header included; blank lines are left out. Fields are not quoted.
pub(super) struct TableFile {
    document: Arc<Document>,
    rows: Vec<(usize, StringRecord)>,
    named_at: Place,
}

/// A row and where it begins.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    file: &'a TableFile,
    offset: usize,
    record: &'a StringRecord,
}

/// A field without the blanks around it.
pub(super) struct Cell<'a> {
    pub(super) text: &'a str,
    row: Row<'a>,
    span: std::ops::Range<usize>,
}

impl TableFile {
    /// Reads the file that a field names, relative to the scenario.
    pub(super) fn read(field: &Field<'_>, files: &Files) -> Result<Self> {
        Self::read_with(field, files, split)
    }

    /// The same of a file whose fields are separated by commas or by blanks, and which may have comment lines that begin with `#`.
    pub(super) fn read_with_blanks(field: &Field<'_>, files: &Files) -> Result<Self> {
        Self::read_with(field, files, |text| split(&with_commas(text)))
    }

    fn read_with(
        field: &Field<'_>,
        files: &Files,
        split: impl FnOnce(&str) -> Vec<(usize, StringRecord)>,
    ) -> Result<Self> {
        let name = field.string()?;
        let unreadable = |source| field.error(Problem::Unreadable { path: files.path(name), source });
        let document = files.text(name).map_err(unreadable)?;
        let rows = split(&document.text);
        let file = Self { document, rows, named_at: field.place() };
        if let Some((offset, _)) = file.rows.get(ROW_LIMIT) {
            let limits = format!("at most {ROW_LIMIT}");
            let problem = Problem::out_of_range("rows of the file", format!("more than {ROW_LIMIT}"), limits);
            return Err(file.error(problem, *offset..*offset));
        }
        Ok(file)
    }

    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.rows.iter().map(|(offset, record)| Row { file: self, offset: *offset, record })
    }

    fn error(&self, problem: Problem, span: std::ops::Range<usize>) -> ScenarioError {
        problem.at(Place::new(&self.document, span)).with(self.named_at.clone(), "named here")
    }
}

/// The same text, with a comma in place of a blank between two fields of lines that have none, and without comments; every field is
/// where it was.
fn with_commas(text: &str) -> String {
    let line = |line: &str| {
        let text = line.trim_end_matches(['\r', '\n']);
        if text.trim_start().starts_with('#') {
            return " ".repeat(text.len()) + &line[text.len()..];
        }
        if line.contains(',') {
            return line.to_owned();
        }
        let is_blank = |c: u8| matches!(c, b' ' | b'\t');
        let (begin, end) = (line.len() - line.trim_start().len(), line.trim_end().len());
        let bytes = line.as_bytes();
        let comma = |(at, c): (usize, char)| match c {
            ' ' | '\t' if begin < at && at + 1 < end && !is_blank(bytes[at + 1]) => ',',
            c => c,
        };
        line.char_indices().map(comma).collect()
    };
    text.split_inclusive('\n').map(line).collect()
}

fn split(text: &str) -> Vec<(usize, StringRecord)> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).quoting(false).from_reader(text.as_bytes());
    let record = |record: csv::Result<StringRecord>| {
        // Reading from memory cannot fail, the text is UTF-8, and rows may have any length.
        let record = record.expect("a text that csv can split");
        let start = record.position().map_or(0, |position| position.byte() as usize);
        // The position is that of the blank lines before the record, if there are any.
        let blank = text[start..].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        (start + blank, record)
    };
    let is_blank = |record: &StringRecord| record.iter().all(|field| field.trim().is_empty());
    let rows = reader.records().map(record).filter(|(_, row)| row.len() > 1 || !is_blank(row));
    // One more shows that there are too many, whatever the file has behind it.
    rows.take(ROW_LIMIT + 1).collect()
}

impl<'a> Row<'a> {
    pub(super) fn len(self) -> usize {
        self.record.len()
    }

    pub(super) fn cell(self, index: usize) -> Cell<'a> {
        let raw = &self.record[index];
        // One comma after each field before this one; nothing is quoted.
        let before: usize = self.record.iter().take(index).map(|field| field.len() + 1).sum();
        let start = self.offset + before + (raw.len() - raw.trim_start().len());
        let text = raw.trim();
        Cell { text, row: self, span: start..start + text.len() }
    }

    pub(super) fn error(self, problem: Problem) -> ScenarioError {
        let length: usize = self.record.iter().map(|field| field.len() + 1).sum();
        self.file.error(problem, self.offset..self.offset + length - 1)
    }

    pub(super) fn need_length(self, expected: usize) -> Result<()> {
        let found = self.len();
        if found == expected { Ok(()) } else { Err(self.error(Problem::RowLength { found, expected })) }
    }
}

impl Cell<'_> {
    pub(super) fn error(&self, problem: Problem) -> ScenarioError {
        self.row.file.error(problem, self.span.clone())
    }

    /// A whole number in a range; `column` names it in errors.
    pub(super) fn integer(&self, column: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
        let value: i128 = self.text.parse().map_err(|_| self.bad(column, "a whole number"))?;
        let out_of_range = || self.out_of_range(column, format!("from {} to {}", range.start(), range.end()));
        u64::try_from(value).ok().filter(|value| range.contains(value)).ok_or_else(out_of_range)
    }

    /// A number in a range; `column` names it in errors.
    pub(super) fn number(&self, column: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64> {
        let value: f64 = self.text.parse().map_err(|_| self.bad(column, "a number"))?;
        if range.contains(&value) {
            return Ok(value.abs());
        }
        Err(self.out_of_range(column, format!("from {} to {}", range.start(), range.end())))
    }

    fn bad(&self, column: &str, expected: &'static str) -> ScenarioError {
        let (column, found) = (column.to_owned(), self.text.to_owned());
        self.error(Problem::BadField { column, expected, found })
    }

    fn out_of_range(&self, column: &str, limits: String) -> ScenarioError {
        let (column, value) = (column.to_owned(), self.text.to_owned());
        self.error(Problem::FieldRange { column, value, limits })
    }
}
