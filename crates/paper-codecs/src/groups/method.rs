//! How a group of a chunk is coded: its method, an entry of the chunk map; the choice of it, and coding by it.

use super::{ENTRY, Scheme};
use crate::error::GroupFault;
use zipwire_codec::canonical::{self, ListedCode};
use zipwire_codec::kernel::Kernel;

/// How the bytes of a group are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// They are as they are.
    Stored,
    /// All of them are the one that there is.
    Same,
    /// By a Huffman code of the group.
    Huffman,
    /// By zstd.
    Zstd,
    /// Runs of equal bytes.
    Runs,
}

const ALL: [Method; 5] = [Method::Stored, Method::Same, Method::Huffman, Method::Zstd, Method::Runs];
/// Bits of an entry below the method: the number of bytes.
const LEN_BITS: u32 = 20;

/// Writes an entry: the method and the number of coded bytes, at most 256 Ki.
pub(super) fn write_entry(method: Method, len: usize, out: &mut [u8]) {
    let entry = (method as u32) << LEN_BITS | len as u32;
    out[..ENTRY].copy_from_slice(&entry.to_le_bytes()[..ENTRY]);
}

/// Reads an entry of a group of `bytes` bytes.
///
/// # Errors
/// If no method has this tag, or it cannot take this number of bytes.
pub(super) fn read_entry(
    [low, middle, high]: [u8; ENTRY],
    bytes: usize,
) -> Result<(Method, usize), GroupFault> {
    let entry = u32::from_le_bytes([low, middle, high, 0]);
    let tag = entry >> LEN_BITS;
    let method = *ALL.get(tag as usize).ok_or(GroupFault::Method(tag as u8))?;
    let len = (entry & ((1 << LEN_BITS) - 1)) as usize;
    let is_possible = match method {
        Method::Stored => len == bytes,
        Method::Same => len == 1 && bytes > 1,
        Method::Huffman | Method::Zstd | Method::Runs => len < bytes,
    };
    if is_possible { Ok((method, len)) } else { Err(GroupFault::Length { found: len, bytes }) }
}

/// A group of which more than nine tenths are zeros goes to zstd (ZipNN, section 4.2, "Auto Detection").
const MANY_ZEROS: (usize, usize) = (9, 10);
/// So does one with a run of zeros that is at least this share of it.
const LONG_RUN: (usize, usize) = (3, 100);
/// Default level of zstd.
const ZSTD_LEVEL: i32 = 3;

/// State that is kept from group to group: zstd's compressor, made when first needed.
pub(super) struct Coder {
    kernel: &'static Kernel,
    scheme: Scheme,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Coder {
    pub(super) fn new(kernel: &'static Kernel, scheme: Scheme) -> Self {
        Self { kernel, scheme, zstd: None }
    }

    /// Codes the bytes into the front of `out`, which has room for them as they are; returns how, and in how many bytes.
    pub(super) fn code(&mut self, bytes: &[u8], out: &mut [u8]) -> (Method, usize) {
        let coded = if bytes.len() > 1 { self.shorter(bytes, out) } else { None };
        coded.unwrap_or_else(|| {
            out[..bytes.len()].copy_from_slice(bytes);
            (Method::Stored, bytes.len())
        })
    }

    /// `None` if no method makes them fewer.
    fn shorter(&mut self, bytes: &[u8], out: &mut [u8]) -> Option<(Method, usize)> {
        let counts = canonical::histogram(self.kernel, bytes);
        if counts[usize::from(bytes[0])] as usize == bytes.len() {
            out[0] = bytes[0];
            return Some((Method::Same, 1));
        }
        match self.scheme {
            Scheme::Grouped if repeats(bytes, counts[0] as usize) => {
                Some((Method::Zstd, self.by_zstd(bytes, out)?))
            }
            Scheme::Grouped if is_flat(&counts, bytes.len()) => None,
            Scheme::Grouped => by_huffman(self.kernel, bytes, &ListedCode::of(&counts), out),
            Scheme::Blockwise => {
                let huffman = (!is_flat(&counts, bytes.len())).then(|| ListedCode::of(&counts));
                let most = huffman.as_ref().map_or(bytes.len(), |huffman| huffman.len.min(bytes.len()));
                // A run takes two bytes or more.
                let may_pay = 2 * run_count(bytes) < most;
                let as_runs = if may_pay { write_runs(bytes, &mut out[..most - 1]) } else { None };
                match as_runs {
                    Some(len) => Some((Method::Runs, len)),
                    None => by_huffman(self.kernel, bytes, &huffman?, out),
                }
            }
        }
    }

    fn by_zstd(&mut self, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        // An error is that there is no room for fewer bytes, or no memory: then they are stored.
        self.zstd.as_mut()?.compress_to_buffer(bytes, &mut out[..bytes.len() - 1]).ok()
    }
}

/// Whether no code can take fewer than `bytes` bytes for symbols of these counts: then none is made.
///
/// A code takes no fewer bits for a symbol than Shannon's entropy, and that is no less than the entropy of order two, -log2 of the sum of p^2. With `o` bytes
/// that a code takes at least beside its words, it takes `bytes` or more if the sum of c^2 is at most bytes^2 2^(8 o / bytes) / 256, and 2^x > 1 + 5/8 x.
fn is_flat(counts: &[u32; 256], bytes: usize) -> bool {
    let squares: u64 = counts.iter().map(|&count| u64::from(count) * u64::from(count)).sum();
    let symbols = counts.iter().filter(|count| **count > 0).count();
    let beside = (canonical::streams_len(0) + 1 - canonical::STREAMS + symbols / 2) as u64;
    let bytes = bytes as u64;
    256 * squares <= bytes * (bytes + 5 * beside)
}

fn by_huffman(kernel: &Kernel, bytes: &[u8], code: &ListedCode, out: &mut [u8]) -> Option<(Method, usize)> {
    Some((Method::Huffman, code.write(kernel, bytes, &mut out[..bytes.len()])?))
}

/// Whether bytes with this number of zeros repeat more than a code of single bytes can make use of.
fn repeats(bytes: &[u8], zeros: usize) -> bool {
    let share = |(part, whole): (usize, usize)| (bytes.len() * part).div_ceil(whole);
    let long = share(LONG_RUN).max(1);
    if zeros < long {
        return false;
    }
    if zeros * MANY_ZEROS.1 > bytes.len() * MANY_ZEROS.0 {
        return true;
    }
    has_run(bytes, long)
}

/// Whether there is a run of this number of zeros, at least 1.
fn has_run(bytes: &[u8], long: usize) -> bool {
    // A run has one of every `long` bytes: what is around that is looked at only if it is 0.
    let mut at = long - 1;
    while let Some(&byte) = bytes.get(at) {
        if byte == 0 {
            let before = bytes[..at].iter().rev().take_while(|byte| **byte == 0).count();
            let behind = bytes[at..].iter().take_while(|byte| **byte == 0).count();
            if before + behind >= long {
                return true;
            }
            at += behind;
        }
        at += long;
    }
    false
}

/// How many runs there are.
pub(super) fn run_count(bytes: &[u8]) -> usize {
    let Some(pairs) = bytes.len().checked_sub(1) else { return 0 };
    let changes = bytes[..pairs].chunks(255).zip(bytes[1..].chunks(255));
    // A byte counts up to 255: vectors of them.
    let changes = changes.map(|(first, second)| {
        let changed = first.iter().zip(second).map(|(first, second)| u8::from(first != second));
        usize::from(changed.fold(0, u8::wrapping_add))
    });
    1 + changes.sum::<usize>()
}

/// Writes the runs to the front of `out`, of each its byte, and further repetitions in groups of seven bits, the lowest first, with the highest bit
/// set in all but the last; `None` if there is no room for them.
pub(super) fn write_runs(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    let mut put = |byte| {
        *out.get_mut(at)? = byte;
        at += 1;
        Some(())
    };
    for run in bytes.chunk_by(|first, second| first == second) {
        put(run[0])?;
        let mut more = run.len() - 1;
        while more >= 1 << 7 {
            put(more as u8 | 1 << 7)?;
            more >>= 7;
        }
        put(more as u8)?;
    }
    Some(at)
}

/// Reads runs of as many bytes as `out` has. `None` if they are of more or fewer, or none that [`write_runs`] writes.
pub(super) fn read_runs(mut coded: &[u8], mut out: &mut [u8]) -> Option<()> {
    let mut before = None;
    while let Some(&byte) = coded.split_off_first() {
        let (mut more, mut shift) = (0usize, 0);
        loop {
            let &part = coded.split_off_first()?;
            more |= usize::from(part & 0x7f) << shift;
            if part < 1 << 7 {
                // The highest group is not 0, and runs are as long as they can be.
                if (part == 0 && shift > 0) || before == Some(byte) {
                    return None;
                }
                break;
            }
            shift += 7;
            if shift > 21 {
                return None;
            }
        }
        out.split_off_mut(..=more)?.fill(byte);
        before = Some(byte);
    }
    out.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_codec::kernel::PORTABLE;

    #[test]
    fn runs_of_zeros_are_found_wherever_they_are() {
        for long in [1, 2, 3, 7] {
            for len in 0..if cfg!(miri) { 16 } else { 30 } {
                for begin in 0..len {
                    for run in 1..=len - begin {
                        let mut bytes = vec![1; len];
                        bytes[begin..begin + run].fill(0);
                        assert_eq!(has_run(&bytes, long), run >= long, "{run} of {len} from {begin} on");
                        // A shorter one before it.
                        if begin > 3 && long > 2 {
                            bytes[begin - 3..begin - 1].fill(0);
                            assert_eq!(has_run(&bytes, long), run >= long);
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn what_is_flat_has_no_shorter_code() {
        let mut flat = 0;
        for case in 0..2000u32 {
            let random = |symbol: usize| (case * 1000 + symbol as u32).wrapping_mul(0x9e37_79b1) >> 8;
            // Around a mean, by more or less, with a few symbols that do not occur.
            let mean = 1 + case % 60 * 50;
            let symbols = 256 - (case % 3) as usize;
            let count = |symbol| mean + random(symbol) % (1 + mean / (1 + case % 20));
            let counts = std::array::from_fn(|symbol| if symbol < symbols { count(symbol) } else { 0 });
            let bytes: u32 = counts.iter().sum();
            if is_flat(&counts, bytes as usize) {
                flat += 1;
                let least = ListedCode::of(&counts).len + 1 - canonical::STREAMS;
                assert!(least >= bytes as usize, "{counts:?}");
            }
        }
        assert!((200..1900).contains(&flat), "{flat}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn methods_follow_the_rules() {
        let noise = |len: u32, of: u32| {
            (0..len).map(move |i| (i.wrapping_mul(0x9e37_79b1) >> 16) as u8 % of as u8 + 1)
        };
        let method =
            |scheme, bytes: &[u8]| Coder::new(&PORTABLE, scheme).code(bytes, &mut vec![0; bytes.len()]).0;
        let both = |bytes: &[u8]| (method(Scheme::Grouped, bytes), method(Scheme::Blockwise, bytes));
        assert_eq!(both(&[]), (Method::Stored, Method::Stored));
        assert_eq!(both(&[1]), (Method::Stored, Method::Stored));
        assert_eq!(both(&[1; 1000]), (Method::Same, Method::Same));
        let few: Vec<u8> = noise(10_000, 9).collect();
        assert_eq!(both(&few), (Method::Huffman, Method::Huffman));
        let all: Vec<u8> = (0..10_000u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        assert_eq!(both(&all), (Method::Stored, Method::Stored));
        // A run of three percent.
        let mut run = few.clone();
        run[5000..5300].fill(0);
        assert_eq!(both(&run), (Method::Zstd, Method::Huffman));
        run[5000] = 1;
        assert_eq!(both(&run), (Method::Huffman, Method::Huffman));
        // Nine tenths of zeros, spread, and in few runs.
        let mut zeros = few.clone();
        zeros.iter_mut().enumerate().filter(|(at, _)| at % 11 != 0).for_each(|(_, byte)| *byte = 0);
        assert_eq!(both(&zeros), (Method::Zstd, Method::Huffman));
        zeros.fill(0);
        zeros[3000..3010].copy_from_slice(&few[..10]);
        assert_eq!(both(&zeros), (Method::Zstd, Method::Runs));
    }

    #[test]
    fn runs_of_every_length_come_back() {
        let all = [&[1usize][..], &[1, 127, 128, 129, 1], &[16384, 1, 16385, 3], &[1 << 18]];
        for lens in &all[..if cfg!(miri) { 2 } else { 4 }] {
            let bytes: Vec<u8> = lens.iter().zip(0..).flat_map(|(&len, byte)| vec![byte; len]).collect();
            assert_eq!(run_count(&bytes), lens.len());
            let mut coded = vec![0; 5 * lens.len()];
            let len = write_runs(&bytes, &mut coded).unwrap();
            let mut out = vec![0xff; bytes.len()];
            read_runs(&coded[..len], &mut out).unwrap();
            assert_eq!(out, bytes);
            assert_eq!(write_runs(&bytes, &mut coded[..len - 1]), None);
            assert_eq!(read_runs(&coded[..len - 1], &mut out), None);
            assert_eq!(read_runs(&coded[..len], &mut vec![0; bytes.len() + 1]), None);
            assert_eq!(read_runs(&coded[..len], &mut vec![0; bytes.len() - 1]), None);
        }
        assert_eq!(
            (run_count(&[]), write_runs(&[], &mut []), read_runs(&[], &mut [])),
            (0, Some(0), Some(()))
        );
    }

    #[test]
    fn what_nothing_writes_is_not_read() {
        assert_eq!(read_runs(&[7, 0, 7, 0], &mut [0; 2]), None, "two runs of one byte");
        assert_eq!(read_runs(&[7, 0x80, 0], &mut [0; 1]), None, "a group of zeros");
        assert_eq!(
            read_runs(&[7, 0xff, 0xff, 0xff, 0xff, 1], &mut [0; 1]),
            None,
            "a run longer than any group"
        );
    }
}
