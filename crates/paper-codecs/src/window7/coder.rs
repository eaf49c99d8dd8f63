//! The windows of a tile are chosen and its values packed in one go: the window of the tile before is tried, and packing
//! shows whether it is the best.

use crate::error::TileFault;
use crate::kernel::window::{Verdict, WindowBounds};
use crate::kernel::{
    BASE_GROUP, Coded, CodedMut, EscapeIndex, EscapeRoom, GroupSums, INDEX_GROUP, Kernel, Packed, Starts,
    TILE, Unpacked,
};
use crate::scale::{self, Estimator, LAST_START, Moments};
use zipwire_codec::streaming_store::StreamingStore;

/// Each group has a window of its own only if more than one value in this many is outside of the window that they would
/// have in common. Gaussian values have fewer, whatever their scale is, so they are not counted twice.
const OUTSIDE: usize = 32;

/// Mark in place of the start of a window: each group of 512 coded values has a window of its own.
pub(super) const OWN: u8 = 255;

/// Packs the tiles of a frame.
pub(super) struct Coder {
    kernel: &'static Kernel,
    scale: Estimator,
    /// Window of the tile before.
    last_start: Option<u8>,
    /// Whether the values that were coded last have an exponent 0.
    zeros: bool,
    room: EscapeRoom,
}

/// Buffers that a tile is packed into.
pub(super) struct Out<'a> {
    rest: &'a mut [u8],
    codes: &'a mut [u8],
    /// Permission to write past the caches, as in [`CodedMut`].
    streaming: bool,
}

impl<'a> Out<'a> {
    /// Rest, a byte for each of `count` values, and codes: in `to`, or in a strip whose place that is.
    pub(super) fn new(streaming: &'a mut Option<StreamingStore<'_>>, to: &'a mut [u8], count: usize) -> Self {
        let direct = StreamingStore::is_direct(streaming);
        let to = if direct { to } else { StreamingStore::strip_for(streaming, to) };
        let (rest, codes) = to.split_at_mut(count);
        Self { rest, codes, streaming: direct }
    }

    /// Brings what was written to where it belongs, if it is not there.
    pub(super) fn flush(streaming: &Option<StreamingStore<'_>>, to: &mut [u8]) {
        if !StreamingStore::is_direct(streaming) {
            StreamingStore::flush(streaming, to);
        }
    }
}

/// A tile that is packed, its escapes apart.
pub(super) struct Choice<'a> {
    /// Start of the window, or [`OWN`].
    pub(super) start: u8,
    /// Starts of the windows of the groups; empty if they have one in common.
    pub(super) starts: &'a [u8],
    pub(super) escapes: &'a [u8],
    pub(super) index: EscapeIndex,
    /// The sum of words of the values for the checksum, not folded; 0 unless it was asked for.
    pub(super) sum: u64,
}

impl Coder {
    pub(super) fn new(kernel: &'static Kernel, scale: Estimator) -> Self {
        Self { kernel, scale, last_start: None, zeros: true, room: [0; TILE + 64] }
    }

    /// Whether the values that were coded last may have been +0.
    pub(super) fn zeros(&self) -> bool {
        self.zeros
    }

    /// Writes rest and codes of BF16 values, and sums these if `word` says where their words begin. `starts` is room for
    /// windows.
    pub(super) fn code<'a>(
        &'a mut self,
        values: &[u8],
        word: Option<u64>,
        out: &mut Out<'_>,
        starts: &'a mut Starts,
    ) -> Choice<'a> {
        let (start, mut packed) = self.one_window(values, word, out);
        let sum = packed.sum;
        self.last_start = Some(start);
        let groups = (values.len() / 2).div_ceil(INDEX_GROUP);
        let (mut own, common) = (0, packed.escapes);
        if self.scale == Estimator::Exact && OUTSIDE * common > values.len() / 2 {
            let outside = self.own_windows(values, starts);
            if outside + groups < common {
                packed = self.pack_again(values, starts, out);
                own = groups;
            }
        }
        let start = if own > 0 { OWN } else { start };
        let escapes = &self.room[..packed.escapes];
        Choice { start, starts: &starts[..own], escapes, index: packed.index, sum }
    }

    /// Chooses a window for all values, and packs them.
    fn one_window(&mut self, values: &[u8], word: Option<u64>, out: &mut Out<'_>) -> (u8, Packed) {
        let first = match (self.scale, self.last_start) {
            (Estimator::Exact, Some(start)) => start,
            (Estimator::Exact, None) => best_window(self.kernel, values, None).0,
            (Estimator::Std, _) => scale::window_start(Moments::of_bf16(values).std()),
            (Estimator::MeanAbs, _) => {
                scale::window_start(scale::sigma_from_mean_abs(Moments::of_bf16(values).mean_abs()))
            }
        };
        let packed = self.pack(values, word, &[first; _], out);
        let escapes = &self.room[..packed.escapes];
        self.zeros = first == 0 || escapes.contains(&0);
        if self.scale != Estimator::Exact {
            return (first, packed);
        }
        let start = match WindowBounds::of_packed(first, values.len() / 2, packed.edges, escapes).verdict() {
            Verdict::Best(_) => first,
            Verdict::Better(other) => best_window(self.kernel, values, Some(other)).0,
            Verdict::Unknown => best_window(self.kernel, values, None).0,
        };
        if start == first {
            return (first, packed);
        }
        let again = self.pack_again(values, &[start; _], out);
        (start, Packed { sum: packed.sum, ..again })
    }

    /// Chooses a window for each group; returns how many values are outside.
    fn own_windows(&self, values: &[u8], starts: &mut Starts) -> usize {
        *starts = [0; _];
        let mut sum = 0;
        for (group, start) in values.chunks(2 * INDEX_GROUP).zip(starts) {
            let (best, outside) = best_window(self.kernel, group, Some(self.guess(group)));
            (*start, sum) = (best, sum + outside);
        }
        sum
    }

    /// Start of the best window for a group of Gaussian values, or one further: four below the mean exponent.
    fn guess(&self, group: &[u8]) -> u8 {
        let mut sums = [GroupSums::default(); INDEX_GROUP / BASE_GROUP];
        (self.kernel.group_sums)(group, &mut sums[..group.len().div_ceil(2 * BASE_GROUP)]);
        let sum = |of: fn(&GroupSums) -> u32| sums.iter().map(of).sum::<u32>();
        let nonzero = group.len() as u32 / 2 - sum(|sums| sums.zeros);
        let mean = sum(|sums| sums.exponents).checked_div(nonzero).unwrap_or(0);
        mean.saturating_sub(4).min(u32::from(LAST_START)) as u8
    }

    fn pack(&mut self, values: &[u8], word: Option<u64>, starts: &Starts, out: &mut Out<'_>) -> Packed {
        let Out { rest, codes, streaming } = out;
        let streaming = *streaming;
        (self.kernel.loops().pack)(
            values,
            CodedMut { starts, rest, codes, escapes: &mut self.room, word, streaming },
        )
    }

    /// Packs values that have been packed and summed already.
    fn pack_again(&mut self, values: &[u8], starts: &Starts, out: &mut Out<'_>) -> Packed {
        if out.streaming {
            (self.kernel.fence)();
        }
        self.pack(values, None, starts, out)
    }
}

/// Writes the values of a tile, whose window begins at `start` unless groups have windows of their own, `starts`. `streaming` as in
/// [`Coded`].
pub(super) fn unpack(
    kernel: &Kernel,
    start: u8,
    starts: &[u8],
    (rest, codes, escapes): (&[u8], &[u8], &[u8]),
    word: Option<u64>,
    streaming: bool,
    out: &mut [u8],
) -> Result<Unpacked, TileFault> {
    let mut windows = [start; TILE / INDEX_GROUP];
    if let Some(start) = starts.iter().find(|start| **start > LAST_START) {
        return Err(TileFault::WindowStart(*start));
    }
    if start == OWN {
        windows = [0; _];
        windows[..starts.len()].copy_from_slice(starts);
    }
    (kernel.loops().unpack)(Coded { starts: &windows, rest, codes, escapes, word, streaming }, out)
}

/// Windows that are tried before all exponents are counted.
const SEARCH_STEPS: usize = 3;

/// The best start for at most a tile of BF16 values, the lowest of equals, and how many of them are outside of its window.
///
/// Values that follow each other mostly have the same best window. Where the kernel can count around a window faster than make a
/// histogram, `first` is tried first, then neighbours that the counts show to be better. The result does not depend on it.
fn best_window(kernel: &Kernel, values: &[u8], first: Option<u8>) -> (u8, usize) {
    if let Some(mut start) = first {
        for _ in 0..SEARCH_STEPS {
            let Some(bounds) = (kernel.loops().window_bounds)(values, start) else { break };
            match bounds.verdict() {
                Verdict::Best(outside) => return (start, outside),
                Verdict::Better(other) => start = other,
                Verdict::Unknown => break,
            }
        }
    }
    let histogram = (kernel.histogram)(values);
    let start = scale::best_start(&histogram);
    (start, values.len() / 2 - scale::covered(&histogram, start) as usize)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::kernel::{TILE, portable};

    #[test]
    fn the_result_is_that_of_the_histogram_wherever_the_search_begins() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(6);
        for case in 0..if cfg!(miri) { 7 } else { 300 } {
            let count = [1, 5, 100, TILE][case % 4];
            let (centre, zero_share) = (rng.random_range(0..250), [0.0, 0.3, 0.9][case % 3]);
            let values: Vec<u8> = (0..count)
                .flat_map(|_| {
                    let exponent = (centre + rng.random::<u32>().trailing_zeros()).min(255) as u16;
                    let zero = rng.random::<f64>() < zero_share;
                    (if zero { 0 } else { exponent << 7 | rng.random_range(1..128u16) }).to_le_bytes()
                })
                .collect();
            let expected = best_window(portable(), &values, None);
            for kernel in crate::kernel::all() {
                for first in (0..=scale::LAST_START).step_by(1 + case % 7) {
                    let found = best_window(kernel, &values, Some(first));
                    assert_eq!(found, expected, "from {first}, level {}", kernel.level);
                }
            }
        }
    }
}
