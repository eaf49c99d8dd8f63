//! The two sections of a frame for codecs that work piece by piece, in tiles or blocks: front matter first, in the static
//! section of the split layout and in the dynamic one of the compact layout; then the pieces' bodies.

use crate::frame::HEADER_LEN;
use crate::options::Value;
use crate::tables::{Table, TableUsage, Tables};
use crate::{Codec, DType, DecodeError, EncodeError, Layout, Section};

/// See [`crate::Codec::static_len`]: front matter of `front_len` bytes, and of each piece of at most `piece` values what
/// `body` says. Saturates.
pub fn static_len(
    layout: Layout,
    count: usize,
    piece: usize,
    front_len: usize,
    body: impl Fn(usize) -> usize,
) -> usize {
    match layout {
        Layout::Split => (count / piece)
            .saturating_mul(body(piece))
            .saturating_add(body(count % piece))
            .saturating_add(front_len),
        Layout::Compact => 0,
    }
}

/// See [`crate::Codec::bound`]: front matter, and the values as they are. Saturates.
pub fn bound(count: usize, width: usize, front_len: usize) -> usize {
    count.saturating_mul(width).saturating_add(front_len)
}

/// Sections of a frame as an encoder writes them.
pub struct Writer<'a> {
    /// Front matter, zero behind the room for the header.
    pub front: &'a mut [u8],
    /// The pieces' parts of the static section; empty in the compact layout.
    pub bodies: &'a mut [u8],
    /// The dynamic section behind front matter.
    pub dynamic: &'a mut [u8],
    /// Bytes of front matter in the dynamic section.
    pub front_dynamic_len: usize,
}

impl<'a> Writer<'a> {
    pub fn new(
        layout: Layout,
        front_len: usize,
        static_out: &'a mut [u8],
        dynamic_out: &'a mut [u8],
    ) -> Self {
        let (front, bodies, dynamic, front_dynamic_len) = match layout {
            Layout::Split => {
                let (front, bodies) = static_out.split_at_mut(front_len);
                (front, bodies, dynamic_out, 0)
            }
            Layout::Compact => {
                let (front, dynamic) = dynamic_out.split_at_mut(front_len);
                (front, static_out, dynamic, front_len)
            }
        };
        front[HEADER_LEN..].fill(0);
        Self { front, bodies, dynamic, front_dynamic_len }
    }
}

/// Sections of a frame as a decoder reads them.
pub struct Reader<'a> {
    /// Front matter, header included.
    pub front: &'a [u8],
    /// The pieces' parts of the static section; empty in the compact layout.
    pub bodies: &'a [u8],
    /// The unread part of the dynamic section.
    pub dynamic: &'a [u8],
    dynamic_len: usize,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// If a section is shorter than front matter.
    pub fn new(body: &Body<'a>, front_len: usize) -> Result<Self, DecodeError> {
        let Body { layout, static_section, dynamic_section, .. } = *body;
        let (whole, section) = match layout {
            Layout::Split => (static_section, Section::Static),
            Layout::Compact => (dynamic_section, Section::Dynamic),
        };
        let truncated = DecodeError::Truncated { section, needed: front_len, found: whole.len() };
        let (front, behind) = whole.split_at_checked(front_len).ok_or(truncated)?;
        let (bodies, dynamic) = match layout {
            Layout::Split => (behind, dynamic_section),
            Layout::Compact => (static_section, behind),
        };
        Ok(Self { front, bodies, dynamic, dynamic_len: dynamic_section.len() })
    }

    /// Everything has been read.
    ///
    /// # Errors
    /// If something is left of the dynamic section.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.dynamic.is_empty() {
            return Ok(());
        }
        let (found, left) = (self.dynamic_len, self.dynamic.len());
        Err(DecodeError::Length { section: Section::Dynamic, expected: (found - left) as u64, found })
    }
}

/// Writes values as they are: as many as there is room for to `static_body`, the others to the front of `dynamic`. Returns
/// the length of the latter.
pub fn store(values: &[u8], static_body: &mut [u8], dynamic: &mut [u8]) -> usize {
    let (first, second) = values.split_at(static_body.len());
    static_body.copy_from_slice(first);
    dynamic[..second.len()].copy_from_slice(second);
    second.len()
}

/// Reads what [`store`] writes and takes it off `dynamic`; `None` if that is too short.
pub fn restore(static_body: &[u8], dynamic: &mut &[u8], out: &mut [u8]) -> Option<()> {
    let (first, second) = out.split_at_mut(static_body.len());
    first.copy_from_slice(static_body);
    second.copy_from_slice(dynamic.split_off(..second.len())?);
    Some(())
}

/// A frame whose header has been compared with what is expected, and whose sections have their lengths.
pub struct Body<'a> {
    pub layout: Layout,
    pub dtype: DType,
    pub static_section: &'a [u8],
    pub dynamic_section: &'a [u8],
    /// The table that the header names.
    pub table: Option<&'a Table>,
    /// All tables of the reader, for [`Self::decode_inner`].
    pub tables: &'a Tables,
    /// Decodes a frame that is inside of this one: a codec knows no other codec.
    pub decode_inner: DecodeInner,
}

/// Decodes a frame in the compact layout, of the values for which there is room, with these tables.
pub type DecodeInner = fn(&Tables, DType, &[u8], &mut [u8]) -> Result<(), DecodeError>;

/// Places of the signs and mantissas of BF16 values in the split layout of a codec that works piece by piece.
pub struct Pieces {
    /// Values of each piece but the last, which may have fewer.
    pub piece: usize,
    /// Bytes of the front matter, by the number of values of the frame.
    pub front_len: fn(usize) -> usize,
    /// Bytes of the static body of a piece, by its number of values.
    pub static_body: fn(usize) -> usize,
    /// Offset of the signs and mantissas of a coded piece, which are consecutive bytes, one per value.
    pub rest_at: fn(usize) -> usize,
    /// Reads how long each piece's part of the dynamic section is.
    pub tails: FindTails,
}

/// Function of front matter, dynamic section and number of values.
pub type FindTails = fn(&[u8], &[u8], usize) -> Result<Tails, DecodeError>;

/// Parts of the dynamic section that belong to the pieces of a frame.
pub struct Tails {
    /// Bytes before the first.
    pub first: usize,
    /// Bytes of each; `None` of a stored piece, which has what its static body has no room for.
    pub lens: Vec<Option<usize>>,
}

/// Functions of a codec for tables that its frames can name instead of carrying them. `&[Value]` are the values of its options.
pub struct TableFns {
    /// The table for values like those of some samples in this layout; none if there are no values to code.
    pub train: Train,
    /// The codec with this table for all frames. Fails if it is no table of this codec.
    pub build: Build,
    /// How well the table of a frame of so many values fits, read from its front matter.
    pub usage: fn(&Body<'_>, usize) -> Result<TableUsage, DecodeError>,
}

/// See [`TableFns::train`].
type Train = fn(&[Value], Layout, DType, &[&[u8]]) -> Result<Option<Table>, EncodeError>;
/// See [`TableFns::build`].
type Build = fn(&[Value], &Table) -> Result<Box<dyn Codec>, DecodeError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_add_up_and_saturate() {
        let body = |count: usize| 3 * count;
        assert_eq!(static_len(Layout::Split, 25, 10, 100, body), 100 + 3 * 25);
        assert_eq!(static_len(Layout::Compact, 25, 10, 100, body), 0);
        assert_eq!(bound(25, 4, 7), 107);
        for count in [usize::MAX, usize::MAX / 2] {
            assert_eq!(static_len(Layout::Split, count, 10, 100, body), usize::MAX);
            assert_eq!(bound(count, 4, 7), usize::MAX);
        }
    }

    #[test]
    fn stored_values_come_back() {
        let values = [1, 2, 3, 4, 5];
        for static_len in 0..=5 {
            let (mut fixed, mut dynamic) = (vec![0; static_len], [9; 6]);
            let len = store(&values, &mut fixed, &mut dynamic);
            assert_eq!(len, 5 - static_len);
            let (mut out, mut left) = ([0; 5], &dynamic[..len + 1]);
            assert_eq!(restore(&fixed, &mut left, &mut out), Some(()));
            assert_eq!((out, left), (values, &[9][..]));
            if len > 0 {
                assert_eq!(restore(&fixed, &mut &dynamic[..len - 1], &mut out), None);
            }
        }
    }
}
