//! A decoder of `tiered` and `rans` written a second time, from `docs/format.md`, value by value and bit by bit.

use crate::common;
use crate::common::content::{Content, every_pattern};
use crate::common::frequencies::Table;
use crate::common::reader::{Reader, tiers};
use crate::common::{Frame, checksum, tag_of};
use zipwire_codec::{DType, Layout};

const BLOCK: usize = 32_768;

/// Residuals of the four tiers, by tag of the order.
const ORDERS: [[[i32; 3]; 4]; 3] = [
    [[0, 1, -1], [-2, -3, -4], [-5, 2, -6], [-7, -8, -9]],
    [[0, 1, -1], [-2, -3, 2], [-4, -5, -6], [-7, -8, -9]],
    [[0, 1, -1], [-2, -3, 2], [-4, -5, -6], [3, -7, -8]],
];

/// Frames of each length up to 35, of lengths around multiples of 32, which are words of bits and lanes, and of longer ones. [`whole`] has all lengths.
#[test]
fn frames_are_read_as_the_document_says() {
    read_as_the_document_says(|count| count < 36 || (count + 2) % 32 < 5, &[257, 1000, 2048, 8193, 32_769]);
}

mod whole {
    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn frames_are_read_as_the_document_says() {
        let long = [255, 256, 257, 1000, 2048, 8193, 20_000, 32_767, 32_768, 32_769, 70_001];
        super::read_as_the_document_says(|_| true, &long);
    }
}

/// Frames of up to 139 values, where `takes` says so, and of `long` ones.
fn read_as_the_document_says(takes: fn(usize) -> bool, long: &[usize]) {
    let rans = ["rans", "rans:row=8", "rans:row=300", "rans:mantissa=2", "rans:mantissa=2,row=8"];
    let codecs: Vec<_> =
        ["tiered", "tiered:row=8", "tiered:row=300"].into_iter().chain(rans).map(common::codec).collect();
    let short = (0..140).filter(|count| takes(*count));
    let lengths = short.chain(long.iter().copied());
    let mut forms = [0; 5];
    let (mut orders, mut masks, mut columns, mut joint, mut plane_forms) = ([0; 4], 0, 0, 0, [0; 5]);
    for (count, dtype) in lengths.flat_map(|count| DType::ALL.map(|dtype| (count, dtype))) {
        let contents = Content::ALL.map(|content| content.values(dtype, count, 11));
        let positive = Content::Rows.values(dtype, 30_000, 12);
        for values in contents
            .into_iter()
            .chain((count == 0).then(|| [every_pattern(dtype), positive]).into_iter().flatten())
        {
            for (codec, layout) in codecs.iter().flat_map(|codec| Layout::ALL.map(|layout| (codec, layout))) {
                let frame = Frame::new(&**codec, layout, dtype, &values);
                let blocks = decode(layout, &frame);
                for block in &blocks {
                    forms[block.form & 15] += 1;
                    masks += block.form >> 7;
                    joint += usize::from(block.joint);
                    columns += block.form >> 6 & 1;
                    block.plane_forms.iter().for_each(|form| plane_forms[*form] += 1);
                    orders[block.form >> 4 & 3] +=
                        usize::from(block.form & 15 == 0 || block.form >> 4 & 3 == 3);
                }
                let found: Vec<u8> = blocks.into_iter().flat_map(|block| block.values).collect();
                assert!(found == values, "{layout} {dtype} {count}");
            }
        }
    }
    assert!(forms.into_iter().chain(orders).all(|number| number > 5), "{forms:?} {orders:?}");
    assert!(masks > 20 && columns > 100 && joint > 20, "{masks} {columns} {joint}");
    assert!(plane_forms.iter().all(|number| *number > 5), "{plane_forms:?}");
}

#[test]
fn frames_that_name_a_table_are_read_with_it() {
    let lengths = [1, 40, 255, 257, 2048, 20_000, 32_769, 70_001];
    let (mut named, mut others) = (0, 0);
    for (count, dtype) in lengths.into_iter().flat_map(|count| DType::ALL.map(|dtype| (count, dtype))) {
        for options in ["", "row=8,", "mantissa=2,"] {
            let codec = common::codec(&format!("rans:{options}table={}", dtype.name()));
            for values in Content::ALL.map(|content| content.values(dtype, count, 13)) {
                for layout in Layout::ALL {
                    let frame = Frame::new(&*codec, layout, dtype, &values);
                    let blocks = decode(layout, &frame);
                    *(if frame.first_section()[28..32] == [0; 4] { &mut others } else { &mut named }) += 1;
                    let found: Vec<u8> = blocks.into_iter().flat_map(|block| block.values).collect();
                    assert!(found == values, "{layout} {dtype} {count} {options}");
                }
            }
        }
    }
    assert!(named > 300 && others > 100, "{named} {others}");
}

#[test]
fn offsets_of_columns_that_are_far_apart_are_bytes() {
    let codec = common::codec("tiered:row=300");
    for dtype in [DType::Bf16, DType::F32] {
        // Exponents of the last 100 columns of 300 are lower by 40.
        let mut values = Content::Gaussian.values(dtype, 40_000, 4);
        for row in values.chunks_mut(300 * dtype.width()).filter(|row| row.len() == 300 * dtype.width()) {
            for value in row[200 * dtype.width()..].chunks_mut(dtype.width()) {
                value[dtype.width() - 1] -= 20;
            }
        }
        for layout in Layout::ALL {
            let frame = Frame::new(&*codec, layout, dtype, &values);
            frame.assert_survives("wide");
            let vector = &frame.dynamic_section[if layout == Layout::Split { 0 } else { 32 + 2 * 12 }..];
            assert_eq!(vector[..8], [0x2c, 1, 0, 0, 1, 0, 0, 0]);
            let found: Vec<u8> = decode(layout, &frame).into_iter().flat_map(|block| block.values).collect();
            assert!(found == values, "{layout} {dtype}");
        }
    }
}

/// A block that has been read.
struct Block {
    form: usize,
    /// Forms of the byte planes of F32, where they have some.
    plane_forms: Vec<usize>,
    /// Whether exponents are coded together with bits of mantissas.
    joint: bool,
    values: Vec<u8>,
}

fn decode(layout: Layout, frame: &Frame) -> Vec<Block> {
    let (count, dtype) = (frame.count(), frame.dtype);
    let (mut fixed, mut dynamic) = (Reader(&frame.static_section), Reader(&frame.dynamic_section));
    let front_len = 32 + 12 * count.div_ceil(BLOCK);
    let front = match layout {
        Layout::Split => fixed.take(front_len.next_multiple_of(128)),
        Layout::Compact => dynamic.take(front_len.next_multiple_of(8)),
    };
    let rans = front[5] == 5;
    let tag = if rans { 5 } else { 2 };
    assert_eq!(
        front[..8],
        [b'Z', b'P', b'W', b'R', 1, tag, tag_of(dtype), u8::from(layout == Layout::Compact)]
    );
    assert!(front[front_len..].iter().all(|byte| *byte == 0));
    let entries = || front[32..front_len].chunks(12);
    let has_columns = entries().any(|entry| entry[0] >> 6 & 1 == 1);
    let behind_front = dynamic.0;
    let columns = if has_columns { read_columns(count, &mut dynamic) } else { vec![0] };
    let named = u32::from_le_bytes(front[28..32].try_into().unwrap());
    let needs_table = entries().any(|entry| entry[0] >> 4 & 3 == 3);
    let table =
        needs_table.then(|| if named == 0 { Table::read(&mut dynamic) } else { Table::shared(dtype, named) });
    assert!(rans || table.is_none());
    assert!(named == 0 || needs_table);
    assert!(
        layout == Layout::Compact && dtype != DType::F32
            || table.as_ref().is_none_or(|table| table.window == 0)
    );
    let table = rans.then_some(table);
    let vector = &behind_front[..behind_front.len() - dynamic.0.len()];
    checksum::assert_sealed(&frame.values, front, checksum::behind(front.len(), vector));
    let mut blocks = vec![];
    for (number, entry) in entries().enumerate() {
        let block_count = (count - number * BLOCK).min(BLOCK);
        let offsets: Vec<i32> = match entry[0] >> 6 & 1 {
            1 => (0..block_count).map(|i| columns[(number * BLOCK + i) % columns.len()]).collect(),
            _ => vec![0; block_count],
        };
        blocks.push(read_block(layout, dtype, entry, &offsets, table.as_ref(), [&mut fixed, &mut dynamic]));
    }
    assert!(fixed.0.is_empty() && dynamic.0.is_empty());
    blocks
}

/// The offset of each column.
fn read_columns(count: usize, source: &mut Reader<'_>) -> Vec<i32> {
    let head = source.take(8);
    let row = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
    assert!(row >= 2 && count / row >= 64 && head[6..] == [0, 0]);
    match head[4] {
        0 => {
            let bytes = source.part(row.div_ceil(2));
            assert!(row.is_multiple_of(2) || bytes[row / 2] >> 4 == 0);
            let nibble = |column: usize| bytes[column / 2] >> (4 * (column % 2)) & 15;
            (0..row).map(|column| i32::from(head[5]) + i32::from(nibble(column))).collect()
        }
        1 => {
            assert_eq!(head[5], 0);
            source.part(row).iter().map(|offset| i32::from(*offset)).collect()
        }
        form => panic!("no offsets have form {form}"),
    }
}

/// Residuals in tiers, of which the planes of the first one have been read.
fn read_residuals(order: usize, counts: &[usize], first: &[u8], dynamic: &mut Reader<'_>) -> Vec<i32> {
    let mut planes = vec![first];
    planes.extend(counts[1..4].iter().map(|count| dynamic.take(16 * count.div_ceil(64))));
    let escapes = dynamic.part(counts[4]);
    tiers(counts, &planes, escapes, |tier, code| ORDERS[order][tier][code], i32::from)
}

/// `offsets` has one for each value; there may be a table, which may be missing.
fn read_block<'a>(
    layout: Layout,
    dtype: DType,
    entry: &[u8],
    offsets: &[i32],
    table: Option<&Option<Table>>,
    [fixed, dynamic]: [&mut Reader<'a>; 2],
) -> Block {
    let count = offsets.len();
    let form = usize::from(entry[0]);
    let counts: Vec<usize> = entry[2..]
        .chunks(2)
        .map(|bytes| usize::from(u16::from_le_bytes(bytes.try_into().unwrap())))
        .collect();
    let static_len = match layout {
        Layout::Split => {
            let planes_len = if table.is_none() { 16 * count.div_ceil(64) } else { 0 };
            (planes_len + rest_len(dtype, count)).min(dtype.width() * count)
        }
        Layout::Compact => 0,
    };
    let fixed = fixed.take(static_len);
    match form & 15 {
        1 => {
            let values = [fixed, dynamic.take(dtype.width() * count - static_len)].concat();
            return Block { form, plane_forms: vec![], joint: false, values };
        }
        2 => {
            let values = vec![0; dtype.width() * count];
            return Block { form, plane_forms: vec![], joint: false, values };
        }
        _ => {}
    }

    let bases = read_bases(entry, count.div_ceil(256), dynamic);
    let left_out = |i: usize| layout == Layout::Compact && bases[i / 256].is_none();
    let kept: Vec<usize> = (0..count).filter(|i| !left_out(*i)).collect();
    let coded: Vec<usize> = if form >> 7 == 1 {
        let mask = dynamic.part(kept.len().div_ceil(8));
        let marked = kept.iter().enumerate().filter(|(k, _)| mask[k / 8] >> (k % 8) & 1 == 1);
        marked.map(|(_, i)| *i).collect()
    } else {
        kept
    };
    assert_eq!(coded.len(), counts[0]);

    let Parts { plane_forms, rests, residuals, taken, bits } = match table {
        Some(Some(table)) if form >> 4 & 3 == 3 => read_rans(layout, dtype, &counts, table, fixed, dynamic),
        _ => read_in_tiers(layout, dtype, form, &counts, table.is_none(), [&mut Reader(fixed), dynamic]),
    };
    let width = dtype.width();
    let (exponent_bits, _, _) = fields(dtype);
    let mantissa_bits = 8 * width - 1 - exponent_bits;
    let mut values = vec![0; width * count];
    for (k, i) in coded.into_iter().enumerate() {
        let residual = residuals[k];
        let base = bases[i / 256].map_or(0, |base| base + offsets[i]);
        let exponent = (base + residual).rem_euclid(256) as u32;
        let left = mantissa_bits - taken;
        let (sign, mantissa) = (rests[k] >> left, (bits[k] << left) | (rests[k] % (1 << left)));
        let value = sign << (8 * width - 1) | exponent << mantissa_bits | mantissa;
        values[width * i..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
    Block { form, plane_forms, joint: taken > 0, values }
}

/// The base of each group; none of a group of zeros.
fn read_bases(entry: &[u8], groups: usize, dynamic: &mut Reader<'_>) -> Vec<Option<i32>> {
    match entry[0] & 15 {
        0 => vec![Some(i32::from(entry[1])); groups],
        3 => {
            let bytes = dynamic.part(groups.div_ceil(2));
            let nibble = |group: usize| i32::from(bytes[group / 2] >> (4 * (group % 2)) & 15);
            let base = |group| (nibble(group) < 15).then(|| i32::from(entry[1]) + nibble(group));
            (0..groups).map(base).collect()
        }
        4 => {
            let bytes = dynamic.part(groups);
            bytes.iter().map(|base| (*base < 255).then_some(i32::from(*base))).collect()
        }
        tag => panic!("no form has tag {tag}"),
    }
}

/// Parts of coded values.
struct Parts {
    plane_forms: Vec<usize>,
    rests: Vec<u32>,
    residuals: Vec<i32>,
    /// Bits of mantissas that are in symbols and not in the rest, and these.
    taken: usize,
    bits: Vec<u32>,
}

/// Values coded in tiers, of which the first is in front of the rest or all are behind it.
fn read_in_tiers<'a>(
    layout: Layout,
    dtype: DType,
    form: usize,
    counts: &[usize],
    first_in_front: bool,
    [fixed, dynamic]: [&mut Reader<'a>; 2],
) -> Parts {
    let order = if form & 15 == 0 { form >> 4 & 3 } else { 2 };
    let first_len = 16 * counts[0].div_ceil(64);
    let mut first = &[][..];
    let head = if layout == Layout::Split { fixed } else { &mut *dynamic };
    if first_in_front {
        first = head.take(first_len);
    }
    let (plane_forms, rests) = read_rests(layout, dtype, counts[0], 0, head);
    if !first_in_front {
        first = dynamic.take(first_len);
    }
    let residuals = read_residuals(order, counts, first, dynamic);
    Parts { plane_forms, rests, residuals, taken: 0, bits: vec![0; counts[0]] }
}

/// Values coded by rANS.
fn read_rans<'a>(
    layout: Layout,
    dtype: DType,
    counts: &[usize],
    table: &Table,
    fixed: &'a [u8],
    dynamic: &mut Reader<'a>,
) -> Parts {
    assert_eq!(counts[3..], [0, 0]);
    let numbers = [counts[0], counts[1], counts[2]];
    let taken = if table.window > 0 { 2 } else { 0 };
    let len = rest_len_without(dtype, counts[0], taken);
    if layout == Layout::Compact && dtype != DType::F32 && len >= 96 {
        let body = dynamic.take(len - 96);
        let (residuals, bits, states) = table.decode(numbers, dynamic);
        assert!(states.iter().all(|state| state >> 24 == 1));
        let carried = states.iter().flat_map(|state| state.to_le_bytes().into_iter().take(3));
        let whole: Vec<u8> = body.iter().copied().chain(carried).collect();
        let mut source = Reader(&whole);
        let (plane_forms, rests) = read_rests(layout, dtype, counts[0], taken, &mut source);
        assert!(source.0.is_empty());
        return Parts { plane_forms, rests, residuals, taken, bits };
    }
    let head = if layout == Layout::Split { &mut Reader(fixed) } else { &mut *dynamic };
    let (plane_forms, rests) = read_rests(layout, dtype, counts[0], taken, head);
    let (residuals, bits, states) = table.decode(numbers, dynamic);
    assert!(states.iter().all(|state| *state == 1 << 15));
    Parts { plane_forms, rests, residuals, taken, bits }
}

/// Bits of the exponent, byte planes and bit planes.
fn fields(dtype: DType) -> (usize, usize, usize) {
    match dtype {
        DType::Bf16 => (8, 1, 0),
        DType::F16 => (5, 1, 3),
        DType::F32 => (8, 3, 0),
        DType::F8E4M3 => (4, 0, 4),
        DType::F8E5M2 => (5, 0, 3),
    }
}

/// Bytes of the rest without forms.
fn rest_len(dtype: DType, count: usize) -> usize {
    rest_len_without(dtype, count, 0)
}

/// Byte planes and bit planes, if so many bits of mantissas are elsewhere.
fn planes_without(dtype: DType, taken: usize) -> (usize, usize) {
    let (_, byte_planes, bit_planes) = fields(dtype);
    let bits = 8 * byte_planes + bit_planes - taken;
    (bits / 8, bits % 8)
}

fn rest_len_without(dtype: DType, count: usize, taken: usize) -> usize {
    let (byte_planes, bit_planes) = planes_without(dtype, taken);
    byte_planes * count.next_multiple_of(8) + 8 * bit_planes * count.div_ceil(64)
}

/// Forms of the planes, where they have some, and the rests.
fn read_rests(
    layout: Layout,
    dtype: DType,
    count: usize,
    taken: usize,
    source: &mut Reader<'_>,
) -> (Vec<usize>, Vec<u32>) {
    let (byte_planes, bit_planes) = planes_without(dtype, taken);
    let (forms, stated) = match (layout, dtype) {
        (Layout::Compact, DType::F32) => (source.take(16), 3),
        _ => (&[0; 16][..], 0),
    };
    let plane_forms = forms.chunks(4).take(stated).map(|form| usize::from(form[0])).collect();
    let mut rests = vec![0; count];
    for (plane, form) in forms.chunks(4).take(byte_planes).enumerate() {
        let bytes: Vec<u8> = match *form {
            [0, 0, 0, 0] => source.part(count).to_vec(),
            [1, byte, 0, 0] => vec![byte; count],
            [2, 0, low, high] => {
                let nonzero = read_bits(1, count, source);
                let bytes = source.part(usize::from(u16::from_le_bytes([low, high])));
                let mut bytes = bytes.iter();
                nonzero.into_iter().map(|bit| if bit == 1 { *bytes.next().unwrap() } else { 0 }).collect()
            }
            [3, sign, 0, 0] => {
                read_bits(7, count, source).into_iter().map(|bits| bits as u8 | sign).collect()
            }
            [4, 0, 0, 0] => read_tiers(count, source),
            _ => panic!("no plane has form {form:?}"),
        };
        for (rest, byte) in rests.iter_mut().zip(bytes) {
            *rest |= u32::from(byte) << (8 * plane);
        }
    }
    let bits = read_bits(bit_planes, count, source);
    rests.iter_mut().zip(bits).for_each(|(rest, bits)| *rest |= bits << (8 * byte_planes));
    (plane_forms, rests)
}

/// A byte plane in tiers.
fn read_tiers(count: usize, source: &mut Reader<'_>) -> Vec<u8> {
    let symbols = source.take(12);
    let numbers = source.take(8).chunks(2).map(|bytes| u16::from_le_bytes(bytes.try_into().unwrap()));
    let counts: Vec<usize> = std::iter::once(count).chain(numbers.map(usize::from)).collect();
    assert_eq!(source.take(4), [0; 4]);
    let planes: Vec<&[u8]> = counts[..4].iter().map(|count| source.take(16 * count.div_ceil(64))).collect();
    let escapes = source.part(counts[4]);
    tiers(&counts, &planes, escapes, |tier, code| symbols[3 * tier + code], |byte| byte)
}

/// For each value its bits in `planes` bit planes.
fn read_bits(planes: usize, count: usize, source: &mut Reader<'_>) -> Vec<u32> {
    let words: Vec<u64> = source
        .take(8 * planes * count.div_ceil(64))
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let bit = |i: usize, plane: usize| (words[i / 64 * planes + plane] >> (i % 64) & 1) as u32;
    (0..count).map(|i| (0..planes).map(|plane| bit(i, plane) << plane).sum()).collect()
}
