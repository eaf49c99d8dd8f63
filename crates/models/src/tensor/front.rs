//! Bytes in front of the container: type and shape.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::TensorError;
use crate::file::bits;

/// Version of the format of compressed tensors.
pub const TENSOR_VERSION: u8 = 1;
const MAGIC: [u8; 4] = *b"ZPWT";
/// Magic, version, origin, number of dimensions, bytes of the type's name.
const FIXED: usize = 8;
/// Length in bytes of the digest behind the shape.
const DIGEST: usize = 8;
/// Bit of the byte with the origin: frames are differences from a base.
const AGAINST: u8 = 0x80;
/// Most dimensions.
const MOST: usize = 64;

/// Kind of object that a tensor was, for readers in languages that have several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Bytes without a shape.
    Bytes,
    /// An array of NumPy, or of a program that has one kind only.
    #[default]
    Array,
    /// A tensor of PyTorch.
    Torch,
}

impl Origin {
    /// In the order of their numbers in the header.
    const ALL: [Self; 3] = [Self::Bytes, Self::Array, Self::Torch];
}

/// Type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the type, as safetensors have it.
    pub dtype: String,
    /// Values along each dimension; none for a scalar.
    pub shape: Vec<u64>,
    /// Kind of object that it was.
    pub origin: Origin,
}

impl Description {
    /// A tensor of this type and shape.
    pub fn new(dtype: &str, shape: impl Into<Vec<u64>>) -> Self {
        Self { dtype: dtype.to_owned(), shape: shape.into(), origin: Origin::default() }
    }

    /// Bytes of the values.
    ///
    /// # Errors
    /// [`TensorError::Shape`] if the type is none of safetensors, the values are not whole bytes, or there are more than memory can have.
    pub fn len(&self) -> Result<usize, TensorError> {
        let fail =
            |reason| TensorError::Shape { dtype: self.dtype.clone(), shape: self.shape.clone(), reason };
        if self.shape.len() > MOST {
            return Err(fail("64 dimensions are the most"));
        }
        let bits = bits(&self.dtype).ok_or_else(|| fail("safetensors have no such type"))?;
        let all = self.shape.iter().try_fold(bits, |product, side| product.checked_mul(*side));
        // A side of 0 empties the tensor, however long the others are.
        let all = if self.shape.contains(&0) { Some(0) } else { all };
        let all = all.ok_or_else(|| fail("it has more bytes than memory"))?;
        if !all.is_multiple_of(8) {
            return Err(fail("its values are no whole number of bytes"));
        }
        isize::try_from(all / 8).map(isize::unsigned_abs).map_err(|_| fail("it has more bytes than memory"))
    }

    /// Whether the tensor has no values.
    ///
    /// # Errors
    /// Errors of [`Self::len`].
    pub fn is_empty(&self) -> Result<bool, TensorError> {
        Ok(self.len()? == 0)
    }

    /// Number of bytes in front of the container.
    pub(super) fn front_len(&self) -> usize {
        padded(FIXED + self.dtype.len()) + 8 * self.shape.len() + DIGEST
    }

    /// The bytes in front of the container.
    pub(super) fn to_bytes(&self, is_against: bool) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let against = if is_against { AGAINST } else { 0 };
        bytes.extend([
            TENSOR_VERSION,
            self.origin as u8 | against,
            self.shape.len() as u8,
            self.dtype.len() as u8,
        ]);
        bytes.extend(self.dtype.as_bytes());
        bytes.resize(padded(bytes.len()), 0);
        bytes.extend(self.shape.iter().flat_map(|side| side.to_le_bytes()));
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Reads what is in front of the container: the description, whether frames are differences, and how many bytes that was.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, bool, usize), TensorError> {
        let cut = || TensorError::Damaged { what: "it ends in its header".to_owned() };
        let found = bytes[..bytes.len().min(MAGIC.len())].to_vec();
        if found != MAGIC {
            return Err(TensorError::Foreign { found });
        }
        let &[_, _, _, _, version, origin, sides, name_len] = bytes.first_chunk().ok_or_else(cut)?;
        if version != TENSOR_VERSION {
            return Err(TensorError::Version { found: version, known: TENSOR_VERSION });
        }
        let name_end = FIXED + usize::from(name_len);
        let (sides_at, sides) = (padded(name_end), usize::from(sides));
        let end = sides_at + 8 * sides;
        let digest = bytes.get(end..end + DIGEST).ok_or_else(cut)?;
        if digest != xxh3_64(&bytes[..end]).to_le_bytes() {
            return Err(TensorError::Damaged { what: "its header has another digest".to_owned() });
        }
        let unknown = |what: &str| TensorError::Damaged { what: what.to_owned() };
        let dtype =
            std::str::from_utf8(&bytes[FIXED..name_end]).map_err(|_| unknown("its type is no text"))?;
        let origin_of = Origin::ALL.get(usize::from(origin & !AGAINST)).copied();
        let shape = bytes[sides_at..end].as_chunks().0.iter().map(|side| u64::from_le_bytes(*side)).collect();
        let origin_of = origin_of.ok_or_else(|| unknown("it is of an unknown kind"))?;
        let description = Self { dtype: dtype.to_owned(), shape, origin: origin_of };
        Ok((description, origin & AGAINST != 0, end + DIGEST))
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}
