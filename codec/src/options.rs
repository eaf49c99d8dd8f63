//! Options of codecs: what they are called in specs, and what they can be.

use crate::SpecError;
use crate::speed;

/// The option that says how many values a row has; [`crate::Spec::for_rows`] sets it.
pub(crate) const ROW_KEY: &str = "row";

/// The option that names a table; [`crate::Spec::with_table`] sets it.
pub(crate) const TABLE: Choice = Choice { key: "table", values: Values::Table };
/// Digits of the id of a table in the text of a spec.
const ID_DIGITS: usize = 8;

/// An option of a codec.
pub(crate) struct Choice {
    /// Name.
    pub(crate) key: &'static str,
    /// Values that it can have.
    pub(crate) values: Values,
}

/// Values that an option can have.
pub(crate) enum Values {
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
pub(crate) enum Value {
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
    pub(crate) fn default(&self) -> Value {
        match self {
            Self::Names(names) => Value::Name(names[0]),
            Self::UpTo(_) => Value::Number(0),
            Self::Speed(default) => Value::Speed(*default),
            Self::Table => Value::Table(0),
        }
    }

    /// The value that the text stands for, if it is valid.
    pub(crate) fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Names(names) => names.iter().find(|name| **name == text).map(|name| Value::Name(name)),
            // Nothing but digits: the library would take a sign as well.
            Self::UpTo(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            Self::UpTo(most) => text.parse().ok().filter(|number| number <= most).map(Value::Number),
            Self::Speed(_) => speed::parse(text).map(Value::Speed),
            Self::Table if text.len() != ID_DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                None
            }
            Self::Table => u32::from_str_radix(text, 16).ok().filter(|id| *id != 0).map(Value::Table),
        }
    }

    /// All values, in backticks.
    pub(crate) fn listed(&self) -> String {
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
    /// If it is a number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name(name) => name,
            Self::Number(_) | Self::Speed(_) | Self::Table(_) => {
                panic!("the option is a name, not `{self}`")
            }
        }
    }

    /// The number.
    ///
    /// # Panics
    /// If it is a name.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Name(_) | Self::Speed(_) | Self::Table(_) => {
                panic!("the option is a number, not `{self}`")
            }
        }
    }

    /// Bytes per second.
    ///
    /// # Panics
    /// If it is no speed.
    pub(crate) fn speed(self) -> u64 {
        match self {
            Self::Speed(bytes_per_s) => bytes_per_s,
            Self::Name(_) | Self::Number(_) | Self::Table(_) => {
                panic!("the option is a speed, not `{self}`")
            }
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
            Self::Speed(bytes_per_s) => f.write_str(&speed::text(*bytes_per_s)),
            Self::Table(id) => write!(f, "{id:0ID_DIGITS$x}"),
        }
    }
}

/// Splits the text of a spec into a name and its options.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(id, options)| (id, Some(options)))
}

/// Values of all options of a codec: as the text says, or their defaults.
pub(crate) fn choose(
    codec: &'static str,
    options: &[Choice],
    text: Option<&str>,
) -> Result<Vec<Value>, SpecError> {
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
pub(crate) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
