//! Runs of equal bytes: the byte, and its further repetitions in groups of seven bits, the lowest first, with the highest bit set in all but the last.

/// How many runs there are.
pub(super) fn count(bytes: &[u8]) -> usize {
    let Some(pairs) = bytes.len().checked_sub(1) else { return 0 };
    let changes = bytes[..pairs].chunks(255).zip(bytes[1..].chunks(255));
    // A byte counts up to 255: vectors of them.
    let changes = changes.map(|(first, second)| {
        let changed = first.iter().zip(second).map(|(first, second)| u8::from(first != second));
        usize::from(changed.fold(0, u8::wrapping_add))
    });
    1 + changes.sum::<usize>()
}

/// Writes the runs to the front of `out`; `None` if there is no room for them.
pub(super) fn encode(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
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

/// Reads runs of as many bytes as `out` has. `None` if they are of more or fewer, or none that [`encode`] writes.
pub(super) fn decode(mut coded: &[u8], mut out: &mut [u8]) -> Option<()> {
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

    #[test]
    fn runs_of_every_length_come_back() {
        for lens in [&[1usize][..], &[1, 127, 128, 129, 1], &[16384, 1, 16385, 3], &[1 << 18]] {
            let bytes: Vec<u8> = lens.iter().zip(0..).flat_map(|(&len, byte)| vec![byte; len]).collect();
            assert_eq!(count(&bytes), lens.len());
            let mut coded = vec![0; 5 * lens.len()];
            let len = encode(&bytes, &mut coded).unwrap();
            let mut out = vec![0xff; bytes.len()];
            decode(&coded[..len], &mut out).unwrap();
            assert_eq!(out, bytes);
            assert_eq!(encode(&bytes, &mut coded[..len - 1]), None);
            assert_eq!(decode(&coded[..len - 1], &mut out), None);
            assert_eq!(decode(&coded[..len], &mut vec![0; bytes.len() + 1]), None);
            assert_eq!(decode(&coded[..len], &mut vec![0; bytes.len() - 1]), None);
        }
        assert_eq!((count(&[]), encode(&[], &mut []), decode(&[], &mut [])), (0, Some(0), Some(())));
    }

    #[test]
    fn what_nothing_writes_is_not_read() {
        assert_eq!(decode(&[7, 0, 7, 0], &mut [0; 2]), None, "two runs of one byte");
        assert_eq!(decode(&[7, 0x80, 0], &mut [0; 1]), None, "a group of zeros");
        assert_eq!(decode(&[7, 0xff, 0xff, 0xff, 0xff, 1], &mut [0; 1]), None, "a run longer than any group");
    }
}
