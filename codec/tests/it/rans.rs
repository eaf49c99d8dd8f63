//! Frames of `rans` for known values: sizes, choices, damage, and the names of its faults.

use crate::common;
use crate::common::Frame;
use crate::common::content::Content;
use zipwire_codec::{BlockFault, DType, DecodeError, Layout, Section};

const BLOCK: usize = 32_768;

fn frame(layout: Layout, dtype: DType, values: &[u8]) -> Frame {
    Frame::new(&*common::codec("rans"), layout, dtype, values)
}

/// `count` BF16 values of few exponents and any rests, so that a table pays for few of them.
fn few_exponents(count: u32) -> Vec<u8> {
    let value = |i: u32| {
        let noise = i.wrapping_mul(0x9e37_79b1) >> 16;
        let exponent = if i % 97 == 5 { 90 } else { 120 + i % 2 };
        (noise & 0x807f | exponent << 7) as u16
    };
    (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
}

/// Bits 4 and 5 of the form of each block.
fn orders(frame: &Frame) -> Vec<u8> {
    let entries = frame.first_section()[32..].chunks(12).take(frame.count().div_ceil(BLOCK));
    entries.map(|entry| entry[0] >> 4 & 3).collect()
}

/// Bits that the exponents of BF16 values take at least, one by one.
fn entropy(values: &[u8]) -> f64 {
    let mut counts = [0.0; 256];
    values.chunks(2).for_each(|value| counts[usize::from(value[1] << 1 | value[0] >> 7)] += 1.0);
    let all = values.len() as f64 / 2.0;
    counts.into_iter().filter(|count| *count > 0.0).map(|count| -count * libm::log2(count / all)).sum()
}

#[test]
fn exponents_take_their_entropy_and_little_more() {
    for blocks in [1, 2, 16] {
        let values = Content::Gaussian.values(DType::Bf16, blocks * BLOCK, 9);
        // Header and table; of each block an entry, and what states cost.
        let least = 32 + 56 + (values.len() / 2) + (entropy(&values) / 8.0) as usize;
        for (layout, of_block) in [(Layout::Compact, 12 + 32), (Layout::Split, 12 + 128)] {
            let frame = frame(layout, DType::Bf16, &values);
            let padding = 128;
            let expected = least + blocks * of_block + padding;
            // A sample and twelve bits of a probability cost 0.02 bits for each value.
            assert!(
                frame.len() < expected + values.len() / 2 / 400,
                "{layout}: {} of {expected}",
                frame.len()
            );
            assert_eq!(orders(&frame), vec![3; blocks]);
        }
    }
}

#[test]
fn what_a_table_does_not_fit_is_in_tiers_or_as_it_is() {
    // Noise; too few values.
    for values in
        [Content::Noise.values(DType::Bf16, 3 * BLOCK, 1), Content::Gaussian.values(DType::Bf16, 300, 1)]
    {
        for layout in Layout::ALL {
            let frame = frame(layout, DType::Bf16, &values);
            frame.assert_survives("without a table");
            assert!(orders(&frame).iter().all(|order| *order < 3));
        }
    }
    // A table for most blocks.
    let mut values = few_exponents(40 * BLOCK as u32);
    // Blocks that are not in the sample.
    let other = Content::Gaussian.values(DType::Bf16, BLOCK, 2);
    for block in [1, 3] {
        values[2 * block * BLOCK..][..2 * BLOCK].copy_from_slice(&other);
    }
    for layout in Layout::ALL {
        let frame = frame(layout, DType::Bf16, &values);
        frame.assert_survives("with a table for most");
        let orders = orders(&frame);
        assert!(orders[1] < 3 && orders[3] < 3, "{orders:?}");
        assert_eq!(orders.iter().filter(|order| **order == 3).count(), 38);
    }
}

#[test]
fn every_flip_and_every_cut_of_codes_is_an_error() {
    let values = few_exponents(2000);
    for layout in Layout::ALL {
        let mut frame = frame(layout, DType::Bf16, &values);
        assert_eq!(orders(&frame), [3], "{layout}");
        for bit in 0..frame.bits() {
            frame.flip(bit);
            frame.assert_fails(format_args!("flip of bit {bit}"));
            frame.flip(bit);
        }
        let whole = frame.dynamic_section.clone();
        for cut in 0..whole.len() {
            frame.dynamic_section.truncate(whole.len() - 1 - cut);
            frame.assert_fails(format_args!("{} bytes less", cut + 1));
        }
        frame.dynamic_section = whole;
        frame.assert_survives("again");
    }
}

#[test]
fn faults_are_named() {
    let values = few_exponents(2 * BLOCK as u32);
    let intact = frame(Layout::Split, DType::Bf16, &values);
    let fault = |section: Section, position: usize, byte: u8| {
        frame(Layout::Split, DType::Bf16, &values).damaged(|frame| match section {
            Section::Static => frame.static_section[position] = byte,
            Section::Dynamic => frame.dynamic_section[position] = byte,
        })
    };
    let block = |block, fault| DecodeError::Block { block, fault };
    let words = |at: usize| u16::from_le_bytes([intact.static_section[at], intact.static_section[at + 1]]);
    // The table: what is zero, frequencies that do not add up.
    assert_eq!(fault(Section::Dynamic, 3, 1), DecodeError::Padding);
    let frequencies = fault(Section::Dynamic, 8 + 47, 0);
    assert!(matches!(frequencies, DecodeError::Frequencies { .. }), "{frequencies}");
    // Entries: more words than values, fields that are not used.
    let impossible = BlockFault::Read { expected: 0xff00 + usize::from(words(36) & 0xff), found: BLOCK };
    assert_eq!(fault(Section::Static, 37, 0xff), block(0, impossible));
    assert_eq!(fault(Section::Static, 40, 1), block(0, BlockFault::UnusedField));
    // A state that is too low, of the first block and of the second one.
    let [first, second] = [36, 48].map(|at| {
        let escapes = usize::from(words(at + 2)).next_multiple_of(8);
        128 + (2 * usize::from(words(at))).next_multiple_of(8) + escapes
    });
    assert_eq!(56 + first + second, intact.dynamic_section.len());
    for (number, at) in [(0, 56), (1, 56 + first)] {
        let frame = frame(Layout::Split, DType::Bf16, &values);
        let found = frame.damaged(|frame| frame.dynamic_section[at..at + 4].fill(0));
        assert_eq!(found, block(number, BlockFault::State(0)));
    }
    // Another word or state leads to other states in the end, or to other numbers of words.
    for at in [56, 56 + 128, 56 + first + 128] {
        let found = fault(Section::Dynamic, at, !intact.dynamic_section[at]);
        let number = usize::from(at > 56 + first);
        let expected = |fault| matches!(fault, BlockFault::State(_) | BlockFault::Read { .. });
        assert!(
            matches!(found, DecodeError::Block { block, fault } if block == number && expected(fault)),
            "{at}: {found}"
        );
    }
}
