//! Options of codecs: what they are called in specs, and what they can be.

use crate::SpecError;

/// The option that says how many values a row has; [`crate::Spec::for_rows`] sets it.
pub const ROW_KEY: &str = "row";

/// The option that names a table; [`crate::Spec::with_table`] sets it.
pub const TABLE: Choice = Choice { key: "table", values: Values::Table };
/// Digits of the id of a table in the text of a spec.
const ID_DIGITS: usize = 8;

/// An option of a codec.
pub struct Choice {
    /// Name.
    pub key: &'static str,
    /// Values that it can have.
    pub values: Values,
}

/// Values that an option can have.
pub enum Values {
    /// One of these names; the first is the default.
    Names(&'static [&'static str]),
    /// A whole number up to this one; 0 is the default.
    UpTo(u32),
    /// A speed with its unit, in bytes per second; this one is the default.
    Speed(u64),
    /// The id of a table; none by default.
    Table,
}

/// Value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// One of [`Values::Names`].
    Name(&'static str),
    /// A number within [`Values::UpTo`].
    Number(u32),
    /// Bytes per second of [`Values::Speed`].
    Speed(u64),
    /// Id of a table; 0, which no table has, for none.
    Table(u32),
}

impl Values {
    pub fn default(&self) -> Value {
        match self {
            Self::Names(names) => Value::Name(names[0]),
            Self::UpTo(_) => Value::Number(0),
            Self::Speed(default) => Value::Speed(*default),
            Self::Table => Value::Table(0),
        }
    }

    /// The value that the text stands for, if it is valid.
    pub fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Names(names) => names.iter().find(|name| **name == text).map(|name| Value::Name(name)),
            // Nothing but digits: the library would take a sign as well.
            Self::UpTo(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            Self::UpTo(most) => text.parse().ok().filter(|number| number <= most).map(Value::Number),
            Self::Speed(_) => parse_speed(text).map(Value::Speed),
            Self::Table if text.len() != ID_DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                None
            }
            Self::Table => u32::from_str_radix(text, 16).ok().filter(|id| *id != 0).map(Value::Table),
        }
    }

    /// All values, in backticks.
    pub fn listed(&self) -> String {
        match self {
            Self::Names(names) => listed(names.iter().copied()),
            Self::UpTo(most) => format!("whole numbers from `0` to `{most}`"),
            Self::Speed(_) => "speeds with their unit, like `25 GB/s` or `400 Gb/s`".to_owned(),
            Self::Table => format!("ids of tables, with {ID_DIGITS} hexadecimal digits"),
        }
    }
}

impl Value {
    /// The name.
    ///
    /// # Panics
    /// If it is none.
    pub fn name(self) -> &'static str {
        let Self::Name(name) = self else { panic!("the option is a name, not `{self}`") };
        name
    }

    /// The number.
    ///
    /// # Panics
    /// If it is none.
    pub fn number(self) -> u32 {
        let Self::Number(number) = self else { panic!("the option is a number, not `{self}`") };
        number
    }

    /// Bytes per second.
    ///
    /// # Panics
    /// If it is no speed.
    pub fn speed(self) -> u64 {
        let Self::Speed(bytes_per_s) = self else { panic!("the option is a speed, not `{self}`") };
        bytes_per_s
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
            Self::Speed(bytes_per_s) => f.write_str(&speed_text(*bytes_per_s)),
            Self::Table(id) => write!(f, "{id:0ID_DIGITS$x}"),
        }
    }
}

/// Splits the text of a spec into a name and its options.
pub fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(id, options)| (id, Some(options)))
}

/// Values of all options of a codec: as the text says, or their defaults.
pub fn choose(codec: &'static str, options: &[Choice], text: Option<&str>) -> Result<Vec<Value>, SpecError> {
    let mut chosen: Vec<Option<Value>> = vec![None; options.len()];
    for option in text.into_iter().flat_map(|text| text.split(',')) {
        let (key, value) =
            option.split_once('=').ok_or_else(|| SpecError::Malformed { text: option.to_owned() })?;
        let index = options.iter().position(|known| known.key == key).ok_or_else(|| {
            let valid = match options {
                [] => "it has none".to_owned(),
                known => format!("its options are {}", listed(known.iter().map(|known| known.key))),
            };
            SpecError::UnknownOption { codec, key: key.to_owned(), valid }
        })?;
        let known = &options[index];
        let value = known.values.parse(value).ok_or_else(|| {
            let valid = known.values.listed();
            SpecError::BadValue { codec, key: known.key, value: value.to_owned(), valid }
        })?;
        if chosen[index].replace(value).is_some() {
            return Err(SpecError::Repeated { codec, key: known.key });
        }
    }
    let values = chosen.into_iter().zip(options);
    Ok(values.map(|(value, option)| value.unwrap_or(option.values.default())).collect())
}

/// The names in backticks, with commas between them.
pub fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The fastest, in bytes per second: well within what a floating-point number holds exactly.
const FASTEST: u64 = 1_000_000_000_000_000;

/// A unit is `multiply` / `divide` bytes per second.
struct Unit {
    name: &'static str,
    multiply: u64,
    divide: u64,
}

const fn unit(name: &'static str, multiply: u64, divide: u64) -> Unit {
    Unit { name, multiply, divide }
}

/// Units of bandwidth, as scenarios have them: name, factor and bits or bytes.
const UNITS: [Unit; 13] = [
    unit("TB/s", 1_000_000_000_000, 1),
    unit("GB/s", 1_000_000_000, 1),
    unit("MB/s", 1_000_000, 1),
    unit("KB/s", 1_000, 1),
    unit("B/s", 1, 1),
    unit("KiB/s", 1 << 10, 1),
    unit("MiB/s", 1 << 20, 1),
    unit("GiB/s", 1 << 30, 1),
    unit("TiB/s", 1 << 40, 1),
    unit("kb/s", 1_000, 8),
    unit("Mb/s", 1_000_000, 8),
    unit("Gb/s", 1_000_000_000, 8),
    unit("Tb/s", 1_000_000_000_000, 8),
];
/// How many of them texts are written in: the first ones, in descending order.
const WRITTEN: usize = 5;

/// Bytes per second, rounded to whole ones; none if the text is no speed from a byte to a petabyte per second.
/// Specs say `25 GB/s` or `400 Gb/s`.
fn parse_speed(text: &str) -> Option<u64> {
    let digits = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let end = text.bytes().position(|byte| !digits(byte)).unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let unit = UNITS.iter().find(|unit| unit.name == name.trim_start_matches(' '))?;
    let number: f64 = number.parse().ok()?;
    let speed = libm::round(number * unit.multiply as f64 / unit.divide as f64);
    (1.0..=FASTEST as f64).contains(&speed).then_some(speed as u64)
}

/// The text of a speed in the largest decimal unit that it reaches, exactly.
fn speed_text(bytes_per_s: u64) -> String {
    let written = &UNITS[..WRITTEN];
    let unit = written.iter().find(|unit| bytes_per_s >= unit.multiply).unwrap_or(&written[WRITTEN - 1]);
    let (whole, rest) = (bytes_per_s / unit.multiply, bytes_per_s % unit.multiply);
    let places = unit.multiply.ilog10() as usize;
    let fraction = format!("{rest:0places$}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{whole} {}", unit.name)
    } else {
        format!("{whole}.{fraction} {}", unit.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_every_unit_and_written_in_one() {
        for (given, expected, written) in [
            ("25 GB/s", 25_000_000_000, "25 GB/s"),
            ("25GB/s", 25_000_000_000, "25 GB/s"),
            ("400 Gb/s", 50_000_000_000, "50 GB/s"),
            ("1.5 TB/s", 1_500_000_000_000, "1.5 TB/s"),
            ("0.25 GB/s", 250_000_000, "250 MB/s"),
            ("1 MiB/s", 1 << 20, "1.048576 MB/s"),
            ("1 KiB/s", 1024, "1.024 KB/s"),
            ("8 kb/s", 1000, "1 KB/s"),
            ("999 B/s", 999, "999 B/s"),
            ("1000 TB/s", FASTEST, "1000 TB/s"),
        ] {
            assert_eq!(parse_speed(given), Some(expected), "{given}");
            assert_eq!(speed_text(expected), written);
        }
        for speed in [1, 7, 1_001, 123_456_789_012_345, 999_999_999_999_999] {
            assert_eq!(parse_speed(&speed_text(speed)), Some(speed));
        }
    }

    #[test]
    fn anything_else_is_no_speed() {
        for text in
            ["", "25", "GB/s", "-1 GB/s", "+1 GB/s", "0 GB/s", "1e3 GB/s", "1 GBps", "1.2.3 GB/s", ". B/s"]
        {
            assert_eq!(parse_speed(text), None, "{text}");
        }
        for text in ["inf GB/s", "1001 TB/s", "0.4 B/s", "25 GB/s ", " 25 GB/s", "25\tGB/s"] {
            assert_eq!(parse_speed(text), None, "{text}");
        }
    }
}
