//! Enums whose values scenarios name.

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
