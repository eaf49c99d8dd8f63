//! A decoder of `planes` written a second time, from `docs/format.md`, byte by byte and bit by bit.

use crate::common;
use crate::common::content::{Content, every_pattern};
use crate::common::reader::{Reader, listed_code, number};
use crate::common::{Frame, checksum};
use crate::planes::{Kind, WIDTHS};
use zipwire_codec::{DType, Layout};

const BLOCK: usize = 262_144;

/// How often planes had each method, and the deepest one.
#[derive(Debug, Default)]
struct Seen {
    methods: [usize; 5],
    depth: usize,
    floats: usize,
    without: usize,
}

#[test]
fn frames_are_read_as_the_document_says() {
    let mut seen = Seen::default();
    for dtype in DType::ALL {
        for count in (0..40).chain([255, 1000, 20_001]) {
            let contents = Content::ALL.map(|content| content.values(dtype, count, 11));
            for values in contents.into_iter().chain((count == 0).then(|| every_pattern(dtype))) {
                for spec in ["planes", "planes:width=2", "planes:width=8"] {
                    assert_read(spec, dtype, &values, &mut seen);
                }
            }
        }
    }
    for kind in Kind::ALL {
        // Values and bytes that are none; more than a block.
        for bytes in [1, 15, 16, 4000, BLOCK - 1, BLOCK + 5000] {
            for width in WIDTHS {
                assert_read(&format!("planes:width={width}"), DType::F8E4M3, &kind.bytes(bytes), &mut seen);
            }
        }
    }
    assert!(
        seen.methods.iter().all(|number| *number > 20) && seen.depth == 4 && seen.floats > 20,
        "{seen:?}"
    );
}

fn assert_read(spec: &str, dtype: DType, values: &[u8], seen: &mut Seen) {
    for layout in Layout::ALL {
        let frame = Frame::new(&*common::codec(spec), layout, dtype, values);
        frame.assert_survives(spec);
        assert!(decode(layout, &frame, seen) == values, "{spec} {layout} {dtype} {}", values.len());
    }
}

fn decode(layout: Layout, frame: &Frame, seen: &mut Seen) -> Vec<u8> {
    let (front, behind) = frame.first_section().split_at(40);
    let mut source = Reader(if layout == Layout::Split { &frame.dynamic_section } else { behind });
    assert!(layout == Layout::Compact || behind.is_empty());
    assert_eq!((front[4], front[5], &front[34..40]), (2, 10, &[0; 6][..]));
    let (width, float) = (usize::from(front[32]), front[33] == 1);
    assert!(front[33] < 2);
    seen.floats += usize::from(float);
    let mut values = Vec::new();
    let mut left = frame.values.len();
    while left > 0 {
        let bytes = left.min(BLOCK);
        left -= bytes;
        let count = bytes / width;
        let (mut left_out, mut mask, mut others) = (Vec::new(), vec![u8::MAX; count.div_ceil(8)], count);
        if count > 0 && source.0[..3] == [0, 0, 0x50] {
            source.take(3);
            left_out = source.take(width).to_vec();
            mask = plane(&mut source, count.div_ceil(8), 1, seen);
            others = mask.iter().map(|bits| bits.count_ones() as usize).sum();
            seen.without += 1;
        }
        let planes: Vec<Vec<u8>> =
            (0..width).filter(|_| count > 0).map(|_| plane(&mut source, others, 0, seen)).collect();
        let mut next = 0..others;
        for at in 0..count {
            let value: Vec<u8> = if mask[at / 8] >> (at % 8) & 1 == 1 {
                let at = next.next().unwrap();
                planes.iter().map(|plane| plane[at]).collect()
            } else {
                left_out.clone()
            };
            values.extend(if float { with_the_sign_in_front(&value) } else { value });
        }
        values.extend(source.take(bytes % width));
    }
    assert!(source.0.is_empty());
    checksum::assert_sealed(&values, front, 0);
    values
}

/// The value whose bits are in the order exponent, sign, mantissa.
fn with_the_sign_in_front(value: &[u8]) -> Vec<u8> {
    let mantissa_bits = if value.len() == 2 { 7 } else { 23 };
    let bits = number(value);
    let (sign, mantissa) = (bits >> mantissa_bits & 1, bits & ((1 << mantissa_bits) - 1));
    let exponent = bits >> (mantissa_bits + 1);
    let back = sign << (8 * value.len() - 1) | exponent << mantissa_bits | mantissa;
    back.to_le_bytes()[..value.len()].to_vec()
}

/// A plane of so many bytes that is within so many others.
fn plane(source: &mut Reader<'_>, bytes: usize, depth: usize, seen: &mut Seen) -> Vec<u8> {
    let entry = number(source.take(3));
    let (method, value) = ((entry >> 20) as usize, (entry & 0xf_ffff) as usize);
    seen.methods[method] += 1;
    seen.depth = seen.depth.max(depth);
    match method {
        0 => {
            assert_eq!(value, bytes);
            source.take(bytes).to_vec()
        }
        1 => vec![u8::try_from(value).unwrap(); bytes],
        2 => listed_code(source.take(value), bytes),
        3 => {
            assert!(depth < 4);
            let frequent = u8::try_from(value).unwrap();
            let mask = plane(source, bytes.div_ceil(8), depth + 1, seen);
            let is_other = |at: usize| mask[at / 8] >> (at % 8) & 1 == 1;
            let others = (0..8 * mask.len()).filter(|at| is_other(*at)).count();
            let others = plane(source, others, depth + 1, seen);
            let mut others = others.into_iter();
            (0..bytes).map(|at| if is_other(at) { others.next().unwrap() } else { frequent }).collect()
        }
        _ => {
            assert_eq!((method, value, depth), (4, 0, 0));
            let steps = plane(source, bytes, 1, seen);
            steps
                .iter()
                .scan(0u8, |byte, step| {
                    *byte = byte.wrapping_add(*step);
                    Some(*byte)
                })
                .collect()
        }
    }
}
