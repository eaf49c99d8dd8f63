//! `codebook16` written a second time, from `docs/format.md`, value by value and bit by bit: the frames must be
//! the same.

use crate::common;
use crate::common::Frame;
use crate::common::content::{Content, every_pattern, fields};
use crate::common::{sections, tag_of};
use zipwire_codec::{DType, Layout};

const TILE: usize = 8192;
const DTYPES: [DType; 3] = [DType::Bf16, DType::F8E4M3, DType::F8E5M2];

#[test]
fn frames_are_those_of_the_document() {
    let codec = common::codec("codebook16");
    let lengths = (0..140).chain([255, 256, 257, 1000, 2047, 8191, 8192, 8193, 16_385, 20_000]);
    // Modes, and the forms of escapes.
    let (mut modes, mut forms) = ([0; 4], [0; 2]);
    for (count, dtype) in lengths.flat_map(|count| DTYPES.map(|dtype| (count, dtype))) {
        let contents = Content::ALL.map(|content| content.values(dtype, count, 11));
        let further = [every_pattern(dtype), uneven(dtype, 40_000)];
        for values in contents.into_iter().chain((count == 0).then_some(further).into_iter().flatten()) {
            for layout in Layout::ALL {
                let frame = Frame::new(&*codec, layout, dtype, &values);
                let expected = encode(layout, dtype, &values, None);
                let context = format!("{layout} {dtype} {count}");
                assert!(frame.static_section == expected.static_section, "{context}");
                assert!(frame.dynamic_section == expected.dynamic_section, "{context}");
                for entry in expected.table.chunks(6) {
                    modes[usize::from(entry[0])] += 1;
                    forms[usize::from(entry[1])] += usize::from(entry[2..4] != [0, 0]);
                }
            }
        }
    }
    assert!(modes.into_iter().chain(forms).all(|number| number > 5), "{modes:?} {forms:?}");
}

#[test]
fn frames_that_name_a_book_are_those_of_the_document() {
    for dtype in DTYPES {
        let codec = common::codec(&format!("codebook16:table={}", dtype.name()));
        let table = common::table(&"codebook16".parse().unwrap(), dtype);
        let (head, book) = table.as_bytes().split_at(2);
        assert!(head == [3, tag_of(dtype)] && book.len() == 16);
        for (count, layout) in
            [0, 1, 64, 300, 8193, 20_000].into_iter().flat_map(|n| Layout::ALL.map(|l| (n, l)))
        {
            for values in Content::ALL.map(|content| content.values(dtype, count, 14)) {
                let frame = Frame::new(&*codec, layout, dtype, &values);
                let expected = encode(layout, dtype, &values, Some((book, table.id())));
                assert!(frame.static_section == expected.static_section, "{layout} {dtype} {count}");
                assert!(frame.dynamic_section == expected.dynamic_section, "{layout} {dtype} {count}");
            }
        }
    }
}

/// Tiles with no, few and many escapes, and chunks of nothing else.
fn uneven(dtype: DType, count: usize) -> Vec<u8> {
    let common = Content::Gaussian.values(dtype, count, 1);
    let rare = Content::Noise.values(dtype, count, 2);
    let width = dtype.width();
    let pairs = common.chunks(width).zip(rare.chunks(width)).enumerate();
    let pick = |(i, (common, rare))| match i / TILE {
        0 if i < 256 => rare,
        1 if i % 2000 == 7 => rare,
        2 if i % 100 == 7 => rare,
        3 if i % 4 == 3 => rare,
        _ => common,
    };
    pairs.flat_map(|pair| pick(pair).to_vec()).collect()
}

/// A frame, part by part.
struct Parts {
    table: Vec<u8>,
    static_section: Vec<u8>,
    dynamic_section: Vec<u8>,
}

/// The book of a frame with these exponents.
fn own_book(exponents: impl ExactSizeIterator<Item = usize>, exponent_count: usize) -> Vec<usize> {
    let mut counts = vec![0; exponent_count];
    let few = exponents.len() <= 32_768;
    for (i, exponent) in exponents.enumerate() {
        let span = i / 2048;
        let sampled = i % 2048 / 128 == (5 * span + span / 16) % 16;
        counts[exponent] += usize::from(sampled || few);
    }
    let mut order: Vec<usize> = (0..exponent_count).collect();
    order.sort_by(|a, b| counts[*b].cmp(&counts[*a]).then(a.cmp(b)));
    let mut book = order[..16].to_vec();
    book.sort_unstable();
    book
}

/// A bit for each value, set unless it is +0.
fn mask_of(values: &[u16]) -> Vec<u8> {
    let mut mask = vec![0u8; values.len().div_ceil(8)];
    for i in (0..values.len()).filter(|i| values[*i] != 0) {
        mask[i / 8] |= 1 << (i % 8);
    }
    mask
}

/// Codes, and positions and exponents of the escapes.
fn codes_of(exponents: impl ExactSizeIterator<Item = usize>, book: &[usize]) -> (Vec<u8>, Vec<(usize, u8)>) {
    let mut codes = vec![0u8; exponents.len().div_ceil(2)];
    let mut escapes = vec![];
    for (i, exponent) in exponents.enumerate() {
        match book.iter().position(|entry| *entry == exponent) {
            Some(code) => codes[i / 2] |= (code as u8) << (i % 2 * 4),
            None => escapes.push((i, exponent as u8)),
        }
    }
    (codes, escapes)
}

/// With a book of its own, or one that is named by an id.
fn encode(layout: Layout, dtype: DType, values: &[u8], named: Option<(&[u8], u32)>) -> Parts {
    let numbers: Vec<u16> = values
        .chunks(dtype.width())
        .map(|value| u16::from_le_bytes([value[0], value.get(1).copied().unwrap_or(0)]))
        .collect();
    let (exponent_bits, mantissa_bits) = fields(dtype);
    let exponent = |value: u16| usize::from(value) >> mantissa_bits & ((1 << exponent_bits) - 1);

    let book: Vec<usize> = match named {
        Some((named, _)) => named.iter().map(|exponent| usize::from(*exponent)).collect(),
        None => own_book(numbers.iter().map(|value| exponent(*value)), 1 << exponent_bits),
    };

    let (mut table, mut bodies, mut dynamic) = (vec![], vec![], vec![]);
    for tile in numbers.chunks(TILE) {
        let width = dtype.width();
        let stored: Vec<u8> = tile.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect();
        let nonzero: Vec<u16> = tile.iter().copied().filter(|value| *value != 0).collect();
        let zeros = tile.len() - nonzero.len();
        if layout == Layout::Compact && nonzero.is_empty() {
            table.extend([2, 0, 0, 0, 0, 0]);
            continue;
        }
        let zero_bits = 4 + 1 + mantissa_bits as usize + if book.contains(&0) { 0 } else { 24 };
        let masked = layout == Layout::Compact && zero_bits * zeros > tile.len();
        let mask = if masked { mask_of(tile) } else { vec![] };
        let coded = if masked { &nonzero } else { tile };
        let rest = rests(dtype, coded);
        let (codes, escapes) = codes_of(coded.iter().map(|value| exponent(*value)), &book);
        let (form, list) = escape_list(coded.len(), &escapes);
        let static_len = (rest.len() + codes.len()).min(stored.len());
        let is_stored = mask.len() + rest.len() + codes.len() + list.len() >= stored.len()
            || rest.len() + codes.len() >= stored.len();
        let split_at = if layout == Layout::Split { static_len } else { 0 };
        if is_stored {
            table.extend([1, 0, 0, 0, 0, 0]);
            bodies.extend(&stored[..split_at]);
            dynamic.extend(&stored[split_at..]);
            continue;
        }
        table.extend([if masked { 3 } else { 0 }, form]);
        table.extend((escapes.len() as u16).to_le_bytes());
        table.extend((coded.len() as u16).to_le_bytes());
        dynamic.extend(mask);
        if layout == Layout::Split { &mut bodies } else { &mut dynamic }.extend([rest, codes].concat());
        dynamic.extend(list);
    }

    let mut front = vec![0; 32];
    front.extend(book.iter().map(|exponent| if named.is_some() { 0 } else { *exponent as u8 }));
    front[28..32].copy_from_slice(&named.map_or(0, |(_, id)| id).to_le_bytes());
    front.extend(&table);
    if layout == Layout::Split {
        front.resize(front.len().next_multiple_of(128), 0);
    }
    let (static_section, dynamic_section) = sections(3, layout, dtype, values, [front, bodies, dynamic]);
    Parts { table, static_section, dynamic_section }
}

/// Bytes of BF16, bit planes of FP8.
fn rests(dtype: DType, values: &[u16]) -> Vec<u8> {
    let (_, mantissa_bits) = fields(dtype);
    let sign_bit = 8 * dtype.width() - 1;
    let rest = |value: u16| ((value >> sign_bit << mantissa_bits) | (value % (1 << mantissa_bits))) as u8;
    if dtype == DType::Bf16 {
        return values.iter().map(|value| rest(*value)).collect();
    }
    let mut planes = vec![];
    for values in values.chunks(64) {
        for plane in 0..=mantissa_bits {
            let bit = |(i, value): (usize, &u16)| u64::from(rest(*value) >> plane & 1) << i;
            planes.extend(values.iter().enumerate().map(bit).sum::<u64>().to_le_bytes());
        }
    }
    planes
}

/// Form and bytes of the escapes, which are positions and exponents.
fn escape_list(coded: usize, escapes: &[(usize, u8)]) -> (u8, Vec<u8>) {
    let mut chunks = vec![0; coded.div_ceil(256)];
    escapes.iter().for_each(|(position, _)| chunks[position / 256] += 1);
    let exponents = escapes.iter().map(|(_, exponent)| *exponent);
    if chunks.iter().all(|count| *count <= 255) && chunks.len() + 2 * escapes.len() < 3 * escapes.len() {
        let counts = chunks.iter().map(|count| *count as u8);
        let positions = escapes.iter().map(|(position, _)| (position % 256) as u8);
        return (1, counts.chain(positions).chain(exponents).collect());
    }
    let positions = escapes.iter().flat_map(|(position, _)| (*position as u16).to_le_bytes());
    (0, positions.chain(exponents).collect())
}
