//! A decoder of `huffman` written a second time, from `docs/format.md`: by threads and blocks, bit by bit, as a GPU would.

use crate::common;
use crate::common::content::{Content, every_pattern};
use crate::common::reader::{Reader, canonical_words};
use crate::common::{Frame, checksum};
use zipwire_codec::{DType, Layout};

const FRONT_LEN: usize = 32 + 8 + 192;

#[test]
fn frames_are_read_as_the_document_says() {
    let (mut stored, mut coded, mut blocks) = (0, 0, 0);
    let lengths = (0..300).chain([1000, 6000, 20_000, 65_537, 131_073]);
    for count in lengths {
        let contents = Content::ALL.map(|content| content.values(DType::Bf16, count, 11));
        for values in contents.into_iter().chain((count == 0).then(|| every_pattern(DType::Bf16))) {
            for layout in Layout::ALL {
                let frame = Frame::new(&*common::codec("huffman"), layout, DType::Bf16, &values);
                let (found, of) = decode(layout, &frame);
                assert!(found == values, "{layout} {count}");
                stored += usize::from(of == 0);
                coded += usize::from(of > 0);
                blocks += usize::from(of > 4);
            }
        }
    }
    assert!(stored > 20 && coded > 1000 && blocks > 10, "{stored} {coded} {blocks}");
}

/// Exponents whose numbers are those of Fibonacci have words of every length.
#[test]
fn words_have_up_to_thirty_two_bits() {
    let (mut numbers, mut exponents) = ((1usize, 1usize), Vec::new());
    for exponent in 60..86u16 {
        exponents.extend(vec![exponent; numbers.0]);
        numbers = (numbers.1, numbers.0 + numbers.1);
    }
    // Rare ones anywhere among the others.
    let len = exponents.len();
    let values: Vec<u8> = (0..len)
        .flat_map(|at| (exponents[at * 75_011 % len] << 7 | at as u16 & 0x7f).to_le_bytes())
        .collect();
    let frame = Frame::new(&*common::codec("huffman"), Layout::Compact, DType::Bf16, &values);
    assert!(lengths(&frame.dynamic_section).iter().max().unwrap() >= &25);
    assert!(decode(Layout::Compact, &frame).0 == values);
    frame.assert_survives("words of 25 bits");
}

/// The last thread of a frame, the first one of its block, has only the end of a word: no value is in that block.
#[test]
fn the_last_block_can_have_no_value() {
    for blocks in 1..4 {
        // Words of 1, 2 and 2 bits: all bits of the blocks before but one, and a word of two.
        let mut exponents = vec![7u16; 16_384 * blocks - 3];
        exponents.extend([8, 9]);
        let values: Vec<u8> = (0..)
            .zip(exponents)
            .flat_map(|(at, exponent)| (exponent << 7 | at & 0x7f).to_le_bytes())
            .collect();
        for layout in Layout::ALL {
            let frame = Frame::new(&*common::codec("huffman"), layout, DType::Bf16, &values);
            let (found, of) = decode(layout, &frame);
            assert!(found == values && of == blocks + 1, "{layout} {blocks}");
            frame.assert_survives("a block without a value");
        }
    }
}

fn lengths(front: &[u8]) -> Vec<usize> {
    let bit = |at: usize| usize::from(front[40 + at / 8] >> (at % 8) & 1);
    (0..256).map(|symbol| (0..6).map(|at| bit(6 * symbol + at) << at).sum()).collect()
}

/// The values, and the number of blocks, 0 if exponents are stored.
fn decode(layout: Layout, frame: &Frame) -> (Vec<u8>, usize) {
    let count = frame.count();
    let (front, behind) = frame.first_section().split_at(FRONT_LEN);
    let (rests, coded) = behind.split_at(count);
    let mut coded = Reader(if layout == Layout::Split { &frame.dynamic_section } else { coded });
    let threads = u64::from_le_bytes(front[32..40].try_into().unwrap()) as usize;
    let lengths = lengths(front);
    let mut index_sum = 0;
    let (exponents, blocks) = if threads == 0 && lengths.iter().all(|length| *length == 0) {
        (coded.take(count).to_vec(), 0)
    } else {
        let words = coded.take(8 * threads);
        let gap_bytes = (5 * threads).div_ceil(8);
        let blocks = threads.div_ceil(256);
        let index = coded.take(gap_bytes + 4 * blocks);
        index_sum = checksum::behind(FRONT_LEN, index);
        let gap = |thread: usize| -> usize {
            (0..5)
                .map(|bit| {
                    let at = 5 * thread + bit;
                    usize::from(index[at / 8] >> (at % 8) & 1) << bit
                })
                .sum()
        };
        let position = |block: usize| {
            u32::from_le_bytes(index[gap_bytes + 4 * block..][..4].try_into().unwrap()) as usize
        };
        let symbols = canonical_words(&lengths);
        let mut exponents = Vec::new();
        for thread in 0..threads {
            if thread % 256 == 0 {
                assert_eq!(exponents.len(), position(thread / 256));
            }
            let mut at = 64 * thread + gap(thread);
            while at < 64 * (thread + 1) && exponents.len() < count {
                let (mut length, mut word) = (0, 0);
                exponents.push(loop {
                    word = word << 1 | u64::from(words[at / 8] >> (at % 8) & 1);
                    (length, at) = (length + 1, at + 1);
                    if let Some(symbol) = symbols.get(&(length, word)) {
                        break *symbol;
                    }
                });
            }
        }
        (exponents, blocks)
    };
    assert!(coded.0.is_empty() && exponents.len() == count);
    let values: Vec<u8> = exponents
        .iter()
        .zip(rests)
        .flat_map(|(exponent, rest)| {
            (u16::from(rest >> 7) << 15 | u16::from(*exponent) << 7 | u16::from(rest & 0x7f)).to_le_bytes()
        })
        .collect();
    checksum::assert_sealed(&values, front, index_sum);
    (values, blocks)
}
