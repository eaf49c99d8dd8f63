//! Lengths of code words in a frame.
//!
//! First and last symbol that have a word, a byte each; then, for each of the symbols from one to the other, half a byte, the lower
//! half first: the length of its word, or 0 and a half byte that says how many symbols follow which have none, too. An odd number of
//! half bytes is filled up with 0.

use super::{LONGEST, Lengths};

/// Bytes that lengths take at most.
pub(crate) const MOST_LISTED: usize = 2 + (256 * 3 / 2usize).div_ceil(2);

/// Writes lengths of at most [`LONGEST`] bits to the front of `out`, which has [`MOST_LISTED`] bytes; returns how many they took.
///
/// At least one symbol has a word.
pub(crate) fn write_lengths(lengths: &Lengths, out: &mut [u8]) -> usize {
    let has_word = |length: &u8| *length > 0;
    let first = lengths.iter().position(has_word).unwrap_or(0);
    let last = lengths.iter().rposition(has_word).unwrap_or(0);
    out[..MOST_LISTED].fill(0);
    (out[0], out[1]) = (first as u8, last as u8);
    let mut halves = 0;
    let mut put = |half: u8| {
        out[2 + halves / 2] |= half << (4 * (halves % 2));
        halves += 1;
    };
    let mut symbol = first;
    while symbol <= last {
        put(lengths[symbol]);
        symbol += 1;
        if lengths[symbol - 1] == 0 {
            let more = lengths[symbol..].iter().take(15).take_while(|length| **length == 0).count();
            put(more as u8);
            symbol += more;
        }
    }
    2 + halves.div_ceil(2)
}

/// Reads what [`write_lengths`] wrote and takes it off `bytes`; `None` if it is nothing that it writes. Whether the lengths are those of a
/// code, it does not ask.
pub(crate) fn read_lengths(bytes: &mut &[u8]) -> Option<Lengths> {
    let (&[first, last], listed) = bytes.split_first_chunk()?;
    let mut lengths = [0; 256];
    let mut halves = listed.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let (mut symbol, last) = (usize::from(first), usize::from(last));
    let mut read = 0usize;
    while symbol <= last {
        let length = halves.next()?;
        read += 1;
        if usize::from(length) > LONGEST {
            return None;
        }
        lengths[symbol] = length;
        symbol += 1;
        if length == 0 {
            symbol += usize::from(halves.next()?);
            read += 1;
        }
    }
    if read % 2 == 1 && halves.next()? != 0 {
        return None;
    }
    *bytes = &listed[read.div_ceil(2)..];
    // One list for each code: the first and the last symbol have words, and runs of those without are as long as they can be.
    let mut again = [0; MOST_LISTED];
    let len = write_lengths(&lengths, &mut again);
    (again[..len] == [&[first, last as u8][..], &listed[..read.div_ceil(2)]].concat()).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(lengths: &Lengths) -> usize {
        let mut out = [0xff; MOST_LISTED + 3];
        let len = write_lengths(lengths, &mut out);
        let mut bytes = &out[..len + 3];
        assert_eq!(read_lengths(&mut bytes).as_ref(), Some(lengths));
        assert_eq!(bytes.len(), 3);
        for cut in 0..len {
            assert_eq!(read_lengths(&mut &out[..cut]), None);
        }
        len
    }

    #[test]
    fn lengths_come_back_from_few_bytes() {
        let mut lengths = [0; 256];
        lengths[100] = 1;
        assert_eq!(round_trip(&lengths), 3);
        lengths[90..130].fill(6);
        assert_eq!(round_trip(&lengths), 2 + 20);
        lengths[0] = 11;
        assert_eq!(round_trip(&lengths), 2 + (1 + 2 * 6 + 40usize).div_ceil(2), "89 symbols without a word");
        assert_eq!(round_trip(&[8; 256]), 2 + 128);
        let worst: Lengths = std::array::from_fn(|symbol| if symbol % 2 == 0 { 7 } else { 0 });
        assert!(round_trip(&worst) <= MOST_LISTED);
    }

    #[test]
    fn what_nothing_writes_is_not_read() {
        // From symbol 1 to 2: a length of 12; a symbol that has none at the end; a filling half byte.
        for (bytes, what) in [
            ([1, 2, 0xc1, 0], "a word of 12 bits"),
            ([1, 2, 0x01, 0], "no word for the last symbol"),
            ([2, 1, 0, 0], "the last before the first"),
            ([1, 1, 0x11, 0], "filling that is not 0"),
        ] {
            assert_eq!(read_lengths(&mut &bytes[..]), None, "{what}");
        }
        assert!(read_lengths(&mut &[1, 2, 0x11][..]).is_some());
        // Two runs of none where one is long enough.
        assert_eq!(read_lengths(&mut &[1, 4, 0x01, 0x00, 0x10][..]), None);
    }
}
