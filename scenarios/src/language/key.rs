//! Keys of tables. Each is declared once, and from its declaration it is read, described in the schema, and suggested to
//! whoever misspells it.
//!
//! To add a key, add a line to the [`keys!`](crate::language::key::keys) block of its table:
//!
//! ```text
//! keys! { static KEYS =
//!     codec: f64 = number(FACTOR_LIMITS), "factor while the rank encodes or decodes; 1 by default";
//!     sigma: f64 = number(SIGMA_LIMITS), "standard deviation of the logarithm of delays", example = "1.0";
//!     encode: f64 = bandwidth(), "raw bytes per second of encoding", needed = "\"... GB/s\"";
//!     all_gather as "all-gather": Raw = raw(cost_schema), "cost of an All-Gather";
//! }
//! ```
//!
//! A line says the name, what reading the key gives, its [kind](Kind) of value with its limits, the text that editors show, and
//! then, where a message asks for the key, a value for that message: `needed` if the table cannot be without the key, `example` if that
//! depends on other keys. Then read it where the table is read, `table.get(KEYS.codec)?.unwrap_or(1.0)` or
//! `table.need(KEYS.encode)?`; a key that nothing reads is a warning of the compiler. What its value needs to be besides, of which only
//! the reader knows (ranks, other tables), is checked there, on `table.field(KEYS.codec)`. Rules between keys are in
//! [`rule`](crate::language::reader::Rule). The copy of the schema in `docs/` is renewed by a command that its test names. A new optional table
//! that `--set` may create is also named in `set`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::language::field::{BYTES_LIMIT, Field, NAME_LIMIT};
use crate::language::schema::{self, Schema};
use crate::quantity::Dimension;

/// A key of a table, whose value is read as a `T`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// Meaning of the key, in a line.
    pub(crate) about: &'static str,
    /// A value for messages, as TOML; empty where none asks for the key.
    pub(crate) example: &'static str,
    /// Whether the table must have the key, whatever else it has.
    pub(crate) is_needed: bool,
    pub(crate) kind: &'static dyn Kind<T>,
}

/// A key, whatever its values are.
pub(crate) trait AnyKey: Sync {
    fn name(&self) -> &'static str;

    /// A value for messages, as TOML.
    fn example(&self) -> &'static str;

    /// Whether the table must have the key, whatever else it has.
    fn is_needed(&self) -> bool;

    /// The schema of its value, with the text about it.
    fn schema(&self) -> Schema;
}

/// Keys of one table, in the order in which messages and the schema list them.
pub(crate) type Keys<'k> = &'k [&'static dyn AnyKey];

impl<T> AnyKey for Key<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn example(&self) -> &'static str {
        self.example
    }

    fn is_needed(&self) -> bool {
        self.is_needed
    }

    fn schema(&self) -> Schema {
        self.kind.schema().about(self.about)
    }
}

/// The schema of a table with these keys and no others.
pub(crate) fn table(keys: Keys<'_>) -> Schema {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name().to_owned(), key.schema().into_value())).collect();
    assert_eq!(properties.len(), keys.len(), "a key stands twice in its table");
    let required: Vec<&str> = keys.iter().filter(|key| key.is_needed()).map(|key| key.name()).collect();
    let mut value = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        value["required"] = json!(required);
    }
    Schema::new(value)
}

/// Declares the keys of a table: a static with a field per key, and all of them in `all`. See the [module](crate::language::key).
macro_rules! keys {
    ($vis:vis static $table:ident =
        $($key:ident $(as $name:literal)?: $value:ty = $kind:expr, $about:expr $(, $presence:ident = $example:expr)?;)+
    ) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "a type for one static")]
        $vis struct $table {
            $($vis $key: &'static $crate::language::key::Key<$value>,)+
            /// All keys, in the order in which messages and the schema list them.
            #[allow(dead_code, reason = "some tables take only some of the keys")]
            $vis all: $crate::language::key::Keys<'static>,
        }

        $vis static $table: $table = $table {
            $($key: &$crate::language::key::keys!(@key $key ($($name)?) $kind, $about, $($presence = $example)?),)+
            all: &[$(&$crate::language::key::keys!(@key $key ($($name)?) $kind, $about, $($presence = $example)?)),+],
        };
    };
    (@key $key:ident ($($name:literal)?) $kind:expr, $about:expr, $($presence:ident = $example:expr)?) => {
        $crate::language::key::Key {
            name: $crate::language::key::keys!(@name $key $($name)?),
            about: $about,
            example: $crate::language::key::keys!(@example $($example)?),
            is_needed: $crate::language::key::keys!(@is_needed $($presence)?),
            kind: &$kind,
        }
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $name:literal) => { $name };
    (@example) => { "" };
    (@example $example:expr) => { $example };
    (@is_needed) => { false };
    (@is_needed example) => { false };
    (@is_needed needed) => { true };
}

pub(crate) use keys;

/// Kind of the values of a key; reading one gives a `T`.
pub(crate) trait Kind<T>: Sync {
    /// Reads a value, or says what is wrong with it.
    fn read(&self, field: &Field<'_>) -> Result<T>;

    /// Describes what [`read`](Self::read) accepts.
    fn schema(&self) -> Schema;
}

/// A kind that is a reader and a schema.
pub(crate) struct Custom<T> {
    read: fn(&Field<'_>) -> Result<T>,
    schema: fn() -> Schema,
}

/// Values that a function reads and another one describes: tables, mostly.
pub(crate) const fn custom<T>(read: fn(&Field<'_>) -> Result<T>, schema: fn() -> Schema) -> Custom<T> {
    Custom { read, schema }
}

impl<T> Kind<T> for Custom<T> {
    fn read(&self, field: &Field<'_>) -> Result<T> {
        (self.read)(field)
    }

    fn schema(&self) -> Schema {
        (self.schema)()
    }
}

/// Kind of values that the table's reader takes as a field, because reading them needs more context: ranks, files, other tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw;

/// Values that are described here and read where what they depend on is known.
pub(crate) const fn raw(schema: fn() -> Schema) -> Custom<Raw> {
    custom(|_| Ok(Raw), schema)
}

/// A number with a unit, in the base unit.
pub(crate) struct Quantity(Dimension);

/// Seconds.
pub(crate) const fn time() -> Quantity {
    Quantity(Dimension::Time)
}

/// Bytes per second.
pub(crate) const fn bandwidth() -> Quantity {
    Quantity(Dimension::Bandwidth)
}

/// Floating-point operations per second.
pub(crate) const fn compute_rate() -> Quantity {
    Quantity(Dimension::ComputeRate)
}

/// Events per second.
pub(crate) const fn rate() -> Quantity {
    Quantity(Dimension::Rate)
}

impl Kind<f64> for Quantity {
    fn read(&self, field: &Field<'_>) -> Result<f64> {
        match self.0 {
            Dimension::Time => field.time(),
            Dimension::Bandwidth => field.bandwidth(),
            Dimension::ComputeRate => field.compute_rate(),
            Dimension::Rate => field.rate(),
            Dimension::Bytes => unreachable!("bytes are whole numbers"),
        }
    }

    fn schema(&self) -> Schema {
        schema::quantity(self.0)
    }
}

pub(crate) const fn text() -> Custom<String> {
    custom(|field| field.string().map(str::to_owned), schema::string)
}

/// A name that becomes part of a file name.
pub(crate) const fn file_name() -> Custom<String> {
    custom(read_file_name, || {
        schema::pattern(&format!("^[0-9A-Za-z][0-9A-Za-z._-]{{0,{}}}$", NAME_LIMIT - 1))
    })
}

fn read_file_name(field: &Field<'_>) -> Result<String> {
    field.name()
}

/// Schema of the values that [`Field::bytes_or_integer`] accepts.
pub(crate) fn bytes_or_integer() -> Schema {
    schema::one_of([schema::bytes(), schema::integer(0..=BYTES_LIMIT)])
}

pub(crate) struct Limited<N>(RangeInclusive<N>);

/// A plain number; integers are fine.
pub(crate) const fn number(range: RangeInclusive<f64>) -> Limited<f64> {
    Limited(range)
}

/// A whole number, of 32 or 64 bits.
pub(crate) const fn integer<N>(range: RangeInclusive<N>) -> Limited<N> {
    Limited(range)
}

macro_rules! limited {
    ($($number:ident: $read:ident, $schema:ident;)+) => {
        $(impl Kind<$number> for Limited<$number> {
            fn read(&self, field: &Field<'_>) -> Result<$number> {
                field.$read(self.0.clone())
            }

            fn schema(&self) -> Schema {
                schema::$schema(self.0.clone())
            }
        })+
    };
}

limited! {
    f64: number, number;
    u32: integer_u32, integer;
    u64: integer, integer;
}

/// One of several values, by name.
pub(crate) struct Choice<T: 'static> {
    what: &'static str,
    all: &'static [T],
    name: fn(T) -> &'static str,
}

/// One of `all`, by name; `what` they are, for messages.
pub(crate) const fn choice<T>(
    what: &'static str,
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> Choice<T> {
    Choice { what, all, name }
}

impl<T: Copy + Sync> Kind<T> for Choice<T> {
    fn read(&self, field: &Field<'_>) -> Result<T> {
        field.choice(self.what, self.all, self.name)
    }

    fn schema(&self) -> Schema {
        schema::names(self.all.iter().copied().map(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{integer, text};

    keys! { static KEYS =
        first: String = text(), "first", needed = "\"x\"";
        second as "second-one": u32 = integer(1..=4_u32), "second";
    }

    #[test]
    fn tables_are_closed() {
        assert_eq!((KEYS.first.name, KEYS.second.name), ("first", "second-one"));
        assert_eq!(
            table(KEYS.all).into_value(),
            json!({
                "type": "object",
                "properties": {
                    "first": { "description": "first", "type": "string" },
                    "second-one": { "description": "second", "type": "integer", "minimum": 1, "maximum": 4 },
                },
                "additionalProperties": false,
                "required": ["first"],
            })
        );
    }

    #[test]
    #[should_panic(expected = "a key stands twice in its table")]
    fn a_key_that_stands_twice_is_noticed() {
        table(&[KEYS.first, KEYS.first]);
    }
}
