//! Parameters of a frame's format: coding, layout and fields of the type.

use super::fields::Fields;
use crate::{DType, Layout};

/// How residuals are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// In tiers of two bits: all of them. The first tier is in front of the rest.
    Tiers,
    /// By rANS with a table of the frame; by tiers, all of which are behind the rest, where that is shorter.
    Rans,
}

/// Parameters on which the parts of a frame depend, beside its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) coding: Coding,
    pub(super) layout: Layout,
    pub(super) fields: Fields,
}

impl Format {
    pub(super) fn new(coding: Coding, layout: Layout, dtype: DType) -> Self {
        Self { coding, layout, fields: Fields::of(dtype) }
    }
}

impl Coding {
    /// Tag in frame headers.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Tiers => 2,
            Self::Rans => 5,
        }
    }
}
