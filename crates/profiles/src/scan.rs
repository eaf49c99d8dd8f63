//! JSON that is read once from the front: where values begin and end, without holding more than one of them.
//!
//! `serde_json` refuses what profilers write, control characters in strings and `inf` as a number, and takes longer over events that nobody wants.
//! This is no parser: what is inside of values that nobody wants is not looked at, and numbers may have any digits.

use std::io::{self, Read};
use std::ops::Range;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// Longest value that is held, in bytes.
const LONGEST: usize = 16 << 20;

/// Reasons for which text cannot be read on.
#[derive(Debug)]
pub(crate) enum ScanError {
    Read(io::Error),
    /// The text ends where it may not.
    Truncated,
    /// A value is longer than any that is held.
    TooLong,
    /// A byte that is not JSON here.
    Unexpected {
        found: u8,
        wanted: &'static str,
    },
}

/// Text of JSON from its front.
pub(crate) struct Scanner<R> {
    reader: R,
    buffer: Vec<u8>,
    at: usize,
    line: u64,
}

impl<R: Read> Scanner<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::with_capacity(2 * CHUNK), at: 0, line: 1 }
    }

    /// Line that is read, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> Result<bool, ScanError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let limit = CHUNK as u64;
        let read = self.reader.by_ref().take(limit).read_to_end(&mut self.buffer);
        Ok(read.map_err(ScanError::Read)? > 0)
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.buffer[self.at..self.at + bytes];
        self.line += passed.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        self.at += bytes;
    }

    /// First byte of what comes next, which is not taken; none at the end.
    pub(crate) fn token(&mut self) -> Result<Option<u8>, ScanError> {
        loop {
            let left = &self.buffer[self.at..];
            let blanks = left.iter().position(|byte| !is_blank(*byte));
            let next = blanks.map(|blanks| left[blanks]);
            self.advance(blanks.unwrap_or(left.len()));
            if next.is_some() || !self.fill()? {
                return Ok(next);
            }
        }
    }

    /// Takes a byte that must come next.
    pub(crate) fn take(&mut self, wanted: u8, name: &'static str) -> Result<(), ScanError> {
        match self.token()? {
            Some(found) if found == wanted => {
                self.advance(1);
                Ok(())
            }
            Some(found) => Err(ScanError::Unexpected { found, wanted: name }),
            None => Err(ScanError::Truncated),
        }
    }

    /// Takes what comes between two items, or behind the last: false at the end, which is `close`.
    pub(crate) fn goes_on(&mut self, close: u8, is_first: bool) -> Result<bool, ScanError> {
        match self.token()? {
            Some(found) if found == close => {
                self.advance(1);
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.advance(1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(found) => Err(ScanError::Unexpected { found, wanted: "`,` or the end of the list" }),
            None => Err(ScanError::Truncated),
        }
    }

    /// Takes a value and gives its text.
    pub(crate) fn value(&mut self) -> Result<&[u8], ScanError> {
        let range = self.next_value(true)?;
        Ok(&self.buffer[range])
    }

    /// Takes a value of any length without holding it.
    pub(crate) fn skip(&mut self) -> Result<(), ScanError> {
        self.next_value(false).map(drop)
    }

    fn next_value(&mut self, is_held: bool) -> Result<Range<usize>, ScanError> {
        let found = self.token()?.ok_or(ScanError::Truncated)?;
        let (mut shape, mut scanned) = (Shape::default(), 0);
        loop {
            let end = shape.feed(&self.buffer[self.at + scanned..]);
            if let Some(end) = end.map(|end| scanned + end) {
                if end == 0 {
                    return Err(ScanError::Unexpected { found, wanted: "a value" });
                }
                let range = self.at..self.at + end;
                self.advance(end);
                return Ok(range);
            }
            scanned = self.buffer.len() - self.at;
            if !is_held {
                self.advance(scanned);
                scanned = 0;
            } else if scanned > LONGEST {
                return Err(ScanError::TooLong);
            }
            if !self.fill()? {
                return Err(ScanError::Truncated);
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Bytes inside of a container, outside of strings, that matter; a table, since every byte of a trace is looked up here.
const TURNS: [bool; 256] = {
    let mut turns = [false; 256];
    let bytes = b"\"{[}]";
    let mut index = 0;
    while index < bytes.len() {
        turns[bytes[index] as usize] = true;
        index += 1;
    }
    turns
};

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Before,
    Text,
    Escape,
    Scalar,
    Inside,
}

/// Extent of a value, found piece by piece.
#[derive(Debug, Default)]
struct Shape {
    depth: u32,
    state: State,
}

impl Shape {
    /// Goes through a piece; gives the end of the value in it, if it is there.
    fn feed(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            let rest = &piece[at..];
            match self.state {
                State::Before => match rest[0] {
                    b',' | b':' | b'}' | b']' => return Some(at),
                    byte => {
                        self.state = match byte {
                            b'"' => State::Text,
                            b'{' | b'[' => State::Inside,
                            _ => State::Scalar,
                        };
                        self.depth += u32::from(matches!(self.state, State::Inside));
                        at += 1;
                    }
                },
                State::Text => {
                    at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))? + 1;
                    match piece[at - 1] {
                        b'\\' => self.state = State::Escape,
                        _ if self.depth == 0 => return Some(at),
                        _ => self.state = State::Inside,
                    }
                }
                State::Escape => {
                    self.state = State::Text;
                    at += 1;
                }
                State::Scalar => {
                    let ends = |byte: &u8| is_blank(*byte) || matches!(byte, b',' | b':' | b'}' | b']');
                    return rest.iter().position(ends).map(|end| at + end);
                }
                State::Inside => {
                    at += rest.iter().position(|byte| TURNS[usize::from(*byte)])? + 1;
                    match piece[at - 1] {
                        b'"' => self.state = State::Text,
                        b'{' | b'[' => self.depth += 1,
                        _ => self.depth -= 1,
                    }
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
            }
        }
        None
    }
}

/// Keys and values of an object, as they are written; the key without its quotes. An error is no JSON, and the last item.
pub(crate) fn members(object: &[u8]) -> Members<'_> {
    Members { rest: object, state: MembersState::Before }
}

pub(crate) struct Members<'a> {
    rest: &'a [u8],
    state: MembersState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MembersState {
    Before,
    First,
    Next,
    Done,
}

impl<'a> Members<'a> {
    /// Next byte that is no blank, taken.
    fn byte(&mut self) -> Option<u8> {
        let at = self.rest.iter().position(|byte| !is_blank(*byte))?;
        let byte = self.rest[at];
        self.rest = &self.rest[at + 1..];
        Some(byte)
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let blanks = self.rest.iter().position(|byte| !is_blank(*byte))?;
        self.rest = &self.rest[blanks..];
        let end = Shape::default().feed(self.rest).filter(|end| *end > 0)?;
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(value)
    }

    fn member(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let key = unquoted(self.value()?)?;
        (self.byte()? == b':').then_some(())?;
        Some((key, self.value()?))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), ()>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == MembersState::Before {
            self.state = MembersState::First;
            if self.byte() != Some(b'{') {
                self.state = MembersState::Done;
                return Some(Err(()));
            }
        }
        let is_first = match self.state {
            MembersState::Done => return None,
            state => state == MembersState::First,
        };
        let before = self.rest;
        match self.byte() {
            Some(b'}') => {
                self.state = MembersState::Done;
                return None;
            }
            Some(b',') if !is_first => {}
            Some(_) if is_first => self.rest = before,
            _ => {
                self.state = MembersState::Done;
                return Some(Err(()));
            }
        }
        let member = self.member();
        self.state = if member.is_some() { MembersState::Next } else { MembersState::Done };
        Some(member.ok_or(()))
    }
}

/// Text between the quotes of a string, as it is written.
pub(crate) fn unquoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(1).min(out.len());
            out[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    #[test]
    fn values_end_where_they_end_however_they_are_read() {
        let text = br#" [ {"a": "}\"]", "b": [1, {}]} , -1.5e3,"x" ,null ] "#;
        let mut scanner = Scanner::new(Drops(text));
        scanner.take(b'[', "`[`").unwrap();
        let mut values = Vec::new();
        while scanner.goes_on(b']', values.is_empty()).unwrap() {
            values.push(String::from_utf8(scanner.value().unwrap().to_vec()).unwrap());
        }
        assert_eq!(values, [r#"{"a": "}\"]", "b": [1, {}]}"#, "-1.5e3", r#""x""#, "null"]);
        assert_eq!(scanner.token().unwrap(), None);
    }

    #[test]
    fn members_are_keys_and_values() {
        let all: Vec<_> = members(br#"{ "a" : 1, "b\"":{"c":[2]},"d":"e"}"#).collect();
        let pair = |key: &'static str, value: &'static str| Ok((key.as_bytes(), value.as_bytes()));
        assert_eq!(all, [pair("a", "1"), pair(r#"b\""#, r#"{"c":[2]}"#), pair("d", r#""e""#)]);
        assert_eq!(members(b"{}").count(), 0);
        for broken in ["[1]", r#"{"a" 1}"#, r#"{"a":1 "b":2}"#, r#"{a:1}"#, r#"{"a":}"#, "7"] {
            assert_eq!(members(broken.as_bytes()).last(), Some(Err(())), "{broken}");
        }
    }

    #[test]
    fn a_text_without_its_end_is_truncated() {
        for text in [r#"{"a": [1"#, r#""abc"#, ""] {
            let ended = Scanner::new(text.as_bytes()).skip();
            assert!(matches!(ended, Err(ScanError::Truncated)), "{text}");
        }
        let mut scanner = Scanner::new(&b"\n\n  ]"[..]);
        assert!(matches!(scanner.value(), Err(ScanError::Unexpected { found: b']', .. })));
        assert_eq!(scanner.line(), 3);
    }
}
