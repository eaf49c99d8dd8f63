//! A line of the journal: what a point came to, of which sweep, and a checksum over both.
//!
//! `{"xxh3":"<32 digits>","line":{"point":...,"identity":"<32 digits>","row":{...}}}`: JSON, of which the checksum covers the bytes of
//! `line` as they are written.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;
use zipwire_scenarios::Sweep;

use super::Row;

/// What stands in front of the checksum, between it and what it covers, and behind that.
const BEFORE: &[u8] = b"{\"xxh3\":\"";
const BETWEEN: &[u8] = b"\",\"line\":";
const BEHIND: &[u8] = b"}\n";
/// Digits of a checksum.
const DIGITS: usize = 32;

/// What a line says.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<R> {
    /// From 0.
    pub(super) point: usize,
    /// That of the point, as [`Identities::of`] has it.
    pub(super) identity: String,
    pub(super) row: R,
}

/// What is known of the points of a sweep, to hold lines against.
#[derive(Debug)]
pub(super) struct Identities<'a> {
    sweep: &'a Sweep,
    digest: String,
}

impl<R: Serialize> Line<R> {
    /// As it is written, with its break.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("rows have string keys only");
        let sum = format!("{:032x}", xxh3_128(&body));
        [BEFORE, sum.as_bytes(), BETWEEN, &body, BEHIND].concat()
    }
}

impl<'a> Identities<'a> {
    /// Of a sweep with a digest of all that its points depend on.
    pub(super) fn new(sweep: &'a Sweep, digest: &str) -> Self {
        Self { sweep, digest: digest.to_owned() }
    }

    /// That of a point: a hash of the sweep, the point's number, and what it sets.
    pub(super) fn of(&self, point: usize) -> String {
        let values = serde_json::Value::Array(self.sweep.values(point));
        format!("{:032x}", xxh3_128(format!("{}\n{point}\n{values}", self.digest).as_bytes()))
    }

    /// The point of a line, with its break; `None` unless the line is what was written for that point.
    pub(super) fn check(&self, line: &[u8]) -> Option<usize> {
        self.parse(line).map(|line| line.point)
    }

    /// A line, with its break, likewise.
    pub(super) fn parse(&self, line: &[u8]) -> Option<Line<Row>> {
        let (sum, rest) = line.strip_prefix(BEFORE)?.split_at_checked(DIGITS)?;
        let body = rest.strip_prefix(BETWEEN)?.strip_suffix(BEHIND)?;
        if sum != format!("{:032x}", xxh3_128(body)).as_bytes() {
            return None;
        }
        let line: Line<Row> = serde_json::from_slice(body).ok()?;
        let is_there = line.point < self.sweep.point_count();
        (is_there && line.identity == self.of(line.point) && self.sets(&line)).then_some(line)
    }

    /// Whether a row says the values that its point sets.
    fn sets(&self, line: &Line<Row>) -> bool {
        let expected = self.sweep.paths().zip(self.sweep.values(line.point));
        line.row.set.iter().map(|(path, value)| (path.as_str(), value.clone())).eq(expected)
    }
}
