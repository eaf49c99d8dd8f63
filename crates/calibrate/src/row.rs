//! A row of nccl-tests: what was measured at one size.

/// A row is size, count and type; then `redop` and `root`, which old versions lack; then for out-of-place and in-place operations
/// each: time in microseconds, algorithm and bus bandwidth in GB/s, and wrong values, which are `N/A` where nothing was checked.
/// With `-I 1` each of the two has four fields more (least, most, 99th percentile, deviation); with `-S 1` a date and a time are
/// last; with `-C 1` the time is that of the CPU. Either of the two may be blank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) bytes: u64,
    /// Number of values as the row has it.
    pub(crate) count: Option<u64>,
    pub(crate) dtype: String,
    pub(crate) redop: Option<String>,
    /// Rank that has or gets all values; -1 where there is none.
    pub(crate) root: Option<i64>,
    /// Out of place, or in place if that is all there is.
    pub(crate) first: Measured,
    /// In place, if both are there.
    pub(crate) second: Option<Measured>,
}

impl Row {
    /// Values that were wrong, in place or not; 0 where nothing was checked.
    pub(crate) fn wrong(&self) -> f64 {
        let both = [Some(self.first), self.second];
        both.into_iter().flatten().filter_map(|measured| measured.wrong).fold(0.0, f64::max)
    }

    /// Whether values are whole numbers, whose sums are slower.
    pub(crate) fn is_integer(&self) -> bool {
        is_integer(&self.dtype)
    }
}

/// Whether a type of nccl-tests is one of whole numbers.
pub(crate) fn is_integer(dtype: &str) -> bool {
    dtype.contains("int") || dtype == "char"
}

/// Time of an operation, and what is printed beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) us: f64,
    pub(crate) algbw: Option<Printed>,
    pub(crate) busbw: Option<Printed>,
    /// Number of wrong values, 1 and more; 0 if none was; none if nothing was checked. Old versions have the largest relative error
    /// here, which is below 1 and counts as 0.
    pub(crate) wrong: Option<f64>,
}

impl Measured {
    /// Whether the printed bandwidth is that of the size over the time, but for rounding: bandwidths have two digits behind the
    /// point, times have four digits at least.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let gbps = bytes as f64 / self.us / 1e3;
        self.algbw.is_none_or(|algbw| (gbps - algbw.value).abs() <= 0.0051 + gbps * 2e-3)
    }
}

/// A number as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Printed {
    pub(crate) value: f64,
    /// How far off it may be, since digits end somewhere.
    pub(crate) half: f64,
}

impl Printed {
    /// A number of text, with half a unit of its last digit.
    fn parse(field: &str) -> Option<Self> {
        let value = number(field)?;
        let (mantissa, exponent) = field.split_once(['e', 'E']).unwrap_or((field, "0"));
        let behind = mantissa.split_once('.').map_or(0, |(_, behind)| behind.len());
        let power = f64::from(exponent.parse::<i16>().ok()?) - behind as f64;
        Some(Self { value, half: 0.5 * libm::pow(10.0, power) })
    }

    /// A number with six digits at least, as files for programs have them.
    pub(crate) fn precise(value: f64) -> Self {
        Self { value, half: 1e-6 + 1e-6 * value.abs() }
    }
}

/// Fields of a group with and without what `-I 1` adds.
const PLAIN: usize = 4;
const DETAILED: usize = 8;

/// Reads a row; none if the line is none.
pub(crate) fn parse_row(line: &str) -> Option<Row> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    if let [.., date, time] = fields.as_slice()
        && date.matches('-').count() == 2
        && time.matches(':').count() == 2
    {
        fields.truncate(fields.len() - 2);
    }
    let [bytes, count, dtype, rest @ ..] = fields.as_slice() else { return None };
    let (bytes, count): (u64, u64) = (bytes.parse().ok()?, count.parse().ok()?);
    if !dtype.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    // `redop` is a word; where there is none, numbers follow at once.
    let is_word = |field: &&str| field.starts_with(|c: char| c.is_ascii_alphabetic()) && *field != "N/A";
    let redop = rest.first().copied().filter(is_word);
    let rest = if redop.is_some() { &rest[1..] } else { rest };
    // Groups have an even number of fields, so one field more is the root.
    let (root, groups) = if rest.len() % 2 == 1 { (rest[0].parse().ok(), &rest[1..]) } else { (None, rest) };
    let (first, second) = split(groups, bytes)?;
    let row = |first, second| Row {
        line: 0,
        bytes,
        count: Some(count),
        dtype: (*dtype).to_owned(),
        redop: redop.map(str::to_owned),
        root,
        first,
        second,
    };
    let (first, second) = (measured(first)?, second.and_then(measured));
    if first.us > 0.0 || bytes == 0 {
        return Some(row(first, second));
    }
    // In place only.
    second.filter(|second| second.us > 0.0).map(|second| row(second, None))
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
    // Groups of other lengths have no field of wrong values at this place.
    let wrong =
        group.get(3).filter(|_| matches!(group.len(), PLAIN | DETAILED)).and_then(|field| number(field));
    Some(Measured {
        us: number(group.first()?)?,
        algbw: Some(Printed::parse(group.get(1)?)?),
        busbw: group.get(2).and_then(|field| Printed::parse(field)),
        wrong: wrong.map(counted),
    })
}

/// Number of wrong values; old versions have the largest relative error in its place, which is below 1.
pub(crate) fn counted(wrong: f64) -> f64 {
    if wrong < 1.0 { 0.0 } else { wrong }
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(line: &str) -> (u64, f64, Option<f64>) {
        let row = parse_row(line).unwrap_or_else(|| panic!("{line}"));
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
            assert_eq!(parse_row(line), None, "{line}");
        }
        assert_eq!(parse_row("1048576 262144 float sum -1 nan 36.71 64.25 0 28.70 36.54 63.94 0"), None);
    }

    #[test]
    fn bandwidths_fit_times_but_for_rounding() {
        let of = |algbw: f64| {
            let algbw = Some(Printed { value: algbw, half: 0.005 });
            Measured { us: 28.56, algbw, busbw: None, wrong: None }
        };
        assert!(of(36.71).fits(1_048_576));
        assert!(!of(46.71).fits(1_048_576));
    }

    #[test]
    fn wrong_values_are_those_that_are_counted() {
        let wrong = |out: &str, in_place: &str| {
            let line =
                format!("1048576 262144 float sum -1 28.56 36.71 64.25 {out} 28.70 36.54 63.94 {in_place}");
            parse_row(&line).map(|row| row.wrong())
        };
        assert_eq!(wrong("0", "N/A"), Some(0.0));
        assert_eq!(wrong("0", "288"), Some(288.0));
        assert_eq!(wrong("1.67772e+07", "0"), Some(16_777_200.0));
        // The largest relative error, in old versions.
        assert_eq!(wrong("4e-07", "1e-07"), Some(0.0));
        // Six fields: both halves without wrong values.
        let bare = parse_row("1048576 262144 float sum -1 28.56 36.71 64.25 28.70 36.54 63.94").unwrap();
        assert_eq!(bare.wrong(), 0.0);
    }

    #[test]
    fn printed_numbers_know_their_last_digit() {
        let half = |field: &str| Printed::parse(field).map(|printed| (printed.half * 1e9).round() / 1e9);
        assert_eq!(half("36.71"), Some(0.005));
        assert_eq!(half("100"), Some(0.5));
        assert_eq!(half("1.0e+07"), Some(5e5));
        assert_eq!(half("x"), None);
    }
}
