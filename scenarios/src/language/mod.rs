//! The language itself: values, tables and their keys, and the schema that follows from them.

mod field;
pub(crate) mod key;
mod kind;
mod named;
mod reader;
mod rule;
pub(crate) mod schema;

pub(crate) use field::{BYTES_LIMIT, Field};
pub(crate) use key::{AnyKey, Key, Keys, keys, table};
pub(crate) use kind::{
    Raw, bandwidth, bytes_or_integer, choice, compute_rate, custom, file_name, integer, number, rate, raw,
    text, time,
};
pub(crate) use named::named;
pub(crate) use reader::Reader;
pub(crate) use rule::{Condition, Rule, Then};
pub(crate) use schema::{Schema, any, array, count, map, names, one_of, pattern, string};
