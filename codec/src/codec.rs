//! The trait that all codecs implement.

pub(crate) use sealed::{Checked, Sealed};

use crate::{DType, EncodeError, FrameShape, Layout, frame};

/// A lossless codec with its options: [`crate::Tiered`], [`crate::Window7`], [`crate::Codebook16`], [`crate::Raw`], one of
/// these by the values ([`crate::Auto`]), with [`crate::Dedup`] in front of one of them, or what a [`crate::Spec`] asks for.
///
/// Encoding is a method of a codec, because options matter; decoding is the free function [`crate::decode`], because a
/// frame says itself how it was made.
///
/// Sizes depend on the shape of a frame only, never on options or values; those of [`crate::Auto`] in the split layout on
/// its goal as well.
///
/// The trait is sealed: frames name their codec by a tag, and readers of a frame look the tag up here. A codec of another crate is a [`crate::CustomCodec`],
/// which is registered under a tag of its own.
pub trait Codec: Sealed + std::fmt::Debug + Send + Sync {
    /// The id in specs, without options.
    fn id(&self) -> &'static str;

    /// The id of the codec of its frames in the split layout: another one if the codec is chosen ([`crate::Auto`]).
    fn id_in_split(&self, _: DType) -> &'static str {
        self.id()
    }

    /// Whether values of this type can be encoded.
    fn supports(&self, dtype: DType) -> bool;

    /// Bytes of the static section of a frame; 0 in the compact layout.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn static_len(&self, shape: FrameShape) -> usize;

    /// The most bytes that the static and the dynamic section of a frame take together.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn bound(&self, shape: FrameShape) -> usize;

    /// The fewest bytes that the static and the dynamic section of a frame can take together; what is shorter is no such
    /// frame. It grows with the number of values, so that a reader that looks first allocates no more than a frame earns.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn min_len(&self, shape: FrameShape) -> usize {
        // Front matter, which is what the bound has beside the values, whatever becomes of these.
        let bound = self.bound(shape);
        match shape.count.checked_mul(shape.dtype.width()) {
            Some(values) if bound <= isize::MAX as usize => (bound - values).max(self.static_len(shape)),
            _ => usize::MAX,
        }
    }

    /// Encodes `values` (little-endian, a whole number of them) and returns the length of the dynamic section in bytes.
    ///
    /// `static_out` has exactly [`Self::static_len`] bytes, all of which are written. `dynamic_out` has at least
    /// [`Self::bound`] less [`Self::static_len`] bytes; the dynamic section is its front, the rest is left unspecified.
    ///
    /// # Errors
    /// If the type is not supported, the values are not whole, or a buffer has the wrong length. Values never cause
    /// an error.
    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let shape = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        self.encode_checked(Checked { shape, values, static_out, dynamic_out })
    }
}

impl<C: Codec + ?Sized> Sealed for Box<C> {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        (**self).encode_checked(frame)
    }
}

impl<C: Codec + ?Sized> Codec for Box<C> {
    fn id(&self) -> &'static str {
        (**self).id()
    }

    fn id_in_split(&self, dtype: DType) -> &'static str {
        (**self).id_in_split(dtype)
    }

    fn supports(&self, dtype: DType) -> bool {
        (**self).supports(dtype)
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        (**self).static_len(shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        (**self).bound(shape)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        (**self).min_len(shape)
    }
}

mod sealed {
    use crate::{EncodeError, FrameShape};

    /// Arguments of [`super::Codec::encode`] that it has checked. Only this crate can make them.
    #[derive(Debug)]
    pub struct Checked<'a> {
        pub(crate) shape: FrameShape,
        pub(crate) values: &'a [u8],
        pub(crate) static_out: &'a mut [u8],
        pub(crate) dynamic_out: &'a mut [u8],
    }

    /// Private supertrait: only this crate implements [`super::Codec`].
    pub trait Sealed {
        /// Encodes a frame; returns the length of the dynamic section.
        ///
        /// # Errors
        /// Options that do not fit the values: a base or a table of others.
        fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError>;
    }
}
