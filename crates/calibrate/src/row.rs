//! One row of a table of nccl-tests, in the forms that its versions print.
//!
//! A row is size, count and type; then `redop` and `root`, which old versions lack; then for out-of-place and in-place operations
//! each: time in microseconds, algorithm and bus bandwidth in GB/s, and wrong values, which are `N/A` where nothing was checked.
//! With `-I 1` each of the two has four fields more (least, most, 99th percentile, deviation); with `-S 1` a date and a time are
//! last; with `-C 1` the time is that of the CPU. Either of the two may be blank.

/// A row of a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) bytes: u64,
    pub(crate) dtype: String,
    /// Out of place, or in place if that is all there is.
    pub(crate) first: Measured,
    /// In place, if both are there.
    pub(crate) second: Option<Measured>,
}

/// A time and the algorithm bandwidth that is printed beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) us: f64,
    pub(crate) algbw: f64,
}

impl Measured {
    /// Whether the printed bandwidth is that of the size over the time, but for rounding: bandwidths have two digits behind the
    /// point, times have four digits at least.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let gbps = bytes as f64 / self.us / 1e3;
        (gbps - self.algbw).abs() <= 0.0051 + gbps * 2e-3
    }
}

/// Fields of a group with and without what `-I 1` adds.
const PLAIN: usize = 4;
const DETAILED: usize = 8;

/// Reads a row; none if the line is none.
pub(crate) fn parse(line: &str) -> Option<Row> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    if let [.., date, time] = fields.as_slice()
        && date.matches('-').count() == 2
        && time.matches(':').count() == 2
    {
        fields.truncate(fields.len() - 2);
    }
    let [bytes, count, dtype, rest @ ..] = fields.as_slice() else { return None };
    let (bytes, _count): (u64, u64) = (bytes.parse().ok()?, count.parse().ok()?);
    if !dtype.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    // `redop` is a word; where there is none, numbers follow at once.
    let is_word = |field: &&str| field.starts_with(|c: char| c.is_ascii_alphabetic()) && *field != "N/A";
    let rest = if rest.first().is_some_and(is_word) { &rest[1..] } else { rest };
    // Groups have an even number of fields, so one field more is the root.
    let groups = if rest.len() % 2 == 1 { &rest[1..] } else { rest };
    let (first, second) = split(groups, bytes)?;
    Some(Row {
        bytes,
        dtype: (*dtype).to_owned(),
        first: measured(first)?,
        second: second.and_then(measured),
    })
    .filter(|row| row.first.us > 0.0 || bytes == 0)
    .or_else(|| in_place(bytes, dtype, second))
}

/// The row of an in-place measurement where the other one has no time.
fn in_place(bytes: u64, dtype: &str, second: Option<&[&str]>) -> Option<Row> {
    let first = second.and_then(measured).filter(|measured| measured.us > 0.0)?;
    Some(Row { bytes, dtype: dtype.to_owned(), first, second: None })
}

/// The one or two groups of fields.
fn split<'f, 'l>(fields: &'f [&'l str], bytes: u64) -> Option<(&'f [&'l str], Option<&'f [&'l str]>)> {
    let halves = || Some((&fields[..fields.len() / 2], Some(&fields[fields.len() / 2..])));
    match fields.len() {
        PLAIN | 6 => Some((fields, None)),
        // Two plain groups, or one with details: the latter has the least time where the former has a time.
        DETAILED => match (measured(&fields[..PLAIN]), measured(&fields[PLAIN..])) {
            (Some(_), Some(second)) if !second.fits(bytes) => Some((fields, None)),
            _ => halves(),
        },
        12 | 16 => halves(),
        _ => None,
    }
}

fn measured(group: &[&str]) -> Option<Measured> {
    Some(Measured { us: number(group.first()?)?, algbw: number(group.get(1)?)? })
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(line: &str) -> (u64, f64, Option<f64>) {
        let row = parse(line).unwrap_or_else(|| panic!("{line}"));
        (row.bytes, row.first.us, row.second.map(|measured| measured.us))
    }

    #[test]
    fn rows_of_all_versions_are_read() {
        let thirteen = "1048576 262144 float sum -1 28.56 36.71 64.25 0 28.70 36.54 63.94 0";
        assert_eq!(times(thirteen), (1048576, 28.56, Some(28.70)));
        let unchecked = "1048576 262144 float sum -1 28.56 36.71 64.25 N/A 28.70 36.54 63.94 N/A";
        assert_eq!(times(unchecked), (1048576, 28.56, Some(28.70)));
        let stamped = format!("{thirteen} 2026-02-03 12:13:14");
        assert_eq!(times(&stamped), (1048576, 28.56, Some(28.70)));
        let old = "1048576 262144 float sum 28.56 36.71 64.25 4e-07 28.70 36.54 63.94 1e-07";
        assert_eq!(times(old), (1048576, 28.56, Some(28.70)));
        let older = "1048576 262144 float 28.56 36.71 64.25 0e+00 28.70 36.54 63.94 0e+00";
        assert_eq!(times(older), (1048576, 28.56, Some(28.70)));
        let detailed = "1048576 262144 float sum -1 28.56 36.71 64.25 0 27.1 29.0 28.9 1.2 28.70 36.54 63.94 0 27.2 29.9 29.1 1.3";
        assert_eq!(times(detailed), (1048576, 28.56, Some(28.70)));
        let exponent = "1048576 262144 float sum -1 2.8e+01 37.45 65.54 0 28.70 36.54 63.94 0";
        assert_eq!(times(exponent), (1048576, 28.0, Some(28.70)));
    }

    #[test]
    fn a_blank_half_is_no_half() {
        let single = "1048576 262144 float sum -1 28.56 36.71 64.25 0";
        assert_eq!(times(single), (1048576, 28.56, None));
        let single_detailed = "1048576 262144 float sum -1 28.56 36.71 64.25 0 27.1 29.0 28.9 1.2";
        assert_eq!(times(single_detailed), (1048576, 28.56, None));
        let in_place_only = "1048576 262144 float sum -1 0.00 0.00 0.00 0 28.70 36.54 63.94 0";
        assert_eq!(times(in_place_only), (1048576, 28.70, None));
    }

    #[test]
    fn other_lines_are_no_rows() {
        for line in
            ["", "hello", "1 2 3 4 5", "1048576 262144 float", "1048576 x float sum -1 1 1 1 1 1 1 1 1"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(parse("1048576 262144 float sum -1 nan 36.71 64.25 0 28.70 36.54 63.94 0"), None);
    }

    #[test]
    fn bandwidths_fit_times_but_for_rounding() {
        assert!(Measured { us: 28.56, algbw: 36.71 }.fits(1_048_576));
        assert!(!Measured { us: 28.56, algbw: 46.71 }.fits(1_048_576));
    }
}
