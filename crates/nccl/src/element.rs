//! Types of values that NCCL adds up.

use std::ffi::c_int;
use std::fmt;
use std::str::FromStr;

use crate::NcclError;

/// Type of values that are added up. Other types can be transferred, as bytes.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
}

impl Element {
    /// All types, in the order of NCCL's numbers for them.
    pub const ALL: [Self; 10] = [
        Self::I8,
        Self::U8,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
    ];

    /// Bytes of a value.
    pub const fn width(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Name in small letters, such as `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
        }
    }

    /// The number that `ncclDataType_t` has for it.
    pub(crate) const fn number(self) -> c_int {
        self as c_int
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = NcclError;

    /// The type with this name, in letters of either case.
    fn from_str(name: &str) -> Result<Self, NcclError> {
        let found = Self::ALL.into_iter().find(|element| element.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| NcclError::NotAdded { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Element;

    #[test]
    fn numbers_are_those_of_the_header() {
        let numbers: Vec<i32> = Element::ALL.map(Element::number).into();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        assert_eq!([Element::F32.number(), Element::Bf16.number()], [7, 9]);
    }

    #[test]
    fn names_are_read_and_others_refused() {
        for element in Element::ALL {
            assert_eq!(element.to_string().parse::<Element>().unwrap(), element);
        }
        assert_eq!("BF16".parse::<Element>().unwrap(), Element::Bf16);
        let error = "f8e4m3".parse::<Element>().unwrap_err().to_string();
        assert!(error.contains("`f8e4m3`") && error.contains("bf16"), "{error}");
    }
}
