//! Values to planes, one for each byte of a value, and back.

use crate::entropy;
use crate::kernel::Kernel;
use crate::{DType, canonical};

/// Bytes of a value, at most.
pub(super) const WIDEST: usize = 16;
/// Whole units of this many bytes are values of any width.
pub(super) const WIDTHS: [usize; 5] = [1, 2, 4, 8, WIDEST];

/// How many bytes a value has, and which of its bits are in which plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Bytes of a value, one of [`WIDTHS`].
    pub(super) width: usize,
    /// Whether they are BF16 or FP32 values, by their width, whose sign is between exponent and mantissa in planes.
    pub(super) float: bool,
}

impl Order {
    /// The order for values of this type.
    pub(super) fn of(dtype: DType) -> Self {
        // The sign of F16 and FP8 is in one byte with the exponent in either order.
        Self { width: dtype.width(), float: matches!(dtype, DType::Bf16 | DType::F32) }
    }

    /// The order for values of this width, with the sign where planes of a sample of them have the least entropy. FP64 values have it where it is: their
    /// exponents are no whole bytes in either order, and what is tried here saves nothing with them.
    pub(super) fn chosen(kernel: &Kernel, width: usize, values: &[u8]) -> Self {
        let plain = Self { width, float: false };
        let float = Self { width, float: true };
        if !float.is_possible() {
            return plain;
        }
        let sample = sample(width, values);
        let [with, without] = [float, plain].map(|order| order.entropy(kernel, &sample));
        // What makes no difference stays as it is.
        if with * LEAST_SAVING < without * (LEAST_SAVING - 1) { float } else { plain }
    }

    /// Whether there are values of this kind.
    pub(super) fn is_possible(self) -> bool {
        WIDTHS.contains(&self.width) && (!self.float || matches!(self.width, 2 | 4))
    }

    /// Bits of all planes of these values.
    fn entropy(self, kernel: &Kernel, values: &[u8]) -> u64 {
        if values.is_empty() {
            return 0;
        }
        let mut splitter = Splitter::new(self, values.len());
        let planes = splitter.split(kernel, values);
        planes.map(|plane| entropy::of_counts(&canonical::histogram(kernel, plane))).sum()
    }
}

/// The order with the sign elsewhere saves more than this share of the bits of a sample.
const LEAST_SAVING: u64 = 512;
/// Runs of bytes in a sample, at most, and bytes of each.
const RUNS: usize = 16;
const RUN_BYTES: usize = 2048;

/// Whole values from all over.
fn sample(width: usize, values: &[u8]) -> Vec<u8> {
    let runs = values.len() / RUN_BYTES;
    if runs <= RUNS {
        return values[..values.len() / width * width].to_vec();
    }
    let run = |number: usize| &values[number * runs / RUNS * RUN_BYTES..][..RUN_BYTES];
    (0..RUNS).flat_map(run).copied().collect()
}

/// Cuts blocks into planes.
pub(super) struct Splitter {
    order: Order,
    planes: Vec<u8>,
    /// Each fourth of the bytes of values of eight bytes or more.
    fourths: Vec<u8>,
}

impl Splitter {
    /// Room for blocks of up to this number of bytes.
    pub(super) fn new(order: Order, bytes: usize) -> Self {
        let room = |is_needed: bool| vec![0; if is_needed { bytes } else { 0 }];
        Self { order, planes: room(true), fourths: room(order.width > 4) }
    }

    /// The planes of whole values, at least one, from that of their lowest bytes on.
    pub(super) fn split(&mut self, kernel: &Kernel, values: &[u8]) -> std::slice::Chunks<'_, u8> {
        let Order { width, float } = self.order;
        let count = values.len() / width;
        let planes = &mut self.planes[..values.len()];
        if width > 4 {
            let fourths = &mut self.fourths[..values.len()];
            let [first, second, third, fourth] = parts_mut(fourths, values.len() / 4);
            (kernel.split_bytes_4)(values, [first, second, third, fourth]);
            for (number, fourth) in fourths.chunks(values.len() / 4).enumerate() {
                let mut own = planes.chunks_mut(count).skip(number).step_by(4);
                let mut next = || own.next().unwrap_or_default();
                match width {
                    8 => (kernel.split_bytes_2)(fourth, next(), next()),
                    _ => (kernel.split_bytes_4)(fourth, [next(), next(), next(), next()]),
                }
            }
            return planes.chunks(count);
        }
        match (width, float) {
            (1, _) => planes.copy_from_slice(values),
            (2, _) => {
                let (low, high) = planes.split_at_mut(count);
                if float {
                    (kernel.split)(values, 0, low, high);
                } else {
                    (kernel.split_bytes_2)(values, low, high);
                }
            }
            (_, true) => {
                let [low, middle, high, exponents] = parts_mut(planes, count);
                (kernel.split_32)(values, 0, [low, middle, high], exponents);
            }
            (_, false) => (kernel.split_bytes_4)(values, parts_mut(planes, count)),
        }
        planes.chunks(count)
    }
}

/// Puts planes together.
pub(super) struct Joiner {
    order: Order,
    fourths: Vec<u8>,
}

impl Joiner {
    /// Room for blocks of up to this number of bytes.
    pub(super) fn new(order: Order, bytes: usize) -> Self {
        Self { order, fourths: vec![0; if order.width > 4 { bytes } else { 0 }] }
    }

    /// Inverse of [`Splitter::split`].
    pub(super) fn join(&mut self, kernel: &Kernel, planes: &[&[u8]], values: &mut [u8]) {
        let Order { width, float } = self.order;
        match *planes {
            [only] => values.copy_from_slice(only),
            [low, high] if float => (kernel.join)(low, high, 0, values),
            [low, high] => (kernel.join_bytes_2)(low, high, values),
            [low, middle, high, exponents] if float => {
                (kernel.join_32)([low, middle, high], exponents, 0, values);
            }
            [first, second, third, fourth] => (kernel.join_bytes_4)([first, second, third, fourth], values),
            _ => {
                let fourths = &mut self.fourths[..values.len()];
                for (number, fourth) in fourths.chunks_mut(values.len() / 4).enumerate() {
                    let plane = |at: usize| planes[number + 4 * at];
                    match width {
                        8 => (kernel.join_bytes_2)(plane(0), plane(1), fourth),
                        _ => (kernel.join_bytes_4)([0, 1, 2, 3].map(plane), fourth),
                    }
                }
                let fourth = |at: usize| &fourths[at * values.len() / 4..][..values.len() / 4];
                (kernel.join_bytes_4)([0, 1, 2, 3].map(fourth), values);
            }
        }
    }
}

/// Four parts of this length.
fn parts_mut(bytes: &mut [u8], len: usize) -> [&mut [u8]; 4] {
    let (first, bytes) = bytes.split_at_mut(len);
    let (second, bytes) = bytes.split_at_mut(len);
    let (third, fourth) = bytes.split_at_mut(len);
    [first, second, third, fourth]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels;

    #[test]
    fn planes_are_bytes_by_significance_and_come_back_on_every_level() {
        let bytes: Vec<u8> = (0..16 * 600u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for (width, float) in WIDTHS.into_iter().flat_map(|width| [(width, false), (width, true)]) {
            let order = Order { width, float };
            if !order.is_possible() {
                continue;
            }
            for (kernel, count) in
                levels::all().flat_map(|kernel| [1, 3, 64, 599].map(|count| (kernel, count)))
            {
                let values = &bytes[..count * width];
                let mut splitter = Splitter::new(order, values.len() + 32);
                let planes: Vec<&[u8]> = splitter.split(kernel, values).collect();
                assert_eq!(planes.len(), width);
                for (plane, at) in planes.iter().zip(0..) {
                    let plain = values.iter().skip(at).step_by(width);
                    assert!(plane.len() == count && (float || plain.eq(plane.iter())), "{order:?} {count}");
                }
                let mut back = vec![0xa5; values.len()];
                Joiner::new(order, values.len() + 32).join(kernel, &planes, &mut back);
                assert_eq!(back, values, "{order:?} {count}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn a_sample_tells_floats_from_integers() {
        let kernel = levels::active();
        let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // About a Gaussian.
        let small = |i: u64| (0..8).map(|j| (noise(8 * i + j) >> 32) as i32 as f32 / 7e10).sum::<f32>();
        let floats: Vec<u8> = (0..20_000).flat_map(|i| small(i).to_le_bytes()).collect();
        let upper: Vec<u8> =
            floats.as_chunks::<4>().0.iter().flat_map(|value| [value[2], value[3]]).collect();
        let integers: Vec<u8> = (0..9000).flat_map(|i| (noise(i) >> 49).to_le_bytes()).collect();
        assert!(Order::chosen(kernel, 4, &floats).float && Order::chosen(kernel, 2, &upper).float);
        for width in WIDTHS {
            let plain = Order { width, float: false };
            assert_eq!(Order::chosen(kernel, width, &integers), plain);
            assert_eq!(Order::chosen(kernel, width, &integers[..1]), plain);
        }
    }
}
