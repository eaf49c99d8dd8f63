//! Cases of compact `rans` frames only: joint symbols, bytes that states carry, and contradictory frames.

use zipwire_codec::{Codec, DType, Layout, Spec};

use crate::bench::Bench;
use crate::content::Content;
use crate::corrupt::agree;

/// Values of a block, and of a group.
const BLOCK: usize = 32_768;
const GROUP: usize = 256;
/// Where the table of blocks begins, and bytes of an entry.
const TABLE_AT: usize = 32;
const ENTRY: usize = 12;
/// In the form of a block that is coded by rANS.
const RANS: u8 = 0x30;
/// Bytes of a table of frequencies, without and with joint symbols.
const FREQUENCIES: [usize; 2] = [56, 104];

/// Where the table of frequencies of a frame of so many blocks is, if it has one and no offsets of columns.
fn table_at(frame: &[u8], blocks: usize) -> Option<usize> {
    let entries = frame[TABLE_AT..].chunks(ENTRY).take(blocks);
    let has_table = entries.clone().any(|entry| entry[0] & RANS == RANS);
    has_table.then_some((TABLE_AT + ENTRY * blocks).next_multiple_of(8))
}

/// Bytes of the rest of `count` values, joint symbols or not; and how many of them states carry.
fn rest_len(dtype: DType, is_joint: bool, count: usize) -> (usize, usize) {
    let (bytes, bits) = match dtype {
        DType::Bf16 => (1, 0),
        DType::F16 => (1, 3),
        DType::F32 => unreachable!("its planes have forms"),
        DType::F8E4M3 => (0, 4),
        DType::F8E5M2 => (0, 3),
    };
    let (bytes, bits) = match (is_joint, bits) {
        (false, _) => (bytes, bits),
        (true, 0) => (0, 6),
        (true, _) => (bytes, bits - 2),
    };
    let len = bytes * count.next_multiple_of(8) + bits * 8 * count.div_ceil(64);
    (len, if len < 96 { 0 } else { 96 })
}

/// All kinds of values with the option that looks at joint symbols, and damaged frames of those that have them: also around the table, and where
/// what states carry would be.
pub(crate) fn joint_symbols(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let codec = format!("{spec}:mantissa=2").parse::<Spec>().unwrap().codec();
    let mut with_joint = 0;
    for (number, content) in Content::ALL.into_iter().enumerate() {
        let of = |count: usize| content.values(dtype, count, (number + count) as u64);
        let all_values = [of(90), of(5001), of(BLOCK + 2003)];
        bench.check_compact(&*codec, &all_values, &format!("{content:?}"));
        for values in &all_values {
            let whole = codec.encode_to_vec(Layout::Compact, dtype, values).unwrap();
            let blocks = (values.len() / dtype.width()).div_ceil(BLOCK);
            let Some(at) = table_at(&whole, blocks).filter(|at| whole[at + 1] > 0) else { continue };
            with_joint += 1;
            let places = (at..at + FREQUENCIES[1] + 16)
                .step_by(5)
                .chain([2, 40, 90, 170].map(|end| whole.len() - end));
            let damaged: Vec<_> = places
                .map(|byte| {
                    let mut frame = whole.clone();
                    frame[byte] ^= 1 << (byte % 8);
                    (frame, values.len())
                })
                .collect();
            for ((frame, len), found) in damaged.iter().zip(bench.decode_compact(&damaged)) {
                agree(content, bench.compact_decoded_on_cpu(frame, *len), found);
            }
        }
    }
    assert!(with_joint > 2, "{with_joint} frames have joint symbols");
}

/// Entries, tables, states, words, escapes and what states carry, as no encoder writes them.
pub(crate) fn contradictions(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let mut values = Content::Gaussian.values(dtype, BLOCK + 9321, 4);
    // Residuals that have no symbol, in groups that the sample leaves out.
    for number in 0..5 {
        values[dtype.width() * (BLOCK + 6 * GROUP * number + 8) - 1] = 0x7e;
    }
    // None is left out.
    for value in values.chunks_mut(dtype.width()).filter(|value| value.iter().all(|byte| *byte == 0)) {
        value[0] = 1;
    }
    let whole = bench.compact_on_cpu(&values);
    let (full, last) = (TABLE_AT, TABLE_AT + ENTRY);
    let at = table_at(&whole, 2).unwrap();
    assert_eq!([whole[full], whole[last]], [RANS; 2], "one base, by rANS");
    let is_joint = whole[at + 1] > 0;
    let bodies_at = at + FREQUENCIES[usize::from(is_joint)];
    let mut damaged = Vec::new();
    let mut refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = whole.clone();
        change(&mut frame);
        assert!(bench.compact_decoded_on_cpu(&frame, values.len()).is_none(), "change {}", damaged.len());
        damaged.push((frame, values.len()));
    };
    for entry in [full, last] {
        for form in [0xb0, 0x70, 0x31, 0x32, 0x33, 0x35, 0x3f, 0x00] {
            refused(&|frame| frame[entry] = form);
        }
        refused(&|frame| frame[entry + 1] = 255);
        refused(&|frame| frame[entry + 1] ^= 1);
        for (byte, bit) in [(2, 0), (3, 7), (4, 0), (5, 7), (6, 0), (7, 7), (8, 0), (11, 0)] {
            refused(&|frame| frame[entry + byte] ^= 1 << bit);
        }
    }
    // Zeros of the table, its window, frequencies that do not add up, no slot for escapes, another residual of symbol 0.
    refused(&|frame| frame[at] ^= 1);
    refused(&|frame| frame[at + 7] = 1);
    for window in [1, 15, 16, 255].into_iter().filter(|window| *window != whole[at + 1]) {
        refused(&|frame| frame[at + 1] = window);
    }
    refused(&|frame| frame[at + 8] ^= 1);
    refused(&|frame| frame[bodies_at - 3..bodies_at].fill(0));
    refused(&|frame| frame[at + 8..bodies_at].fill(0));
    if dtype != DType::F32 {
        damage_bodies(&whole, dtype, is_joint, bodies_at, &mut refused);
    }
    // As many words as values, and states that ask for more.
    let mut frame = whole[..whole.len() - 600].to_vec();
    frame[last + 4..last + 6].copy_from_slice(&9000u16.to_le_bytes());
    frame.extend([0; 2 * 9000]);
    let len = frame.len() as u64;
    frame[16..24].copy_from_slice(&len.to_le_bytes());
    assert!(bench.compact_decoded_on_cpu(&frame, values.len()).is_none());
    damaged.push((frame, values.len()));
    for (number, found) in bench.decode_compact(&damaged).into_iter().enumerate() {
        assert!(found.is_err(), "change {number} is not reported");
    }
}

/// Keeps a frame with a change of its bytes, which the CPU refuses.
type Refused<'a> = dyn FnMut(&dyn Fn(&mut Vec<u8>)) + 'a;

/// Damages states, words and escapes of both blocks of a frame.
fn damage_bodies(
    whole: &[u8],
    dtype: DType,
    is_joint: bool,
    mut bodies_at: usize,
    refused: &mut Refused<'_>,
) {
    let (full, last) = (TABLE_AT, TABLE_AT + ENTRY);
    for (entry, count) in [(full, BLOCK), (last, 9321)] {
        let number =
            |field: usize| usize::from(u16::from_le_bytes([whole[entry + field], whole[entry + field + 1]]));
        let (words, escapes) = (number(4), number(6));
        let (rest, carried) = rest_len(dtype, is_joint, count);
        let states = bodies_at + rest - carried;
        let (words_at, escapes_at) = (states + 128, states + 128 + (2 * words).next_multiple_of(8));
        // A state that is too low or too high, and others, which carry something else.
        refused(&|frame| frame[states..states + 4].fill(0));
        refused(&|frame| frame[states + 3] |= 0x80);
        refused(&|frame| frame[states + 4 * 31 + 1] ^= 1);
        // Words, from the first to the last, and what fills up words and escapes.
        for word in [0, words / 2, words - 1] {
            refused(&|frame| frame[words_at + 2 * word] ^= 1);
        }
        for (begin, end) in [
            (words_at + 2 * words, escapes_at),
            (escapes_at + escapes, escapes_at + escapes.next_multiple_of(8)),
        ] {
            if begin < end {
                refused(&|frame| frame[end - 1] = 1);
            }
        }
        bodies_at = escapes_at + escapes.next_multiple_of(8);
    }
    assert_eq!(bodies_at, whole.len(), "the frame is known");
}
