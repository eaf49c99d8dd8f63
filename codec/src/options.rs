//! Options of codecs: what they are called in specs, and what they can be.

/// The option that says how many values a row has; [`crate::Spec::for_rows`] sets it.
pub(crate) const ROW: &str = "row";

/// An option of a codec.
pub(crate) struct Choice {
    /// Name.
    pub(crate) key: &'static str,
    /// What it can be.
    pub(crate) values: Values,
}

/// What an option can be.
pub(crate) enum Values {
    /// One of these names, of which the first is the default.
    Names(&'static [&'static str]),
    /// A whole number up to this one; 0 is the default.
    UpTo(u32),
}

/// What an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// One of [`Values::Names`].
    Name(&'static str),
    /// A number within [`Values::UpTo`].
    Number(u32),
}

impl Values {
    pub(crate) fn default(&self) -> Value {
        match self {
            Self::Names(names) => Value::Name(names[0]),
            Self::UpTo(_) => Value::Number(0),
        }
    }

    /// The value that the text stands for, if there is such a one.
    pub(crate) fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Names(names) => names.iter().find(|name| **name == text).map(|name| Value::Name(name)),
            // Nothing but digits: the library would take a sign as well.
            Self::UpTo(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            Self::UpTo(most) => text.parse().ok().filter(|number| number <= most).map(Value::Number),
        }
    }

    /// All values, in backticks.
    pub(crate) fn listed(&self) -> String {
        match self {
            Self::Names(names) => listed(names.iter().copied()),
            Self::UpTo(most) => format!("whole numbers from `0` to `{most}`"),
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
            Self::Number(number) => panic!("the option is a name, not `{number}`"),
        }
    }

    /// The number.
    ///
    /// # Panics
    /// If it is a name.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Name(name) => panic!("the option is a number, not `{name}`"),
            Self::Number(number) => number,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The names in backticks, with commas between them.
pub(crate) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
