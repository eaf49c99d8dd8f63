//! One plane: a list of bytes, coded by what is shortest, as it is, as one byte, by a Huffman code, as a mask of its most frequent byte and the
//! others, or as steps from byte to byte. A mask, the others and steps are planes again.

use std::borrow::Cow;

use crate::canonical::{self, ListedCode, SPARE};
use crate::entropy;
use crate::error::PlaneFault;
use crate::kernel::Kernel;

/// Bytes in front of each plane: its method, and a number.
pub(super) const ENTRY: usize = 3;
/// Bits of an entry below the method.
const NUMBER_BITS: u32 = 20;
/// Planes that are within each other, at most: a mask of masks of masks takes a bit for 512 bytes.
const DEEPEST: u32 = 4;
/// A plane that saves less than this share of its bytes stays as it is, since it is read faster.
const LEAST_SAVING: usize = 100;
/// A mask that saves less than this share of the bytes is not taken, for the same reason.
const LEAST_BY_MASK: usize = 256;
/// Steps that save less than this share of the bytes are not taken: bytes are then read one after the other.
const LEAST_BY_STEPS: usize = 8;
/// Runs of bytes that tell whether steps are looked at, and bytes of each.
const RUNS: usize = 8;
const RUN_BYTES: usize = 512;
/// Bytes of a vector, which kernels may write behind a list.
const PAD: usize = 64;

/// Tags of the methods.
const STORED: u32 = 0;
const SAME: u32 = 1;
const HUFFMAN: u32 = 2;
const MASKED: u32 = 3;
const STEPS: u32 = 4;
/// Tag of the entry in front of a block that a value is left out of.
pub(super) const WITHOUT: u32 = 5;

/// A plane, and how it is coded.
pub(super) struct Plan<'a> {
    bytes: Cow<'a, [u8]>,
    method: Method,
    /// Bytes at most, with the entry; up to three too many for each Huffman code in it.
    pub(super) len: usize,
    /// The byte that occurs most often, the lowest of equals, and how often it does.
    pub(super) frequent: (u8, usize),
    /// How many bytes are 0.
    pub(super) zeros: usize,
}

enum Method {
    Stored,
    Same,
    Huffman(Box<ListedCode>),
    Masked { mask: Box<Plan<'static>>, others: Box<Plan<'static>> },
    Steps(Box<Plan<'static>>),
}

impl<'a> Plan<'a> {
    /// The shortest for these bytes, of which there is at least one.
    pub(super) fn of(kernel: &Kernel, bytes: Cow<'a, [u8]>) -> Self {
        Self::within(kernel, bytes, 0)
    }

    /// The shortest for a plane that is within so many others.
    pub(super) fn within(kernel: &Kernel, bytes: Cow<'a, [u8]>, depth: u32) -> Self {
        let count = bytes.len();
        if bytes[1..] == bytes[..count - 1] {
            let (frequent, zeros) = ((bytes[0], count), if bytes[0] == 0 { count } else { 0 });
            return Self { bytes, method: Method::Same, len: ENTRY, frequent, zeros };
        }
        let counts = canonical::histogram(kernel, &bytes);
        let (mut len, mut method) = (ENTRY + count, Method::Stored);
        // Words of a code are written eight bytes at a time, into room for the plane as it is.
        let least = SPARE.max(count.div_ceil(LEAST_SAVING));
        let most = len.saturating_sub(least);
        let entropy = entropy::of_counts(&counts);
        let frequent = most_frequent(&counts);
        if bytes_of(entropy) <= most {
            let code = ListedCode::of(&counts);
            if ENTRY + code.len <= most {
                (len, method) = (ENTRY + code.len, Method::Huffman(Box::new(code)));
            }
        }
        if depth < DEEPEST && may_pay(count, frequent.1, entropy, len) {
            let most = most.min(len.saturating_sub(count / LEAST_BY_MASK + 1));
            let mask = mask_of_others(kernel, frequent.0, &bytes);
            let others = gather(kernel, &mask, &bytes, count - frequent.1);
            let [mask, others] =
                [mask, others].map(|plane| Box::new(Plan::within(kernel, Cow::Owned(plane), depth + 1)));
            let masked = ENTRY + mask.len + others.len;
            if masked <= most {
                (len, method) = (masked, Method::Masked { mask, others });
            }
        }
        if depth == 0 && steps_may_pay(kernel, &bytes) {
            let most = most.min(len - len / LEAST_BY_STEPS);
            let steps = Box::new(Plan::within(kernel, Cow::Owned(steps_of(&bytes)), depth + 1));
            if ENTRY + steps.len <= most {
                (len, method) = (ENTRY + steps.len, Method::Steps(steps));
            }
        }
        Self { bytes, method, len, frequent, zeros: counts[0] as usize }
    }

    /// Writes the plane to the front of `out`, which has room for all its bytes as they are, and an entry; returns the bytes that it takes.
    pub(super) fn write(&self, kernel: &Kernel, out: &mut [u8]) -> usize {
        let (entry, body) = out.split_at_mut(ENTRY);
        let (tag, number, len) = match &self.method {
            Method::Stored => {
                body[..self.bytes.len()].copy_from_slice(&self.bytes);
                (STORED, self.bytes.len(), self.bytes.len())
            }
            Method::Same => (SAME, usize::from(self.bytes[0]), 0),
            Method::Huffman(code) => {
                let len = code.write(kernel, &self.bytes, body);
                let len = len.expect("a code of two bytes or more is chosen where it leaves room");
                (HUFFMAN, len, len)
            }
            Method::Masked { mask, others } => {
                let len = mask.write(kernel, body);
                (MASKED, usize::from(self.frequent.0), len + others.write(kernel, &mut body[len..]))
            }
            Method::Steps(steps) => (STEPS, 0, steps.write(kernel, body)),
        };
        write_entry(tag, number, entry);
        ENTRY + len
    }
}

/// Writes an entry to the front of `out`.
pub(super) fn write_entry(tag: u32, number: usize, out: &mut [u8]) {
    out[..ENTRY].copy_from_slice(&(tag << NUMBER_BITS | number as u32).to_le_bytes()[..ENTRY]);
}

/// Bytes that so many bits take.
fn bytes_of(bits: u64) -> usize {
    usize::try_from(bits / 8).unwrap_or(usize::MAX)
}

/// The byte that occurs most often, the lowest of equals, and how often it does.
fn most_frequent(counts: &[u32; 256]) -> (u8, usize) {
    let (mut most, mut frequent) = (0, 0);
    for (byte, &count) in (0..=u8::MAX).zip(counts) {
        if count > most {
            (most, frequent) = (count, byte);
        }
    }
    (frequent, most as usize)
}

/// Whether a mask is worth a look: for a byte that is the half of all, as it may be in runs, and where words of whole bits cost more than 1/32 over the entropy.
fn may_pay(count: usize, count_of_byte: usize, entropy: u64, len: usize) -> bool {
    2 * count_of_byte >= count || (8 * count_of_byte >= count && 32 * len > 33 * bytes_of(entropy))
}

/// A bit for each byte, set if it is another one than `byte`.
pub(super) fn mask_of_others(kernel: &Kernel, byte: u8, bytes: &[u8]) -> Vec<u8> {
    let mut mask = vec![0; bytes.len().div_ceil(8)];
    (kernel.changes)(1, bytes, &vec![byte; bytes.len()], &mut mask);
    mask
}

/// The bytes whose bit is set, of which there are so many.
pub(super) fn gather(kernel: &Kernel, mask: &[u8], bytes: &[u8], count: usize) -> Vec<u8> {
    let mut gathered = vec![0; count + PAD];
    (kernel.gather)(1, mask, bytes, &mut gathered);
    gathered.truncate(count);
    gathered
}

/// Whether the steps of a sample have so much less entropy than its bytes that all of them are worth a look.
fn steps_may_pay(kernel: &Kernel, bytes: &[u8]) -> bool {
    let (mut sample, mut steps) =
        (Vec::with_capacity(RUNS * RUN_BYTES), Vec::with_capacity(RUNS * RUN_BYTES));
    for run in bytes.chunks(RUN_BYTES.max(bytes.len().div_ceil(RUNS))) {
        let run = &run[..run.len().min(RUN_BYTES)];
        sample.extend_from_slice(run);
        steps.extend(steps_of(run));
    }
    let [plain, steps] =
        [sample, steps].map(|bytes| entropy::of_counts(&canonical::histogram(kernel, &bytes)) as usize);
    steps <= plain - plain / LEAST_BY_STEPS
}

/// The differences of bytes from the ones before them, modulo 256; the first one as it is.
fn steps_of(bytes: &[u8]) -> Vec<u8> {
    let mut steps = bytes.to_vec();
    steps[1..].iter_mut().zip(bytes).for_each(|(step, before)| *step = step.wrapping_sub(*before));
    steps
}

/// Reads a plane of as many bytes as `room` has, at least one, and takes it off `source`. The bytes are in `room`, or where they are stored.
///
/// # Errors
/// If it is nothing that [`Plan::write`] writes.
pub(super) fn read<'source: 'room, 'room>(
    kernel: &Kernel,
    source: &mut &'source [u8],
    room: &'room mut [u8],
) -> Result<&'room [u8], PlaneFault> {
    read_within(kernel, source, room, 0)
}

fn read_within<'source: 'room, 'room>(
    kernel: &Kernel,
    source: &mut &'source [u8],
    room: &'room mut [u8],
    depth: u32,
) -> Result<&'room [u8], PlaneFault> {
    let bytes = room.len();
    let &[low, middle, high] =
        source.split_off(..ENTRY).and_then(<[u8]>::first_chunk).ok_or(PlaneFault::Overrun)?;
    let entry = u32::from_le_bytes([low, middle, high, 0]);
    let (tag, number) = (entry >> NUMBER_BITS, (entry & ((1 << NUMBER_BITS) - 1)) as usize);
    let wrong_number = PlaneFault::Length { found: number, bytes };
    match tag {
        STORED if number != bytes => return Err(wrong_number),
        STORED => return source.split_off(..bytes).ok_or(PlaneFault::Overrun),
        SAME => room.fill(u8::try_from(number).map_err(|_| wrong_number)?),
        HUFFMAN if number >= bytes => return Err(wrong_number),
        HUFFMAN => {
            let coded = source.split_off(..number).ok_or(PlaneFault::Overrun)?;
            canonical::read_listed(coded, room)?;
        }
        MASKED if depth < DEEPEST => {
            let byte = u8::try_from(number).map_err(|_| wrong_number)?;
            read_masked(kernel, source, byte, room, depth)?;
        }
        STEPS if depth == 0 => {
            if number != 0 {
                return Err(wrong_number);
            }
            let mut steps = vec![0; bytes];
            let steps = read_within(kernel, source, &mut steps, depth + 1)?;
            let mut before = 0u8;
            for (byte, step) in room.iter_mut().zip(steps) {
                before = before.wrapping_add(*step);
                *byte = before;
            }
        }
        _ => return Err(PlaneFault::Method(tag as u8)),
    }
    Ok(room)
}

/// Reads a mask and the bytes other than `byte`.
fn read_masked(
    kernel: &Kernel,
    source: &mut &[u8],
    byte: u8,
    out: &mut [u8],
    depth: u32,
) -> Result<(), PlaneFault> {
    let (mask, others) = read_mask(kernel, source, out.len(), depth + 1)?;
    let mut room = vec![0; others];
    let others = read_within(kernel, source, &mut room, depth + 1)?;
    if others.contains(&byte) {
        return Err(PlaneFault::Mask);
    }
    out.fill(byte);
    (kernel.scatter)(1, &mask, others, out);
    Ok(())
}

/// Reads a mask of so many bits, and how many are set: some and not all of them.
///
/// # Errors
/// If it is none.
pub(super) fn read_mask(
    kernel: &Kernel,
    source: &mut &[u8],
    bits: usize,
    depth: u32,
) -> Result<(Vec<u8>, usize), PlaneFault> {
    let mut room = vec![0; bits.div_ceil(8)];
    let mask = read_within(kernel, source, &mut room, depth)?.to_vec();
    let set = mask.iter().map(|bits| bits.count_ones() as usize).sum();
    let beyond = mask.last().is_some_and(|last| !bits.is_multiple_of(8) && last >> (bits % 8) != 0);
    if beyond || set == 0 || set == bits { Err(PlaneFault::Mask) } else { Ok((mask, set)) }
}

/// Whether what follows is a block that a value is left out of.
pub(super) fn is_without(source: &[u8]) -> bool {
    source.starts_with(&(WITHOUT << NUMBER_BITS).to_le_bytes()[..ENTRY])
}
