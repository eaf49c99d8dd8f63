//! `delta` in front of the codec in a spec.

use std::fmt;

use super::{Base, Delta, DeltaCoding, ID};
use crate::options::{self, listed};
use crate::{Codec, SpecError};

/// The `delta` prefix of a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    /// The base; none if it is still to be given.
    pub(crate) base: Option<Base>,
}

impl Prefix {
    /// Its id.
    pub(crate) const ID: &str = ID;

    /// Reads what is before the `+`, if it begins with the id.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        options::choose(ID, &[], options::split(text).1)?;
        Ok(Self { base: None })
    }

    /// Whether the codec with this id can be behind it.
    pub(crate) fn check(codec: &'static str) -> Result<(), SpecError> {
        let valid = || listed(DeltaCoding::ALL.into_iter().map(DeltaCoding::id));
        match DeltaCoding::of(codec) {
            Some(_) => Ok(()),
            None => Err(SpecError::DeltaCodec { codec, valid: valid() }),
        }
    }

    /// The codec with this in front of it.
    pub(crate) fn before(self, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Delta::before(codec, self.base))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ID}+")
    }
}
