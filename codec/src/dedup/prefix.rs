//! `dedup` and `dedup:row=N` in front of the codec in a spec.

use std::fmt;

use super::{Dedup, ID, LONGEST_ROW};
use crate::options::{self, Choice, ROW_KEY, Values};
use crate::{Codec, SpecError};

const OPTIONS: &[Choice] = &[Choice { key: ROW_KEY, values: Values::UpTo(LONGEST_ROW) }];

/// The `dedup` prefix of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    /// Values of a row; 0 if the caller that has the values gives it.
    pub(crate) row: u32,
}

impl Prefix {
    /// Its id.
    pub(crate) const ID: &str = ID;

    /// Reads what is before the `+`, if it begins with the id.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        let (_, options) = options::split(text);
        Ok(Self { row: options::choose(ID, OPTIONS, options)?[0].number() })
    }

    /// The codec with this in front of it.
    pub(crate) fn before(self, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Dedup::new(codec, self.row))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ID)?;
        if self.row > 0 { write!(f, ":{ROW_KEY}={}+", self.row) } else { f.write_str("+") }
    }
}
