//! `dedup` and `dedup:row=N` in front of the codec in a spec.

use std::fmt;

use super::{Dedup, ID, LONGEST_ROW};
use crate::options::{ROW, Values};
use crate::{Codec, SpecError};

/// What the option [`ROW`] can be.
const ROWS: Values = Values::UpTo(LONGEST_ROW);

/// What a spec says about repeated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    /// Values of a row; 0 if it is for whoever has the values to say.
    pub(crate) row: u32,
}

impl Prefix {
    /// All ids.
    pub(crate) const IDS: [&str; 1] = [ID];

    /// Reads what is before the `+`.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        let (id, options) = match text.split_once(':') {
            Some((id, options)) => (id, Some(options)),
            None => (text, None),
        };
        if id != ID {
            return Err(SpecError::UnknownPrefix { id: id.to_owned(), valid: format!("`{ID}`") });
        }
        let mut row = None;
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (key, value) =
                option.split_once('=').ok_or_else(|| SpecError::Malformed { text: option.to_owned() })?;
            if key != ROW {
                let valid = format!("its options are `{ROW}`");
                return Err(SpecError::UnknownOption { codec: ID, key: key.to_owned(), valid });
            }
            let number = ROWS.parse(value).ok_or_else(|| {
                let valid = ROWS.listed();
                SpecError::BadValue { codec: ID, key: ROW, value: value.to_owned(), valid }
            })?;
            if row.replace(number.number()).is_some() {
                return Err(SpecError::Repeated { codec: ID, key: ROW });
            }
        }
        Ok(Self { row: row.unwrap_or(0) })
    }

    /// The codec with this in front of it.
    pub(crate) fn before(self, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Dedup::new(codec, self.row))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ID)?;
        if self.row > 0 { write!(f, ":{ROW}={}+", self.row) } else { f.write_str("+") }
    }
}
