//! Which method suits a group, and its bytes by it.

use super::method::Method;
use super::{Scheme, runs};
use crate::canonical::{self, EncodeTable, LONGEST, MOST_LISTED};

/// A group of which more than nine tenths are zeros goes to zstd (ZipNN, section 4.2, "Auto Detection").
const MANY_ZEROS: (usize, usize) = (9, 10);
/// So does one with a run of zeros that is at least this share of it.
const LONG_RUN: (usize, usize) = (3, 100);
/// What zstd takes if nobody says otherwise.
const ZSTD_LEVEL: i32 = 3;

/// What the methods keep from group to group.
pub(super) struct Coder {
    scheme: Scheme,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Coder {
    pub(super) fn new(scheme: Scheme) -> Self {
        Self { scheme, zstd: None }
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
        let counts = canonical::histogram(bytes);
        if counts[usize::from(bytes[0])] as usize == bytes.len() {
            out[0] = bytes[0];
            return Some((Method::Same, 1));
        }
        let huffman = huffman_len(&counts);
        match self.scheme {
            Scheme::Grouped if repeats(bytes, counts[0] as usize) => {
                Some((Method::Zstd, self.by_zstd(bytes, out)?))
            }
            Scheme::Grouped => by_huffman(bytes, &huffman, out),
            Scheme::Blockwise => {
                // A run takes two bytes or more.
                let least = 2 * runs::count(bytes);
                let coded =
                    if least < huffman.len.min(bytes.len()) { runs::encode(bytes, out) } else { None };
                match coded.filter(|len| *len < huffman.len.min(bytes.len())) {
                    Some(len) => Some((Method::Runs, len)),
                    None => by_huffman(bytes, &huffman, out),
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

/// A code, and the bytes that it takes at most.
struct Huffman {
    lengths: canonical::Lengths,
    len: usize,
}

fn huffman_len(counts: &[u32; 256]) -> Huffman {
    let lengths = canonical::limited(counts, LONGEST);
    let mut list = [0; MOST_LISTED];
    let listed = canonical::write_lengths(&lengths, &mut list);
    let len = listed + canonical::streams_len(canonical::coded_bits(counts, &lengths));
    Huffman { lengths, len }
}

fn by_huffman(bytes: &[u8], huffman: &Huffman, out: &mut [u8]) -> Option<(Method, usize)> {
    if huffman.len + canonical::SPARE > bytes.len() {
        return None;
    }
    let mut list = [0; MOST_LISTED];
    let listed = canonical::write_lengths(&huffman.lengths, &mut list);
    out[..listed].copy_from_slice(&list[..listed]);
    let table = EncodeTable::new(&huffman.lengths)?;
    let coded = canonical::encode_streams(&table, bytes, &mut out[listed..bytes.len()])?;
    Some((Method::Huffman, listed + coded))
}

/// Whether bytes of which so many are zeros repeat more than a code of single bytes can make use of.
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

/// Whether so many zeros, at least 1, follow each other.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_zeros_are_found_wherever_they_are() {
        for long in [1, 2, 3, 7] {
            for len in 0..30 {
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
    fn methods_follow_the_rules() {
        let noise = |len: u32, of: u32| {
            (0..len).map(move |i| (i.wrapping_mul(0x9e37_79b1) >> 16) as u8 % of as u8 + 1)
        };
        let method = |scheme, bytes: &[u8]| Coder::new(scheme).code(bytes, &mut vec![0; bytes.len()]).0;
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
}
