//! Writing past the caches: memory that is written this way is not read first, and what lies in the caches stays there.

use crate::kernel::pass::{Join, Passed, Split, SplitMut};
use crate::kernel::{Kernel, SimdLevel};

/// Bytes of values from which on a frame and its values are taken to be more than the caches near a core hold. Fuzzers
/// have no time for that many.
const LARGE: usize = if cfg!(fuzzing) { 1 << 11 } else { 1 << 21 };

/// Bytes of a strip: a block of the checksum, or the rests and codes of a tile.
pub const STRIP_BYTES: usize = 1 << 14;

/// Permission to write past the caches. When it is dropped, everything so written is visible to other threads.
pub struct StreamingStore<'a> {
    kernel: &'a Kernel,
    /// Bytes made in the fastest cache, to be copied from there.
    strip: [u8; STRIP_BYTES],
}

impl<'a> StreamingStore<'a> {
    /// The permission, if this many bytes of values are coded in one go and the kernel has such stores.
    pub fn of_large(kernel: &'a Kernel, values_len: usize) -> Option<Self> {
        (can_stream(kernel) && values_len >= LARGE).then(|| Self { kernel, strip: [0; STRIP_BYTES] })
    }

    /// Whether there is permission and kernels that are told so write whole cache lines from registers, without a strip.
    pub fn is_direct(streaming: &Option<Self>) -> bool {
        streaming.as_ref().is_some_and(|streaming| streaming.kernel.level == SimdLevel::Avx512)
    }

    /// The front of the strip: room for as many bytes as `to` where there is permission, otherwise `to` itself.
    pub fn strip_for<'b>(streaming: &'b mut Option<Self>, to: &'b mut [u8]) -> &'b mut [u8] {
        match streaming {
            Some(streaming) => &mut streaming.strip[..to.len()],
            None => to,
        }
    }

    /// Brings what was written to the strip to where it belongs.
    pub fn flush(streaming: &Option<Self>, to: &mut [u8]) {
        if let Some(streaming) = streaming {
            streaming.copy(&streaming.strip[..to.len()], to);
        }
    }

    /// Calls `Kernel::split_pass`, which writes past the caches where that is permitted.
    pub fn split(
        streaming: &mut Option<Self>,
        kernel: &Kernel,
        values: &[u8],
        how: Split<'_>,
        out: SplitMut<'_>,
    ) -> Passed {
        let how = Split { streaming: false, ..how };
        let Some(permission) = streaming else { return (kernel.split_pass)(values, how, out) };
        let SplitMut { rest, planes, .. } = out;
        let (strip, rest_strip) = permission.strip.split_at_mut(planes.len());
        let direct = permission.kernel.level == SimdLevel::Avx512;
        if direct {
            let split = (kernel.split_pass)(
                values,
                Split { streaming: true, ..how },
                SplitMut { rest, planes: strip, ..out },
            );
            permission.copy(&permission.strip[..planes.len()], planes);
            return split;
        }
        let rest_strip = &mut rest_strip[..rest.len()];
        let split = (kernel.split_pass)(values, how, SplitMut { rest: rest_strip, planes: strip, ..out });
        let (from, rest_from) = permission.strip.split_at(planes.len());
        permission.copy(from, planes);
        permission.copy(&rest_from[..rest.len()], rest);
        split
    }

    /// Calls `Kernel::join_pass` for `out`, which is written past the caches where that is permitted.
    pub fn join(streaming: &mut Option<Self>, kernel: &Kernel, coded: Join<'_>, out: &mut [u8]) -> Passed {
        if streaming.is_some() && kernel.level == SimdLevel::Avx512 {
            return (kernel.join_pass)(Join { streaming: true, ..coded }, out);
        }
        let coded = Join { streaming: false, ..coded };
        let joined = (kernel.join_pass)(coded, Self::strip_for(streaming, out));
        Self::flush(streaming, out);
        joined
    }

    /// Must come before memory is written again that may have been written past the caches: such stores are in no order with
    /// others.
    pub fn settle(streaming: &Option<Self>) {
        if let Some(streaming) = streaming {
            (streaming.kernel.fence)();
        }
    }

    /// Copies to where as many bytes are. Best for hundreds of bytes or more that are in the fastest cache.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        (self.kernel.copy_past)(from, to);
    }
}

/// Whether the kernel has stores past the caches. NEON has none: those that AArch64 has are hints, and no intrinsics.
fn can_stream(kernel: &Kernel) -> bool {
    matches!(kernel.level, SimdLevel::Avx2 | SimdLevel::Avx512)
}

impl Drop for StreamingStore<'_> {
    fn drop(&mut self) {
        (self.kernel.fence)();
    }
}

/// Copies, past the caches where that is permitted.
pub fn copy(streaming: Option<&StreamingStore<'_>>, from: &[u8], to: &mut [u8]) {
    match streaming {
        Some(streaming) => streaming.copy(from, to),
        None => to.copy_from_slice(from),
    }
}

/// Calls `Kernel::copy_sum`, which writes past the caches where that is permitted.
pub fn copy_sum(
    streaming: Option<&StreamingStore<'_>>,
    kernel: &Kernel,
    from: &[u8],
    to: &mut [u8],
    word: u64,
) -> u64 {
    (kernel.copy_sum)(from, to, word, streaming.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kernel, levels};

    #[test]
    fn copies_of_every_length_and_alignment_arrive() {
        let source: Vec<u8> = (0..700u32).map(|i| ((i * 37) >> 2) as u8).collect();
        for kernel in levels::all().filter(|kernel| can_stream(kernel)) {
            for start in 0..70 {
                for len in [0, 1, 31, 32, 63, 64, 65, 127, 128, 300, 512] {
                    let mut out = vec![0xee; 700];
                    let streaming = StreamingStore::of_large(kernel, LARGE).expect("this is large");
                    streaming.copy(&source[start / 3..][..len], &mut out[start..][..len]);
                    drop(streaming);
                    assert!(out[start..][..len] == source[start / 3..][..len]);
                    assert!(out[..start].iter().chain(&out[start + len..]).all(|byte| *byte == 0xee));
                }
            }
        }
        assert!(levels::all().all(|kernel| StreamingStore::of_large(kernel, LARGE - 1).is_none()));
        assert!(StreamingStore::of_large(&kernel::PORTABLE, LARGE).is_none());
    }
}
