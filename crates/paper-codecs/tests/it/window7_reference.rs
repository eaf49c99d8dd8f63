//! `window7` written a second time, from `docs/format.md`, value by value and bit by bit: the frames must be the same.

use crate::common;
use crate::common::content::{Content, every_pattern};
use crate::common::{Frame, sections};
use zipwire_codec::{DType, Layout};

const TILE: usize = 8192;

/// Bits of a value, where BF16 is the upper half.
type Bits = u32;

#[test]
fn frames_are_those_of_the_document() {
    let codec = common::codec("window7");
    let lengths =
        (0..140).chain([500, 512, 513, 1000, 1023, 1024, 1025, 1056, 1057, 8191, 8192, 8193, 20_000]);
    let (mut own, mut short) = (0, 0);
    for count in lengths {
        for dtype in [DType::Bf16, DType::F32] {
            let contents = Content::ALL.map(|content| content.values(dtype, count, 11));
            let others = [groups(dtype, count), truncated(dtype, count)];
            let patterns = (count == 0).then(|| every_pattern(dtype));
            for values in contents.into_iter().chain(others).chain(patterns) {
                for layout in Layout::ALL {
                    let frame = Frame::new(&*codec, layout, dtype, &values);
                    let expected = Document::new(dtype, layout, &values);
                    assert!(frame.static_section == expected.static_section, "{dtype} {layout} {count}");
                    assert!(frame.dynamic_section == expected.dynamic_section, "{dtype} {layout} {count}");
                    frame.assert_survives("as the document says");
                    (own, short) = (own + expected.own, short + expected.short);
                }
            }
        }
    }
    assert!(own > 20 && short > 20, "{own} tiles have own windows, {short} no lower halves");
}

/// Values of another scale in each 512, some of them zero: there, windows of their own pay.
fn groups(dtype: DType, count: usize) -> Vec<u8> {
    let values = Content::Gaussian.values(DType::F32, count, 12);
    let values = values.as_chunks::<4>().0.iter().enumerate().map(|(i, value)| {
        let scale = [1.0f32, 1e-5, 3e10, 0.0, 1e-38][i / 512 % 5];
        f32::from_le_bytes(*value) * if i % 7 == 3 { 0.0 } else { scale }
    });
    values.flat_map(|value| value.to_le_bytes().into_iter().skip(4 - dtype.width())).collect()
}

/// Values that have an upper half only, as gradients of BF16 computations have; with some zeros.
fn truncated(dtype: DType, count: usize) -> Vec<u8> {
    let values = Content::SomeZeros.values(DType::Bf16, count, 13);
    let lower = &[0, 0][..dtype.width() - 2];
    values.as_chunks::<2>().0.iter().flat_map(|upper| [lower, upper].concat()).collect()
}

/// A frame, made as the document says.
struct Document {
    static_section: Vec<u8>,
    dynamic_section: Vec<u8>,
    /// Tiles with own windows.
    own: usize,
    /// Tiles without lower halves.
    short: usize,
}

impl Document {
    fn new(dtype: DType, layout: Layout, values: &[u8]) -> Self {
        let width = dtype.width();
        let (mut table, mut indexes, mut bodies, mut dynamic) = (vec![], vec![], vec![], vec![]);
        let (mut own, mut short) = (0, 0);
        for stored in values.chunks(width * TILE) {
            let tile: Vec<Bits> = stored
                .chunks(width)
                .map(|value| value.iter().rev().fold(0, |bits, byte| bits << 8 | Bits::from(*byte)))
                .map(|bits| if width == 2 { bits << 16 } else { bits })
                .collect();
            if layout == Layout::Compact {
                let (entry, body) = compact(width, &tile, stored);
                own += usize::from(entry[0] == 255);
                short += usize::from(entry[1] >= 128);
                table.extend(entry);
                bodies.extend(body);
                continue;
            }
            let coded = Coded::new(width, &tile);
            let body = [&coded.lower[..], &coded.rest, &coded.codes].concat();
            let static_len = body.len().min(stored.len());
            let behind = [&coded.own[..], &coded.escapes].concat();
            if static_len < stored.len() && body.len() + behind.len() < stored.len() {
                own += usize::from(!coded.own.is_empty());
                table.extend([coded.start, 0]);
                table.extend((coded.escapes.len() as u16).to_le_bytes());
                indexes.extend(coded.index.iter().flat_map(|offset| offset.to_le_bytes()));
                bodies.extend(body);
                dynamic.extend(behind);
            } else {
                table.extend([0, 1, 0, 0]);
                indexes.extend(std::iter::repeat_n(0, 2 * coded.index.len()));
                bodies.extend(&stored[..static_len]);
                dynamic.extend(&stored[static_len..]);
            }
        }
        let mut front = [vec![0; 32], table, indexes].concat();
        if layout == Layout::Split {
            front.resize(front.len().next_multiple_of(128), 0);
        }
        let parts = [front, bodies, dynamic];
        let (static_section, dynamic_section) = sections(1, layout, dtype, values, parts);
        Self { static_section, dynamic_section, own, short }
    }
}

/// Entry of the tile table and body.
fn compact(width: usize, tile: &[Bits], stored: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let nonzero: Vec<Bits> = tile.iter().copied().filter(|value| *value != 0).collect();
    if nonzero.is_empty() {
        return (vec![0, 2, 0, 0, 0, 0], vec![]);
    }
    let masked = (8 * width + 3) * (tile.len() - nonzero.len()) > tile.len();
    let values = if masked { &nonzero } else { tile };
    let mut body: Vec<u8> = tile
        .chunks(8)
        .map(|eight| (0..eight.len()).map(|i| u8::from(eight[i] != 0) << i).sum())
        .filter(|_: &u8| masked)
        .collect();
    let coded = Coded::new(width, values);
    let short = width == 4 && coded.lower.iter().all(|byte| *byte == 0);
    if !short {
        body.extend(&coded.lower);
    }
    body.extend([&coded.rest[..], &coded.codes, &coded.own].concat());
    if !coded.escapes.is_empty() {
        body.extend(coded.index[1..].iter().flat_map(|offset| offset.to_le_bytes()));
    }
    body.extend(&coded.escapes);
    if body.len() >= stored.len() {
        return (vec![0, 1, 0, 0, 0, 0], stored.to_vec());
    }
    let mode = if masked { 3 } else { 0 } + if short { 128 } else { 0 };
    let mut entry = vec![coded.start, mode];
    entry.extend((coded.escapes.len() as u16).to_le_bytes());
    entry.extend((values.len() as u16).to_le_bytes());
    (entry, body)
}

/// The parts of a coded tile, or of the nonzero values of a masked one.
struct Coded {
    start: u8,
    lower: Vec<u8>,
    rest: Vec<u8>,
    codes: Vec<u8>,
    own: Vec<u8>,
    index: Vec<u16>,
    escapes: Vec<u8>,
}

impl Coded {
    fn new(width: usize, values: &[Bits]) -> Self {
        let (start, outside) = best(values);
        let bests: Vec<(u8, usize)> = values.chunks(512).map(best).collect();
        let outside_own: usize = bests.iter().map(|(_, outside)| outside).sum();
        let own = 32 * outside > values.len() && outside_own + bests.len() < outside;
        let starts: Vec<u8> = bests.iter().map(|(best, _)| if own { *best } else { start }).collect();
        let mut coded = Self {
            start: if own { 255 } else { start },
            lower: vec![],
            rest: vec![],
            codes: vec![],
            own: if own { starts.clone() } else { vec![] },
            index: vec![],
            escapes: vec![],
        };
        for (number, group) in values.chunks(1024).enumerate() {
            let lanes = group.len().div_ceil(32);
            let mut rows = vec![vec![0u32; lanes]; 3];
            for (i, value) in group.iter().enumerate() {
                if i % 512 == 0 {
                    coded.index.push(coded.escapes.len() as u16);
                }
                if width == 4 {
                    coded.lower.extend((*value as u16).to_le_bytes());
                }
                coded.rest.push((value >> 24 & 0x80 | value >> 16 & 0x7f) as u8);
                let code = match exponent(value).checked_sub(starts[2 * number + i / 512]) {
                    Some(code @ 0..7) => u32::from(code),
                    _ => {
                        coded.escapes.push(exponent(value));
                        7
                    }
                };
                let (row, lane) = (i / 8 / lanes, i / 8 % lanes);
                let nibble = [0, 4, 1, 5, 2, 6, 3, 7][i % 8];
                if row < 3 {
                    rows[row][lane] |= code << (4 * nibble);
                } else {
                    for (bit, row) in rows.iter_mut().enumerate() {
                        row[lane] |= (code >> bit & 1) << (4 * nibble + 3);
                    }
                }
            }
            coded.codes.extend(rows.concat().iter().flat_map(|word| word.to_le_bytes()));
        }
        coded
    }
}

fn exponent(value: &Bits) -> u8 {
    (value >> 23) as u8
}

/// The start with the most values in its window, the lowest of equals, and how many values are outside.
fn best(values: &[Bits]) -> (u8, usize) {
    let mut histogram = [0; 256];
    values.iter().for_each(|value| histogram[usize::from(exponent(value))] += 1);
    let inside = |start: u8| histogram[usize::from(start)..][..7].iter().sum::<usize>();
    let most = (0..=249).map(inside).max().unwrap();
    let start = (0..=249).find(|start| inside(*start) == most).unwrap();
    (start, values.len() - most)
}
