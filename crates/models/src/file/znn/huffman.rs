//! Blocks of bytes in Huffman codes, as the library huff0 writes them: RFC 8878, section 4.2.

use super::bits::Backward;
use super::fse;

/// Bits of a code at the most.
const MAX_BITS: u32 = 12;
/// Bytes of the lengths of the first three streams.
const JUMPS: usize = 6;

/// Fills `out` with what a block decodes to; whether it is sound.
pub(super) fn decode(block: &[u8], out: &mut [u8]) -> bool {
    if block.len() == out.len() {
        out.copy_from_slice(block);
        return true;
    }
    if let [byte] = block {
        out.fill(*byte);
        return true;
    }
    decode_streams(block, out).is_some()
}

fn decode_streams(block: &[u8], out: &mut [u8]) -> Option<()> {
    let (weights, streams) = weights(block)?;
    let (codes, bits) = table(weights)?;
    let (jumps, mut streams) = streams.split_at_checked(JUMPS)?;
    let share = out.len().div_ceil(4);
    let mut parts = out.chunks_mut(share.max(1));
    for number in 0..4 {
        // Of a few bytes the last streams may have none.
        let part = parts.next().unwrap_or_default();
        let stream;
        if number < 3 {
            let len = usize::from(u16::from_le_bytes([jumps[2 * number], jumps[2 * number + 1]]));
            (stream, streams) = streams.split_at_checked(len)?;
        } else {
            stream = streams;
        }
        let mut input = Backward::new(stream)?;
        for byte in part {
            let (symbol, len) = codes[input.peek(bits) as usize];
            *byte = symbol;
            if !input.skip(len) {
                return None;
            }
        }
        if !input.is_at_end() {
            return None;
        }
    }
    Some(())
}

/// The weights of all symbols but the last one, and what is behind them.
fn weights(block: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&first, rest) = block.split_first()?;
    if first < 128 {
        let (coded, rest) = rest.split_at_checked(usize::from(first))?;
        return Some((fse::decode(coded, 255)?, rest));
    }
    // Four bits each.
    let count = usize::from(first) - 127;
    let (pairs, rest) = rest.split_at_checked(count.div_ceil(2))?;
    let weights = pairs.iter().flat_map(|pair| [pair >> 4, pair & 15]).take(count).collect();
    Some((weights, rest))
}

/// A symbol and the length of its code for all bits that a stream can go on with, and how many bits these are.
fn table(mut weights: Vec<u8>) -> Option<(Vec<(u8, u32)>, u32)> {
    if weights.iter().any(|weight| u32::from(*weight) > MAX_BITS) {
        return None;
    }
    let share = |weight: u8| if weight == 0 { 0 } else { 1_u32 << (weight - 1) };
    let sum: u32 = weights.iter().map(|weight| share(*weight)).sum();
    let bits = sum.checked_ilog2()? + 1;
    let left = (1 << bits) - sum;
    if bits > MAX_BITS || !left.is_power_of_two() || weights.len() > 255 {
        return None;
    }
    weights.push(left.ilog2() as u8 + 1);
    // The longest codes come first.
    let mut codes = Vec::with_capacity(1 << bits);
    for weight in 1..=bits as u8 {
        for (symbol, _) in weights.iter().enumerate().filter(|(_, of)| **of == weight) {
            codes.extend((0..share(weight)).map(|_| (symbol as u8, bits + 1 - u32::from(weight))));
        }
    }
    (codes.len() == 1 << bits).then_some((codes, bits))
}
