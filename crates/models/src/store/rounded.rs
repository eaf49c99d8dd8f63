//! BF16 tensors that are the rounding of an F32 tensor of the same checkpoint, as weights are of their masters: they need no object of their own.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::file::Watch;
use crate::store::StoreError;
use crate::store::add::{Item, Source};
use crate::store::address::{PIECE, PieceHash, hash_of_piece, pieces_of};
use crate::store::encode::read_source;

/// Type of the tensor that is rounded, and of what comes out.
pub(crate) const FROM: &str = "F32";
pub(crate) const TO: &str = "BF16";
/// Bytes of a value that is rounded over those of what comes out.
pub(crate) const SHRINKS: u64 = 2;

/// Tensors of the right length that are looked at, by the likeness of their names.
const CANDIDATES: usize = 8;
/// Tensors of the right length whose names are looked at: more than a model has of one shape, unless these are called alike.
const LOOKED_AT: usize = 4096;
/// Bytes of a sample that tells most other tensors apart.
const SAMPLE: u64 = 16 << 10;

/// F32 values as BF16: the nearest one, of two that are as near the even one; NaN becomes the quiet NaN without a sign, as in PyTorch.
pub(crate) fn round(values: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(values.as_chunks::<4>().0.iter().flat_map(|value| rounded(*value)));
}

fn rounded(value: [u8; 4]) -> [u8; 2] {
    let bits = u32::from_le_bytes(value);
    if f32::from_bits(bits).is_nan() {
        return 0x7fc0_u16.to_le_bytes();
    }
    let [_, _, low, high] = (bits + (0x7fff + (bits >> 16 & 1))).to_le_bytes();
    [low, high]
}

/// For each item the F32 item whose rounding it is, if there is one. `hashes` are those of all pieces.
///
/// # Errors
/// [`StoreError::Changed`] if a file is being written; if it cannot be read, or `watch` says to stop.
pub(crate) fn find(
    sources: &[Source],
    items: &[Item],
    hashes: &[Vec<PieceHash>],
    watch: &Watch<'_>,
) -> Result<Vec<Option<usize>>, StoreError> {
    let mut by_bytes: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut by_name: HashMap<(u64, Option<&str>), usize> = HashMap::new();
    for (number, item) in items.iter().enumerate().filter(|(_, item)| item.dtype == FROM) {
        by_bytes.entry(item.bytes).or_default().push(number);
        by_name.entry((item.bytes, item.tensor.as_deref())).or_insert(number);
    }
    let found: Vec<OnceLock<usize>> = items.iter().map(|_| OnceLock::new()).collect();
    watch.for_each(items.len(), |number, buffer| {
        let item = &items[number];
        if item.dtype != TO || item.bytes == 0 {
            return Ok(());
        }
        let bytes = SHRINKS * item.bytes;
        let same = by_name.get(&(bytes, item.tensor.as_deref())).copied();
        let all = by_bytes.get(&bytes).map_or(&[][..], Vec::as_slice);
        let all = &all[..all.len().min(LOOKED_AT)];
        let (alike, others): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|other| are_alike(item, &items[**other]));
        for other in same.into_iter().chain(alike).chain(others).take(CANDIDATES) {
            let pair = Pair { sources, masters: &items[other], weights: item, hashes: &hashes[other] };
            if pair.is_alike(buffer)? && pair.is_equal(buffer)? {
                found[number].get_or_init(|| other);
                break;
            }
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(found.into_iter().map(OnceLock::into_inner).collect())
}

/// Whether one of two names has the other in it.
fn are_alike(item: &Item, other: &Item) -> bool {
    let names = item.tensor.as_deref().zip(other.tensor.as_deref());
    names.is_some_and(|(one, other)| other.contains(one) || one.contains(other))
}

struct Pair<'a> {
    sources: &'a [Source],
    masters: &'a Item,
    weights: &'a Item,
    /// Hashes of the pieces of the masters.
    hashes: &'a [PieceHash],
}

impl Pair<'_> {
    /// Whether values in the middle are.
    fn is_alike(&self, buffer: &mut Vec<u8>) -> Result<bool, StoreError> {
        let len = SAMPLE.min(self.masters.bytes);
        let at = (self.masters.bytes - len) / 2 / 4 * 4;
        self.is_equal_at(at, len, buffer)
    }

    /// Whether all values are, where the masters are still those that were hashed.
    fn is_equal(&self, buffer: &mut Vec<u8>) -> Result<bool, StoreError> {
        for piece in 0..pieces_of(self.masters.bytes) {
            let at = piece * PIECE;
            if !self.is_equal_at(at, PIECE.min(self.masters.bytes - at), buffer)? {
                return Ok(false);
            }
            if hash_of_piece(buffer) != self.hashes[piece as usize] {
                let path = self.sources[self.masters.source].path.clone();
                return Err(StoreError::Changed { path });
            }
        }
        Ok(true)
    }

    /// Whether `len` bytes of the masters from byte `at` on, which are left in `buffer`, are the weights there when they are rounded.
    fn is_equal_at(&self, at: u64, len: u64, buffer: &mut Vec<u8>) -> Result<bool, StoreError> {
        let read = |item: &Item, at: u64, out: &mut Vec<u8>, len: u64| {
            out.resize(len as usize, 0);
            read_source(&self.sources[item.source].path, item.at + at, out)
        };
        let (mut rounded, mut weights) = (Vec::new(), Vec::new());
        read(self.masters, at, buffer, len)?;
        read(self.weights, at / SHRINKS, &mut weights, len / SHRINKS)?;
        round(buffer, &mut rounded);
        Ok(rounded == weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_the_nearest_and_to_the_even_one() {
        for (from, to) in [
            (0x3f80_0000, 0x3f80),
            (0x3f80_7fff, 0x3f80),
            (0x3f80_8000, 0x3f80),
            (0x3f80_8001, 0x3f81),
            (0x3f81_8000, 0x3f82),
            (0x8000_0000, 0x8000),
            (0x0000_0001, 0x0000),
            // The largest number is nearer to infinity, as the next number of BF16 would be.
            (0x7f7f_ffff, 0x7f80),
            (0xff80_0000, 0xff80),
            (0x7f80_0001, 0x7fc0),
            (0xffff_ffff, 0x7fc0),
        ] {
            let (from, to): (u32, u16) = (from, to);
            assert_eq!(rounded(from.to_le_bytes()), to.to_le_bytes(), "{from:08x}");
        }
        // Every value of BF16 that is a number is its own rounding.
        for bits in (0..=u16::MAX).filter(|bits| !f32::from_bits(u32::from(*bits) << 16).is_nan()) {
            assert_eq!(rounded((u32::from(bits) << 16).to_le_bytes()), bits.to_le_bytes());
        }
    }
}
