//! The body of a frame, as decoders of codecs take it.

use crate::tables::{Table, Tables};
use crate::{DType, DecodeError, Layout};

/// A frame whose header has been compared with what is expected, and whose sections have their lengths.
pub(crate) struct Body<'a> {
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    pub(crate) static_section: &'a [u8],
    pub(crate) dynamic_section: &'a [u8],
    /// The table that the header names.
    pub(crate) table: Option<&'a Table>,
    /// All tables of the reader, for [`Self::decode_inner`].
    pub(crate) tables: &'a Tables,
    /// Decodes a frame that is inside of this one: a codec knows no other codec.
    pub(crate) decode_inner: DecodeInner,
}

/// Decodes a frame in the compact layout, of the values for which there is room, with these tables.
pub(crate) type DecodeInner = fn(&Tables, DType, &[u8], &mut [u8]) -> Result<(), DecodeError>;
