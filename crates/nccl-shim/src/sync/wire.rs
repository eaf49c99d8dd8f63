//! A message as it goes over the wire, and as it lies on the GPU on either side.
//!
//! ```text
//! | static section | padding to 16 bytes | dynamic section: live bytes, then room |
//! |<------------------- wire: fixed length ------------------->|
//! ```
//!
//! The length of the wire follows from the codec and the number of values alone, so both ends know it: the static section and a *budget* for the
//! dynamic one, which is a share of the room that the dynamic section can take at most (`share`) and 4096 bytes. The length of the dynamic
//! section goes ahead, in a message of 8 bytes; one that is greater than the budget says that the message comes once more as it is.

use zipwire_codec::{Codec, DType, DecodeError, Decoder, FrameShape, Layout};

/// Alignment that kernels ask of both sections.
pub(super) const ALIGN: u64 = 128;
/// Alignment of dynamic sections behind static ones.
const DYNAMIC_ALIGN: u64 = 16;
/// Bytes of every budget beside its share.
const LEAST_BUDGET: u64 = 4096;

/// Lengths of a coded message in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(super) values_len: u64,
    pub(super) static_len: u64,
    pub(super) dynamic_at: u64,
    /// Bytes of the dynamic section that fit.
    pub(super) budget: u64,
    /// Bytes that coders need on the GPU.
    pub(super) room: u64,
}

impl Wire {
    /// Lengths for so many values; `None` where the wire would be no shorter than they are.
    pub(super) fn of(codec: &dyn Codec, dtype: DType, count: usize) -> Option<Self> {
        let shape = FrameShape::new(Layout::Split, dtype, count);
        let values_len = (count as u64).checked_mul(dtype.width() as u64)?;
        let static_len = codec.static_len(shape) as u64;
        let most = (codec.bound(shape) as u64).checked_sub(static_len)?;
        let dynamic_at = static_len.next_multiple_of(DYNAMIC_ALIGN);
        let (part, of) = share(codec.id());
        // Wires of several ranks lie side by side, each where kernels take it.
        let len = (dynamic_at + most / of * part + LEAST_BUDGET).next_multiple_of(ALIGN);
        let budget = len - dynamic_at;
        let wire = Self { values_len, static_len, dynamic_at, budget, room: len.max(dynamic_at + most) };
        (wire.len() < values_len).then_some(wire)
    }

    /// Bytes that are sent.
    #[allow(clippy::len_without_is_empty, reason = "no message is empty")]
    pub(super) fn len(&self) -> u64 {
        self.dynamic_at + self.budget
    }

    /// Decodes a message on the CPU: for receivers whose GPU has no room for it.
    pub(super) fn decode(&self, dtype: DType, wire: &[u8], dynamic_len: u64) -> Result<Vec<u8>, DecodeError> {
        let mut values = vec![0; self.values_len as usize];
        let dynamic = &wire[self.dynamic_at as usize..][..dynamic_len as usize];
        Decoder::new().decode(
            Layout::Split,
            dtype,
            &wire[..self.static_len as usize],
            dynamic,
            &mut values,
        )?;
        Ok(values)
    }
}

/// Share of the longest dynamic section that is the budget, as a part of so many: about one and a half times of what normally distributed BF16
/// values take, and no less than those of activations with one value in 64 twenty times as large.
fn share(codec: &str) -> (u64, u64) {
    match codec {
        "tiered" => (1, 6),
        "window7" => (1, 10),
        "codebook16" => (1, 32),
        "rans" => (3, 8),
        _ => (7, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_codec::{Codec, Spec};

    #[test]
    fn budgets_hold_normal_values_and_not_noise() {
        let count = 1 << 18;
        let mut state = 1_u32;
        let mut uniform = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24)
        };
        let normal = |sum: f64| ((sum - 6.0) as f32).to_bits() >> 16;
        let values: Vec<u8> = (0..count)
            .flat_map(|_| (normal((0..12).map(|_| uniform()).sum()) as u16).to_le_bytes())
            .collect();
        let noise: Vec<u8> = (0..count).flat_map(|_| ((uniform() * 65536.0) as u16).to_le_bytes()).collect();
        for id in ["tiered", "window7", "codebook16", "rans", "huffman"] {
            zipwire_paper_codecs::register();
            let codec = id.parse::<Spec>().unwrap().codec();
            let wire = Wire::of(&*codec, DType::Bf16, count).unwrap();
            let dynamic = |values: &[u8]| {
                codec.encode_to_vec(Layout::Split, DType::Bf16, values).unwrap().len() as u64
                    - wire.static_len
            };
            assert!(dynamic(&values) <= wire.budget, "{id}: {} {wire:?}", dynamic(&values));
            assert!(dynamic(&noise) > wire.budget, "{id}: {} {wire:?}", dynamic(&noise));
            assert!(wire.len() < wire.values_len * 4 / 5, "{id}: {wire:?}");
            assert_eq!(Wire::of(&*codec, DType::Bf16, 16), None, "{id}: the front alone is longer");
        }
        let raw = "raw".parse::<Spec>().unwrap().codec();
        assert_eq!(Wire::of(&*raw, DType::Bf16, count), None);
    }
}
