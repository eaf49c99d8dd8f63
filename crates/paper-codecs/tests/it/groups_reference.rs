//! A decoder of `grouped` and `blockwise` written a second time, from `docs/format.md`, symbol by symbol and bit by bit.

use crate::common;
use crate::common::content::{Content, every_pattern};
use crate::common::reader::{Reader, listed_code};
use crate::common::{Frame, checksum};
use zipwire_codec::{DType, Layout};

/// Bytes of a group of a whole chunk.
fn group_len(spec: &str, dtype: DType) -> usize {
    if spec == "grouped" { 262_144 / dtype.width() } else { 65_536 }
}

#[test]
fn frames_are_read_as_the_document_says() {
    let mut methods = [0; 5];
    let lengths = (0..70).chain([255, 1000, 20_000, 65_535, 65_537, 131_073]);
    for (count, dtype) in lengths.flat_map(|count| DType::ALL.map(|dtype| (count, dtype))) {
        // Longer than two blocks, where that is more than one chunk of both.
        if count > 100_000 && dtype != DType::Bf16 {
            continue;
        }
        let contents = Content::ALL.map(|content| content.values(dtype, count, 11));
        for values in contents.into_iter().chain((count == 0).then(|| every_pattern(dtype))) {
            for (spec, layout) in
                ["grouped", "blockwise"].into_iter().flat_map(|spec| Layout::ALL.map(|layout| (spec, layout)))
            {
                let frame = Frame::new(&*common::codec(spec), layout, dtype, &values);
                let found = decode(spec, layout, &frame, &mut methods);
                assert!(found == values, "{spec} {layout} {dtype} {count}");
            }
        }
    }
    assert!(methods.iter().all(|number| *number > 20), "{methods:?}");
}

#[test]
fn a_group_in_which_nothing_is_saved_is_looked_at_again_after_eight_chunks() {
    // Ten chunks whose mantissas are noise, but for the third and the last, where they are all the same.
    let dtype = DType::Bf16;
    let chunk = 2 * group_len("grouped", dtype);
    let mut values = Content::Gaussian.values(dtype, 10 * chunk / 2, 3);
    for number in [2, 9] {
        values[number * chunk..][..chunk].iter_mut().step_by(2).for_each(|byte| *byte = 0);
    }
    let frame = Frame::new(&*common::codec("grouped"), Layout::Compact, dtype, &values);
    let method = |chunk: usize| frame.dynamic_section[32 + 6 * chunk + 5] >> 4;
    let methods: Vec<u8> = (0..10).map(method).collect();
    assert_eq!(methods[..9], [0; 9], "stored, the third chunk without a look");
    assert_ne!(methods[9], 0, "behind eight that were not looked at");
    assert!(decode("grouped", Layout::Compact, &frame, &mut [0; 5]) == values);
}

fn decode(spec: &str, layout: Layout, frame: &Frame, methods: &mut [usize; 5]) -> Vec<u8> {
    let width = frame.dtype.width();
    let whole = group_len(spec, frame.dtype);
    let coded_groups = if layout == Layout::Split { 1 } else { width };
    let front_len = 32 + 3 * coded_groups * frame.count().div_ceil(whole);
    let (front, mut fixed, mut dynamic) = match layout {
        Layout::Split => {
            let (front, fixed) = frame.static_section.split_at(front_len);
            (front, Reader(fixed), Reader(&frame.dynamic_section))
        }
        Layout::Compact => {
            let (front, dynamic) = frame.dynamic_section.split_at(front_len);
            (front, Reader(&frame.static_section), Reader(dynamic))
        }
    };
    let body_len = dynamic.0.len();
    let mut entries = front[32..].chunks(3);
    let mut sum = 0u32;
    let mut values = Vec::new();
    let mut left = frame.count();
    while left > 0 {
        let len = left.min(whole);
        left -= len;
        let mut groups: Vec<Vec<u8>> = Vec::new();
        for group in 0..width {
            if group >= coded_groups {
                groups.push(fixed.take(len).to_vec());
                continue;
            }
            let entry = entries.next().unwrap();
            let (method, coded_len) = (
                entry[2] >> 4,
                usize::from(entry[2] & 15) << 16 | usize::from(entry[1]) << 8 | usize::from(entry[0]),
            );
            let at = body_len - dynamic.0.len();
            let coded = dynamic.take(coded_len);
            methods[usize::from(method)] += 1;
            if method == 3 {
                sum = sum.wrapping_add(checksum::behind((at + (1 << 40)).next_multiple_of(8), coded));
            }
            groups.push(bytes_of(spec, method, coded, len));
            assert_eq!(groups[group].len(), len);
        }
        for at in 0..len {
            let mut value = groups.iter().fold(0u32, |value, group| value << 8 | u32::from(group[at]));
            if spec == "grouped" && matches!(frame.dtype, DType::Bf16 | DType::F32) {
                value = with_the_sign_in_front(value, 8 * width);
            }
            values.extend(&value.to_le_bytes()[..width]);
        }
    }
    assert!(dynamic.0.is_empty() && fixed.0.is_empty() && entries.next().is_none());
    checksum::assert_sealed(&values, front, sum);
    values
}

/// The `len` bytes of a group, by its method.
fn bytes_of(spec: &str, method: u8, coded: &[u8], len: usize) -> Vec<u8> {
    match method {
        0 => coded.to_vec(),
        1 => vec![coded[0]; len],
        2 => listed_code(coded, len),
        3 => {
            assert_eq!(spec, "grouped");
            zstd::bulk::decompress(coded, len).unwrap()
        }
        4 => {
            assert_eq!(spec, "blockwise");
            runs(coded)
        }
        _ => unreachable!("there are five"),
    }
}

/// The value whose bits are in the order exponent, sign, mantissa.
fn with_the_sign_in_front(value: u32, bits: usize) -> u32 {
    let (exponent, rest) = (value >> (bits - 8), value & ((1 << (bits - 8)) - 1));
    let (sign, mantissa) = (rest >> (bits - 9), rest & ((1 << (bits - 9)) - 1));
    sign << (bits - 1) | exponent << (bits - 9) | mantissa
}

fn runs(mut coded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(byte) = coded.split_off_first() {
        let (mut more, mut shift) = (0usize, 0);
        loop {
            let part = coded.split_off_first().unwrap();
            more |= usize::from(part & 0x7f) << shift;
            shift += 7;
            if part & 0x80 == 0 {
                break;
            }
        }
        out.extend(vec![*byte; 1 + more]);
    }
    out
}
