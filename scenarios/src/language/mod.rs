//! The language itself: values, tables and their keys, and the schema that follows from them.

mod field;
pub(crate) mod key;
pub(crate) mod markdown;
mod reader;
pub(crate) mod schema;

pub(crate) use field::{BYTES_LIMIT, Field};
pub(crate) use key::{
    AnyKey, Key, Keys, Raw, bandwidth, bytes_or_integer, choice, compute_rate, custom, file_name, integer,
    keys, number, rate, raw, table, text, time,
};
pub(crate) use reader::{Condition, Reader, Rule, Then};
pub(crate) use schema::{Schema, any, array, count, map, names, one_of, pattern, string};

/// Declares an enum and the name of each of its values: `name` gives it, and `ALL` are all values in their order.
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $type:ident { $($(#[$of_value:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        $vis enum $type {
            $($(#[$of_value])* $value,)+
        }

        impl $type {
            /// All, in their order.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Name in scenarios and reports.
            $vis fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}

pub(crate) use named;
