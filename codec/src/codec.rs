//! The trait that all codecs implement.

use crate::{DType, EncodeError, FrameShape, Layout};

/// A lossless codec with its options: [`crate::Tiered`], [`crate::Rans`], [`crate::Planes`], [`crate::Raw`], one of
/// these by the values ([`crate::Auto`]), with [`crate::Dedup`] or [`crate::Delta`] in front of one of them, or what a [`crate::Spec`] asks for.
///
/// Encoding is a method of a codec, because options matter; decoding is that of [`crate::Decoder`], because a
/// frame says itself how it was made.
///
/// Sizes depend on the shape of a frame only, never on options or values; those of [`crate::Auto`] in the split layout on
/// its goal as well.
///
/// A codec of another crate is a [`crate::CustomCodec`], which is registered under a tag of its own: frames name their codec by a tag, and readers look it up.
pub trait Codec: EncodeChecked + std::fmt::Debug + Send + Sync {
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
        let shape = check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        self.encode_checked(Checked { shape, values, static_out, dynamic_out })
    }

    /// Encodes `values` into one buffer: the static section, then the dynamic one. In the compact layout it is a frame for
    /// [`crate::decompress`].
    ///
    /// # Errors
    /// Errors of [`Self::encode`], and if there is no memory for the frame.
    fn encode_to_vec(&self, layout: Layout, dtype: DType, values: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let shape = shape_of(self, layout, dtype, values)?;
        let (static_len, bytes) = (self.static_len(shape), self.bound(shape));
        let mut frame = zeroed(bytes).ok_or(EncodeError::OutOfMemory { bytes })?;
        let (static_out, dynamic_out) = frame.split_at_mut(static_len);
        let dynamic_len = self.encode(layout, dtype, values, static_out, dynamic_out)?;
        frame.truncate(static_len + dynamic_len);
        Ok(frame)
    }
}

/// Checks what [`Codec::encode`] is given; returns the shape of the frame.
pub(crate) fn check_buffers<C: Codec + ?Sized>(
    codec: &C,
    layout: Layout,
    dtype: DType,
    values: &[u8],
    static_out: &[u8],
    dynamic_out: &[u8],
) -> Result<FrameShape, EncodeError> {
    let shape = shape_of(codec, layout, dtype, values)?;
    let static_len = codec.static_len(shape);
    if static_out.len() != static_len {
        return Err(EncodeError::StaticBuffer { needed: static_len, found: static_out.len() });
    }
    let needed = codec.bound(shape) - static_len;
    if dynamic_out.len() < needed {
        return Err(EncodeError::DynamicBuffer { needed, found: dynamic_out.len() });
    }
    Ok(shape)
}

/// The shape of a frame of these values.
///
/// # Errors
/// If the codec does not support the type or the values are not whole.
pub(crate) fn shape_of<C: Codec + ?Sized>(
    codec: &C,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<FrameShape, EncodeError> {
    if !codec.supports(dtype) {
        return Err(EncodeError::Unsupported { codec: codec.id(), dtype });
    }
    if !values.len().is_multiple_of(dtype.width()) {
        return Err(EncodeError::PartialValue { bytes: values.len(), dtype });
    }
    Ok(FrameShape { layout, dtype, count: values.len() / dtype.width() })
}

/// A vector of zeros, or none if there is no memory for it. Pages that are never written are not touched.
/// Lack of memory of the size of a payload is an error, and not the end of the process.
pub(crate) fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    bytemuck::allocation::try_zeroed_vec(bytes).ok()
}

impl<C: Codec + ?Sized> EncodeChecked for Box<C> {
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

/// Arguments of [`Codec::encode`] that it has checked.
#[derive(Debug)]
pub struct Checked<'a> {
    /// Layout, type and number of the values.
    pub shape: FrameShape,
    /// The values.
    pub values: &'a [u8],
    /// Room for the static section, exactly.
    pub static_out: &'a mut [u8],
    /// Room for the longest dynamic section, or more.
    pub dynamic_out: &'a mut [u8],
}

/// Encoder of a codec, behind the checks of [`Codec::encode`].
pub trait EncodeChecked {
    /// Encodes a frame; returns the length of the dynamic section.
    ///
    /// # Errors
    /// Options that do not fit the values: a base or a table of others.
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError>;
}
