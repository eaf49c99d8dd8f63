//! `window7` written a second time, from `docs/format.md`, value by value and bit by bit: the frames must be the same.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use common::Frame;
use common::checksum::checksum;
use common::content::{Content, every_pattern};
use zipwire_codec::{DType, Layout};

const TILE: usize = 8192;

#[test]
fn frames_are_those_of_the_document() {
    let codec = common::codec("window7");
    let lengths =
        (0..140).chain([500, 512, 513, 1000, 1023, 1024, 1025, 1056, 1057, 8191, 8192, 8193, 20_000]);
    for count in lengths {
        let contents = Content::ALL.map(|content| content.values(DType::Bf16, count, 11));
        for values in contents.into_iter().chain((count == 0).then(|| every_pattern(DType::Bf16))) {
            let bits: Vec<u16> =
                values.as_chunks().0.iter().map(|value| u16::from_le_bytes(*value)).collect();
            for layout in Layout::ALL {
                let frame = Frame::new(&*codec, layout, DType::Bf16, &values);
                let (static_section, dynamic_section) = encode(layout, &bits);
                assert!(frame.static_section == static_section, "{layout} {count}");
                assert!(frame.dynamic_section == dynamic_section, "{layout} {count}");
            }
        }
    }
}

/// Static and dynamic section.
fn encode(layout: Layout, values: &[u16]) -> (Vec<u8>, Vec<u8>) {
    let (mut table, mut indexes, mut bodies, mut dynamic) = (vec![], vec![], vec![], vec![]);
    for tile in values.chunks(TILE) {
        let stored: Vec<u8> = tile.iter().flat_map(|value| value.to_le_bytes()).collect();
        let coded = Coded::new(tile);
        let coded_len = coded.rest.len() + coded.codes.len();
        match layout {
            Layout::Split => {
                let static_len = coded_len.min(stored.len());
                if static_len < stored.len() && coded_len + coded.escapes.len() < stored.len() {
                    table.extend([coded.start, 0]);
                    table.extend((coded.escapes.len() as u16).to_le_bytes());
                    indexes.extend(coded.index.iter().flat_map(|offset| offset.to_le_bytes()));
                    bodies.extend([coded.rest, coded.codes].concat());
                    dynamic.extend(coded.escapes);
                } else {
                    table.extend([0, 1, 0, 0]);
                    indexes.extend(std::iter::repeat_n(0, 2 * coded.index.len()));
                    bodies.extend(&stored[..static_len]);
                    dynamic.extend(&stored[static_len..]);
                }
            }
            Layout::Compact => {
                let nonzero: Vec<u16> = tile.iter().copied().filter(|value| *value != 0).collect();
                if nonzero.is_empty() {
                    table.extend([0, 2, 0, 0, 0, 0]);
                    continue;
                }
                let mask: Vec<u8> = tile
                    .chunks(8)
                    .map(|eight| (0..eight.len()).map(|i| u8::from(eight[i] != 0) << i).sum())
                    .collect();
                let masked = Coded::new(&nonzero);
                let masked_body = [mask, masked.compact_body()].concat();
                let coded_body = coded.compact_body();
                let smallest = coded_body.len().min(stored.len());
                let (mode, start, escapes, in_codes, body) =
                    if nonzero.len() < tile.len() && masked_body.len() < smallest {
                        (3, masked.start, masked.escapes.len(), nonzero.len(), masked_body)
                    } else if coded_body.len() < stored.len() {
                        (0, coded.start, coded.escapes.len(), tile.len(), coded_body)
                    } else {
                        (1, 0, 0, 0, stored)
                    };
                table.extend([start, mode]);
                table.extend((escapes as u16).to_le_bytes());
                table.extend((in_codes as u16).to_le_bytes());
                bodies.extend(body);
            }
        }
    }
    let mut front = vec![0; 32];
    front.extend(table);
    front.extend(indexes);
    if layout == Layout::Split {
        front.resize(front.len().next_multiple_of(128), 0);
    }
    let dynamic_len = dynamic.len() + if layout == Layout::Compact { front.len() + bodies.len() } else { 0 };
    front[..4].copy_from_slice(b"ZPWR");
    front[5] = 1;
    front[7] = u8::from(layout == Layout::Compact);
    front[8..16].copy_from_slice(&(values.len() as u64).to_le_bytes());
    front[16..24].copy_from_slice(&(dynamic_len as u64).to_le_bytes());
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let checksum = checksum(&bytes, &front);
    front[24..28].copy_from_slice(&checksum.to_le_bytes());
    front.extend(bodies);
    match layout {
        Layout::Split => (front, dynamic),
        Layout::Compact => (vec![], front),
    }
}

/// The parts of a coded tile, or of the nonzero values of a masked one.
struct Coded {
    start: u8,
    rest: Vec<u8>,
    codes: Vec<u8>,
    index: Vec<u16>,
    escapes: Vec<u8>,
}

impl Coded {
    fn new(values: &[u16]) -> Self {
        let exponent = |value: &u16| (value >> 7 & 0xff) as u8;
        let inside = |start: u8| values.iter().filter(|v| (start..=start + 6).contains(&exponent(v))).count();
        let most = (0..=249).map(inside).max().unwrap();
        let start = (0..=249).find(|start| inside(*start) == most).unwrap();
        let mut coded = Self { start, rest: vec![], codes: vec![], index: vec![], escapes: vec![] };
        for group in values.chunks(1024) {
            let lanes = group.len().div_ceil(32);
            let mut rows = vec![vec![0u32; lanes]; 3];
            for (i, value) in group.iter().enumerate() {
                if i % 512 == 0 {
                    coded.index.push(coded.escapes.len() as u16);
                }
                coded.rest.push((value >> 8 & 0x80 | value & 0x7f) as u8);
                let code = match exponent(value).checked_sub(start) {
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

    fn compact_body(&self) -> Vec<u8> {
        let index: Vec<u8> = match self.escapes.len() {
            0 => vec![],
            _ => self.index[1..].iter().flat_map(|offset| offset.to_le_bytes()).collect(),
        };
        [&self.rest[..], &self.codes, &index, &self.escapes].concat()
    }
}
