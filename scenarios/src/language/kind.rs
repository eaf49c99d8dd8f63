//! Kinds of values: how a value is read, and how the schema describes it, from one statement of what is right.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::language::field::{BYTES_LIMIT, Field, NAME_LIMIT};
use crate::language::schema::{self, Schema};
use crate::quantity::Dimension;

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

/// Any text.
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

/// A number within limits.
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
