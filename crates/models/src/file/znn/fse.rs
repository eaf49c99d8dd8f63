//! Numbers in finite state entropy codes, as the weights of Huffman codes are kept: RFC 8878, sections 4.1 and 4.2.1.2.

use super::bits::{Backward, Forward};

/// States of such a table are at most two to the power of this.
const MAX_LOG: u32 = 6;
/// A weight of a symbol of Huffman codes is at most this.
const MAX_WEIGHT: usize = 12;

/// What a state stands for, and how the next one comes about.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    symbol: u8,
    bits: u32,
    base: u32,
}

/// At most `most` numbers; `None` if they are damaged.
pub(super) fn decode(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let (states, log, rest) = table(bytes)?;
    let mut input = Backward::new(rest)?;
    let mut now = [0; 2];
    for state in &mut now {
        *state = input.peek(log);
        if !input.skip(log) {
            return None;
        }
    }
    let mut symbols = Vec::new();
    // Two states take turns. The one that finds no bits any more was the last but one.
    for turn in (0..2).cycle() {
        if symbols.len() >= most {
            return None;
        }
        let state = states[now[turn] as usize];
        symbols.push(state.symbol);
        now[turn] = state.base + input.peek(state.bits);
        if !input.skip(state.bits) {
            symbols.push(states[now[1 - turn] as usize].symbol);
            break;
        }
    }
    (symbols.len() <= most).then_some(symbols)
}

/// A table with its logarithm, and what is behind it.
fn table(bytes: &[u8]) -> Option<(Vec<State>, u32, &[u8])> {
    let mut input = Forward::new(bytes);
    let log = input.peek(4) + 5;
    input.skip(4);
    if log > MAX_LOG {
        return None;
    }
    // Of each symbol the number of its states, -1 for one that is less than probable.
    let mut counts: Vec<i32> = Vec::new();
    let mut remaining = 1 << log;
    while remaining > 0 {
        let most = remaining as u32 + 1;
        let bits = most.ilog2() + 1;
        let (low_mask, short) = ((1 << (bits - 1)) - 1, (1 << bits) - 1 - most);
        let value = input.peek(bits);
        let value = if value & low_mask < short {
            input.skip(bits - 1);
            value & low_mask
        } else {
            input.skip(bits);
            if value > low_mask { value - short } else { value }
        };
        let count = value as i32 - 1;
        counts.push(count);
        remaining -= count.abs();
        if count == 0 {
            loop {
                let zeros = input.peek(2);
                input.skip(2);
                counts.extend((0..zeros).map(|_| 0));
                if zeros < 3 || counts.len() > MAX_WEIGHT {
                    break;
                }
            }
        }
        if counts.len() > MAX_WEIGHT + 1 {
            return None;
        }
    }
    (remaining == 0).then(|| input.rest().map(|rest| (spread(&counts, log), log, rest)))?
}

/// Gives each symbol its states.
fn spread(counts: &[i32], log: u32) -> Vec<State> {
    let size = 1_usize << log;
    let mut states = vec![State::default(); size];
    let mut end = size;
    for (symbol, _) in (0..).zip(counts).filter(|(_, count)| **count < 0) {
        end -= 1;
        states[end].symbol = symbol;
    }
    let mut at = 0;
    for (symbol, count) in (0..).zip(counts) {
        for _ in 0..*count {
            states[at].symbol = symbol;
            loop {
                at = (at + (size >> 1) + (size >> 3) + 3) % size;
                if at < end {
                    break;
                }
            }
        }
    }
    // Where the k-th state of a symbol leads to depends on how many it has, and on k.
    let mut next: Vec<u32> = counts.iter().map(|count| count.unsigned_abs()).collect();
    for state in &mut states {
        let number = &mut next[usize::from(state.symbol)];
        state.bits = log - number.ilog2();
        state.base = (*number << state.bits) - size as u32;
        *number += 1;
    }
    states
}
